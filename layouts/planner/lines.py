"""Index arithmetic along the lanes of registers, exact on whole segments of lanes.

Examining every word would take seconds on large blocks. Along the lanes of one register row every
index is piecewise `base + slope * lane`, with few pieces. So indices are kept as such lines per row
of a register and segment of lanes, and each division that is not affine within a segment reports
the lanes where the segment must be cut (spec/grid_form.md section 0).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pallasite.layouts.registers import LANES

_MANY = 256
"""Values of which it is asked whether they lie close together."""

Array = NDArray[Any]
"""Integers or truth values; which ones is said where it matters."""


def any_along(mask: Array, *axes: int) -> Array:
    """`mask.any(axes)`, in half the time for small arrays, and typed as an array."""
    return np.asarray(np.logical_or.reduce(mask, axis=axes))


def distinct_values(values: Any) -> Array:
    """The distinct values of an array of integers, or of a list of arrays, in ascending order.

    Faster than `np.unique`, which first tests for masked arrays and loads the package for these.
    """
    flat = np.concatenate(values) if isinstance(values, list) else np.ravel(values)
    if flat.size > _MANY:
        # Numbers of registers or rows lie close together: marking them is faster than sorting.
        least, most = int(flat.min()), int(flat.max())
        if most - least < 2 * flat.size:
            there = np.zeros(most - least + 1, np.bool_)
            there[flat - least] = True
            return np.nonzero(there)[0].astype(flat.dtype, copy=False) + flat.dtype.type(least)
    ordered = np.sort(flat)
    keep = np.ones(ordered.size, np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=keep[1:])
    return ordered[keep]


def first_places(values: Array) -> tuple[Array, Array]:
    """Where each distinct value first occurs, and the number of each entry's value; ascending.

    `np.unique` takes twice the time.
    """
    ascending = values.argsort(kind="stable")
    ordered = values[ascending]
    new = np.ones(ordered.size, np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    inverse = np.empty_like(ascending)
    inverse[ascending] = new.cumsum() - 1
    return ascending[new], inverse


def progressions(table: Array) -> list[tuple[int, int]] | None:
    """The nest of (count, stride), outermost first, that enumerates `table`, with strides >= 0.

    None if there is no such nest.
    """
    if table.size == 0 or (table < 0).any():
        return None
    dims: list[tuple[int, int]] = []
    while table.size > 1:
        stride = int(table[1]) - int(table[0])
        if stride < 0 or len(dims) == 5:
            return None
        other = table[1:] - table[:-1] != stride
        count = int(other.argmax()) + 1
        if not other[count - 1]:
            count = table.size
        elif table.size % count:
            return None
        rows = table.reshape(-1, count)
        if len(rows) > 1 and (rows[:, 1:] - rows[:, :-1] != stride).any():
            return None
        dims.insert(0, (count, stride))
        table = rows[:, 0]
    return dims


_FEW_BOUNDS = 8


@dataclass(frozen=True)
class Line:
    """`base + slope * t`, t lanes after the start of a segment; base is [..., segments]."""

    base: Array
    slope: int

    def scaled(self, factor: int, offset: int) -> Line:
        """The line `factor` times, plus `offset`."""
        if factor == 1 and offset == 0:
            return self
        return Line(self.base * factor + offset, self.slope * factor)

    def plus(self, other: Line) -> Line:
        """The sum of two lines."""
        return Line(self.base + other.base, self.slope + other.slope)


class Lines:
    """The current segments of lanes, and the cuts that the arithmetic requires.

    Only positions that are `active` (hold data) require cuts.
    """

    def __init__(self, starts: Array, active: NDArray[np.bool_]) -> None:
        self.starts = starts
        self.active = active
        self.lengths = np.diff(np.append(starts, LANES))
        self.cuts = np.zeros(LANES, np.bool_)
        self._single = starts.size == LANES

    def constant(self, value: int) -> Line:
        """The line that is `value` everywhere."""
        return Line(np.full((1,) * self.active.ndim, value, self.starts.dtype), 0)

    def divide(self, line: Line, divisor: int) -> tuple[Line, Line]:
        """Quotient and remainder (floor division)."""
        quotient = line.base // divisor  # `np.divmod` takes several times as long
        remainder = line.base - quotient * divisor
        if line.slope % divisor == 0:
            return Line(quotient, line.slope // divisor), Line(remainder, 0)
        if not self._single:
            # The remainder begins in the first interval: only its end may be in another one.
            end = remainder + line.slope * (self.lengths - 1)
            leaves = end >= divisor if line.slope > 0 else end < 0
            self._cut(remainder, line.slope, lambda value: value // divisor, leaves)
        return Line(quotient, 0), Line(remainder, line.slope)

    def classify(self, line: Line, bounds: Array) -> Array:
        """The interval of the ascending `bounds` that a line is in; cuts where it passes a
        bound."""

        def interval(value: Array) -> Array:
            if bounds.size > _FEW_BOUNDS:
                return np.searchsorted(bounds, value, side="right")
            # Many times faster on large arrays.
            count = (value >= bounds[0]).astype(np.int8)
            for bound in bounds[1:]:
                count += value >= bound
            return count

        begin = interval(line.base)
        if line.slope != 0 and not self._single:
            leaves = begin != interval(line.base + line.slope * (self.lengths - 1))
            self._cut(line.base, line.slope, interval, leaves)
        return begin - 1

    def _cut(
        self, base: Array, slope: int, interval: Callable[[Array], Array], leaves: Array
    ) -> None:
        """Cuts the segments in which `base + slope * t` leaves the interval it starts in."""
        if not leaves.any():
            return
        # What does not vary along an axis is looked at once for all of its places.
        active = np.broadcast_to(self.active, np.broadcast_shapes(self.active.shape, leaves.shape))
        alike = tuple(d for d in range(leaves.ndim) if leaves.shape[d] == 1 < active.shape[d])
        leaves = leaves & np.logical_or.reduce(active, axis=alike, keepdims=True)
        segments = np.nonzero(leaves.any(tuple(range(leaves.ndim - 1))))[0]
        base = np.broadcast_to(base, leaves.shape)
        for segment in segments.tolist():
            values = distinct_values(base[..., segment][leaves[..., segment]])
            walk = interval(values[:, None] + slope * np.arange(self.lengths[segment]))
            changes = (walk[:, 1:] != walk[:, :-1]).any(0)
            self.cuts[self.starts[segment] + 1 + np.nonzero(changes)[0]] = True
