"""What plans cost where registers of the sources are the same."""

from __future__ import annotations

import numpy as np
import pytest

from pallasite.layouts.move import Move
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.distinct import distinct_cost
from pallasite.layouts.planner.planner import plan
from pallasite.layouts.vector_layout import VectorLayout

SHAPES = [((128, 8, 128), (1, 2, 0)), ((6, 40, 256), (1, 0, 2)), ((4, 100, 72), (0, 2, 1))]


@pytest.mark.parametrize("shape,permutation", SHAPES)
@pytest.mark.parametrize("bits", [32, 16, 8])
def test_copies_are_moved_once(
    bits: int, shape: tuple[int, ...], permutation: tuple[int, ...]
) -> None:
    native = VectorLayout.native(3, bits)
    made = plan(Move.transpose((native, shape), native, permutation), Costs())
    grid = native.grid_shape(shape)
    numbers = np.arange(np.prod(grid))
    # What is computed from the same registers is seen to be the same here already.
    every = distinct_cost(made, Costs(), [numbers])
    assert every <= made.cost
    some = numbers[: int(np.prod(grid[1:]))]
    few = distinct_cost(made, Costs(), [np.tile(some, grid[0])])
    assert few < every
    assert distinct_cost(made, Costs(), [numbers * 0]) <= few
