"""Canonical forms of `tpu` operations, those that Mosaic's dialect has (spec/tpu_dialect.md 3).

`PATTERNS` gives them by operation; they act under `tpu-opt -p canonicalize`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    MemRefType,
    PackableType,
    VectorType,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.traits import ConstantLike

from pallasite.dialects.arith import ConstantOp, known_integer
from pallasite.dialects.math import RoundEvenOp
from pallasite.dialects.memref import CastOp
from pallasite.dialects.tpu.base import FALSE, is_signless
from pallasite.dialects.tpu.convert import ExtfOp, FptosiOp, TruncfOp
from pallasite.dialects.tpu.keywords import RoundingMode, RoundingModeAttr
from pallasite.dialects.tpu.movement import (
    BitcastVregOp,
    ReshapeOp,
    RollVectorsOp,
    UnrollVectorsOp,
)
from pallasite.dialects.tpu.pack import PackSubelementsOp, UnpackSubelementsOp
from pallasite.dialects.tpu.register_memory import LoadOp, ShuffledLoadOp, ShuffledStoreOp, StoreOp
from pallasite.dialects.tpu.shuffle import DynamicGatherOp
from pallasite.dialects.tpu.views import (
    EraseMemrefLayoutOp,
    MemrefBitcastOp,
    MemrefSliceOp,
    MemrefSqueezeOp,
    squeezed_dimensions,
)
from pallasite.dialects.types import AnyMemRef, bit_width
from pallasite.dialects.vector import BroadcastOp

SAME_VALUE = (MemrefBitcastOp, EraseMemrefLayoutOp, BitcastVregOp, ReshapeOp)
CHAINS = (EraseMemrefLayoutOp, BitcastVregOp, ReshapeOp)


class DropIdentity(RewritePattern):
    """A view or bitcast to the operand's own type is the operand."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if isinstance(op, SAME_VALUE) and op.operands[0].type == op.results[0].type:
            rewriter.replace(op, (), (op.operands[0],))


class CollapseChain(RewritePattern):
    """Of two erasures, register bitcasts or reshapes in a row the first does not matter."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, CHAINS):
            return
        before = op.operands[0].owner
        if not isinstance(before, CHAINS) or type(before) is not type(op):
            return
        collapsed = type(op).create(
            operands=[before.operands[0]], result_types=[op.results[0].type]
        )
        rewriter.replace(op, collapsed)


class ReshapeConstant(RewritePattern):
    """A reshaped constant is a constant."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp, rewriter: PatternRewriter) -> None:
        value = ConstantLike.get_constant_value(op.source)
        if isinstance(value, DenseIntOrFPElementsAttr):
            reshaped = DenseIntOrFPElementsAttr(cast(Any, op.result.type), value.data)
            rewriter.replace(op, ConstantOp(reshaped))


class DropWholeSlice(RewritePattern):
    """The slice at offset zero of the operand's own type is the operand."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MemrefSliceOp, rewriter: PatternRewriter) -> None:
        if op.dynamic_sizes or op.mem_ref.type != op.result.type:
            return
        if all(known_integer(index) == 0 for index in op.base_idx):
            rewriter.replace(op, (), (op.mem_ref,))


class StaticSliceSizes(RewritePattern):
    """Constant positive sizes of a slice belong to its type; a cast gives the old type back."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MemrefSliceOp, rewriter: PatternRewriter) -> None:
        sizes = [known_integer(size) for size in op.dynamic_sizes]
        if not any(size is not None and size > 0 for size in sizes):
            return
        shape = list(op.result.type.get_shape())
        dynamic = [dim for dim, size in enumerate(shape) if size == DYNAMIC_INDEX]
        kept: list[SSAValue] = []
        for dim, size, value in zip(dynamic, sizes, op.dynamic_sizes, strict=True):
            if size is not None and size > 0:
                shape[dim] = size
            else:
                kept.append(value)
        sliced = MemrefSliceOp(
            operands=[op.mem_ref, op.base_idx, kept],
            result_types=[_with_shape(op.result.type, shape)],
        )
        rewriter.replace(op, [sliced, CastOp(sliced.result, op.result.type)])


class SqueezeBeforeCast(RewritePattern):
    """The squeeze of a cast that forgets sizes is the cast of the squeeze."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MemrefSqueezeOp, rewriter: PatternRewriter) -> None:
        cast_op = op.input.owner
        if not isinstance(cast_op, CastOp) or not isinstance(cast_op.source.type, MemRefType):
            return
        source = cast(AnyMemRef, cast_op.source.type)
        known, forgotten = source.get_shape(), op.input.type.get_shape()
        squeezed = squeezed_dimensions(forgotten, op.result.type.get_shape())
        if squeezed is None or any(
            k != f and f != DYNAMIC_INDEX for k, f in zip(known, forgotten, strict=True)
        ):
            return
        shape = [size for dim, size in enumerate(known) if dim not in squeezed]
        squeeze = MemrefSqueezeOp(
            operands=[cast_op.source], result_types=[_with_shape(op.result.type, shape)]
        )
        rewriter.replace(op, [squeeze, CastOp(squeeze.result, op.result.type)])


class UnrollOfRoll(RewritePattern):
    """Registers that were rolled into a vector are what it unrolls to."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: UnrollVectorsOp, rewriter: PatternRewriter) -> None:
        roll = op.input.owner
        if isinstance(roll, RollVectorsOp) and roll.input.types == op.output.types:
            rewriter.replace(op, (), tuple(roll.input))


class PlainShuffledLoad(RewritePattern):
    """A shuffled load of consecutive rows is a load."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ShuffledLoadOp, rewriter: PatternRewriter) -> None:
        if _counts_up(op.sublane_offsets.get_values()):
            plain = LoadOp(
                operands=[op.base, op.indices],
                properties={"sublane_mask": op.sublane_mask},
                result_types=[op.result.type],
            )
            rewriter.replace(op, plain)


class PlainShuffledStore(RewritePattern):
    """A shuffled store to consecutive rows is a store."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ShuffledStoreOp, rewriter: PatternRewriter) -> None:
        if _counts_up(op.sublane_offsets.get_values()):
            plain = StoreOp(
                operands=[op.value, op.base, op.indices, None],
                properties={"sublane_mask": op.sublane_mask},
            )
            rewriter.replace(op, plain, ())


class GatherOfOne(RewritePattern):
    """A gather along dimensions of size 1 repeats the only element."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: DynamicGatherOp, rewriter: PatternRewriter) -> None:
        shape = op.source.type.get_shape()
        if all(shape[dim] == 1 for dim in op.dimensions.get_values()):
            rewriter.replace(op, BroadcastOp(op.source, op.result.type))


class RoundedToInteger(RewritePattern):
    """A float rounded to even and then converted is converted with that rounding."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: FptosiOp, rewriter: PatternRewriter) -> None:
        rounding = op.input.owner
        if isinstance(rounding, RoundEvenOp):
            converted = FptosiOp(
                operands=[rounding.operand],
                properties={"rounding_mode": RoundingModeAttr(RoundingMode.TO_NEAREST_EVEN)},
                result_types=[op.result.type],
            )
            rewriter.replace(op, converted)


class ConvertConstant(RewritePattern):
    """A float constant that the other type holds exactly is a constant of that type."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, ExtfOp | TruncfOp):
            return
        value = ConstantLike.get_constant_value(op.input)
        converted = _converted(value, op.result.type) if value is not None else None
        if converted is not None:
            rewriter.replace(op, ConstantOp(cast(Any, converted)))


class UnpackOfPack(RewritePattern):
    """The part of a pack that a matching unpack takes out is the source, its top bits apart."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: UnpackSubelementsOp, rewriter: PatternRewriter) -> None:
        pack = op.source.owner
        if (
            op.integer_extended.value.data
            or not isinstance(pack, PackSubelementsOp)
            or pack.pack_format != op.pack_format
            or not is_signless(op.source.type.element_type)
            or pack.sources[0].type != op.result.type
        ):
            return
        positions = pack.positions.get_values()
        if op.index.value.data in positions:
            source = pack.sources[list(positions).index(op.index.value.data)]
            rewriter.replace(op, (), (source,))


class UnneededExtension(RewritePattern):
    """An unpack whose top bits every user drops in packing again need not define them."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: UnpackSubelementsOp, rewriter: PatternRewriter) -> None:
        elements = op.source.type.element_type, op.result.type.element_type
        if not op.integer_extended.value.data or not all(map(is_signless, elements)):
            return
        width = bit_width(op.source.type)
        users = [use.operation for use in op.result.uses]
        if users and all(_narrows(user, width) for user in users):
            op.properties["integer_extended"] = FALSE
            rewriter.notify_op_modified(op)


def _with_shape(type: AnyMemRef, shape: Sequence[int]) -> AnyMemRef:
    return MemRefType(type.element_type, shape, type.layout, type.memory_space)


def _counts_up(offsets: Sequence[int]) -> bool:
    return list(offsets) == list(range(len(offsets)))


def _narrows(user: Operation, width: int) -> bool:
    if not isinstance(user, PackSubelementsOp):
        return False
    packed = user.result.type
    return is_signless(packed.element_type) and bit_width(packed) <= width


def _converted(value: Attribute, type: Attribute) -> Attribute | None:
    """`value` as a constant of `type`, None if that type does not hold it exactly."""
    if isinstance(value, FloatAttr):
        exact = _exact_bytes([value.value.data], type)
        return None if exact is None else FloatAttr(value.value.data, cast(Any, type))
    if isinstance(value, DenseIntOrFPElementsAttr) and isinstance(type, VectorType):
        vector = cast(VectorType[Attribute], type)
        exact = _exact_bytes(cast(Sequence[float], value.get_values()), vector.element_type)
        if exact is not None:
            return DenseIntOrFPElementsAttr(cast(Any, vector), BytesAttr(exact))
    return None


def _exact_bytes(values: Sequence[float], element: Attribute) -> bytes | None:
    if not isinstance(element, PackableType):
        return None
    packable = cast(PackableType[float], element)
    try:
        data = packable.pack(values)
    except OverflowError:
        return None
    same = packable.unpack(data, len(values)) == tuple(values)
    return data if same else None


PATTERNS: dict[type[Operation], tuple[RewritePattern, ...]] = {
    MemrefSliceOp: (DropWholeSlice(), StaticSliceSizes()),
    MemrefSqueezeOp: (SqueezeBeforeCast(),),
    MemrefBitcastOp: (DropIdentity(),),
    EraseMemrefLayoutOp: (DropIdentity(), CollapseChain()),
    BitcastVregOp: (DropIdentity(), CollapseChain()),
    ReshapeOp: (DropIdentity(), CollapseChain(), ReshapeConstant()),
    UnrollVectorsOp: (UnrollOfRoll(),),
    ShuffledLoadOp: (PlainShuffledLoad(),),
    ShuffledStoreOp: (PlainShuffledStore(),),
    DynamicGatherOp: (GatherOfOne(),),
    FptosiOp: (RoundedToInteger(),),
    ExtfOp: (ConvertConstant(),),
    TruncfOp: (ConvertConstant(),),
    UnpackSubelementsOp: (UnpackOfPack(), UnneededExtension()),
}
