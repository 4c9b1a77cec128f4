"""Paths from a ref to a part of it, of which only the offsets of slices change.

A loop that copies rows takes the same views of the same array again and again, each at other
offsets. Where a path leads is computed once for all refs that lie alike: the address of the part is
then arithmetic on the offsets. Offsets for which arithmetic is not enough (out of bounds, or in the
padding of the last tile) are left to the views themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

from pallasite.diagnostics import ExecutionError
from pallasite.interpreter.machine.boxes import Digits, block_of
from pallasite.interpreter.machine.views import Ref
from pallasite.layouts.tiling import offset_of


class Cast(NamedTuple):
    """A view of a whole ref as another array."""

    of: Callable[[Ref], Ref]


class Cut(NamedTuple):
    """A slice of `sizes`. Its first coordinates are `starts`, or the offsets whose numbers are in
    `places`."""

    sizes: tuple[int, ...]
    starts: tuple[int, ...]
    places: tuple[int | None, ...]


class Squeeze(NamedTuple):
    """Keeps only some dimensions; the others have size 1."""

    kept: tuple[int, ...]


Path = tuple[Cast | Cut | Squeeze, ...]


class Turn(NamedTuple):
    """A dimension in which a part may begin anywhere, although tiles give its addresses several
    digits.

    The part begins at `start` plus the offsets of numbers `places`. Each whole `block` of that sum
    moves the part by `stride` elements; the residue decides how the part lies.
    """

    start: int
    places: tuple[int, ...]
    block: int
    stride: int
    dim: int | None
    """The dimension of the part, or None if the part does not keep it."""
    digits: Digits


class Way(NamedTuple):
    """Where a path leads: the part for offsets of 0, and what other offsets change."""

    shape: tuple[int, ...]
    digits: tuple[Digits, ...]
    starts: tuple[int, ...]
    base: int
    bits: int
    """Bits of an element."""
    lasts: tuple[tuple[int, int], ...]
    """Pairs of an offset's number and its largest legal value."""
    dropped: tuple[tuple[int, int], ...]
    """Pairs of an offset's number and by how many elements it moves `base`."""
    shifted: tuple[tuple[int, int], ...]
    """Pairs of an offset's number and the dimension whose first coordinate it moves."""
    turns: tuple[Turn, ...]

    @property
    def steps(self) -> dict[int, int]:
        """By the number of an offset: by how many elements it moves the part, apart from
        `turns`."""
        found: dict[int, int] = dict(self.dropped)
        turning = [turn.dim for turn in self.turns]
        for place, dim in self.shifted:
            if dim not in turning:
                found[place] = found.get(place, 0) + self.digits[dim][0][1]
        return found

    @property
    def element_bits(self) -> int:
        """Bits of all elements of the part."""
        return prod(self.shape) * self.bits

    def first(self, residues: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
        """The first coordinates and the base of the part whose turns leave `residues`, other
        offsets being 0."""
        starts, base = list(self.starts), self.base
        for turn, rest in zip(self.turns, residues, strict=True):
            if turn.dim is not None:
                starts[turn.dim] = rest
            else:
                base += offset_of(turn.digits, rest) - offset_of(turn.digits, turn.start)
        return tuple(starts), base

    def box(self, given: Sequence[int]) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """The base, the first coordinates and the shape of the part for the `given` offsets."""
        base = self.base
        for place, step in self.dropped:
            base += given[place] * step
        for turn in self.turns:
            if turn.dim is None:
                first = turn.start + sum([given[place] for place in turn.places])
                base += offset_of(turn.digits, first) - offset_of(turn.digits, turn.start)
        if not self.shifted:
            return base, self.starts, self.shape
        starts = list(self.starts)
        for place, dim in self.shifted:
            starts[dim] += given[place]
        return base, tuple(starts), self.shape


def way_of(ref: Ref, path: Path) -> Way | None:
    """Where `path` leads from `ref`, and from all refs that lie like it; None if arithmetic is not
    enough."""
    try:
        return _way(ref, path)
    except ExecutionError:
        # Whoever takes the views is told.
        return None


def _way(ref: Ref, path: Path) -> Way | None:
    lasts: dict[int, int] = {}
    dropped: dict[int, int] = {}
    turns: list[Turn] = []
    moved: list[list[int]] = [[] for _ in ref.shape]
    """Of each dimension the places of starts that move it."""
    for step in path:
        if isinstance(step, Cast):
            if any(moved) or dropped or turns:
                return None
            ref = step.of(ref)
            moved = [[] for _ in ref.shape]
        elif isinstance(step, Cut):
            for d, place in enumerate(step.places):
                if place is not None:
                    last = ref.shape[d] - step.sizes[d]
                    lasts[place] = min(last, lasts.get(place, last))
                    moved[d].append(place)
            ref = ref.slice(step.starts, step.sizes)
        else:
            for d in sorted(set(range(len(ref.shape))).difference(step.kept)):
                digits, places = ref.digits[d], moved[d]
                stride = digits[0][1]
                if places and len(digits) > 1:
                    turns.append(_turn(ref.starts[d], places, digits, None))
                    continue
                for place in places:
                    dropped[place] = dropped.get(place, 0) + stride
            ref = ref.keep(step.kept)
            moved = [moved[d] for d in step.kept]
    if 0 in ref.shape or any(last < 0 for last in lasts.values()):
        return None
    for d, places in enumerate(moved):
        if places and len(ref.digits[d]) > 1:
            turns.append(_turn(ref.starts[d], places, ref.digits[d], d))
    shifted = [(place, d) for d, places in enumerate(moved) for place in places]
    return Way(
        ref.shape, ref.digits, ref.starts, ref.base, ref.codec.bits, tuple(lasts.items()),
        tuple(dropped.items()), tuple(shifted), tuple(turns),
    )  # fmt: skip


def follow(ref: Ref, path: Path, given: Sequence[int]) -> Ref:
    """The part of `ref` to which `path` leads for the `given` offsets."""
    for step in path:
        if isinstance(step, Cast):
            ref = step.of(ref)
        elif isinstance(step, Cut):
            places = zip(step.starts, step.places, strict=True)
            starts = [start if place is None else given[place] for start, place in places]
            ref = ref.slice(starts, step.sizes)
        else:
            ref = ref.keep(step.kept)
    return ref


def _turn(start: int, places: list[int], digits: Digits, dim: int | None) -> Turn:
    return Turn(start, tuple(places), block_of(digits), digits[0][1], dim, digits)


def lies(ref: Ref) -> Any:
    """A key that is equal for refs from which equal paths lead to the same place."""
    return (
        ref.shape, ref.starts, ref.digits, ref.blocks, ref.ends, ref.base, ref.element,
        ref.buffer.size,
    )  # fmt: skip
