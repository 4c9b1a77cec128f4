"""Masks and index registers that need no stored constants.

The register form has no constants but splats, so whatever varies within a register is described by
boxes (`tpu.create_mask`) and by affine functions of the sublane, the lane and the position in the
grid (`tpu.iota`), with pieces overlaid on one another (design note "Form 4", section 7).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pallasite.layouts.planner_lines import Array
from pallasite.layouts.registers import LANES, SUBLANES

Box = tuple[int, int, int, int]
"""First sublane, end sublane, first lane, end lane."""
FULL: Box = (0, SUBLANES, 0, LANES)
Affine = tuple[int, int, int, int]
"""Constant, and factors of the grid position, the sublane and the lane."""


@dataclass(frozen=True)
class Mask:
    """True in the union of boxes, or where a bit of a field is set."""

    boxes: tuple[Box, ...]
    field: Field | None = None
    bit: int = 0

    def array(self) -> Array:
        """[8, 128], or [registers, 8, 128] of a field."""
        if self.field is not None:
            return (self.field.array() >> self.bit & 1).astype(np.bool_)
        result = np.zeros((SUBLANES, LANES), np.bool_)
        for s0, s1, l0, l1 in self.boxes:
            result[s0:s1, l0:l1] = True
        return result

    @classmethod
    def of(cls, wanted: Array, allowed: Array | None = None) -> Mask:
        """Covers `wanted` without leaving `allowed` (default: `wanted`), in few boxes."""
        allowed = wanted if allowed is None else allowed
        left = wanted.copy()
        boxes: list[Box] = []
        while left.any():
            sublane, lane = np.argwhere(left)[0].tolist()
            box = _grow(sublane, lane, allowed)
            left[box[0] : box[1], box[2] : box[3]] = False
            boxes.append(box)
        return cls(tuple(boxes))


def _grow(sublane: int, lane: int, allowed: Array) -> Box:
    """The larger of the two maximal boxes that grow from a point, lanes first or sublanes first."""

    def run(line: Array, at: int) -> tuple[int, int]:
        before, after = np.nonzero(~line[:at])[0], np.nonzero(~line[at:])[0]
        start = int(before[-1]) + 1 if before.size else 0
        return start, at + int(after[0]) if after.size else line.size

    l0, l1 = run(allowed[sublane], lane)
    s0, s1 = run(np.all(allowed[:, l0:l1], axis=1, keepdims=True)[:, 0], sublane)
    t0, t1 = run(allowed[:, lane], sublane)
    m0, m1 = run(np.all(allowed[t0:t1], axis=0, keepdims=True)[0], lane)
    if (s1 - s0) * (l1 - l0) >= (t1 - t0) * (m1 - m0):
        return (s0, s1, l0, l1)
    return (t0, t1, m0, m1)


@dataclass(frozen=True)
class Field:
    """Integers in registers: `base` everywhere, then each overlay within its box.

    With `modulus` m > 0 the value is taken modulo m, a power of two. `registers` is the extent of
    the grid if an affine part uses the grid position, else 1.
    """

    base: Affine
    overlays: tuple[tuple[Box, Affine], ...] = ()
    modulus: int = 0
    registers: int = 1

    def array(self) -> Array:
        """[registers, 8, 128]."""
        result = self._affine(self.base)
        for (s0, s1, l0, l1), affine in self.overlays:
            result[:, s0:s1, l0:l1] = self._affine(affine)[:, s0:s1, l0:l1]
        return result % self.modulus if self.modulus else result

    def _affine(self, affine: Affine) -> Array:
        grid, sublane, lane = np.indices((self.registers, SUBLANES, LANES), np.int64)
        return affine[0] + affine[1] * grid + affine[2] * sublane + affine[3] * lane

    @classmethod
    def of(cls, values: Array, modulus: int = 0) -> Field | None:
        """Describes `values` [registers, 8, 128], negative where they do not matter.

        More than one register succeeds only if one affine function serves them all. Without a
        modulus the values are bit patterns: they are constant in every piece.
        """
        whole = _fit(values, modulus)
        if whole is not None:
            return cls(whole, (), modulus, len(values) if whole[1] else 1)
        if len(values) > 1:
            return None
        overlays = tuple(_pieces(values[0], modulus))
        return cls(overlays[0][1], overlays[1:], modulus)


def _fit(values: Array, modulus: int) -> Affine | None:
    """An affine function that gives `values` wherever they are not negative."""
    points = np.argwhere(values >= 0)
    if not len(points):
        return (0, 0, 0, 0)
    factors: list[int] = []
    first = points[0]
    at_first = int(values[tuple(first)])
    if not modulus:
        constant = (values[values >= 0] == at_first).all()
        return (at_first, 0, 0, 0) if constant else None
    for axis in range(3):
        others = [a for a in range(3) if a != axis]
        line = points[(points[:, others] == first[others]).all(1)]
        if len(line) < 2:
            # No second point straight along this axis: let the other two explain the rest.
            factors.append(0)
            continue
        step = int(line[1, axis] - line[0, axis])
        rise = int(values[tuple(line[1])]) - int(values[tuple(line[0])])
        rise = (rise + modulus // 2) % modulus - modulus // 2
        if rise % step:
            return None
        factors.append(rise // step)
    constant = at_first - int(sum(f * int(x) for f, x in zip(factors, first, strict=True)))
    constant %= modulus
    predicted = constant + points @ np.array(factors)
    actual = values[tuple(points.T)]
    if ((predicted - actual) % modulus).any():
        return None
    return (constant, factors[0], factors[1], factors[2])


def _pieces(values: Array, modulus: int) -> list[tuple[Box, Affine]]:
    """Boxes with an affine function each; later ones lie over earlier ones."""
    pieces: list[tuple[Box, Affine]] = []
    left = values >= 0
    while left.any():
        sublane, lane = np.argwhere(left)[0].tolist()
        box = (sublane, sublane + 1, lane, lane + 1)
        affine: Affine = (int(values[sublane, lane]), 0, 0, 0)
        # Grow as long as one affine function fits; halving steps keep this short.
        for axis, limit in ((3, LANES), (1, SUBLANES)):
            step = limit
            while step:
                grown = list(box)
                grown[axis] = min(limit, box[axis] + step)
                window = np.full((1, SUBLANES, LANES), -1, np.int64)
                view = (slice(grown[0], grown[1]), slice(grown[2], grown[3]))
                window[0][view] = values[view]
                fitted = _fit(window, modulus)
                if fitted is not None and grown[axis] > box[axis]:
                    box, affine = (grown[0], grown[1], grown[2], grown[3]), fitted
                else:
                    step //= 2
        pieces.append((box, affine))
        left[box[0] : box[1], box[2] : box[3]] = False
    return pieces
