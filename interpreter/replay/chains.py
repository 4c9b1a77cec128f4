"""Replaces chains of views of a computed value by one view.

A packed register is unpacked, its parts are arranged in another grid, packed and rearranged again:
all of these are NumPy views, and only the last one is used. A `Chain` makes that one directly. It
finds out once per memory layout of the first value where the last view lies in it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pallasite.interpreter.meanings import Function, Many, many_of
from pallasite.interpreter.replay.lines import Line
from pallasite.interpreter.values import Array

_LAYOUTS = 8
"""The number of memory layouts for which a chain remembers the result."""


class _Place(NamedTuple):
    """Where a view lies in an array whose axes are in memory in this `order`."""

    order: Sequence[int]
    shape: tuple[int, ...]
    first: int
    strides: tuple[int, ...]


class _Seen(NamedTuple):
    """A value that is a view of the value `root`: the result of `look` on the views `parts`."""

    root: int
    look: Callable[..., Any]
    parts: tuple[_Seen | None, ...]
    """None is the root itself."""

    @property
    def length(self) -> int:
        """The number of calls of `look` that make it."""
        return 1 + sum(part.length for part in self.parts if part is not None)

    @property
    def key(self) -> Hashable:
        """Equal for two values that are the same view of two different roots."""
        return id(self.look), tuple(part and part.key for part in self.parts)

    def of(self, root: Array) -> Any:
        """The view of the array `root`, made step by step."""
        return self.look(*(root if part is None else part.of(root) for part in self.parts))

    @property
    def many(self) -> Function | None:
        """The function that makes the views of several roots, None if it is not known."""
        look = many_of(self.look)
        parts = [part and part.many for part in self.parts]
        if look is None or any(p and not m for p, m in zip(self.parts, parts, strict=True)):
            return None
        call = look.call

        def many(roots: Array) -> Any:
            return call(*(part(roots) if part else roots for part in parts))

        return many


class Chain:
    """Callable that makes, from an array, the view that several calls of `look` would make."""

    def __init__(self, seen: _Seen) -> None:
        self._seen = seen
        self._known: dict[tuple[int, ...], _Place | None] = {}

    @property
    def many(self) -> Many | None:
        """How it makes views of several arrays at once (`meanings.many_of`)."""
        found = self._seen.many
        return found and Many(found)

    def __call__(self, x: Array) -> Any:
        strides = x.strides
        try:
            place = self._known[strides]
        except KeyError:
            place = _place(x, self._seen.of(x))
            if len(self._known) < _LAYOUTS:
                self._known[strides] = place
        if place is None:
            return self._seen.of(x)
        return np.ndarray(place.shape, x.dtype, x.transpose(place.order), *place[2:])


def _place(x: Array, found: Any) -> _Place | None:
    """Where `found` lies in `x`; None if it is no view of it, or if `x` is not dense."""
    order = sorted(range(x.ndim), key=lambda axis: -x.strides[axis])
    if not x.transpose(order).flags.c_contiguous or found.dtype != x.dtype:
        return None
    begin, first = (a.__array_interface__["data"][0] for a in (x, found))
    if not 0 <= first - begin < x.nbytes or not np.may_share_memory(x, found):
        return None
    return _Place(order, found.shape, first - begin, found.strides)


def chained(lines: Sequence[Line], bind: Callable[[str, Any], str]) -> list[Line]:
    """`lines` with chains of views joined, and without the views in between that nothing else
    uses."""
    seen: dict[int, _Seen] = {}
    used: set[int] = set()
    over = {line.overwritten for line in lines}
    for line in lines:
        found = _look(line, seen)
        if found is not None and not over.isdisjoint((found.root, *line.makes)):
            found = None  # `look` may copy: after the write it would copy something else.
        if found is None:
            used.update(line.takes)
        else:
            seen[line.makes[0]] = found
    left: list[Line] = []
    chains: dict[Hashable, Chain] = {}
    for line in lines:
        found = seen.get(line.makes[0]) if line.makes else None
        if found is None:
            left.append(line)
        elif line.makes[0] not in used:
            continue
        elif found.length == 1:
            left.append(line)
        else:
            chain = chains.setdefault(found.key, Chain(found))
            text = f"{{1}} = {bind('f', chain)}({{0}})"
            root = (found.root,)
            left.append(line._replace(text=text, takes=root, seen_through=root, look=chain))
    return left


def _look(line: Line, seen: dict[int, _Seen]) -> _Seen | None:
    """Describes the value that the line makes as a view; None if it is not a view of one value."""
    if line.look is None or line.takes != line.seen_through or len(line.makes) != 1:
        return None
    parts = tuple(seen.get(value) for value in line.takes)
    roots = {
        value if part is None else part.root
        for value, part in zip(line.takes, parts, strict=True)
    }  # fmt: skip
    return _Seen(min(roots), line.look, parts) if len(roots) == 1 else None
