"""What the TPU compiler does not do with vectors of booleans, which lie in mask registers.

All of it was asked of libtpu 0.0.51. Our own lowering moves masks as 0 and 1 in words, so the
refusals yield to `--allow-beyond-reference`.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import arith, scf, tpu, vector
from pallasite.dialects.arith import known_number
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import AnyVector, bit_width
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.passes.check_kernel.in_words import in_words
from pallasite.passes.check_kernel.reshapes import reshaped_from
from pallasite.passes.check_kernel.rules import RuleTable
from pallasite.targets import Target


def _carried_masks(op: Operation, target: Target) -> None:
    """The compiler keeps no mask registers across the borders of regions."""
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
    """The compiler reshapes masks where lanes stay lanes, and those of one lane.

    It also adds one behind a mask that lies along sublanes because a reduction has taken its lanes.
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
    """Whether `value` is computed, element by element, from a reduction over a last dimension."""
    op = value.owner
    if isinstance(op, vector.MultiReductionOp):
        last = len(cast(AnyVector, op.source.type).get_shape()) - 1
        return last in tuple(op.reduction_dims.get_values())
    if not isinstance(op, Operation) or op.dialect_name() != "arith" or not depth:
        return False
    return any(_without_lanes(operand, depth - 1) for operand in op.operands)


def _mask_transpose(op: tpu.TransposeOp | vector.TransposeOp, target: Target) -> None:
    """Lanes exchanged with another dimension pass through words; rows alone do not move."""
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
    """Pieces of a mask start where registers do."""
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
    """Pieces of a one-dimensional vector start where rows of words do, or single elements of words
    are masked."""
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
    """Whether mask registers tell the elements of one word of such vectors apart."""
    bits = bit_width(kind)
    return bits in (1, 16, 32) or packing(bits) <= target.max_mask_subelements


def _mask_rotation(op: tpu.DynamicRotateOp, target: Target) -> None:
    """No unit rotates mask registers."""
    if bit_width(op.operands[0].type) == 1:
        raise refusal(
            op, "mask-rotate", f"{in_words(op)} of booleans is not supported",
            "the cross-lane unit rotates words, not mask registers",
            "rotate jnp.where(mask, 1, 0) and compare with zero",
        )  # fmt: skip


def _mask_bitcast(op: tpu.BitcastOp, target: Target) -> None:
    """Masks have no bits of other types, and not even a bitcast to what they are is dropped."""
    if bit_width(op.operands[0].type) == 1:
        raise refusal(
            op, "mask-bitcast", f"{in_words(op)} of booleans is not supported",
            "mask registers hold no words", "leave the bitcast to bool out: it changes nothing",
            "the TPU compiler says: Invalid input layout",
        )  # fmt: skip


def _spread(mask: SSAValue) -> bool:
    """Whether `mask` is a boolean that is known, for all elements."""
    made = mask.owner
    return isinstance(made, vector.BroadcastOp) and known_number(made.operands[0]) is not None


def _mask_choice(op: arith.SelectOp, target: Target) -> None:
    """No masks are selected, whatever the condition, unless all is constant.

    Equal masks are no exception, unless they are one value: the compiler finds out too late.
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
