"""Writes a copy that is awaited as soon as it is started as one call (`copy_groups`, `prompt`)."""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING

from xdsl.ir import Operation

from pallasite.dialects.func import FuncOp
from pallasite.dialects.locations import source_location
from pallasite.interpreter.compiled.copy_groups import CopyGroup, copy_groups
from pallasite.interpreter.compiled.slim_writer import SlimWriter
from pallasite.interpreter.machine.prompt import Prompt

if TYPE_CHECKING:
    from pallasite.interpreter.compiled.compiled import Program


class CopyWriter(SlimWriter, ABC):
    """The part of a function's writer that knows such copies.

    What leads to them is written behind them, for when the call does nothing: it does so whenever
    anything is unusual, and all that fails does so there.
    """

    def __init__(self, program: Program, func: FuncOp):
        super().__init__(program, func)
        self._put_off: dict[Operation, CopyGroup] = {}
        """By operation the copy that it belongs to."""
        if not program.facts.profile:
            for group in copy_groups(func, program.facts):
                self._put_off.update(dict.fromkeys(group.ops, group))

    def _write_copy(self, op: Operation) -> bool:
        """Writes the copy that ends with `op`; nothing yet for what is before that."""
        group = self._put_off.get(op)
        if group is None:
            return False
        if op is not group.wait:
            return True
        places = source_location(group.start), source_location(group.wait)
        copy = Prompt(group.paths, len(group.starts), *places)
        names = ["core", *[self._names[value] for value in (*group.roots, *group.starts)]]
        self._line(f"if not {self._bind('c', copy)}({', '.join(names)}):")
        self._depth += 1
        for member in group.ops:
            del self._put_off[member]
            self._operation(member)
        self._depth -= 1
        return True
