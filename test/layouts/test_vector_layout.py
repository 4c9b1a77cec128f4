"""Layout formulas against spec/vreg_lowering.md sections 1.2 and 9.2."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pallasite.diagnostics import Unsupported, UsageError
from pallasite.layouts.vector_layout import VectorLayout


@pytest.mark.parametrize(
    ("shape", "layout", "grid"),
    [
        ((16, 256), VectorLayout.native(2, 32), (2, 2)),
        ((5, 200), VectorLayout.native(2, 32, 3, 5), (1, 2)),
        ((5, 200), VectorLayout.native(2, 32, 4, 60), (2, 3)),
        ((3, 40, 256), VectorLayout.native(3, 16), (3, 3, 2)),
        ((300,), VectorLayout.native(1, 32), (1, 3)),
        ((), VectorLayout.native(0, 32), (1, 1)),
        ((64, 1), VectorLayout.native(2, 32, 0, None), (8, 1)),
        ((64, 256), VectorLayout.native(2, 32, 0, None), (8, 1)),
        ((64, 128), VectorLayout.replicated(2, 8), (1, 1)),
        ((16, 512), VectorLayout(32, 0, 1, tile_rows=1), (16, 1)),
        ((16, 512), VectorLayout(16, 0, 1, tile_rows=8), (2, 2)),
        ((16, 8, 128), VectorLayout(32, 0, 2), (8, 2, 1)),
        ((16, 8), VectorLayout(32, None, 0), (8, 1, 1)),
    ],
)
def test_grid_shape(shape: tuple[int, ...], layout: VectorLayout, grid: tuple[int, ...]):
    assert layout.grid_shape(shape) == grid


def test_packed_rows_share_words():
    register, row, lane = VectorLayout.native(2, 16).locate(
        (32, 128), [np.array([0, 1, 2, 17]), np.array([5, 5, 5, 5])]
    )
    assert register.tolist() == [0, 0, 0, 1]
    assert row.tolist() == [0, 1, 2, 1]  # sublane 0 low, sublane 0 high, sublane 1 low, ...
    assert lane.tolist() == [5, 5, 5, 5]


def test_small_tiles_follow_each_other_along_the_lanes():
    layout = VectorLayout(32, 0, 1, tile_rows=2)
    register, row, lane = layout.locate((4, 1024), [np.array([1, 3, 0]), np.array([300, 600, 512])])
    assert register.tolist() == [0, 3, 1]
    assert row.tolist() == [2 * 2 + 1, 3 % 2, 0]
    assert lane.tolist() == [300 - 256, 600 - 512, 0]


@st.composite
def placed(draw: st.DrawFn) -> tuple[tuple[int, ...], VectorLayout]:
    rank = draw(st.integers(0, 4))
    shape = tuple(draw(st.lists(st.integers(1, 40), min_size=rank, max_size=rank)))
    dims = draw(st.permutations(range(rank)))
    bits = draw(st.sampled_from([32, 16, 8, 4]))
    lane = dims[0] if rank > 0 and draw(st.booleans()) else None
    sublane = dims[1] if rank > 1 and draw(st.booleans()) else None
    tile = 8 * (32 // bits) >> draw(st.integers(0, 3))
    row = draw(st.integers(0, tile - 1))
    column = draw(st.integers(0, 8 * (32 // bits) // tile * 128 - 1))
    return shape, VectorLayout(bits, sublane, lane, row, column, tile)


@settings(deadline=None, max_examples=60)
@given(placed())
def test_elements_inverts_locate(case: tuple[tuple[int, ...], VectorLayout]):
    shape, layout = case
    index = list(np.indices(shape, np.int64)) if shape else []
    register, row, lane = layout.locate(shape, index)
    assert np.max(register) < layout.register_count(shape)
    places = (register * layout.native_rows + row) * 128 + lane
    assert np.unique(places).size == math.prod(shape)
    back, valid = layout.elements(shape, register, row, lane)
    assert np.all(valid)
    for number, expected in zip(back, index, strict=True):
        np.testing.assert_array_equal(number, expected)


def test_wrong_layouts_are_refused():
    with pytest.raises(UsageError, match=r"row offset must be in \[0, 8\), got 8"):
        VectorLayout.native(2, 32, 8)
    with pytest.raises(Unsupported, match="1, 2, 4, 8, 16 or 32 bits, got 64"):
        VectorLayout.native(2, 64)
    with pytest.raises(UsageError, match="tile rows must divide 16, got 3"):
        VectorLayout(16, 0, 1, tile_rows=3)
