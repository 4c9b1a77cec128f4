"""Caches what a module is lowered to, so that a module that is run again is lowered only once.

The cache is an attribute of the module object, so that both go together. A module has changed if
any of its parts is another object: attributes and types are immutable, so every change puts another
object somewhere. Registering a rule that may change results empties the cache
(`passes.rules.Registered`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from pallasite.diagnostics import Diagnostic
from pallasite.dialects.walking import operations
from pallasite.passes.rules import Registered

if TYPE_CHECKING:
    from pallasite.interpreter.run import Prepared

MOST_KERNELS = 4
"""Most combinations of form, target and options that are cached for one module."""
MOST_OPERATIONS = 1 << 14
"""Lowered kernels of more operations are not cached: an operation takes 1 to 2 KB."""
_NAME = "_pallasite_again"


@dataclass(frozen=True)
class Lowered:
    """A kernel in the form that is executed."""

    module: ModuleOp
    advice: tuple[Diagnostic, ...]
    """The warnings about it, which are repeated each time that it is asked for."""
    prepared: list[Prepared] = field(default_factory=list["Prepared"])
    """Executable copies that are not running: one thread may take each."""

    def take(self) -> Prepared | None:
        """An executable copy, which the caller puts back after the run; None if there is none."""
        try:
            return self.prepared.pop()
        except IndexError:
            return None


@dataclass(frozen=True)
class _Known:
    """The cache of one module."""

    parts: list[object]
    """The parts of the module when it was lowered (`_parts`)."""
    kernels: dict[Hashable, tuple[Lowered, int]] = field(
        default_factory=dict[Hashable, "tuple[Lowered, int]"]
    )
    """Lowered kernels by what was wanted, each with `Registered.changes` at that time."""

    def __reduce__(self) -> tuple[type[_Known], tuple[list[object]]]:
        """A copy of a module gets an empty cache."""
        return _Known, ([],)


def lowered_once(module: ModuleOp, wanted: Hashable, make: Callable[[], Lowered]) -> Lowered:
    """The result of `make()`, or an earlier one for the same `wanted` if `module` is unchanged.

    `wanted` is everything besides the module on which the result depends.
    """
    parts = _parts(module)
    known: _Known | None = vars(module).get(_NAME)
    if known is None or not _same(known.parts, parts):
        known = vars(module)[_NAME] = _Known(parts)
    found, rules = known.kernels.get(wanted, (None, 0))
    if found is None or rules != Registered.changes:
        found = make()
        known.kernels.pop(wanted, None)
        if len(operations(found.module)) <= MOST_OPERATIONS:
            while len(known.kernels) >= MOST_KERNELS:
                known.kernels.pop(next(iter(known.kernels)), None)
            # Read after `make`: our own rules are registered when they are first needed.
            known.kernels[wanted] = found, Registered.changes
    return found


def _same(one: list[object], other: list[object]) -> bool:
    return len(one) == len(other) and all(map(operator.is_, one, other))


def _parts(module: ModuleOp) -> list[object]:
    """All objects of which `module` consists, in the order of its text: operations, where they are,
    operands, attributes, types and names."""
    parts: list[object] = []
    for op in operations(module):
        parts += (op, op.parent, op.location, *op.operands, *op.successors)
        for entries in (op.properties, op.attributes):
            parts += entries
            parts += entries.values()
        for result in op.results:
            parts += (result, result.type, result.name_hint)
        for region in op.regions:
            for block in region.blocks:
                parts += (region, block)
                for argument in block.args:
                    parts += (argument, argument.type, argument.name_hint)
    return parts
