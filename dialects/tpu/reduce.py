"""Reductions, scans and sorts."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.irdl import (
    BaseAttr,
    EqAttrConstraint,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from pallasite.dialects.tpu.attrs import ReductionKindAttr
from pallasite.dialects.tpu.base import (
    BOOL_ATTR,
    FALSE,
    I32_ATTR,
    MASK,
    SCAN_INPUT,
    SCAN_OUTPUT,
    VECTOR,
    VECTOR_32,
    VECTOR_I32,
    TpuOp,
)

I64_ATTR = IntegerAttr.constr(EqAttrConstraint(i64))
KIND = BaseAttr(ReductionKindAttr)


@irdl_op_definition
class AllReduceOp(TpuOp):
    """The reduction along `dim`, in every position of that dimension."""

    name = "tpu.all_reduce"

    input = operand_def(VECTOR)
    dim = prop_def(I64_ATTR)
    kind = prop_def(KIND)
    result = result_def(VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input) `->` type($result)"


@irdl_op_definition
class ReduceIndexOp(TpuOp):
    """The index of the extreme element along `axis`, which is dropped."""

    name = "tpu.reduce_index"

    input = operand_def(VECTOR)
    axis = prop_def(I32_ATTR)
    kind = prop_def(KIND)
    result = result_def(VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input) `->` type($result)"


@irdl_op_definition
class ScanOp(TpuOp):
    """The inclusive scan along the minor dimension."""

    name = "tpu.scan"

    input = operand_def(SCAN_INPUT)
    mask = opt_operand_def(MASK)
    kind = prop_def(KIND)
    output = result_def(SCAN_OUTPUT)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$kind `,` $input (`masked` $mask^)? attr-dict"
        " `:` type($input) `,` ` ` `` type($mask) ` ` `->` type($output)"
    )


@irdl_op_definition
class ScanCountOp(TpuOp):
    """The running count of equal values, and a mask of the last of each."""

    name = "tpu.scan_count"

    in_mask = operand_def(MASK)
    values = operand_def(VECTOR)
    out_mask = result_def(MASK)
    counts = result_def(VECTOR_I32)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = (
        "`mask` `(` $in_mask `:` type($in_mask) `)` `value` `(` $values `:` type($values) `)`"
        " attr-dict `:` type($out_mask) `,` type($counts)"
    )


@irdl_op_definition
class SortOp(TpuOp):
    """Pairs sorted by key, stable, with masked-off pairs last."""

    name = "tpu.sort"

    keys = operand_def(VECTOR_32)
    values = operand_def(VECTOR_32)
    mask = opt_operand_def(MASK)
    descending = prop_def(BOOL_ATTR, default_value=FALSE)
    output_mask = result_def(MASK)
    sorted_keys = result_def(VECTOR_32)
    sorted_values = result_def(VECTOR_32)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = (
        "$keys `,` $values (`masked` $mask^)? attr-dict `:` functional-type(operands, results)"
    )


OPERATIONS = (AllReduceOp, ReduceIndexOp, ScanOp, ScanCountOp, SortOp)
