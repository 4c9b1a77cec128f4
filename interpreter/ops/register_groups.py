"""Groups of registers: row-major native tiles of one matrix, or of a stack of matrices.

The type of a group is that of the matrix (spec/vreg_lowering.md section 10.4); its registers
follow each other row by row.
"""

# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from functools import lru_cache

import numpy as np

from pallasite.dialects import tpu
from pallasite.dialects.registers import check_registers_of
from pallasite.dialects.types import register_rank, shape_of
from pallasite.interpreter.meanings import Facts, Function, meaning
from pallasite.interpreter.values import Array


@meaning(tpu.RollVectorsOp)
def roll_vectors(op: tpu.RollVectorsOp, facts: Facts) -> Function:
    """Registers, row by row, become the array that they are the native tiles of."""
    roll = rolled(op)
    return lambda *tiles: roll(np.stack(tiles))


def rolled(op: tpu.RollVectorsOp) -> Function:
    """What `op` means on its registers as one array."""
    check_registers_of(op, op.input.types, op.output.type)
    register = op.input[0].type
    rank = register_rank(register)
    shape = shape_of(op.output.type)
    sublanes, lanes = register.get_shape()[-rank:][:2]
    packing = register.get_shape()[-1] if rank == 3 else 1
    blocks = _blocks(shape, sublanes * packing, lanes)
    tiled = (*blocks, *register.get_shape())
    return lambda tiles: to_matrix(tiles.reshape(tiled), rank).reshape(shape)


@meaning(tpu.UnrollVectorsOp)
def unroll_vectors(op: tpu.UnrollVectorsOp, facts: Facts) -> Function:
    """The native tiles of an array, row by row."""
    unroll, count = unrolled(op), len(op.output)
    return lambda matrix: unroll(matrix)[0] if count == 1 else tuple(unroll(matrix))


def unrolled(op: tpu.UnrollVectorsOp) -> Function:
    """The registers that `op` makes, as one array."""
    check_registers_of(op, op.output.types, op.input.type)
    register = op.output[0].type
    rank, shape = register_rank(register), shape_of(op.input.type)
    tile = register.get_shape()
    packing = tile[2] if rank == 3 else 1
    blocks = _blocks(shape, tile[0] * packing, tile[1])

    def function(matrix: Array) -> Array:
        tiles = to_tiles(matrix.reshape(_matrix_shape(shape)), blocks[-2:], packing)
        return tiles.reshape(-1, *tile)

    return function


def _matrix_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape if len(shape) >= 2 else (1, *shape)


def _blocks(shape: tuple[int, ...], rows: int, columns: int) -> tuple[int, ...]:
    *lead, height, width = _matrix_shape(shape)
    return (*lead, height // rows, width // columns)


def to_matrix(tiles: Array, register_rank: int) -> Array:
    """Native tiles (..., R, C, 8, 128[, p]) as matrices (..., R*8*p, C*128)."""
    if register_rank == 2:
        *lead, rows, columns, sublanes, lanes = tiles.shape
        turned = tiles.transpose(_order(len(lead), (0, 2, 1, 3)))
        return turned.reshape(*lead, rows * sublanes, columns * lanes)
    *lead, rows, columns, sublanes, lanes, packing = tiles.shape
    turned = tiles.transpose(_order(len(lead), (0, 2, 4, 1, 3)))
    return turned.reshape(*lead, rows * sublanes * packing, columns * lanes)


def to_tiles(matrix: Array, blocks: tuple[int, ...], packing: int) -> Array:
    """The inverse of `to_matrix`, for `blocks` = (R, C); packing 1 makes 32-bit registers."""
    *lead, height, width = matrix.shape
    rows, columns = blocks
    sublanes, lanes = height // rows // packing, width // columns
    if packing == 1:
        split = matrix.reshape(*lead, rows, sublanes, columns, lanes)
        return split.transpose(_order(len(lead), (0, 2, 1, 3)))
    split = matrix.reshape(*lead, rows, sublanes, packing, columns, lanes)
    return split.transpose(_order(len(lead), (0, 3, 1, 4, 2)))


@lru_cache(maxsize=1 << 8)
def _order(lead: int, order: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation `order` of dimensions that come after so many others."""
    return (*range(lead), *(lead + axis for axis in order))
