"""Values of a script that are the same in every run, because they are computed from constants.

The compiled driver computes those beforehand that are known when it writes a program. What a loop
computes from the number of its iteration is known only in a script, which has no loops.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pallasite.interpreter.compiled.fold import MOST_BYTES, held_bytes
from pallasite.interpreter.replay.lines import Line
from pallasite.interpreter.replay.once import changing
from pallasite.interpreter.values import Array, quiet

CALL = re.compile(r"(\{\d*\}(?:, \{\d*\})*,?) = (f\d+)\((.*)\)")
"""A line that calls a function, and makes values of what that returns."""
MOST_IN_ALL = 1 << 19
"""Bytes of all such values that a script keeps."""


def with_known(
    lines: Sequence[Line], bound: Mapping[str, Any], bind: Callable[[str, Any], str]
) -> list[Line]:
    """`lines` without those that compute something known, which becomes a constant of the script.

    `bound` are the globals of the script, to which `bind` adds.
    """
    return list(_Known(lines, bound, bind).left())


class _Known:
    def __init__(
        self, lines: Sequence[Line], bound: Mapping[str, Any], bind: Callable[[str, Any], str]
    ) -> None:
        self._lines = lines
        self._bound = bound
        self._bind = bind
        self._room = MOST_IN_ALL
        self._values: dict[int, Array] = {}

    def left(self) -> list[Line]:
        """The lines that remain."""
        fickle = changing(self._lines)
        found: list[Line] = []
        for line in self._lines:
            line = self._with_constants(line)
            if line.takes or line.views or not line.makes or not fickle.isdisjoint(line.makes):
                found.append(line)
            elif not CALL.fullmatch(line.text) or not self._keep(line):
                found.append(line)
        return found

    def _keep(self, line: Line) -> bool:
        """Computes what the line makes; returns whether there is room to keep it."""
        _, _, call = line.text.partition(" = ")
        try:
            with quiet():
                result = eval(call, {}, self._bound)
        except Exception:
            return False  # Whoever runs the script is told, and runs the kernel.
        values = result if isinstance(result, tuple) else (result,)
        sizes = [held_bytes(x) if isinstance(x, np.ndarray) else MOST_IN_ALL for x in values]
        if max(sizes) > MOST_BYTES or sum(sizes) > self._room:
            return False
        self._room -= sum(sizes)
        self._values.update(zip(line.makes, values, strict=True))
        return True

    def _with_constants(self, line: Line) -> Line:
        """`line` with the names of constants in place of values that are known."""
        if self._values.keys().isdisjoint(line.takes):
            return line
        takes = tuple([value for value in line.takes if value not in self._values])
        places = iter(range(len(takes) + len(line.makes)))
        names = [
            self._bind("c", self._values[value]) if value in self._values else f"{{{next(places)}}}"
            for value in line.takes
        ]
        names += [f"{{{next(places)}}}" for _ in line.makes]
        through = tuple([value for value in line.seen_through if value not in self._values])
        text = line.text.format(*names, r="{r}", w="{w}")
        return line._replace(text=text, takes=takes, seen_through=through, look=None)
