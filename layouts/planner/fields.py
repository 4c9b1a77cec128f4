"""Masks and index registers that are made without stored constants.

The register form has no constants other than splats. What varies within a register is therefore
described by boxes (`tpu.create_mask`), and by functions that are affine in the sublane, the lane
and the position in the grid (`tpu.iota`); pieces may be overlaid on one another (spec/grid_form.md
section 7).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from pallasite.layouts.planner.lines import Array, any_along
from pallasite.layouts.registers import LANES, SUBLANES

Box = tuple[int, int, int, int]
"""First sublane, end sublane, first lane, end lane."""
FULL: Box = (0, SUBLANES, 0, LANES)
_MOST_NUMBERED = 1 << 16
"""Index registers that the numbers of a table tell apart."""
Affine = tuple[int, int, int, int]
"""Constant, and factors of the grid position, the sublane and the lane."""
_SUBLANE, _LANE = np.arange(SUBLANES)[:, None], np.arange(LANES)


@dataclass(frozen=True)
class Mask:
    """A mask of registers: true in the union of boxes, or where bit `bit` of `field` is set.

    If `first` is given, it is true in the lanes from `first` plus the value of `field` on.
    """

    boxes: tuple[Box, ...]
    field: Field | None = None
    bit: int = 0
    first: int | None = None

    def array(self) -> Array:
        """The mask as booleans [8, 128], or [registers, 8, 128] with a field."""
        if self.field is not None and self.first is not None:
            return np.arange(LANES) >= self.field.array() + self.first
        if self.field is not None:
            return (self.field.array() >> self.bit & 1).astype(np.bool_)
        result = np.zeros((SUBLANES, LANES), np.bool_)
        for s0, s1, l0, l1 in self.boxes:
            result[s0:s1, l0:l1] = True
        return result

    def at(self, register: Array, sublane: Array, lane: Array) -> Array:
        """The mask at places of a grid, given by arrays of register, sublane and lane numbers."""
        if self.field is None:
            return self.array()[sublane, lane]
        value = self.field.at(register, sublane, lane)
        return (value >> self.bit & 1) > 0 if self.first is None else lane >= value + self.first

    @classmethod
    def of(cls, wanted: Array, allowed: Array | None = None) -> Mask:
        """A mask of few boxes that covers `wanted` [8, 128] and stays within `allowed` (default:
        `wanted`)."""
        allowed = wanted if allowed is None else allowed
        left = wanted.copy()
        boxes: list[Box] = []
        while left.any():
            sublane, lane = divmod(int(left.argmax()), left.shape[1])
            box = _grow(sublane, lane, allowed)
            left[box[0] : box[1], box[2] : box[3]] = False
            boxes.append(box)
        return cls(tuple(boxes))


def _grow(sublane: int, lane: int, allowed: Array) -> Box:
    """The larger of two maximal boxes around a place: one grows along the lanes first, the other
    along the sublanes."""

    def run(line: Array, at: int) -> tuple[int, int]:
        # Truth values are bytes: finding one of these is many times as fast as `argmin`.
        held = line.tobytes()
        end = held.find(b"\0", at)
        return held.rfind(b"\0", 0, at) + 1, len(held) if end < 0 else end

    l0, l1 = run(allowed[sublane], lane)
    s0, s1 = run(np.all(allowed[:, l0:l1], axis=1, keepdims=True), sublane)
    t0, t1 = run(allowed[:, lane], sublane)
    m0, m1 = run(np.all(allowed[t0:t1], axis=0, keepdims=True), lane)
    if (s1 - s0) * (l1 - l0) >= (t1 - t0) * (m1 - m0):
        return (s0, s1, l0, l1)
    return (t0, t1, m0, m1)


@dataclass(frozen=True)
class Field:
    """Integers in registers: the affine function `base` everywhere, except in the boxes of
    overlays, later ones on top.

    If `modulus` is not 0, a power of two, values are taken modulo it. `registers` is the extent of
    the grid if an affine function depends on the grid position, else 1. With a `table`, `registers`
    is the number of different index registers, and the table has the number of the index register
    for each register of the grid.
    """

    base: Affine
    overlays: tuple[tuple[Box, Affine], ...] = ()
    modulus: int = 0
    registers: int = 1
    table: bytes = b""
    """Numbers of two bytes: there may be one for each of very many registers."""

    @classmethod
    def by_table(cls, base: Affine, modulus: int, table: Array) -> Field:
        """A field of repeated index registers: `table` [registers] has the grid position at which
        `base` is evaluated for each register."""
        if not base[1] or not table.any():
            return cls((base[0], 0, *base[2:]), (), modulus)
        return cls(base, (), modulus, int(table.max()) + 1, table.astype(np.uint16).tobytes())

    def numbers(self) -> Array | None:
        """The number of the index register of every register of the grid; None without a table."""
        return np.frombuffer(self.table, np.uint16).astype(np.int64) if self.table else None

    def at(self, register: Array, sublane: Array, lane: Array) -> Array:
        """The values at places of a grid, given by arrays of register, sublane and lane numbers."""
        numbers = self.numbers()
        place = register if numbers is None else numbers[register]
        if self.overlays:
            return self.array()[place if self.registers > 1 else 0, sublane, lane]
        constant, grid, across, along = self.base
        result = constant + grid * place + across * sublane + along * lane
        return result & (self.modulus - 1) if self.modulus else result

    @property
    def is_repeatable(self) -> bool:
        """Whether two bytes can number the index registers, as `repeated` does."""
        return self.registers <= _MOST_NUMBERED

    def repeated(self, times: int) -> Field:
        """The field for a grid that consists of this one `times` times, one after the other."""
        table = self.table
        if self.registers > 1 and not table:
            table = np.arange(self.registers).astype(np.uint16).tobytes()
        return replace(self, table=table * times)

    def array(self) -> Array:
        """The values [registers, 8, 128]; must not be written to."""
        # A gather by one index register is looked at for each of its checks, and may be seven
        # selects, each of which has it as its mask.
        return _overlaid(self) if self.overlays and self.registers == 1 else _filled(self)

    @staticmethod
    def is_affine(values: Array, modulus: int) -> bool:
        """Whether one affine function gives all `values` [8, 128] of a register."""
        return _fit(values[None], modulus) is not None

    @classmethod
    def of(cls, values: Array, modulus: int = 0) -> Field | None:
        """A field with the `values` [registers, 8, 128]; negative ones do not matter. None if there
        is none.

        For more than one register it exists only if one affine function gives them all. Without a
        modulus the values are bit patterns, which are constant in every piece.
        """
        whole = _fit(values, modulus)
        if whole is not None and modulus and whole[1]:
            period = modulus // math.gcd(whole[1], modulus)
            if period < len(values):
                return cls.by_table(whole, modulus, np.arange(len(values)) % period)
        if whole is not None:
            return cls(whole, (), modulus, len(values) if whole[1] else 1)
        if len(values) > 1:
            return None
        overlays = tuple(_pieces(values[0], modulus))
        return cls(overlays[0][1], overlays[1:], modulus)


@lru_cache(maxsize=512)
def _overlaid(field: Field) -> Array:
    """The values of `field`, one index register of several pieces; cached, so read-only."""
    made = _filled(field)
    made.flags.writeable = False
    return made


def _filled(field: Field) -> Array:
    """The values [registers, 8, 128]: those of the base, then those of the overlays."""
    result = np.empty((field.registers, SUBLANES, LANES), np.int64)
    for (s0, s1, l0, l1), (constant, grid, sublane, lane) in (
        (FULL, field.base),
        *field.overlays,
    ):
        along = constant + lane * np.arange(l0, l1) + sublane * np.arange(s0, s1)[:, None]
        result[:, s0:s1, l0:l1] = along + grid * np.arange(field.registers)[:, None, None]
    return result & (field.modulus - 1) if field.modulus else result


def _fit(values: Array, modulus: int) -> Affine | None:
    """The affine function that gives all `values` that are not negative; None if there is none."""
    wanted = values >= 0
    place = int(wanted.argmax())
    if not wanted.reshape(-1)[place]:
        return (0, 0, 0, 0)
    register, rest = divmod(place, SUBLANES * LANES)
    sublane, lane = divmod(rest, LANES)
    at_first = int(values[register, sublane, lane])
    if not modulus:
        constant = ((values == at_first) | ~wanted).all()
        return (at_first, 0, 0, 0) if constant else None
    factors: list[int] = []
    # No value lies before the first one on any line through it.
    for line, start in (
        (values[:, sublane, lane], register),
        (values[register, :, lane], sublane),
        (values[register, sublane], lane),
    ):
        later = np.nonzero(line[start + 1 :] >= 0)[0]
        if not later.size:
            # No second point straight along this axis: let the other two explain the rest.
            factors.append(0)
            continue
        step = int(later[0]) + 1
        factor = _rise(int(line[start + step]) - at_first, step, modulus)
        if factor is None:
            return None
        factors.append(factor)
    grid, across, along = factors
    constant = (at_first - grid * register - across * sublane - along * lane) % modulus
    # Most that do not fit do not fit in the first row, or in the first register.
    row = values[register, sublane]
    off = row - (at_first - along * lane) - along * _LANE
    if ((off & (modulus - 1)).astype(np.bool_) & (row >= 0)).any():
        return None
    plane = constant + across * _SUBLANE + along * _LANE
    for part in (slice(register, register + 1), slice(register + 1, None)):
        off = values[part] - plane
        if grid:
            off -= grid * np.arange(part.start, part.stop or len(values))[:, None, None]
        if ((off & (modulus - 1)).astype(np.bool_) & wanted[part]).any():
            return None
    return (constant, grid, across, along)


def _pieces(values: Array, modulus: int) -> list[tuple[Box, Affine]]:
    """Boxes, each with an affine function, that together give `values` [8, 128]; later ones are on
    top."""
    if (values[1:] == values[0]).all():
        return _stretches(values[0].tolist(), modulus)
    pieces: list[tuple[Box, Affine]] = []
    left = values >= 0
    # Every box begins at the first place that none has covered yet.
    while left.any():
        sublane, lane = divmod(int(left.argmax()), LANES)
        end, along = _run(values[sublane, lane:], modulus)
        window = values[sublane:, lane : lane + end]
        rows, across = _rows(window, along, modulus)
        constant = int(window[0, 0])
        if modulus:
            constant = (constant - across * sublane - along * lane) % modulus
        box = (sublane, sublane + rows, lane, lane + end)
        pieces.append((box, (constant, 0, across, along)))
        left[box[0] : box[1], box[2] : box[3]] = False
    return pieces


def _stretches(line: list[int], modulus: int) -> list[tuple[Box, Affine]]:
    """`_pieces` of a register that has `line` in every row, which is the most frequent case of many
    pieces."""
    pieces: list[tuple[Box, Affine]] = []
    at = 0
    while True:
        while at < LANES and line[at] < 0:
            at += 1
        if at == LANES:
            return pieces
        first, end, along = line[at], at + 1, 0
        step: int | None = None
        while end < LANES:
            value = line[end]
            if value >= 0:
                if step is None:
                    step = _rise(value - first, end - at, modulus)
                    if step is None:
                        break
                off = value - first - step * (end - at)
                if off & (modulus - 1) if modulus else off:
                    break
                along = step
            end += 1
        constant = (first - along * at) % modulus if modulus else first
        pieces.append(((0, SUBLANES, at, end), (constant, 0, 0, along)))
        at = end


def _rise(difference: int, distance: int, modulus: int) -> int | None:
    """The step that makes `difference` over `distance` places, None if it is no integer. With a
    modulus, the difference nearest to 0 counts."""
    if not modulus:
        return None if difference else 0
    difference = (difference + modulus // 2) % modulus - modulus // 2
    return None if difference % distance else difference // distance


def _run(line: Array, modulus: int) -> tuple[int, int]:
    """How many values of `line` one affine function gives, from the first one on, which matters,
    and its step.

    Longer stretches begin with the same two values, so a function that fits a stretch fits all
    shorter ones.
    """
    places = np.nonzero(line >= 0)[0]
    if places.size < 2:
        return line.size, 0
    first, second = int(places[0]), int(places[1])
    step = _rise(int(line[second]) - int(line[first]), second - first, modulus)
    if step is None:
        return second, 0
    off = line[places] - line[first] - step * places
    wrong = np.nonzero(off & (modulus - 1) if modulus else off)[0]
    end = int(places[wrong[0]]) if wrong.size else line.size
    return end, step if end > second else 0


def _fits(off: Array, modulus: int) -> list[bool]:
    """For each row, whether all its values are 0 (modulo `modulus`)."""
    return (~any_along(off & (modulus - 1) if modulus else off, 1)).tolist()


def _rows(window: Array, along: int, modulus: int) -> tuple[int, int]:
    """How many rows of `window`, whose first row has the step `along`, one function gives, and its
    step from row to row.

    More rows may determine a step that fewer leave open. So the number is found by trying all rows
    first, then fewer, halving the increment each time.
    """
    count = len(window)
    if count == 1:
        return 1, 0
    wanted = window >= 0
    # In which row the step across rows becomes known, and what it is from there on.
    below = np.nonzero(wanted[1:, 0])[0]
    known, across = (int(below[0]) + 1, None) if below.size else (count, None)
    if below.size:
        across = _rise(int(window[known, 0]) - int(window[0, 0]), known, modulus)
    flat = np.where(wanted, window - window[0, 0] - along * np.arange(window.shape[1]), 0)

    # Whether each row fits without a step and with it.
    still = _fits(flat, modulus)
    stepped = still
    if across:
        down = np.where(wanted, across * np.arange(count)[:, None], 0)
        stepped = _fits(flat - down, modulus)
    elif across is None:
        stepped = still[:known]

    def explained(rows: int) -> int | None:
        if rows <= known:
            return 0 if all(still[:rows]) else None
        return across if len(stepped) >= rows and all(stepped[:rows]) else None

    rows, found, step = 1, 0, SUBLANES
    while step:
        tried = min(count, rows + step)
        fitting = explained(tried) if tried > rows else None
        if fitting is None:
            step //= 2
        else:
            rows, found = tried, fitting
    return rows, found
