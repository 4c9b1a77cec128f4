"""A module that is run again, and has not changed, is lowered and made executable once.

What is known of a module is kept with it, and goes with it. Whether it is still the same is asked
of everything that it consists of, by identity: attributes and types never change, and whoever
changes an operation puts other things into it. Users who register a rule of their own ask for it
from then on.
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
"""Forms, targets and the like for which a module is kept."""
MOST_OPERATIONS = 1 << 14
"""Operations of the largest kernel that is kept: they take 1 to 2 KB each."""
_NAME = "_pallasite_again"


@dataclass(frozen=True)
class Lowered:
    """A kernel in the form that is executed."""

    module: ModuleOp
    advice: tuple[Diagnostic, ...]
    """What is odd about it, to be told whenever it is lowered."""
    prepared: list[Prepared] = field(default_factory=list["Prepared"])
    """Executable copies that nobody is running."""

    def take(self) -> Prepared | None:
        """One of them, for the caller to put back."""
        try:
            return self.prepared.pop()
        except IndexError:
            return None


@dataclass(frozen=True)
class _Known:
    parts: list[object]
    """What the module consisted of."""
    kernels: dict[Hashable, tuple[Lowered, int]] = field(
        default_factory=dict[Hashable, "tuple[Lowered, int]"]
    )
    """With `Registered.changes` as it was."""

    def __reduce__(self) -> tuple[type[_Known], tuple[list[object]]]:
        """Copies of a module are other modules, of which nothing is known."""
        return _Known, ([],)


def lowered_once(module: ModuleOp, wanted: Hashable, make: Callable[[], Lowered]) -> Lowered:
    """What `make` gives, or gave for the same module as it is now, `wanted` so."""
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
            # Ours are registered as they are needed.
            known.kernels[wanted] = found, Registered.changes
    return found


def _same(one: list[object], other: list[object]) -> bool:
    return len(one) == len(other) and all(map(operator.is_, one, other))


def _parts(module: ModuleOp) -> list[object]:
    """Everything that `module` consists of, in the order of its text, with where it is."""
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
