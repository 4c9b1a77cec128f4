"""What instructions cost on a target, as far as the choice between plans needs it."""

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
    """Weights of instructions, 1 for one issue of the vector unit, and what is available.

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
    cross_lane: float = 3.0
    grid_instruction: float = 0.5
    copies: int = 1
    """How often the movement is performed by the same grid instructions, on further registers."""
    most: float = math.inf
    """Plans that cost more are of no use: a better one is known."""
    steps: float = math.inf
    """How many steps each search for a first plan may take."""
    stages: bool = True
    """Whether movements may be made in stages: not what is part of a stage itself."""
    stacks: int = 2
    """How often matrices may be stacked, one way within another: what comes before and after a
    stack may be stacked once less."""
    halves: bool = True
    """Whether rows may be changed in a movement of their own: not in what is such a half itself."""
    wary: bool = False
    """Whether all that is put together of plans is checked at once, not only what is used in the
    end: plans were wrong."""

    def below(self, most: float) -> Costs:
        """The same where no plan is wanted that costs more than `most`."""
        return replace(self, most=min(self.most, most))

    @classmethod
    @lru_cache
    def of(cls, target: Target) -> Costs:
        """The costs on `target`."""
        return cls(
            sublane_gather=target.sublane_gather,
            interleaved_bits=target.interleaved_pack_bits,
            transpose_bits=target.transpose_bits,
        )

    def merge(self, pattern: Sequence[int]) -> int:
        """Instructions that `Program.merge` of two registers takes."""
        return 1 if self.any_shuffle else _merge(tuple(pattern))

    def gather(self, *, along_lanes: bool) -> float:
        """The cost of one gather along the lanes, or else along the sublanes.

        Without such gathers every sublane is spread over the register, and selected from.
        """
        if along_lanes:
            return self.cross_lane
        return 1.0 if self.sublane_gather else 2.0 * SUBLANES - 1

    def transpose_block(self, packing: int, used: float = math.inf) -> float:
        """The cost of transposing a block of 128x128 elements, of which a word holds `packing`.

        The registers of the block go through the cross-lane unit, as for rotations: so grows the
        compiler's code. Of blocks that are nearly empty only those that are `used` do, as they come
        in and go out.
        """
        return self.cross_lane * min(LANES / (SUBLANES * packing), used)

    def step(self, step: Step, value: Value) -> float:
        """The cost of all registers of `step`, which defines `value`."""
        # By the very type: this is asked of every step that is tried.
        kind = type(step)
        if kind in _FREE:
            return 0.0
        weight = 1.0
        if kind is RotateLanes or kind is GatherLanes:
            weight = self.cross_lane
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
    """Making masks and index registers: once per step, whatever the size of the grid."""
    if isinstance(step, Select):
        return 0.5 * len(step.mask.boxes) + _different(step.mask.field)
    if isinstance(step, GatherLanes | GatherSublanes):
        return 1.0 * len(step.index.overlays) + _different(step.index)
    if isinstance(step, KeepElements):
        return 1.0 * len(step.mask.overlays)
    return 0.0


def _different(field: Field | None) -> float:
    """Index registers that are made, if there are several."""
    if field is None or field.registers == 1:
        return 0.0
    numbers = field.numbers()
    return 1.0 * (field.registers if numbers is None else distinct_values(numbers).size)
