"""Refuses rotations whose amount differs along a dimension (`pltpu.roll` with a stride).

`--allow-beyond-reference` lifts all but `rotation_along_lanes`. Every rule was found by asking
libtpu 0.0.51 (v4 to v7x) about kernels of one rotation, of ranks 2 to 4, f32, bf16 and i8.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute

from pallasite.dialects import tpu
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import bit_width
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.passes.divisibility import constant_of
from pallasite.targets import Target

ANY_AMOUNTS = (
    "rotate by powers of two, and choose: for b in range((n - 1).bit_length()): "
    "x = jnp.where((amounts >> b) & 1 == 1, pltpu.roll(x, 1 << b, axis), x)",
    "with n = x.shape[axis] and amounts = (amount + stride * "
    "lax.broadcasted_iota(jnp.int32, x.shape, stride_axis)) % n",
)
"""Advice: what to write for rotations by different amounts, along any dimension."""


def rotation_along_lanes(op: tpu.DynamicRotateOp, target: Target) -> None:
    """Refuses a stride along the lanes: no unit rotates each column by its own amount."""
    if op.stride is None or op.stride_dimension is None:
        return
    shape = cast("VectorType[Attribute]", op.operands[0].type).get_shape()
    stride = op.stride.value.data % shape[op.dimension.value.data]
    if stride and op.stride_dimension.value.data == len(shape) - 1:
        raise refusal(
            op, "rotate-stride", "a rotation whose amount varies along lanes is not supported",
            "the cross-lane unit rotates whole rows, and registers are renamed whole", *ANY_AMOUNTS,
        )  # fmt: skip


def strided_rotation(op: tpu.DynamicRotateOp, target: Target) -> None:
    """Refuses strides along rows that the cross-lane unit does not have, and partial registers.

    A stride along a leading dimension is a separate rotation for each index. A stride along rows is
    a feature of the cross-lane unit, which needs a constant amount.
    """
    if op.stride is None or op.stride_dimension is None:
        return
    kind = cast("VectorType[Attribute]", op.operands[0].type)
    shape, bits, dim = kind.get_shape(), bit_width(kind), op.dimension.value.data
    rank, along = len(shape), op.stride_dimension.value.data
    stride, amount = op.stride.value.data % shape[dim], constant_of(op.operands[1])
    if not stride:
        return  # all go round by the same amount
    if along == rank - 2:
        if dim != rank - 1 or bits not in target.strided_rotate_bits:
            widths = " or ".join(map(str, sorted(target.strided_rotate_bits)))
            known = (
                f"rotates rows of {widths}-bit elements along lanes" if widths else "has no such"
            )
            raise refusal(
                op, "rotate-stride", f"{target.name} cannot rotate the rows of a matrix of "
                f"{kind.element_type} by different amounts along dimension {dim}",
                f"its cross-lane unit {known}" + ("" if widths else " rotation"),
                *ANY_AMOUNTS,
            )  # fmt: skip
        if amount is None:
            raise refusal(
                op, "rotate-stride", "rows cannot be rotated by different amounts that are only "
                "known at run time",
                "the cross-lane unit's stride comes with a constant amount",
                "rotate by the stride with a constant amount first, then all rows by the other",
            )  # fmt: skip
    unit = {rank - 1: LANES, rank - 2: SUBLANES * packing(bits)}.get(dim, 1)
    if shape[dim] % unit:
        raise refusal(
            op, "rotate-stride", f"a rotation with a stride along {shape[dim]} elements of "
            f"dimension {dim} is not supported",
            f"it goes round whole registers, which have {unit} of {kind.element_type}",
            *ANY_AMOUNTS,
        )  # fmt: skip
    if along == rank - 2:
        _within_register(op, amount or 0, stride)


def _within_register(op: tpu.DynamicRotateOp, amount: int, stride: int) -> None:
    """Refuses a stride for which the rows of one register would be rotated by over 128 lanes."""
    kind = cast("VectorType[Attribute]", op.operands[0].type)
    rows, held = kind.get_shape()[-2], SUBLANES * packing(bit_width(kind))
    most = max((amount + first * stride) % LANES for first in range(0, rows, held))
    most += (held - 1) * stride
    if most > LANES:
        raise refusal(
            op, "rotate-stride", f"the TPU compiler cannot rotate rows of one register by up to "
            f"{most} lanes",
            f"a register holds {held} rows of {kind.element_type}, and its cross-lane unit rotates "
            f"them by at most {LANES} lanes at once",
            *ANY_AMOUNTS,
        )  # fmt: skip
