"""Patterns of sublane shuffles: sublane s of the result is row `pattern[s]` of the operands.

Rows 0 to 7 are those of the first operand, 8 to 15 those of the second; a negative row means that
the sublane may hold anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from pallasite.layouts.planner.fields import Box, Mask
from pallasite.layouts.registers import LANES, SUBLANES

IDENTITY = tuple(range(SUBLANES))
_ROTATIONS = [IDENTITY[turn:] + IDENTITY[:turn] for turn in range(SUBLANES)]


def one_shuffle(pattern: Sequence[int]) -> bool:
    """Whether the TPU has one instruction for the pattern: it reads a single register, or each half
    of the result comes from one quarter (four neighbouring rows)."""
    rows = [p for p in pattern if p >= 0]
    if len({p // SUBLANES for p in rows}) <= 1:
        return True
    halves = (pattern[: SUBLANES // 2], pattern[SUBLANES // 2 :])
    return all(len({p // (SUBLANES // 2) for p in half if p >= 0}) <= 1 for half in halves)


def quarters_of(pattern: Sequence[int]) -> tuple[int, int] | None:
    """The numbers of the two quarters (four neighbouring rows) that a pattern reads.

    None unless it reads exactly two.
    """
    quarters = sorted({p // (SUBLANES // 2) for p in pattern if p >= 0})
    return (quarters[0], quarters[1]) if len(quarters) == 2 else None


def stacked_rows(pattern: Sequence[int]) -> tuple[dict[int, int], dict[int, int]]:
    """Splits a two-source pattern into (sublane to row) maps of the first and second register."""
    first = {s: p for s, p in enumerate(pattern) if 0 <= p < SUBLANES}
    second = {s: p - SUBLANES for s, p in enumerate(pattern) if p >= SUBLANES}
    return first, second


def moves(rows: dict[int, int]) -> bool:
    """Whether any row changes its sublane."""
    return any(s != row for s, row in rows.items())


def is_rotation(pattern: Sequence[int]) -> bool:
    """Whether a one-source pattern rotates the register along its sublanes."""
    return len({(row - s) % SUBLANES for s, row in enumerate(pattern)}) == 1


def one_source(rows: dict[int, int]) -> tuple[int, ...]:
    """A pattern for one register that puts `rows[s]` at sublane s.

    The remaining sublanes are filled such that the pattern is a rotation or a broadcast of one row
    if possible; otherwise they keep their row.
    """
    turns = {(row - s) % SUBLANES for s, row in rows.items()}
    if len(turns) == 1:
        return _ROTATIONS[turns.pop()]
    if len(set(rows.values())) == 1:
        return (next(iter(rows.values())),) * SUBLANES
    return tuple([rows.get(s, s) for s in range(SUBLANES)])


def filled(pattern: Sequence[int]) -> tuple[int, ...]:
    """The pattern with its negative rows filled in, within the quarter that the half reads."""
    result: list[int] = []
    for start in (0, SUBLANES // 2):
        half = pattern[start : start + SUBLANES // 2]
        quarters = {p // len(half) for p in half if p >= 0}
        base = quarters.pop() * len(half) if len(quarters) == 1 else start
        result += [base + i if p < 0 else p for i, p in enumerate(half)]
    return tuple(result)


def sublane_mask(wanted: Sequence[int], spared: Sequence[int]) -> Mask:
    """A mask that is set on the sublanes `wanted`, clear on `spared`, and anything elsewhere.

    It has as few boxes as possible.
    """
    return _sublane_mask(frozenset(wanted), frozenset(spared))


@lru_cache(maxsize=4096)
def _sublane_mask(wanted: frozenset[int], spared: frozenset[int]) -> Mask:
    boxes: list[Box] = []
    left = set(wanted)
    while left:
        first = last = min(left)
        while first > 0 and first - 1 not in spared:
            first -= 1
        while last + 1 < SUBLANES and last + 1 not in spared:
            last += 1
        left -= set(range(first, last + 1))
        boxes.append((first, last + 1, 0, LANES))
    return Mask(tuple(boxes))
