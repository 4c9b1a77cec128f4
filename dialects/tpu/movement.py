"""Operations that move elements of vectors without computing on them."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, i32, i64
from xdsl.irdl import (
    AnyAttr,
    BaseAttr,
    ParsePropInAttrDict,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure

from pallasite.dialects.tpu.base import (
    ANY_RANK_VECTOR,
    I32_ATTR,
    SI32_ATTR,
    VECTOR,
    VECTOR_INTEGER,
    TpuOp,
    array_of,
)

I32_ARRAY = array_of(i32)
I64_ARRAY = array_of(i64)
LAYOUTS = BaseAttr(ArrayAttr)
SAME = VarConstraint("T", AnyAttr())
SAME_VECTOR = VarConstraint("T", VECTOR)


@irdl_op_definition
class ReshapeOp(TpuOp):
    """The same elements in row-major order under another shape."""

    name = "tpu.reshape"

    source = operand_def(VECTOR)
    result = result_def(VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"


@irdl_op_definition
class TransposeOp(TpuOp):
    """Dimension d of the result is dimension `permutation[d]` of the operand."""

    name = "tpu.transpose"

    vector = operand_def(ANY_RANK_VECTOR)
    permutation = prop_def(I64_ARRAY)
    result = result_def(ANY_RANK_VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$vector `,` $permutation attr-dict `:` type($vector) `->` type($result)"


@irdl_op_definition
class ConcatenateOp(TpuOp):
    """Its operands one after the other along `dimension`."""

    name = "tpu.concatenate"

    sources = var_operand_def(VECTOR)
    dimension = prop_def(I32_ATTR)
    result = result_def(VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$sources `in` $dimension attr-dict `:` type($sources) `->` type($result)"


@irdl_op_definition
class RepeatOp(TpuOp):
    """Its operand `times` times along `dimension`."""

    name = "tpu.repeat"

    source = operand_def(VECTOR)
    dimension = prop_def(I32_ATTR)
    times = prop_def(I32_ATTR)
    result = result_def(VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = (
        "$source `,` $dimension `x` $times attr-dict `:` type($source) `->` type($result)"
    )


@irdl_op_definition
class BroadcastInSublanesOp(TpuOp):
    """Sublane i is filled with lane `lane + i` of the source."""

    name = "tpu.broadcast_in_sublanes"

    source = operand_def(VECTOR)
    lane = prop_def(I32_ATTR)
    result = result_def(VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$source `,` $lane attr-dict `:` type($source) `->` type($result)"


@irdl_op_definition
class BitcastOp(TpuOp):
    """The bits of a vector as another element type, which scales the second minor dimension."""

    name = "tpu.bitcast"

    input = operand_def(VECTOR)
    result = result_def(VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input) `->` type($result)"


@irdl_op_definition
class BitcastVregOp(TpuOp):
    """The bits of a register as another register type."""

    name = "tpu.bitcast_vreg"

    input = operand_def(VECTOR)
    result = result_def(VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input) `->` type($result)"


@irdl_op_definition
class GatherOp(TpuOp):
    """Position p along `dimension` is position `indices[p]` of the source."""

    name = "tpu.gather"

    source = operand_def(VECTOR)
    indices = prop_def(I32_ARRAY)
    dimension = prop_def(I32_ATTR)
    result = result_def(VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = (
        "$source `[` $indices `]` `in` $dimension attr-dict `:` type($source) `->` type($result)"
    )


@irdl_op_definition
class DynamicGatherOp(TpuOp):
    """Gathers along `dimensions`, taken together row-major, at run-time indices modulo the size."""

    name = "tpu.dynamic_gather"

    source = operand_def(VECTOR)
    indices = operand_def(VECTOR_INTEGER)
    dimensions = prop_def(I32_ARRAY)
    result = result_def(VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = (
        "$source `[` $indices `]` `in` $dimensions attr-dict"
        " `:` type($source) `,` type($indices) `->` type($result)"
    )


@irdl_op_definition
class DynamicRotateOp(TpuOp):
    """Rotates towards higher indices of `dimension`, by `stride` more per step of another one."""

    name = "tpu.dynamic_rotate"

    value = operand_def(VECTOR)
    amount = operand_def(i32)
    dimension = prop_def(SI32_ATTR)
    stride = opt_prop_def(SI32_ATTR)
    stride_dimension = opt_prop_def(SI32_ATTR)
    result = result_def(VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = (
        "$value `by` $amount `dim` $dimension attr-dict"
        " `:` type($value) `,` type($amount) `->` type($result)"
    )


@irdl_op_definition
class RotateOp(TpuOp):
    """Rotates by a constant amount; only modules of the old C++ passes have it."""

    name = "tpu.rotate"

    value = operand_def(SAME_VECTOR)
    amount = prop_def(SI32_ATTR)
    dimension = prop_def(SI32_ATTR)
    stride = opt_prop_def(SI32_ATTR)
    stride_dimension = opt_prop_def(SI32_ATTR)
    result = result_def(SAME_VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$value `by` $amount `dim` $dimension attr-dict `:` type($value)"


@irdl_op_definition
class RelayoutOp(TpuOp):
    """The same values in another vector layout; only jaxlib up to 0.10 has it."""

    name = "tpu.relayout"

    input = operand_def(VECTOR)
    in_layout = prop_def(LAYOUTS)
    out_layout = prop_def(LAYOUTS)
    result = result_def(VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input) `->` type($result)"


@irdl_op_definition
class IotaOp(TpuOp):
    """Counts row-major over `dimensions` in their listed order."""

    name = "tpu.iota"

    dimensions = prop_def(I32_ARRAY)
    result = result_def(VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"


@irdl_op_definition
class RollVectorsOp(TpuOp):
    """Several registers taken as one vector."""

    name = "tpu.roll_vectors"

    input = var_operand_def(ANY_RANK_VECTOR)
    output = result_def(ANY_RANK_VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input) `->` type($output)"


@irdl_op_definition
class UnrollVectorsOp(TpuOp):
    """One vector taken as several registers."""

    name = "tpu.unroll_vectors"

    input = operand_def(ANY_RANK_VECTOR)
    output = var_result_def(ANY_RANK_VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input) `->` type($output)"


@irdl_op_definition
class SublaneShuffleOp(TpuOp):
    """Row p is row `pattern[p]` of the two registers one above the other."""

    name = "tpu.sublane_shuffle"

    lhs = operand_def(VECTOR)
    rhs = operand_def(VECTOR)
    pattern = prop_def(I32_ARRAY)
    result = result_def(VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$lhs `,` $rhs `,` $pattern attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)"
    )


@irdl_op_definition
class AssumeMultipleOp(TpuOp):
    """Its operand, which the kernel's author promises to be a multiple."""

    name = "tpu.assume_multiple"

    value = operand_def(SAME)
    multiple = prop_def(I32_ATTR)
    result = result_def(SAME)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$value `,` $multiple attr-dict `:` type($result)"


OPERATIONS = (
    ReshapeOp,
    TransposeOp,
    ConcatenateOp,
    RepeatOp,
    BroadcastInSublanesOp,
    BitcastOp,
    BitcastVregOp,
    GatherOp,
    DynamicGatherOp,
    DynamicRotateOp,
    RotateOp,
    RelayoutOp,
    IotaOp,
    RollVectorsOp,
    UnrollVectorsOp,
    SublaneShuffleOp,
    AssumeMultipleOp,
)
