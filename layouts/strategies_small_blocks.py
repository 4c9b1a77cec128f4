"""Transposes of many small matrices: several of them below one another in one block.

    %b = transpose %a, [0, 2, 1] : 256x4x8 to 256x8x4            256 blocks
becomes
    %s = reshape %a : 256x4x8 to 8x128x8
    %t = transpose %s, [0, 2, 1] : 8x128x8 to 8x8x128            8 blocks
    %b = reshape, transpose %t                                   32 matrices side by side
"""

from __future__ import annotations

import math

import numpy as np

from pallasite.diagnostics import Unsupported
from pallasite.layouts.move import Move, Reshape, Transpose
from pallasite.layouts.plan import Plan, Value
from pallasite.layouts.planner_costs import Costs
from pallasite.layouts.planner_program import Program
from pallasite.layouts.registers import LANES
from pallasite.layouts.strategies_transpose import Planner, append, transpose_value
from pallasite.layouts.vector_layout import VectorLayout

_LEAST = 4
"""Matrices that one block takes, for which it is worth the trouble."""
_MOVED = 4
"""What a register of the result costs at least, besides the transposes."""
_WORTH = 0.68
"""What the plan may cost, of that of a transpose for each matrix."""


def by_stacking(move: Move, costs: Costs, plan: Planner, known: Plan) -> Plan | None:
    """A cheaper plan than the one that is `known`, if one is to be expected; else None."""
    dim = _turned(move)
    if dim is None or move.bits not in costs.transpose_bits:
        return None
    layout, shape = move.sources[0]
    target, result = move.destination
    best: Plan | None = None
    for other, extent in enumerate(shape):
        if other in (dim, layout.lane_dim):
            continue
        fitting = range(1, LANES // shape[dim] + 1)
        times = max((k for k in fitting if extent % k == 0), default=1)
        if times < _LEAST:
            continue
        blocks = math.prod(shape) // (shape[dim] * times)
        assert layout.lane_dim is not None
        blocks = blocks // shape[layout.lane_dim] * -(-shape[layout.lane_dim] // LANES)
        least = blocks * costs.transpose_block + _MOVED * target.register_count(result)
        limit = _WORTH * _judged(known, dim, move, costs) if best is None else best.cost
        if costs.copies * least < limit:
            made = _stacked(move, dim, other, times, costs, plan)
            if made is not None and made.cost < limit:
                best = made
    return best


def _judged(known: Plan, dim: int, move: Move, costs: Costs) -> float:
    """The cost of a plan if blocks are transposed that small matrices leave empty but for a corner.

    Then only the registers that go in and come out take time: as long as rotations.
    """
    layout, shape = move.sources[0]
    assert layout.lane_dim is not None
    used = sum(-(-shape[d] // layout.native_rows) for d in (dim, layout.lane_dim))
    less = max(0.0, costs.transpose_block - costs.cross_lane * used)
    return known.cost - costs.copies * less * known.count().get("TransposeBlocks", 0)


def _turned(move: Move) -> int | None:
    """The dimension of the source that the lanes of the destination run along.

    None if these do so in the source, or if the movement does more than to permute dimensions.
    """
    (layout, _), (target, _) = move.sources[0], move.destination
    if len(move.sources) > 1 or target.lane_dim is None:
        return None
    dim = target.lane_dim
    for step in reversed(move.steps):
        if not isinstance(step, Transpose):
            return None
        dim = step.permutation[dim]
    return None if layout.lane_dim is None or dim == layout.lane_dim else dim


def _stacked(
    move: Move, dim: int, other: int, times: int, costs: Costs, plan: Planner
) -> Plan | None:
    """`times` matrices along dimension `other` in one block, whose rows are dimension `dim`."""
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
    try:
        first = plan(Move(((layout, shape),), (native, stacked), there), costs)
        value = append(program, first, [0])
        value, turned = transpose_value(program, value, native, stacked)
        rest = Move(((turned, stacked),), move.destination, (*again, *move.steps))
        last = plan(rest, costs)
    except Unsupported:
        return None
    return program.plan(append(program, last, [value]), f"stack, transpose, {last.how}")
