"""The compiled driver: every function of a module becomes one Python function.

`compiled` has the program and runs it. `writer` writes the source of a function. It is the last of
a chain of classes, each of which adds one way to write operations:

* `names`: lines and names of values;
* `reuse`: results written over the memory of operands;
* `packs` and `pack_writer`: runs of operations on single registers as one NumPy call;
* `slim_writer`: values that repeat along dimensions, held once;
* `copy_groups`, `copy_loops` and `copy_writer`: copies in loops.

`inline` has scalar expressions, `fold` computes constant vectors beforehand, and `brief` tells
which loads need no copy of memory.
"""

from pallasite.interpreter.compiled.compiled import Program

__all__ = ["Program"]
