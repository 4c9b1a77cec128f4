"""Moves of whole 32-bit words, the problem that most strategies solve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pallasite.kept import kept
from pallasite.layouts.planner.lines import Array, distinct_values, first_places
from pallasite.layouts.planner.trace import Trace
from pallasite.layouts.registers import LANES, SUBLANES


@dataclass(frozen=True, eq=False)
class WordMove:
    """The source of every word of the destination, as arrays [registers, 8, segments].

    -1 marks words that may hold anything. Within a segment of lanes the source register and sublane
    are constant and the source lane advances by `slope`: 1 displaces the segment as a whole, 0
    repeats one word.
    """

    starts: Array
    register: Array
    sublane: Array
    lane: Array
    slope: int

    @property
    def lengths(self) -> Array:
        """The number of lanes of each segment."""
        return np.diff(np.append(self.starts, LANES))

    @cached_property
    def needed(self) -> tuple[WordMove, Array]:
        """The move of the distinct registers that are needed, with as few segments as possible, and
        the number of each register among these, -1 if it is not needed."""
        live = np.nonzero(self.wanted.any((1, 2)))[0]
        position = np.full(len(self.register), -1)
        if not live.size:
            return self.only(live), position
        different, position[live] = self.only(live).distinct()
        return different.merged(), position

    @property
    def wanted(self) -> Array:
        """True where a word is needed."""
        return self.register >= 0

    @property
    def displacement(self) -> Array:
        """By how many lanes each segment moves up, in [0, 128); -1 where it is not needed."""
        return np.where(self.wanted, (self.starts - self.lane) % LANES, -1)

    @cached_property
    def amounts(self) -> list[int] | None:
        """By how many lanes words move up, ascending; None if those of a segment differ."""
        if self.slope != 1:
            return None
        return distinct_values(self.displacement[self.wanted]).tolist()

    @property
    def displaced(self) -> Array:
        """True where a needed word changes its lane, at the start of its segment or later."""
        moves = self.lane != self.starts
        if self.slope != 1:
            moves = moves | (self.lengths > 1)
        return self.wanted & moves

    def only(self, members: Array) -> WordMove:
        """The move restricted to some of the destination registers."""
        fields = (self.register[members], self.sublane[members], self.lane[members])
        return WordMove(self.starts, *fields, self.slope)

    def where(self, mask: Array) -> WordMove:
        """The move restricted to some of the words."""
        register, sublane, lane = (
            np.where(mask, f, -1) for f in (self.register, self.sublane, self.lane)
        )
        return WordMove(self.starts, register, sublane, lane, self.slope)

    def distinct(self) -> tuple[WordMove, Array]:
        """The move of the distinct destination registers, and each register's number among
        these."""
        n = len(self.register)
        stacked = np.concatenate(
            [f.reshape(n, -1) for f in (self.register, self.sublane, self.lane)], axis=1
        )
        _, first, inverse = unique_rows(stacked)
        return self.only(first), inverse

    def merged(self) -> WordMove:
        """The same move with neighbouring segments joined where every word continues."""
        if len(self.starts) < 2:
            return self
        steps = np.diff(self.starts)
        wanted, before = self.wanted[..., 1:], self.wanted[..., :-1]
        same = wanted == before
        for field, slope in ((self.register, 0), (self.sublane, 0), (self.lane, self.slope)):
            same &= ~wanted | (field[..., 1:] == field[..., :-1] + slope * steps)
        keep = np.append(True, ~same.all((0, 1)))
        return replace(
            self,
            starts=self.starts[keep],
            register=self.register[..., keep],
            sublane=self.sublane[..., keep],
            lane=self.lane[..., keep],
        )

    def lane_patterns(self) -> tuple[Array, Array]:
        """The source lane of every word, -1 for any: the distinct patterns [different, 8, 128], and
        the number of the pattern of each destination register."""
        n = len(self.register)
        _, first, inverse = unique_rows(np.where(self.wanted, self.lane, -1).reshape(n, -1))
        segment = np.repeat(np.arange(self.starts.size), self.lengths)
        along = self.slope * (np.arange(LANES) - self.starts[segment])
        wanted = self.register[first][..., segment] >= 0
        return np.where(wanted, self.lane[first][..., segment] + along, -1), inverse


def unique_rows(rows: Array) -> tuple[Array, Array, Array]:
    """Like `np.unique` of matrix rows, in order of first appearance: (rows, first, inverse).

    Compares 64-bit hashes, many times faster than sorting. Should two ever collide, the plan fails
    its check.
    """
    if len(rows) < 2:
        return rows, np.arange(len(rows)), np.arange(len(rows))
    first, inverse = _in_order(rows.astype(np.int64, copy=False) @ hash_weights(rows.shape[1]))
    return rows[first], first, inverse


def alike(fields: Sequence[Array]) -> Array:
    """Numbers registers such that those with equal `fields` [registers, ...] have equal numbers.

    Numbers are in order of first appearance.
    """
    weights = hash_weights(sum(f[0].size for f in fields))
    hashes, at = np.zeros(len(fields[0]), np.int64), 0
    for field in fields:
        flat = field.reshape(len(field), -1)
        hashes += flat @ weights[at : at + flat.shape[1]]
        at += flat.shape[1]
    return _in_order(hashes)[1]


def _in_order(hashes: Array) -> tuple[Array, Array]:
    """Like `first_places`, but numbered by first occurrence."""
    first, inverse = first_places(hashes)
    order = first.argsort()
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return first[order], rank[inverse]


@kept
def hash_weights(count: int) -> Array:
    """`count` odd numbers of 64 bits without a pattern, always the same ones; read-only."""
    # SplitMix64 (Steele et al., 2014) of the position; `np.random` takes longer to load.
    mixed = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return (mixed ^ (mixed >> np.uint64(31))).view(np.int64) | 1


def whole_words(found: Trace, packing: int) -> WordMove | None:
    """The word move of a trace; None unless all elements of every word stay together."""
    along = found.slopes[:2] != (0, 0)
    if along and found.slopes[1] % packing:
        found = found.words()
    if packing > 1:
        joined = _joined(found, packing)
        if joined is None:
            return None
        found = joined
    if along:
        found = found.words()
    return WordMove(found.starts, found.register, found.row, found.lane, found.slopes[2])


def _joined(found: Trace, packing: int) -> Trace | None:
    """The trace of words for a trace of elements that advance alike along every segment."""
    n, rows, k = found.register.shape
    shape = (n, rows // packing, packing, k)
    register, row, lane = (f.reshape(shape) for f in (found.register, found.row, found.lane))
    wanted = register >= 0
    element = np.arange(packing)[None, None, :, None]
    if (wanted & (row % packing != element)).any():
        return None
    chosen = wanted.argmax(2)[:, :, None]
    fields: list[Array] = []
    for field in (register, row // packing, lane):
        one = np.take_along_axis(field, chosen, 2)
        if (wanted & (field != one)).any():
            return None
        fields.append(np.where(wanted.any(2), one[:, :, 0], -1))
    slopes = (found.slopes[0], found.slopes[1] // packing, found.slopes[2])
    return Trace(found.starts, fields[0], fields[1], fields[2], slopes, found.walked)


def rows_of(move: WordMove) -> Array:
    """The source row number (register * 8 + sublane) of every word, -1 where it is not needed."""
    return np.where(move.wanted, move.register * SUBLANES + move.sublane, -1)
