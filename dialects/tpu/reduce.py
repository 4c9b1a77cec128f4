"""Reductions, scans and sorts."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, bf16, f32, i1, i32, i64
from xdsl.irdl import (
    BaseAttr,
    EqAttrConstraint,
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

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
    UnaryOp,
    is_signless,
    operand,
    optional_operand,
)
from pallasite.dialects.tpu.cores import check_vector_subcore
from pallasite.dialects.tpu.keywords import ReductionKind, ReductionKindAttr
from pallasite.dialects.types import AnyVector, bit_width

I64_ATTR = IntegerAttr.constr(EqAttrConstraint(i64))
INDEX_KINDS = (ReductionKind.ARG_MAX, ReductionKind.ARG_MIN)
KIND = BaseAttr(ReductionKindAttr)


@irdl_op_definition
class AllReduceOp(UnaryOp):
    """The reduction along `dim`, in every position of that dimension."""

    name = "tpu.all_reduce"

    input = operand(VECTOR)
    dim = prop_def(I64_ATTR)
    kind = prop_def(KIND)
    result = result_def(VECTOR)

    traits = traits_def(Pure())

    def verify_(self) -> None:
        input, result, kind = self.input.type, self.result.type, self.kind.data
        if input.element_type == i1:
            if result.element_type != i32:
                raise VerifyException(f"expected a reduction of a mask to i32, got {result}")
            if kind not in (ReductionKind.SUM, ReductionKind.FIND_FIRST_SET):
                raise VerifyException(
                    f"masks are reduced by sum or find_first_set, got {kind.value}"
                )
        elif kind in INDEX_KINDS:
            check_index_reduction(input, result)
            if input.get_shape() != result.get_shape():
                raise VerifyException(f"expected one shape, got {input} and {result}")
            check_countable(input, self.dim.value.data, result)
        elif kind is ReductionKind.FIND_FIRST_SET:
            raise VerifyException(f"find_first_set is for masks, got {input}")
        elif input != result:
            raise VerifyException(f"expected result {input}, got {result}")


@irdl_op_definition
class ReduceIndexOp(UnaryOp):
    """The index of the extreme element along `axis`, which is dropped."""

    name = "tpu.reduce_index"

    input = operand(VECTOR)
    axis = prop_def(I32_ATTR)
    kind = prop_def(KIND)
    result = result_def(VECTOR)

    traits = traits_def(Pure())

    def verify_(self) -> None:
        input, result, axis = self.input.type, self.result.type, self.axis.value.data
        if self.kind.data not in INDEX_KINDS:
            raise VerifyException(f"expected arg_max or arg_min, got {self.kind.data.value}")
        check_index_reduction(input, result)
        shape = input.get_shape()
        if not 0 <= axis < len(shape):
            raise VerifyException(f"axis {axis} is out of range for {input}")
        if len(shape) < 2:
            raise VerifyException(f"expected an input of rank at least 2, got {input}")
        if (*shape[:axis], *shape[axis + 1 :]) != result.get_shape():
            raise VerifyException(f"expected {input} without dimension {axis}, got {result}")
        check_countable(input, axis, result)


@irdl_op_definition
class ScanOp(TpuOp):
    """The inclusive scan along the minor dimension."""

    name = "tpu.scan"

    input = operand(SCAN_INPUT)
    mask = optional_operand(MASK)
    kind = prop_def(KIND)
    output = result_def(SCAN_OUTPUT)

    assembly_format = (
        "$kind `,` $input (`masked` $mask^)? attr-dict"
        " `:` type($input) `,` ` ` `` type($mask) ` ` `->` type($output)"
    )

    def verify_(self) -> None:
        check_vector_subcore(self)
        input, output, kind = self.input.type, self.output.type, self.kind.data
        if input.element_type == i1:
            if output.element_type != i32:
                raise VerifyException(f"expected a scan of a mask to i32, got {output}")
            if kind is not ReductionKind.SUM:
                raise VerifyException(f"masks are scanned by sum, got {kind.value}")
            if self.mask is not None:
                raise VerifyException("expected no mask for a scan of a mask")
        elif input.element_type != output.element_type:
            raise VerifyException(f"expected one element type, got {input} and {output}")
        shape = input.get_shape()
        if shape != output.get_shape() or len(shape) > 2:
            raise VerifyException(f"expected one shape of rank 1 or 2, got {input} and {output}")
        if kind in INDEX_KINDS or kind is ReductionKind.FIND_FIRST_SET:
            raise VerifyException(f"expected a scan by sum, max or min, got {kind.value}")
        if self.mask is not None and self.mask.type.get_shape() != shape[-1:]:
            raise VerifyException(f"expected a mask of one row of {input}, got {self.mask.type}")


@irdl_op_definition
class ScanCountOp(TpuOp):
    """The running count of equal values, and a mask of the last of each."""

    name = "tpu.scan_count"

    in_mask = operand(MASK)
    values = operand(VECTOR)
    out_mask = result_def(MASK)
    counts = result_def(VECTOR_I32)

    traits = traits_def(Pure())
    assembly_format = (
        "`mask` `(` $in_mask `:` type($in_mask) `)` `value` `(` $values `:` type($values) `)`"
        " attr-dict `:` type($out_mask) `,` type($counts)"
    )

    def verify_(self) -> None:
        check_one_shape(*(v.type for v in (self.in_mask, self.values, self.out_mask, self.counts)))


@irdl_op_definition
class SortOp(TpuOp):
    """Pairs sorted by key, stable, with masked-off pairs last."""

    name = "tpu.sort"

    keys = operand(VECTOR_32)
    values = operand(VECTOR_32)
    mask = optional_operand(MASK)
    descending = prop_def(BOOL_ATTR, default_value=FALSE)
    output_mask = result_def(MASK)
    sorted_keys = result_def(VECTOR_32)
    sorted_values = result_def(VECTOR_32)

    traits = traits_def(Pure())
    assembly_format = (
        "$keys `,` $values (`masked` $mask^)? attr-dict `:` functional-type(operands, results)"
    )

    def verify_(self) -> None:
        masks = [self.output_mask] if self.mask is None else [self.mask, self.output_mask]
        check_one_shape(*(v.type for v in (self.keys, self.values, *masks)))
        for before, after in (
            (self.keys, self.sorted_keys),
            (self.values, self.sorted_values),
        ):
            if before.type != after.type:
                raise VerifyException(f"expected result {before.type}, got {after.type}")


def check_index_reduction(input: AnyVector, result: AnyVector) -> None:
    """Indices are found among f32 or bf16, and are integers of the same width."""
    if input.element_type not in (f32, bf16):
        raise VerifyException(f"expected an input of f32 or bf16, got {input}")
    if not is_signless(result.element_type) or bit_width(input) != bit_width(result):
        raise VerifyException(f"expected a result of i{bit_width(input)}, got {result}")


def check_countable(input: AnyVector, dim: int, result: AnyVector) -> None:
    """The indices along `dim` fit into the result's integers."""
    shape, width = input.get_shape(), bit_width(result)
    if 0 <= dim < len(shape) and shape[dim] > 1 << width:
        raise VerifyException(f"dimension of size {shape[dim]} has no {width}-bit indices")


def check_one_shape(*types: AnyVector) -> None:
    """All vectors have one shape."""
    for type in types[1:]:
        if type.get_shape() != types[0].get_shape():
            raise VerifyException(f"expected one shape, got {types[0]} and {type}")


OPERATIONS = (AllReduceOp, ReduceIndexOp, ScanOp, ScanCountOp, SortOp)
