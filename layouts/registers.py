"""Shapes of hardware registers and of grids of registers.

A vector register holds 8 sublanes x 128 lanes of 32-bit words; an element narrower than 32 bits
shares its word with its neighbours *below* it (rows), so a register of a packed type has a third,
trailing dimension of size `packing`. A grid of registers only adds leading dimensions
(spec/grid_form.md section 1; spec/vreg_lowering.md sections 0.1 and 1.1).
"""

from __future__ import annotations

from collections.abc import Sequence

SUBLANES = 8
REACH = 16
"""The first row of words that a shuffled load does not reach, counted from its first one: so it was
tried on v4, v5e and v6e."""
LANES = 128
PACKINGS = (2, 4, 8, 16)


def packing(bits: int) -> int:
    """Elements of `bits` bits in one 32-bit word."""
    return 32 // bits if bits < 32 else 1


def register_shape(bits: int) -> tuple[int, ...]:
    """The vector shape of one register of `bits`-bit elements: (8, 128) or (8, 128, packing)."""
    return (SUBLANES, LANES) if bits >= 32 else (SUBLANES, LANES, packing(bits))


def native_tile(bits: int) -> tuple[int, int]:
    """Rows and columns of the matrix block that fills one register."""
    return (SUBLANES * packing(bits), LANES)


def split_shape(shape: Sequence[int], bits: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Splits `shape` into (grid, register), or returns None if it is not a grid of registers.

    `bits` is the element width; masks (`bits == 1`) end in (8, 128) as word masks, or in
    (8, 128, p) with p in 2, 4, 8, 16, which is unambiguous because p is never 128.
    """
    shape = tuple(shape)
    if bits == 1:
        if shape[-2:] == (SUBLANES, LANES):
            return shape[:-2], shape[-2:]
        if shape[-3:-1] == (SUBLANES, LANES) and shape[-1] in PACKINGS:
            return shape[:-3], shape[-3:]
        return None
    register = register_shape(bits)
    if shape[len(shape) - len(register) :] != register or len(shape) < len(register):
        return None
    return shape[: len(shape) - len(register)], register
