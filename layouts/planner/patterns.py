"""Patterns of sublane shuffles: sublane s of the result is row `pattern[s]` of the operands.

The rows of two registers are counted on, the second has rows 8 to 15; negative rows do not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from pallasite.layouts.planner.fields import Box, Mask
from pallasite.layouts.registers import LANES, SUBLANES

IDENTITY = tuple(range(SUBLANES))
_ROTATIONS = [IDENTITY[turn:] + IDENTITY[:turn] for turn in range(SUBLANES)]


def one_shuffle(pattern: Sequence[int]) -> bool:
    """Whether a shuffle of two registers is one instruction; negative rows do not matter."""
    rows = [p for p in pattern if p >= 0]
    if len({p // SUBLANES for p in rows}) <= 1:
        return True
    halves = (pattern[: SUBLANES // 2], pattern[SUBLANES // 2 :])
    return all(len({p // (SUBLANES // 2) for p in half if p >= 0}) <= 1 for half in halves)


def quarters_of(pattern: Sequence[int]) -> tuple[int, int] | None:
    """The two quarters that a two-source pattern reads, if it reads no more."""
    quarters = sorted({p // (SUBLANES // 2) for p in pattern if p >= 0})
    return (quarters[0], quarters[1]) if len(quarters) == 2 else None


def stacked_rows(pattern: Sequence[int]) -> tuple[dict[int, int], dict[int, int]]:
    """Which row of the first and of the second register a two-source pattern puts where."""
    first = {s: p for s, p in enumerate(pattern) if 0 <= p < SUBLANES}
    second = {s: p - SUBLANES for s, p in enumerate(pattern) if p >= SUBLANES}
    return first, second


def moves(rows: dict[int, int]) -> bool:
    """Whether some row leaves its sublane."""
    return any(s != row for s, row in rows.items())


def is_rotation(pattern: Sequence[int]) -> bool:
    """Whether a one-source pattern turns the register as a whole."""
    return len({(row - s) % SUBLANES for s, row in enumerate(pattern)}) == 1


def one_source(rows: dict[int, int]) -> tuple[int, ...]:
    """A pattern for one register that puts `rows[s]` at sublane s.

    Sublanes that do not matter follow a rotation, if the others are one.
    """
    turns = {(row - s) % SUBLANES for s, row in rows.items()}
    if len(turns) == 1:
        return _ROTATIONS[turns.pop()]
    if len(set(rows.values())) == 1:
        return (next(iter(rows.values())),) * SUBLANES
    return tuple([rows.get(s, s) for s in range(SUBLANES)])


def filled(pattern: Sequence[int]) -> tuple[int, ...]:
    """A two-source pattern without gaps: a half that comes from one quarter stays in it."""
    result: list[int] = []
    for start in (0, SUBLANES // 2):
        half = pattern[start : start + SUBLANES // 2]
        quarters = {p // len(half) for p in half if p >= 0}
        base = quarters.pop() * len(half) if len(quarters) == 1 else start
        result += [base + i if p < 0 else p for i, p in enumerate(half)]
    return tuple(result)


def sublane_mask(wanted: Sequence[int], spared: Sequence[int]) -> Mask:
    """Sets the sublanes `wanted` and none of `spared`."""
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
