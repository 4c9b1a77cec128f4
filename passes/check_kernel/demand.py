"""What is known of a value, computed when it is asked for from what is known of its sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from xdsl.ir import SSAValue

Known = TypeVar("Known")


def on_demand(
    value: SSAValue,
    known: dict[SSAValue, Known],
    sources: Callable[[SSAValue], Iterable[SSAValue]],
    find: Callable[[SSAValue], Known],
) -> Known:
    """`known[value]`, which `find` computes when that of all `sources` of the value is in `known`.

    Iterates instead of recursing, since functions have thousands of operations in a row. No value
    may be a source of itself.
    """
    waiting = [value]
    while waiting:
        last = waiting[-1]
        if last in known:
            waiting.pop()
        elif asked := [v for v in sources(last) if v not in known]:
            waiting += asked
        else:
            known[last] = find(last)
    return known[value]
