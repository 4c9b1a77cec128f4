"""Combines partly filled registers, and applies patterns of lane or sublane indices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pallasite.layouts.planner.fields import Field, Mask
from pallasite.layouts.planner.lines import Array, any_along
from pallasite.layouts.planner.program import Program
from pallasite.layouts.planner.words import unique_rows
from pallasite.layouts.registers import LANES, SUBLANES

IndexStep = Callable[[int, Field], int]


class Overlay:
    """A flat value that is filled by several `add`s, each for some registers and words."""

    def __init__(self, program: Program, n: int, starts: Array) -> None:
        self._program = program
        self._starts = starts
        self._filled = np.zeros((n, SUBLANES, starts.size), np.bool_)
        self._value: int | None = None
        self._n = n

    @property
    def value(self) -> int:
        """The flat value filled so far; `add` must have been called."""
        assert self._value is not None
        return self._value

    def add(self, value: int, members: Array, wanted: Array) -> None:
        """Puts words of flat `value` into registers `members` where `wanted` [members, 8,
        segments]."""
        program, filled = self._program, self._filled[members]
        fresh = ~any_along(filled, 1, 2)
        position = np.arange(self._n)
        pieces = [] if self._value is None else [self._value]
        if self._value is None:
            position[:] = -1
        at = 0 if self._value is None else self._n
        if fresh.any():
            pieces.append(program.take(value, np.nonzero(fresh)[0]))
            position[members[fresh]] = at + np.arange(int(fresh.sum()))
            at += int(fresh.sum())
        for group, mask in _mask_groups(wanted, filled, ~fresh, self._starts):
            old = program.take(self.value, members[group])
            pieces.append(program.select(mask, program.take(value, group), old))
            position[members[group]] = at + np.arange(group.size)
            at += group.size
        self._value = program.take(program.concat(pieces), position)
        self._filled[members] |= wanted


def _mask_groups(
    wanted: Array, filled: Array, which: Array, starts: Array
) -> list[tuple[Array, Mask]]:
    """Groups registers such that one mask covers `wanted` and excludes what is already filled."""
    chosen = np.nonzero(which)[0]
    if not chosen.size:
        return []
    keep = filled[chosen] & ~wanted[chosen]
    flat = np.concatenate(
        [wanted[chosen].reshape(chosen.size, -1), keep.reshape(chosen.size, -1)], axis=1
    )
    patterns, _, inverse = unique_rows(flat)
    half = flat.shape[1] // 2
    groups: list[tuple[Array, Array, list[int]]] = []
    for number, pattern in enumerate(patterns):
        want, spare = pattern[:half].copy(), pattern[half:].copy()
        for w, k, numbers in groups:
            if not (w & spare).any() and not (k & want).any():
                w |= want
                k |= spare
                numbers.append(number)
                break
        else:
            groups.append((want, spare, [number]))
    lengths = np.diff(np.append(starts, LANES))
    shape = (SUBLANES, starts.size)
    return [
        (
            chosen[np.isin(inverse, numbers)],
            Mask.of(
                np.repeat(w.reshape(shape), lengths, 1), ~np.repeat(k.reshape(shape), lengths, 1)
            ),
        )
        for w, k, numbers in groups
    ]


def apply_index(
    program: Program, value: int, patterns: Array, which: Array, modulus: int, step: IndexStep
) -> int:
    """Gathers within the registers of the flat `value`, register i by `patterns[which[i]]`.

    Patterns are [different, 8, 128]; `modulus` 128 counts lanes, 8 sublanes. Negative entries mean
    that any value will do. Registers with equal patterns share an index register; if the patterns
    advance regularly over the grid, a single step serves all registers.
    """
    axis = np.arange(LANES)[None, :] if modulus == LANES else np.arange(SUBLANES)[:, None]
    moving = ~((patterns == axis) | (patterns < 0)).all((1, 2))
    if not moving.any():
        return value
    gathers = int(moving[which].sum())
    each = program.costs.gather(along_lanes=modulus == LANES)
    program.afford(program.costs.copies * each * gathers)
    # What one function serves, it serves in the first register.
    few = len(which) <= 2 * LANES and Field.is_affine(patterns[which[0]], modulus)
    if len(patterns) == 1 or few:
        whole = Field.of(patterns if len(patterns) == 1 else patterns[which], modulus)
        if whole is not None:
            return step(value, whole)
    position, pieces, at = np.full(len(which), -1), list[int](), 0
    for merged, chosen in _agreeing(patterns):
        members = np.nonzero(chosen[which])[0]
        taken = program.take(value, members)
        if not ((merged == axis) | (merged < 0)).all():
            field = Field.of(merged[None], modulus)
            assert field is not None, "a single register always has a description"
            taken = step(taken, field)
        pieces.append(taken)
        position[members] = at + np.arange(members.size)
        at += members.size
    return program.take(program.concat(pieces), position)


def _agreeing(patterns: Array) -> list[tuple[Array, Array]]:
    """Merges patterns that agree wherever neither is negative.

    Returns each merged pattern with the numbers of the patterns that it replaces.
    """
    flat = patterns.reshape(len(patterns), -1)
    matter = flat[:, any_along(flat >= 0, 0)].astype(np.int8)
    groups: list[tuple[Array, Array]] = []
    left = np.arange(len(patterns))
    while left.size:
        # Whoever agrees with the first joins it, unless it disagrees with one that did before.
        joined, waiting = np.zeros(len(patterns), np.bool_), left
        while waiting.size:
            joined[waiting[0]] = True
            mine, others = matter[waiting[0]], matter[waiting[1:]]
            waiting = waiting[1:][((others == mine) | (others < 0) | (mine < 0)).all(1)]
        groups.append((patterns[joined].max(0), joined))
        left = left[~joined[left]]
    return groups
