"""Address arithmetic against `Tiling.offset`, element by element."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pallasite.interpreter.machine import boxes
from pallasite.interpreter.machine.boxes import digits_of
from pallasite.layouts.tiling import (
    Tiling,
    contiguous_strides,
    infer_tiling,
    native_tiling,
    offset_of,
)


def tilings() -> list[tuple[tuple[int, ...], Tiling]]:
    shapes = [(300,), (2048,), (20, 300), (3, 40, 256), (2, 3, 8, 128), (5, 130)]
    found = []
    for shape, bits in itertools.product(shapes, (32, 16, 8, 4)):
        found.append((shape, infer_tiling(shape, bits)))
        found.append((shape, native_tiling(shape, bits)))
        found.append((shape, Tiling((), contiguous_strides(shape, ()))))
    return found


def brute(tiling: Tiling, starts, sizes, steps) -> np.ndarray:
    out = np.empty(sizes, np.int64)
    for position in np.ndindex(*sizes):
        index = [s + p * k for s, p, k in zip(starts, position, steps, strict=True)]
        out[position] = tiling.offset(index)
    return out


def covered(pieces, sizes) -> np.ndarray:
    out = np.full(sizes, -1, np.int64)
    for piece in pieces:
        offsets = np.asarray(piece.base)
        for extent, stride in zip(piece.shape, piece.strides, strict=True):
            offsets = offsets[..., None] + stride * np.arange(extent)
        part = out if piece.part is None else out[piece.part]
        part.reshape(piece.shape)[...] = offsets
    return out


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(tilings()), st.data())
def test_pieces_cover_the_box_with_the_addresses_of_the_tiling(case, data):
    shape, tiling = case
    starts = tuple(data.draw(st.integers(0, n - 1)) for n in shape)
    sizes = tuple(
        data.draw(st.integers(1, min(n - s, 40))) for n, s in zip(shape, starts, strict=True)
    )
    digits = digits_of(tiling)
    pieces = boxes.pieces(digits, starts, sizes, None, 1)
    assert pieces is not None
    expected = brute(tiling, starts, sizes, (1,) * len(shape))
    np.testing.assert_array_equal(covered(pieces, sizes), expected)
    np.testing.assert_array_equal(boxes.gather(digits, starts, sizes, (1,) * len(shape)), expected)


@pytest.mark.parametrize(
    "views",
    [
        [((4, 8), (8, 1), 0)],
        [((4, 8), (4, 1), 0)],
        [((8, 4), (1, 8), 3)],
        [((3, 2), (2, 3), 0)],
        [((3, 3), (2, 3), 0)],
        [((4,), (-1,), 3)],
        [((4, 1), (0, 5), 3)],
        [((4,), (2,), 0), ((4,), (2,), 1)],
        [((4,), (2,), 0), ((4,), (2,), 6)],
        [],
    ],
    ids=str,
)
def test_elements_in_two_places_are_found(views):
    pieces = [boxes.Piece(None, shape, base, strides, -1) for shape, strides, base in views]
    places = [place for shape, strides, base in views
              for place in boxes.offsets(shape, strides, base).ravel().tolist()]  # fmt: skip
    assert boxes.apart(pieces) == (len(set(places)) == len(places))


def test_aligned_boxes_are_one_piece():
    digits = digits_of(native_tiling((64, 512), 16))
    assert len(boxes.pieces(digits, (16, 128), (32, 256), None, 2) or ()) == 1


def test_a_pair_axis_is_found_only_where_words_are_whole():
    digits = digits_of(native_tiling((64, 256), 16))
    (whole,) = boxes.pieces(digits, (0, 0), (64, 256), None, 2) or ()
    assert whole.shape[whole.pair] == 2 and whole.strides[whole.pair] == 1
    odd = boxes.pieces(digits, (1, 0), (1, 256), None, 2) or ()
    assert all(piece.pair == -1 for piece in odd)


def test_negative_coordinates_continue_downwards():
    (rows, _) = digits_of(native_tiling((32, 128), 32))
    assert offset_of(rows, -3) == -3 * 128


@pytest.mark.parametrize(
    ("axes", "shape", "expected"),
    [
        ([(4, 32), (8, 4), (4, 1)], (128,), (((0, 1),),)),
        ([(6, 10)], (2, 3), (((0, 30),), ((0, 10),))),
        ([(6, 10)], (4,), None),
        ([(2, 100), (3, 1)], (3, 2), None),
        # Axes that continue each other are cut anew.
        ([(2, 60), (6, 10)], (3, 4), (((0, 40),), ((0, 10),))),
    ],
)
def test_regroup(axes, shape, expected):
    assert boxes.regroup(axes, shape) == expected


def places(shape: tuple[int, ...], tiling: Tiling) -> np.ndarray:
    """Where each element of an array lies, by its index."""
    return brute(tiling, (0,) * len(shape), shape, (1,) * len(shape))


SEEN = [
    ((16, 256), Tiling(((8, 128),), (2, 1)), (2, 8, 256), Tiling(((1, 128),), (16, 1, 8))),
    ((16, 256), Tiling(((8, 128),), (2, 1)), (2, 2, 8, 128), Tiling(((8, 128),), (2, 1, 1, 1))),
    ((16, 256), Tiling(((8, 128),), (2, 1)), (32, 128), Tiling(((8, 128),), (1, 1))),
    ((16, 256), Tiling(((8, 128),), (2, 1)), (4096,), Tiling(((1024,),), (1,))),
    ((3, 8, 384), Tiling(((8, 128),), (3, 3, 1)), (24, 384), Tiling(((8, 128),), (3, 1))),
    ((3, 8, 384), Tiling(((8, 128),), (3, 3, 1)), (3, 8, 384), Tiling(((1, 128),), (24, 1, 8))),
    ((8, 512), Tiling(((4, 128),), (4, 1)), (2, 4, 2, 256), Tiling(((1, 128),), (16, 1, 8, 4))),
    (
        (16, 256), Tiling(((8, 128), (2, 1)), (2, 1)),
        (2, 4, 2, 256), Tiling(((2, 128), (2, 1)), (8, 1, 4, 4)),
    ),
    ((16, 256), Tiling((), (256, 1)), (8, 2, 256), Tiling((), (512, 256, 1))),
    ((1, 8, 128), Tiling(((8, 128),), (1, 1, 1)), (8, 1, 128), Tiling(((1, 128),), (1, 1, 1))),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "tiling", "seen", "tiles"), SEEN)
def test_a_view_of_the_same_elements_in_row_major_order(shape, tiling, seen, tiles) -> None:
    row_major = boxes.row_major_view(shape, tiling, seen, tiles)
    # Which element of the array, by its number, lies at each place in memory.
    at = np.empty(np.prod(shape), np.int64)
    at[places(shape, tiling).ravel()] = np.arange(at.size)
    expected = at[places(seen, tiles)]
    if row_major is None:
        # No sum over the dimensions is all of these.
        assert not _is_sum(expected)
        return
    found = boxes.gather(row_major, (0,) * len(seen), seen, (1,) * len(seen))
    np.testing.assert_array_equal(found, expected)


def _is_sum(places: np.ndarray) -> bool:
    """Whether a table of offsets is a sum over its dimensions."""
    first = places[(0,) * places.ndim]
    total = np.full(places.shape, first)
    for dim in range(places.ndim):
        line = tuple([slice(None) if d == dim else slice(1) for d in range(places.ndim)])
        total += places[line] - first
    return bool((total == places).all())


@pytest.mark.parametrize(
    ("shape", "tiling", "seen", "tiles"),
    [
        # Padding of rows, of columns, and of what is seen.
        ((12, 256), Tiling(((8, 128),), (2, 1)), (2, 8, 256), Tiling(((1, 128),), (16, 1, 8))),
        ((16, 200), Tiling(((8, 128),), (2, 1)), (2, 8, 200), Tiling(((1, 128),), (16, 1, 8))),
        ((16, 256), Tiling(((8, 128),), (2, 1)), (15, 256), Tiling(((8, 128),), (2, 1))),
        # Parts of it, elements twice, and none.
        ((16, 256), Tiling(((8, 128),), (2, 1)), (8, 256), Tiling(((8, 128),), (2, 1))),
        ((16, 256), Tiling(((8, 128),), (2, 1)), (2, 8, 256), Tiling(((1, 128),), (16, 0, 8))),
        ((0, 256), Tiling(((8, 128),), (2, 1)), (0, 256), Tiling(((8, 128),), (2, 1))),
        # Tiles that do not cut each other into whole ones.
        ((16, 256), Tiling(((8, 128), (3, 1)), (2, 1)), (16, 256), Tiling(((8, 128),), (2, 1))),
    ],
)
def test_no_such_view(shape, tiling, seen, tiles) -> None:
    assert boxes.row_major_view(shape, tiling, seen, tiles) is None
