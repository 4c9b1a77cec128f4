"""Transposes many small matrices by stacking several of them into one 128x128 block.

    %b = transpose %a, [0, 2, 1] : 256x4x8 to 256x8x4            256 blocks
becomes
    %s = reshape %a : 256x4x8 to 8x128x8
    %t = transpose %s, [0, 2, 1] : 8x128x8 to 8x8x128            8 blocks
    %b = reshape, transpose %t                                   32 matrices side by side
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from pallasite.diagnostics import Unsupported
from pallasite.layouts.move import Move, Reshape, Transpose
from pallasite.layouts.plan import Plan, Value
from pallasite.layouts.planner.batch import batch
from pallasite.layouts.planner.costs import Costs, preparation
from pallasite.layouts.planner.judge import SMALL, registers
from pallasite.layouts.planner.program import Program
from pallasite.layouts.registers import LANES
from pallasite.layouts.strategies.change_rows import rows_exchanged
from pallasite.layouts.strategies.transpose import Planner, append, transpose_value
from pallasite.layouts.vector_layout import VectorLayout

_LEAST = 4
"""Matrices that one block takes, for which it is worth the trouble."""
_MOVED = 3
"""What a register of the result costs at least, besides the transposes."""
_WORTH = 0.68
"""What the plan may cost, of that of a transpose for each matrix: so grows the compiler's code."""
_MOST = 1.1
"""What it may cost if it takes far fewer operations."""
_SURE = 1.1
"""Plans that are judged to cost so many times what they may are not looked for."""
_SAVED = 0.02
"""What fewer blocks save of the cost of a plan that is stacked already, to look for another one."""
_FEWER = 0.75
"""How many that may be, of those of a transpose for each matrix."""


@dataclass(frozen=True)
class Stacking:
    """The ways to stack a movement that permutes dimensions and puts another one on the lanes."""

    move: Move
    dim: int
    """The dimension of the source that the lanes of the destination run along."""
    costs: Costs

    @classmethod
    def of(cls, move: Move, costs: Costs) -> Stacking | None:
        """None if the movement is no such transpose, or if the transpose unit does not take its
        elements."""
        dim = _turned(move) if costs.stacks else None
        if dim is None or move.bits not in costs.transpose_bits:
            return None
        return cls(move, dim, costs)

    def is_promising(self) -> bool:
        """Whether stacking is expected to cost less than transposing each matrix by itself."""
        limit = _WORTH * self._usual()
        return any(self._least(times) < limit for _, times in self.others())

    def better(self, plan: Planner, known: Plan) -> Plan | None:
        """A stacked plan that is to be preferred to `known`, if one is to be expected; else
        None."""
        made = self.best(plan, _MOST * known.cost)
        return made if made is not None and self.is_better(made, known) else None

    def saves(self, known: Plan) -> bool:
        """Whether stacking would save enough transposed blocks, compared with `known`, to be
        tried."""
        blocks = known.count().get("TransposeBlocks", 0)
        if not 0 < blocks < self._blocks:
            return True
        fewest = min(self._stacks(times) for _, times in self.others())
        saved = self.costs.copies * self._block(LANES) * (blocks - fewest)
        return saved > _SAVED * known.cost

    def is_better(self, made: Plan, known: Plan) -> bool:
        """Whether the stacked plan `made` is to be preferred to `known`."""
        blocks = known.count().get("TransposeBlocks", 0)
        if 0 < blocks < self._blocks:
            return made.cost < known.cost  # Stacked as well, if less so.
        if made.cost < _WORTH * known.cost:
            return True
        return made.cost < _MOST * known.cost and _issued(made) <= _FEWER * _issued(known)

    def is_surely_better(self, made: Plan) -> bool:
        """Whether the stacked plan `made` is to be preferred to any plan that transposes each
        matrix by itself, by estimate. False for few registers or single elements: there plans are
        compared."""
        _, shape = self.move.sources[0]
        if registers(self.move) <= SMALL or shape[self.dim] == 1:
            return False
        return self._usual() > _SURE * self.worth(made.cost)

    def worth(self, cost: float) -> float:
        """The most that a plan with a transpose per matrix may cost to be preferred to one of
        `cost`."""
        return cost / _WORTH

    def best(self, plan: Planner, most: float) -> Plan | None:
        """The cheapest plan, if it costs less than `most`; else None."""
        best: Plan | None = None
        for other, times in self.others():
            limit = most if best is None else best.cost
            if self._least(times) < limit:
                made = _stacked(self.move, self.dim, other, times, self.costs.below(limit), plan)
                if made is not None and made.cost < limit:
                    best = made
        return best

    def others(self) -> Iterator[tuple[int, int]]:
        """The dimensions that can be stacked, each with the number of matrices in a stack."""
        layout, shape = self.move.sources[0]
        for other, extent in enumerate(shape):
            if other in (self.dim, layout.lane_dim):
                continue
            fitting = range(1, LANES // shape[self.dim] + 1)
            times = max((k for k in fitting if extent % k == 0), default=1)
            if times >= _LEAST:
                yield other, times

    @property
    def _lanes(self) -> int:
        layout, shape = self.move.sources[0]
        assert layout.lane_dim is not None
        return shape[layout.lane_dim]

    def _block(self, rows: int) -> float:
        """The cost of transposing a block of `rows` rows."""
        layout, _ = self.move.sources[0]
        used = sum(-(-n // layout.native_rows) for n in (rows, self._lanes))
        return self.costs.transpose_block(self.move.destination[0].packing, used)

    @property
    def _blocks(self) -> int:
        """The number of transposed blocks if each matrix has its own."""
        _, shape = self.move.sources[0]
        sides = shape[self.dim], self._lanes
        return math.prod(shape) // math.prod(sides) * math.prod(-(-n // LANES) for n in sides)

    def _least(self, times: int) -> float:
        """A lower bound of the cost if `times` matrices are stacked."""
        _, shape = self.move.sources[0]
        target, result = self.move.destination
        least = self._stacks(times) * self._block(shape[self.dim] * times)
        return self.costs.copies * (least + _MOVED * target.register_count(result))

    def _stacks(self, times: int) -> int:
        """The number of transposed blocks if `times` matrices share one."""
        _, shape = self.move.sources[0]
        stacks = math.prod(shape) // (shape[self.dim] * times)
        return stacks // self._lanes * -(-self._lanes // LANES)

    def _usual(self) -> float:
        """An estimate of the cost of a transpose for each matrix."""
        (layout, shape), (target, result) = self.move.sources[0], self.move.destination
        total = self._block(shape[self.dim]) * self._blocks
        if layout.sublane_dim != self.dim:
            upright = VectorLayout(layout.bits, self.dim, layout.lane_dim)
            total += rows_exchanged(self.move.sources[0], (upright, shape))
        if _came_from(self.move, target.sublane_dim) != layout.lane_dim:
            turned = VectorLayout(layout.bits, layout.lane_dim, self.dim)
            total += rows_exchanged((turned, shape), (target, result))
        return self.costs.copies * total


def is_stacked_alike(move: Move, costs: Costs, known: Plan) -> bool:
    """Whether one of many copies, whose plan all have, may be stacked as well as all of them."""
    found = batch(move) if registers(move) > SMALL else None
    if found is None:
        return False
    whole, one = (Stacking.of(m, costs) for m in (move, found.core))
    mine, its = (dict[int, int]() if s is None else dict(s.others()) for s in (whole, one))
    if all(times <= its.get(other, 0) for other, times in mine.items()):
        return True
    return whole is not None and mine.keys() <= its.keys() and not whole.saves(known)


def _issued(plan: Plan) -> float:
    """Operations on registers and groups of them: blocks are put together and taken apart, and
    masks and index registers are made."""
    made = sum(preparation(step) for step in plan.steps)
    return plan.instructions + 2 * plan.count().get("TransposeBlocks", 0) + made


def _turned(move: Move) -> int | None:
    """The source dimension that the lanes of the destination run along.

    None if it is on the lanes of the source, too, if there is nothing to transpose, or if the
    movement does more than permute dimensions.
    """
    (layout, shape), (target, _) = move.sources[0], move.destination
    if len(move.sources) > 1:
        return None
    dim = _came_from(move, target.lane_dim)
    if dim is None or layout.lane_dim in (None, dim) or shape[dim] == shape[layout.lane_dim] == 1:
        return None
    if shape[dim] == 1 and _came_from(move, target.sublane_dim) == layout.sublane_dim:
        return None  # Rows that keep to the sublanes become columns of one element: rotated.
    return dim


def _came_from(move: Move, dim: int | None) -> int | None:
    """The source dimension that becomes `dim`; None unless dimensions are only permuted."""
    for step in reversed(move.steps):
        if dim is None or not isinstance(step, Transpose):
            return None
        dim = step.permutation[dim]
    return dim


def _stacked(
    move: Move, dim: int, other: int, times: int, costs: Costs, plan: Planner
) -> Plan | None:
    """The plan with `times` matrices along dimension `other` in one block, with rows along
    `dim`."""
    (layout, shape), bits = move.sources[0], move.bits
    assert layout.lane_dim is not None
    split = (*shape[:other], shape[other] // times, times, *shape[other + 1 :])

    def place(d: int) -> int:
        return d + (d > other)

    inside = (other + 1, place(dim), place(layout.lane_dim))
    order = (*(d for d in range(len(split)) if d not in inside), *inside)
    ordered = tuple([split[d] for d in order])
    lanes = shape[layout.lane_dim]
    stacked = (*ordered[:-3], times * shape[dim], lanes)
    native = VectorLayout.native(len(stacked), bits)
    there = (Reshape(shape, split), Transpose(ordered, order), Reshape(ordered, stacked))
    back = tuple(int(d) for d in np.argsort(order))
    again = (Reshape(stacked, ordered), Transpose(split, back), Reshape(split, shape))
    program = Program([Value(layout.grid_shape(shape), layout.packing)], bits, costs)
    apart = replace(costs, stacks=costs.stacks - 1)
    try:
        first = plan(Move(((layout, shape),), (native, stacked), there), apart)
        value = append(program, first, [0])
        value, turned = transpose_value(program, value, native, stacked)
        rest = Move(((turned, stacked),), move.destination, (*again, *move.steps))
        last = plan(rest, apart)
    except Unsupported:
        return None
    return program.plan(append(program, last, [value]), f"stack, transpose, {last.how}")
