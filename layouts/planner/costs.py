"""Costs of instructions on a target, as far as the choice between plans needs them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import cast

from pallasite.layouts.plan import (
    RENAMING,
    GatherLanes,
    GatherSublanes,
    KeepElements,
    RotateLanes,
    Select,
    Step,
    TransposeBlocks,
    Value,
    instructions,
)
from pallasite.layouts.planner.fields import Field
from pallasite.layouts.planner.lines import distinct_values
from pallasite.layouts.planner.patterns import moves, one_shuffle, quarters_of, stacked_rows
from pallasite.layouts.registers import LANES, SUBLANES
from pallasite.targets import Target


@dataclass(frozen=True)
class Costs:
    """Weights of instructions (1 is one issue of the vector unit) and limits of a search.

    Lane rotates and gathers go through the cross-lane unit, which takes one register every few
    cycles with a long latency (spec/vreg_lowering.md section 6.5).
    """

    any_shuffle: bool = False
    """A shuffle of two registers may have any pattern. No compiler takes that so far: each half of
    the result must come from one quarter of the two registers
    (docs/internals/reference_compiler.md)."""
    sublane_gather: bool = True
    interleaved_bits: int = 16
    """Narrowest element that interleaved pack and unpack take; 32 means none."""
    transpose_bits: frozenset[int] = frozenset({8, 16, 32})
    masked_bits: int = 8
    """Narrowest elements that masks tell apart: the compiler makes one choice between wider ones of
    what clears the others in both operands."""
    cross_lane: float = 3.0
    grid_instruction: float = 0.5
    copies: int = 1
    """How many copies of the movement the same grid instructions perform, on other registers."""
    most: float = math.inf
    """Plans that cost more are not wanted, because a cheaper one is known."""
    steps: float = math.inf
    """The number of steps that each search for a first plan may take."""
    stages: bool = True
    """Whether the movement may be split into stages; False within a stage."""
    stacks: int = 2
    """How deeply stacks of small matrices may be nested; one less for parts of a stacked plan."""
    halves: bool = True
    """Whether the rows may be changed by a movement of their own; False within such a half."""
    wary: bool = False
    """Whether every assembled plan is checked at once, not only the final one; set after a final
    plan was found to be wrong."""

    def below(self, most: float) -> Costs:
        """The same costs with `self.most` lowered to `most`."""
        return replace(self, most=min(self.most, most))

    @classmethod
    @lru_cache
    def of(cls, target: Target) -> Costs:
        """The costs on `target`."""
        return cls(
            sublane_gather=target.sublane_gather,
            interleaved_bits=target.interleaved_pack_bits,
            transpose_bits=target.transpose_bits,
            masked_bits=32 // target.max_mask_subelements,
        )

    def merge(self, pattern: Sequence[int]) -> int:
        """The number of instructions that `Program.merge` of two registers takes."""
        return 1 if self.any_shuffle else _merge(tuple(pattern))

    def gather(self, *, along_lanes: bool) -> float:
        """The cost of one gather along the lanes, or else along the sublanes.

        On targets without sublane gathers, one is emulated: each of the 8 sublanes is broadcast,
        and selects choose between these.
        """
        if along_lanes:
            return self.gather_lanes
        return 1.0 if self.sublane_gather else 2.0 * SUBLANES - 1

    def transpose_block(self, packing: int, used: float = math.inf) -> float:
        """The cost of transposing a block of 128x128 elements, of which a word holds `packing`.

        Each register of the block passes through the cross-lane unit, as for a rotation; the size
        of the compiler's code grows in proportion. Of a nearly empty block only `used` ones do.
        """
        return self.cross_lane * min(LANES / (SUBLANES * packing), used)

    @property
    def gather_lanes(self) -> float:
        """The cost of a gather along the lanes. Beside what a rotation takes, it reads an index or
        makes one: 105 of them take a tenth more code than the transposes of as many registers."""
        return self.cross_lane + 0.5

    def step(self, step: Step, value: Value) -> float:
        """The cost of `step`, which defines `value`, for all registers of it and all copies."""
        # Compares types, which is faster than isinstance: called for every step that is tried.
        kind = type(step)
        if kind in _FREE:
            return 0.0
        weight = 1.0
        if kind is RotateLanes:
            weight = self.cross_lane
        elif kind is GatherLanes:
            weight = self.gather_lanes
        elif kind is TransposeBlocks:
            weight = self.transpose_block(value.elements, cast(TransposeBlocks, step).used)
        price = self.copies * weight * instructions(step, value) + self.grid_instruction
        return price + preparation(step) if kind in _PREPARED else price


_FREE = frozenset(RENAMING)
_PREPARED = frozenset({Select, GatherLanes, GatherSublanes, KeepElements})


@lru_cache(maxsize=4096)
def _merge(pattern: tuple[int, ...]) -> int:
    if one_shuffle(pattern):
        return 1
    left, right = (moves(rows) for rows in stacked_rows(pattern))
    return min(1 + left + right, 2 if quarters_of(pattern) else 3)


def preparation(step: Step) -> float:
    """The cost of making the step's masks and index registers, once whatever the grid's size."""
    if isinstance(step, Select):
        return 0.5 * len(step.mask.boxes) + _different(step.mask.field)
    if isinstance(step, GatherLanes | GatherSublanes):
        return 1.0 * len(step.index.overlays) + _different(step.index)
    if isinstance(step, KeepElements):
        return 1.0 * len(step.mask.overlays)
    return 0.0


def _different(field: Field | None) -> float:
    """The number of distinct registers of `field`; 0 if it has only one."""
    if field is None or field.registers == 1:
        return 0.0
    numbers = field.numbers()
    return 1.0 * (field.registers if numbers is None else distinct_values(numbers).size)
