"""The compiled driver: every function of a module becomes one Python function.

`writer` writes the source, on `inline` (scalar expressions), `fold` (what is known beforehand),
`names`, and for single registers `packs` and `pack_writer`; `compiled` has the program.
"""

from pallasite.interpreter.compiled.compiled import Program

__all__ = ["Program"]
