"""Writes each DMA in a loop, or each wait for one, as one call, and a loop of such copies as one
call."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from xdsl.ir import Attribute, Operation

from pallasite.dialects.func import FuncOp
from pallasite.dialects.locations import source_location
from pallasite.dialects.scf import ForOp
from pallasite.dialects.types import element_type, shape_of
from pallasite.interpreter import driver
from pallasite.interpreter.compiled.copy_groups import CopyGroup, copy_groups
from pallasite.interpreter.compiled.copy_loops import copy_loop
from pallasite.interpreter.compiled.slim_writer import SlimWriter
from pallasite.interpreter.effects.dma import counts_bytes
from pallasite.interpreter.machine.awaited_copies import Await, Prompt, Start
from pallasite.interpreter.machine.codec import codec

if TYPE_CHECKING:
    from pallasite.interpreter.compiled.compiled import Program


class CopyWriter(SlimWriter, ABC):
    """The part of a function's writer that knows copies in loops (`copy_groups`, `copy_loops`).

    The views and operations of a copy are written too, for when the call does nothing:

        if not c5_fn_kernel(core, v1, v2, v3, v4):
         v6 = ...                     the general operations

    The call does nothing whenever anything is unusual, so all that fails does so in the general
    operations.
    """

    def __init__(self, program: Program, func: FuncOp):
        super().__init__(program, func)
        self._copies: dict[Operation, CopyGroup] = {}
        """Groups by their last operation."""
        self._put_off: set[Operation] = set()
        """Operations that are written as part of a group, not in their own place."""
        self._calls: dict[CopyGroup, Any] = {}
        self._is_general = False
        if not program.facts.profile:
            for group in copy_groups(func, program.facts):
                self._copies[group.last] = group
                self._put_off.update(group.views)
                if group.start is not None and group.wait is not None:
                    self._put_off.add(group.start)

    def _write_copy(self, op: Operation) -> bool:
        """Writes the group that ends with `op`; for other operations of a group it writes nothing
        yet.

        False if `op` belongs to no group, so that it must be written in the ordinary way.
        """
        if self._is_general:
            return False
        group = self._copies.get(op)
        if group is None:
            return op in self._put_off
        roots = [self._names[root] for root in group.roots]
        if group.start is None:
            # A wait does not look at source and target, unless a path begins there.
            pairs = list(zip(roots, group.paths, strict=True))
            roots = roots[:1] + [root if path else "None" for root, path in pairs[1:]]
        names = ["core", *roots, *[self._names[start] for start in group.starts]]
        self._line(f"if not {self._bind('c', self._call_of(group))}({', '.join(names)}):")
        self._depth += 1
        self._is_general = True
        for member in (*group.views, group.start, group.wait):
            if member is not None:
                self._operation(member)
        self._is_general = False
        self._depth -= 1
        return True

    def _call_of(self, group: CopyGroup) -> Any:
        """The copier of `group`, made once."""
        known = self._calls.get(group)
        if known is None:
            known = self._calls[group] = _call_of(group)
        return known

    def _loop_at_once(self, op: ForOp, bounds: Sequence[str]) -> str | None:
        """A call that runs all iterations of a loop of copies, and says whether it has; None for
        others."""
        block = op.body.block
        groups = [group for member in block.ops if (group := self._copies.get(member)) is not None]
        if self._is_general:
            return None
        calls = [self._call_of(group) for group in groups]
        found = copy_loop(op, groups, calls, self.program.facts, driver.steps_of(block))
        if found is None:
            return None
        call, given = found
        names = ["core", "budget", *bounds, *[self._names[value] for value in given]]
        return f"{self._bind('c', call)}({', '.join(names)})"


def _call_of(group: CopyGroup) -> Any:
    """The copier that starts a DMA, awaits it, or does both, for `group`."""
    start, wait = group.start, group.wait
    paths, count = group.paths, len(group.starts)
    if start is None:
        assert wait is not None
        amount = _byte_count(wait.dst.type) if counts_bytes(wait.semaphore) else 1
        return Await(paths, count, amount, source_location(wait))
    at = source_location(start)
    if wait is not None:
        return Prompt(paths, count, at, source_location(wait))
    assert start.target_semaphore is not None
    return Start(paths, count, counts_bytes(start.target_semaphore), at)


def _byte_count(type: Attribute) -> int:
    """Bytes of an array of `type`, rounded up."""
    return (prod(shape_of(type)) * codec(element_type(type)).bits + 7) >> 3
