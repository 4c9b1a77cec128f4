"""Tiles of arrays of words that are seen in another shape."""

from __future__ import annotations

import numpy as np
import pytest

from pallasite.layouts.tiling import Tiling, contiguous_strides, infer_tiling, refolded

Shape = tuple[int, ...]
FITS = [
    ((32, 256), (8, 4, 256), (2, 4, 128)),
    ((32, 256), (32, 1, 256), (8, 1, 128)),
    ((32, 256), (4, 2, 2, 2, 256), (2, 2, 2, 128)),
    ((32, 200), (4, 1, 2, 1, 4, 200), (2, 1, 4, 128)),
    ((3, 16, 256), (12, 4, 256), (2, 4, 128)),
    ((4, 8, 256), (32, 256), (8, 128)),
    ((4, 4, 256), (16, 256), (4, 128)),
    ((4, 2, 256), (2, 4, 256), (2, 128)),
    ((12, 256), (12, 1, 256), (8, 1, 128)),
    ((2, 3, 256), (2, 3, 1, 256), (4, 1, 128)),
    ((16, 256), (16, 2, 128), (8, 1, 128)),
    ((16, 512), (16, 2, 256), (8, 1, 128)),
    ((32, 512), (2, 16, 2, 1, 256), (8, 1, 1, 128)),
    ((16, 256), (4, 4, 2, 128), (2, 4, 1, 128)),
    ((2, 12, 256), (1, 2, 12, 2, 128), (8, 1, 128)),
    ((5, 3, 256), (5, 3, 2, 128), (4, 1, 128)),
]
CUT = [
    ((12, 256), (3, 4, 256)), ((24, 256), (4, 6, 256)), ((6, 256), (3, 2, 256)),
    ((2, 3, 256), (6, 1, 256)), ((32, 256), (64, 128)), ((12, 200), (12, 1, 200)),
    ((3, 256), (1, 3, 2, 128)), ((12, 256), (1, 12, 1, 256)), ((12, 256), (6, 2, 2, 128)),
    ((16, 320), (16, 5, 64)), ((16, 200), (16, 2, 100)),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "tile"), FITS)
def test_no_element_moves(old: Shape, new: Shape, tile: Shape) -> None:
    tiling = infer_tiling(old, 32)
    seen = refolded(tiling, old, new)
    assert seen == Tiling((tile,), contiguous_strides(new, tile))
    for number in np.random.default_rng(0).integers(0, np.prod(old), 50):
        before, after = (tuple(map(int, np.unravel_index(number, s))) for s in (old, new))
        assert tiling.offset(before) == seen.offset(after)
    assert refolded(seen, new, old) == tiling


@pytest.mark.parametrize(("old", "new"), CUT)
def test_elements_would_move(old: Shape, new: Shape) -> None:
    assert refolded(infer_tiling(old, 32), old, new) is None
