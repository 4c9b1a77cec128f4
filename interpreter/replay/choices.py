"""Selects of a script whose condition is a constant of it: they take a part of each operand.

What a loop puts together piece by piece, with a select in each iteration, is known only in a script
to be one array, parts of which are written one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from pallasite.interpreter.ops.choice import Put, chooser
from pallasite.interpreter.ops.compare_select import is_select
from pallasite.interpreter.replay.direct import Kind
from pallasite.interpreter.replay.known import CALL
from pallasite.interpreter.replay.lines import Line

MOST_ELEMENTS = 1 << 16
"""Elements of the masks of words that a script makes, in all."""


def with_known_conditions(
    lines: Sequence[Line],
    kinds: Sequence[Kind],
    bound: Mapping[str, Any],
    bind: Callable[[str, Any], str],
) -> list[Line]:
    """`lines` whose selects with a known condition call functions made for that.

    `kinds` are those of values, by number, and `bound` the globals of the script, to which `bind`
    adds.
    """
    chooser = _Chooser(kinds, bound, bind)
    return [chooser.chosen(line) if line.makes and line.takes else line for line in lines]


class _Chooser:
    def __init__(
        self, kinds: Sequence[Kind], bound: Mapping[str, Any], bind: Callable[[str, Any], str]
    ) -> None:
        self._kinds = kinds
        self._bound = bound
        self._bind = bind
        self._left = MOST_ELEMENTS
        self._made: dict[Hashable, str | None] = {}

    def chosen(self, line: Line) -> Line:
        """`line`, or the one that takes its place if it selects by a known condition."""
        call = CALL.fullmatch(line.text)
        if call is None or not is_select(self._bound[call[2]]):
            return line
        operands = call[3].split(", ")
        kind = self._kinds[line.makes[0]]
        if operands[0][0] != "c" or any(self._kinds[value] != kind for value in line.takes):
            return line
        if not all(isinstance(self._bound[x], np.ndarray) for x in operands if x[0] == "c"):
            return line
        key = kind, *(x if x[0] == "c" else None for x in operands)
        if key not in self._made:
            self._made[key] = self._function(kind, operands)
        left = [x for x in operands if x[0] != "c"]
        name = self._made[key]
        return (
            line if name is None else line._replace(text=f"{call[1]} = {name}({', '.join(left)})")
        )

    def _function(self, kind: Kind, operands: Sequence[str]) -> str | None:
        """The name of the function that selects as these operands say, some of which are
        constants; None if there is none that is quicker."""
        known = [
            np.broadcast_to(self._bound[x], kind.shape) if x[0] == "c" else None for x in operands
        ]
        fn = chooser(kind.dtype, *known)
        if fn is None:
            return None
        if not isinstance(fn, Put):
            self._left -= prod(kind.shape)
        return self._bind("f", fn) if self._left >= 0 else None
