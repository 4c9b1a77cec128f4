"""How the TPU compiler tiles arrays that do not say it themselves."""

from __future__ import annotations

from pallasite.layouts.registers import SUBLANES, packing


def tile_rows(rows: int, bits: int) -> int:
    """Rows of a tile of an array with `rows` rows, as the compiler's proofs demand it.

    Asked of libtpu 0.0.51 for v4 to v7x: whole registers of 8-bit and narrower types where they
    divide the rows, else 8 rows, else the power of two that holds them all.
    """
    packed = packing(bits)
    normal = max(SUBLANES, packed)
    large = SUBLANES * packed
    if bits <= 8 and rows % large == 0:
        return large
    size = packed
    while size < min(rows, normal):
        size *= 2
    return min(size, normal)
