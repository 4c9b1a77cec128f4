"""Operations that only say which register is which: indexing of grids, which emits nothing."""

from __future__ import annotations

from typing import cast

import numpy as np
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute

from pallasite.dialects import arith, grid
from pallasite.dialects.types import splat
from pallasite.lowering.tiles_to_vregs.grids import Registers, as_grid, everywhere
from pallasite.lowering.tiles_to_vregs.unroll import Unroller, rule


@rule(grid.SliceOp)
def unroll_slice(op: grid.SliceOp, u: Unroller) -> None:
    """The registers of a strided box."""
    boxes = zip(u.integers(op.offsets), u.integers(op.sizes), u.integers(op.strides), strict=True)
    index = tuple(slice(o, o + (n - 1) * s + 1, s) for o, n, s in boxes)
    u.define(op.results[0], u.registers(op.operands[0])[index])


@rule(grid.ConcatOp)
def unroll_concat(op: grid.ConcatOp, u: Unroller) -> None:
    """The registers of all operands, one operand after the other along a dimension."""
    parts = [u.registers(v) for v in op.operands]
    u.define(op.results[0], np.concatenate(parts, axis=op.dim.value.data))
    # Padding is known to be constant of single registers only, so folding may pay.
    u.counts |= any(_is_constant(part) for part in parts)


def _is_constant(registers: Registers) -> bool:
    """Whether the first of `registers` is a constant."""
    first = registers.flat[0] if registers.size else None
    return first is not None and type(first.owner) is arith.ConstantOp


@rule(grid.ReshapeOp)
def unroll_reshape(op: grid.ReshapeOp, u: Unroller) -> None:
    """The same registers, in row-major order."""
    u.define(op.results[0], u.registers(op.operands[0]).reshape(u.grid(op.results[0].type)))


@rule(grid.TransposeOp)
def unroll_transpose(op: grid.TransposeOp, u: Unroller) -> None:
    """The same registers in another order."""
    u.define(op.results[0], u.registers(op.operands[0]).transpose(u.integers(op.permutation)))


@rule(grid.BroadcastOp)
def unroll_broadcast(op: grid.BroadcastOp, u: Unroller) -> None:
    """The same registers, repeated."""
    u.define(
        op.results[0], np.broadcast_to(u.registers(op.operands[0]), u.grid(op.results[0].type))
    )


@rule(grid.PoisonOp)
def unroll_poison(op: grid.PoisonOp, u: Unroller) -> None:
    """Registers that nothing defines; they are None."""
    u.define(op.results[0], everywhere(None, u.grid(op.results[0].type)))


@rule(grid.TakeOp)
def unroll_take(op: grid.TakeOp, u: Unroller) -> None:
    """Registers by their number in row-major order; -1 gives poison."""
    # Index -1 picks the last register, the poison that is added here.
    registers = u.registers(op.operands[0]).reshape(-1)
    source = as_grid([*registers, None], (registers.size + 1,))
    taken = source[np.array(u.integers(op.indices), np.int64)]
    u.define(op.results[0], taken.reshape(u.grid(op.results[0].type)))


@rule(grid.PositionOp)
def unroll_position(op: grid.PositionOp, u: Unroller) -> None:
    """One splat constant per position along the counted dimension, `step` apart."""
    shape = u.grid(op.results[0].type)
    dim, step = op.dim.value.data, op.step.value.data
    kind = cast(VectorType[Attribute], u.register_type(op.results[0].type))
    ramp = [1] * len(shape)
    ramp[dim] = shape[dim]
    values = [{"value": splat(kind, p * step)} for p in range(shape[dim])]
    registers = as_grid([u.generated(arith.ConstantOp, (), kind, v) for v in values], ramp)
    u.define(op.results[0], np.broadcast_to(registers, shape))
    u.counts = True
