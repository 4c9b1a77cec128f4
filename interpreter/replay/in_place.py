"""Results that are written over operands, and parts that are put into arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pallasite.interpreter.compiled.reuse import ufunc_of
from pallasite.interpreter.ops.choice import Put
from pallasite.interpreter.replay.known import CALL
from pallasite.interpreter.replay.lines import Line
from pallasite.interpreter.replay.values import Values, size_of

MOST_BYTES = 1 << 15
"""Bytes of the largest value for which it takes less time to join the line that makes it with
others: for a larger one the call of a function is the smaller part of that time."""


def out_of_place(lines: Sequence[Line], values: Values) -> list[Line]:
    """`lines` in which small results are new values, where they were written over operands."""
    if all(line.overwritten is None for line in lines):
        return list(lines)
    viewed = set(values.seen)
    """Values that share memory with others."""
    now: dict[int, int] = {}
    """What has become of values that were written over."""
    found: list[Line] = []
    for line in lines:
        takes, through = (
            tuple([now.get(value, value) for value in values])
            for values in (line.takes, line.seen_through)
        )
        first = line.overwritten
        old = None if first is None else now.get(first, first)
        line = line._replace(takes=takes, seen_through=through, overwritten=old)
        end = f", out={{{len(takes) - 1}}})"
        if through:
            viewed.update(through, line.makes)
        elif first is not None and old is not None and old not in viewed:
            kind = values.kinds[old]
            if line.text.endswith(end) and line.ufunc and size_of(kind) <= MOST_BYTES:
                new = now[first] = values.new(kind)
                text = f"{{{len(takes) - 1}}} = {line.text.removesuffix(end)})"
                line = line._replace(
                    text=text, takes=takes[:-1], makes=(new,), overwritten=None,
                    made_bytes=size_of(kind),
                )  # fmt: skip
        found.append(line)
    return found


def put_in_place(
    lines: Sequence[Line], bound: Mapping[str, Any], bind: Callable[[str, Any], str]
) -> list[Line]:
    """`lines` in which parts are put into arrays that nobody else uses, not into copies."""
    uses: dict[int, int] = {}
    for line in lines:
        for value in line.takes:
            uses[value] = uses.get(value, 0) + 1
    own: set[int] = set()
    """Values that are arrays of their own."""
    found: list[Line] = []
    for line in lines:
        call = CALL.fullmatch(line.text)
        fn = None if call is None else bound[call[2]]
        if call is not None and isinstance(fn, Put):
            into = call[3].split(", ")[fn.into]
            value = line.takes[int(into[1:-1])] if into[0] == "{" else None
            if value in own and uses[value] == 1:
                line = line._replace(text=line.text.replace(call[2], bind("f", fn.over)))
        if fn is not None and (isinstance(fn, Put) or ufunc_of(fn) is not None):
            own.update(line.makes)
        found.append(line)
    return found
