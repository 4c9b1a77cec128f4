"""The whole-matrix product and the operations on the state of a matrix unit."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr
from xdsl.irdl import (
    BaseAttr,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from pallasite.dialects.tpu.attrs import ContractPrecisionAttr, DotDimensionNumbersAttr
from pallasite.dialects.tpu.base import BOOL_ATTR, FALSE, I32_ATTR, VECTOR, TpuOp

ZERO = IntegerAttr(0, 32)
PRECISION = BaseAttr(ContractPrecisionAttr)
DIMENSION_NUMBERS = BaseAttr(DotDimensionNumbersAttr)


@irdl_op_definition
class MatmulOp(TpuOp):
    """acc plus the product of lhs and rhs.

    The transpose flags count only without dimension numbers; the hint never changes the value.
    """

    name = "tpu.matmul"

    lhs = operand_def(VECTOR)
    rhs = operand_def(VECTOR)
    acc = operand_def(VECTOR)
    transpose_lhs = prop_def(BOOL_ATTR, default_value=FALSE)
    transpose_rhs = prop_def(BOOL_ATTR, default_value=FALSE)
    precision = opt_prop_def(PRECISION)
    dimension_numbers = opt_prop_def(DIMENSION_NUMBERS)
    transpose_lhs_hint = prop_def(BOOL_ATTR)
    result = result_def(VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = (
        "$lhs `,` $rhs `,` $acc attr-dict"
        " `:` type($lhs) `,` type($rhs) `,` type($acc) `->` type($result)"
    )

    def __post_init__(self) -> None:
        # Modules from before the hint existed have none. It is no ODS default: it always prints.
        self.properties.setdefault("transpose_lhs_hint", FALSE)
        super().__post_init__()


@irdl_op_definition
class MatmulPushRhsOp(TpuOp):
    """Puts a right-hand side into a staging register of a matrix unit."""

    name = "tpu.matmul_push_rhs"

    rhs = operand_def(VECTOR)
    mxu_index = prop_def(I32_ATTR)
    staging_register = prop_def(I32_ATTR, default_value=ZERO)
    transpose = prop_def(BOOL_ATTR, default_value=FALSE)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$rhs attr-dict `:` type($rhs)"


@irdl_op_definition
class MatmulAccLhsOp(TpuOp):
    """Multiplies lhs with the active right-hand side into an accumulator."""

    name = "tpu.matmul_acc_lhs"

    lhs = operand_def(VECTOR)
    acc = prop_def(I32_ATTR)
    mxu_index = prop_def(I32_ATTR)
    load_staged_rhs = opt_prop_def(I32_ATTR)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$acc `,` $lhs attr-dict `:` type($lhs)"


@irdl_op_definition
class MatmulPopOp(TpuOp):
    """Takes the value of an accumulator and clears it."""

    name = "tpu.matmul_pop"

    acc = prop_def(I32_ATTR)
    mxu_index = prop_def(I32_ATTR)
    result = result_def(VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$acc attr-dict `:` type($result)"


@irdl_op_definition
class MatmulLhsFifoOp(TpuOp):
    """Multiplies lhs with the active right-hand side into the result queue."""

    name = "tpu.matmul_lhs_fifo"

    lhs = operand_def(VECTOR)
    mxu_index = prop_def(I32_ATTR)
    load_staged_rhs = opt_prop_def(I32_ATTR)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$lhs attr-dict `:` type($lhs)"


@irdl_op_definition
class MatmulPopFifoOp(TpuOp):
    """Takes the oldest value of the result queue."""

    name = "tpu.matmul_pop_fifo"

    mxu_index = prop_def(I32_ATTR)
    result = result_def(VECTOR)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$mxu_index attr-dict `:` type($result)"


OPERATIONS = (
    MatmulOp,
    MatmulPushRhsOp,
    MatmulAccLhsOp,
    MatmulPopOp,
    MatmulLhsFifoOp,
    MatmulPopFifoOp,
)
