"""Parts of scalar memory of which scalars are read; libtpu 0.0.51 was asked about each."""

from __future__ import annotations

import pytest

from ..checking import SMEM, judged, memref, part


def scalar(shape: str, *offsets_and_sizes: tuple[int | str, int]) -> str:
    """A scalar of a part of SMEM."""
    *_, element = shape.split("x")
    sizes = [str(size) for _, size in offsets_and_sizes]
    load = f"%v = memref.load %w[{', '.join(['%c0'] * len(sizes))}] : "
    load += memref("x".join([*sizes, element]), SMEM)
    text = part(shape, *offsets_and_sizes, space=SMEM).rstrip().removesuffix("return\n    }")
    return f"{text}{load}\n return }}"


@pytest.mark.parametrize(
    ("shape", "part", "fits"),
    [
        # Flat arrays and single columns of tiles are cut anywhere.
        ("300xi32", [("d1", 20)], True), ("300xi32", [(130, 150)], True),
        ("16x128xi32", [("d1", 3), ("d1", 100)], True),
        # Rows as for transfers, lanes at known places within a tile.
        ("32x256xi32", [("d1", 1), (0, 256)], True), ("32x256xi32", [(6, 4), (0, 256)], True),
        ("32x256xi32", [("d4", 4), (128, 128)], True), ("16x256xi32", [(5, 1), (28, 100)], True),
        ("6x256xi32", [("d1", 4), (0, 256)], True),
        ("32x256xi32", [("d2", 4), (0, 256)], False), ("32x256xi32", [(7, 4), (0, 256)], False),
        ("32x256xi32", [("d8", 3), (0, 256)], False), ("32x256xi32", [(0, 12), (0, 256)], False),
        ("16x256xi32", [(7, 1), (100, 100)], False), ("16x256xi32", [(0, 1), ("d1", 100)], False),
        # Narrow rows by whole words, and lanes anywhere, of single columns of tiles.
        ("4x8xi8", [(0, 4), ("d1", 3)], True), ("4x100xbf16", [(2, 2), (5, 90)], True),
        ("63x100xi8", [(60, 3), (1, 2)], True), ("64x100xi8", [("d4", 8), ("d1", 2)], True),
        ("3x100xbf16", [(0, 3), ("d1", 2)], True), ("64x100xi8", [(4, 2), (0, 100)], False),
        ("16x100xbf16", [("d1", 2), (0, 100)], False), ("8xi8", [("d1", 3)], False),
        ("4x256xbf16", [(0, 4), (100, 100)], False),
        # Lanes of wide arrays within one tile.
        ("4x256xbf16", [(0, 4), (131, 60)], True), ("64x256xi8", [(32, 32), (0, 64)], True),
        ("24x256xi32", [(0, 8), (131, 9)], True), ("24x256xi32", [(8, 16), (131, 9)], False),
        ("30x256xi8", [(0, 30), (3, 6)], False), ("64x256xi32", [("d8", 8), ("d128", 64)], True),
        ("300xbf16", [(5, 4)], False),
        # Lanes half in one tile and half in the next, or at multiples of their number.
        ("8x256xi32", [(0, 8), ("d1", 1)], True), ("16x256xi32", [("d1", 1), ("d8", 8)], True),
        ("8x256xi32", [(0, 8), (124, 8)], True), ("8x256xi32", [(0, 8), (123, 8)], False),
        ("8x256xi32", [(0, 8), ("d1", 8)], False), ("8x256xi32", [(0, 8), ("d128", 100)], False),
        ("16x256xi32", [(0, 16), ("d1", 1)], False), ("16x256xi32", [(4, 8), ("d1", 1)], False),
        ("16x256xi8", [(4, 8), ("d1", 1)], True), ("16x256xi8", [(4, 4), (96, 64)], True),
        # Anywhere in an array of one row of words.
        ("1x256xi32", [(0, 1), ("d1", 100)], True), ("2x256xbf16", [(0, 2), (123, 8)], True),
        ("2x256xi32", [(0, 2), (123, 8)], False), ("1x256xi8", [("d1", 1), ("d1", 1)], False),
    ],
)  # fmt: skip
def test_scalars_of_parts(shape: str, part: list[tuple[int | str, int]], fits: bool) -> None:
    judged(scalar(shape, *part), fits)
