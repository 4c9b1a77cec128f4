"""Refuses operations on vectors of booleans that the TPU compiler does not lower.

Such vectors are in mask registers, which no unit moves. Our own lowering moves masks as words of 0
and 1, so `--allow-beyond-reference` lifts the refusals. All of it was asked of libtpu 0.0.51.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import arith, scf, tpu, vector
from pallasite.dialects.arith import known_number
from pallasite.dialects.in_words import in_words
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import AnyVector, bit_width
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.passes.check_kernel.reshapes import reshaped_from
from pallasite.passes.check_kernel.rules import RuleTable
from pallasite.targets import Target


def _carried_masks(op: Operation, target: Target) -> None:
    """Refuses loops and branches with masks as results or arguments."""
    carried = [*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)]
    for value in carried:
        kind = value.type
        if isinstance(kind, VectorType) and bit_width(kind) == 1:
            raise refusal(
                op, "carried-mask", f"{in_words(op)} carries a vector of booleans",
                "mask registers do not cross the borders of loops and branches",
                "carry jnp.where(mask, 1, 0) and compare with zero inside",
            )  # fmt: skip


def _mask_reshape(op: vector.ShapeCastOp, target: Target) -> None:
    """Refuses reshapes that move masks between lanes.

    The compiler does those that keep the last dimension, those of a single lane, and adding a last
    dimension of 1 to a mask that lies along the sublanes because its lanes were reduced.
    """
    value = reshaped_from(op)
    if value is None:
        return
    source, result = (cast(AnyVector, v.type) for v in (value, op.results[0]))
    old, new = source.get_shape(), result.get_shape()
    if bit_width(source) != 1 or not old or not new or old[-1] in (1, new[-1]):
        return
    if [n for n in old if n != 1] == [n for n in new if n != 1]:
        if new[-1] == 1 and _without_lanes(value):
            return
    raise refusal(
        op, "mask-reshape", f"cannot reshape booleans of shape {list(old)} to {list(new)}",
        "mask registers hold one bit per word and do not move from lane to lane",
        "reshape jnp.where(mask, 1, 0) and compare with zero",
    )  # fmt: skip


def _without_lanes(value: SSAValue, depth: int = 8) -> bool:
    """Whether `value` comes, by elementwise operations, from a reduction over the lanes."""
    op = value.owner
    if isinstance(op, vector.MultiReductionOp):
        last = len(cast(AnyVector, op.source.type).get_shape()) - 1
        return last in tuple(op.reduction_dims.get_values())
    if not isinstance(op, Operation) or op.dialect_name() != "arith" or not depth:
        return False
    return any(_without_lanes(operand, depth - 1) for operand in op.operands)


def _mask_transpose(op: tpu.TransposeOp | vector.TransposeOp, target: Target) -> None:
    """Refuses transposes that keep the lanes; the compiler does the others by way of words."""
    kind = cast(AnyVector, op.operands[0].type)
    order = [int(d) for d in op.permutation.get_values()]
    if bit_width(kind) != 1 or order == sorted(order) or order[-1] != len(order) - 1:
        return
    raise refusal(
        op, "mask-transpose", f"cannot permute the rows of booleans of shape "
        f"{list(kind.get_shape())} by {order}",
        "mask registers hold one bit per word and do not move from sublane to sublane",
        "transpose jnp.where(mask, 1, 0) and compare with zero",
    )  # fmt: skip


def _mask_concatenation(op: tpu.ConcatenateOp, target: Target) -> None:
    """Refuses concatenations of masks whose pieces do not start at a whole register."""
    dim = op.dimension.value.data
    shapes = [cast(AnyVector, v.type).get_shape() for v in op.operands]
    if bit_width(op.operands[0].type) != 1:
        return
    rank = len(shapes[0])
    unit = {1: LANES, 2: SUBLANES}.get(rank - dim, 1) if rank > 1 else SUBLANES * LANES
    start = 0
    for shape in shapes[:-1]:
        start += shape[dim]
        if start % unit:
            raise refusal(
                op, "mask-concatenate", f"cannot concatenate booleans at element {start} of "
                f"dimension {dim}", f"mask registers do not move, and this one starts at a "
                f"multiple of {unit} only",
                "concatenate jnp.where(mask, 1, 0) and compare with zero",
            )  # fmt: skip


def _flat_concatenation(op: tpu.ConcatenateOp, target: Target) -> None:
    """Refuses concatenations of rank 1 whose pieces do not start at a row of words, on targets that
    cannot mask elements within a word."""
    kind = cast(AnyVector, op.operands[0].type)
    if len(kind.get_shape()) != 1 or masks_elements(kind, target):
        return
    start, whole = 0, LANES * packing(bit_width(kind))
    for piece in op.operands[:-1]:
        start += cast(AnyVector, piece.type).get_shape()[0]
        if start % whole:
            raise refusal(
                op, "byte-mask", f"{target.name} cannot concatenate {kind.element_type} of one "
                f"dimension at element {start}",
                f"that masks single elements of words, which {target.name} does not have of so few "
                "bits",
                f"concatenate at multiples of {whole} elements, or cast to 32 bits before and back "
                "after",
            )  # fmt: skip


def masks_elements(kind: AnyVector, target: Target) -> bool:
    """Whether mask registers of `target` have a bit for each element of a word of such vectors."""
    bits = bit_width(kind)
    return bits in (1, 16, 32) or packing(bits) <= target.max_mask_subelements


def _mask_rotation(op: tpu.DynamicRotateOp, target: Target) -> None:
    """Refuses rotations of masks."""
    if bit_width(op.operands[0].type) == 1:
        raise refusal(
            op, "mask-rotate", f"{in_words(op)} of booleans is not supported",
            "the cross-lane unit rotates words, not mask registers",
            "rotate jnp.where(mask, 1, 0) and compare with zero",
        )  # fmt: skip


def _mask_bitcast(op: tpu.BitcastOp, target: Target) -> None:
    """Refuses bitcasts of masks, even to their own type."""
    if bit_width(op.operands[0].type) == 1:
        raise refusal(
            op, "mask-bitcast", f"{in_words(op)} of booleans is not supported",
            "mask registers hold no words", "leave the bitcast to bool out: it changes nothing",
            "the TPU compiler says: Invalid input layout",
        )  # fmt: skip


def _spread(mask: SSAValue) -> bool:
    """Whether `mask` is a broadcast of a constant boolean."""
    made = mask.owner
    return isinstance(made, vector.BroadcastOp) and known_number(made.operands[0]) is not None


def _mask_choice(op: arith.SelectOp, target: Target) -> None:
    """Refuses selections between masks, unless the condition or both masks are constant.

    Two masks that are computed equally are refused, too: the compiler merges them only later.
    """
    if not isinstance(op.result.type, VectorType) or bit_width(op.result.type) != 1:
        return
    condition, *values = op.operands
    if isinstance(condition.owner, arith.ConstantOp):
        return
    if all(known_number(value) is not None or _spread(value) for value in values):
        return
    raise refusal(
        op, "mask-select", "a choice between two vectors of booleans is not supported",
        "the vector unit selects words by mask registers, not mask registers",
        "write (c & a) | (~c & b), or choose between jnp.where(a, 1, 0) and jnp.where(b, 1, 0) and "
        "compare with zero",
    )  # fmt: skip


MASK_RULES: RuleTable = {
    **dict.fromkeys((scf.ForOp, scf.IfOp, scf.WhileOp), (_carried_masks,)),
    **dict.fromkeys((tpu.TransposeOp, vector.TransposeOp), (_mask_transpose,)),
    arith.SelectOp: (_mask_choice,),
    tpu.BitcastOp: (_mask_bitcast,),
    tpu.ConcatenateOp: (_mask_concatenation, _flat_concatenation),
    tpu.DynamicRotateOp: (_mask_rotation,),
    vector.ShapeCastOp: (_mask_reshape,),
}
"""Rules of the reference for operations on masks."""
