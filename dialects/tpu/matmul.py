"""The whole-matrix product and the operations on the state of a matrix unit."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr
from xdsl.irdl import (
    BaseAttr,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.tpu.attrs import DotDimensionNumbersAttr
from pallasite.dialects.tpu.base import BOOL_ATTR, FALSE, I32_ATTR, VECTOR, TpuOp, operand
from pallasite.dialects.tpu.keywords import ContractPrecisionAttr
from pallasite.dialects.types import bit_width

ZERO = IntegerAttr(0, 32)
PRECISION = BaseAttr(ContractPrecisionAttr)
DIMENSION_NUMBERS = BaseAttr(DotDimensionNumbersAttr)


@irdl_op_definition
class MatmulOp(TpuOp):
    """acc plus the product of lhs and rhs.

    The transpose flags count only without dimension numbers; the hint never changes the value.
    """

    name = "tpu.matmul"

    lhs = operand(VECTOR)
    rhs = operand(VECTOR)
    acc = operand(VECTOR)
    transpose_lhs = prop_def(BOOL_ATTR, default_value=FALSE)
    transpose_rhs = prop_def(BOOL_ATTR, default_value=FALSE)
    precision = opt_prop_def(PRECISION)
    dimension_numbers = opt_prop_def(DIMENSION_NUMBERS)
    transpose_lhs_hint = prop_def(BOOL_ATTR)
    result = result_def(VECTOR)

    traits = traits_def(Pure())
    assembly_format = (
        "$lhs `,` $rhs `,` $acc attr-dict"
        " `:` type($lhs) `,` type($rhs) `,` type($acc) `->` type($result)"
    )

    def __post_init__(self) -> None:
        # Modules from before the hint existed have none. It is no ODS default: it always prints.
        self.properties.setdefault("transpose_lhs_hint", FALSE)
        super().__post_init__()

    def verify_(self) -> None:
        acc = self.acc.type
        if self.result.type != acc:
            raise VerifyException(f"expected result {acc}, got {self.result.type}")
        if bit_width(acc) != 32:
            raise VerifyException(f"expected an accumulator of 32-bit elements, got {acc}")
        if self.transpose_lhs.value.data:
            raise VerifyException(
                "expected no transpose_lhs: dimension_numbers say what of lhs is contracted"
            )
        if self.dimension_numbers is not None:
            check_dimension_numbers(
                self.dimension_numbers, self.lhs.type.get_shape(), self.rhs.type.get_shape()
            )


@irdl_op_definition
class MatmulPushRhsOp(TpuOp):
    """Puts a right-hand side into a staging register of a matrix unit."""

    name = "tpu.matmul_push_rhs"

    rhs = operand(VECTOR)
    mxu_index = prop_def(I32_ATTR)
    staging_register = prop_def(I32_ATTR, default_value=ZERO)
    transpose = prop_def(BOOL_ATTR, default_value=FALSE)

    assembly_format = "$rhs attr-dict `:` type($rhs)"


@irdl_op_definition
class MatmulAccLhsOp(TpuOp):
    """Multiplies lhs with the active right-hand side into an accumulator."""

    name = "tpu.matmul_acc_lhs"

    lhs = operand(VECTOR)
    acc = prop_def(I32_ATTR)
    mxu_index = prop_def(I32_ATTR)
    load_staged_rhs = opt_prop_def(I32_ATTR)

    assembly_format = "$acc `,` $lhs attr-dict `:` type($lhs)"


@irdl_op_definition
class MatmulPopOp(TpuOp):
    """Takes the value of an accumulator and clears it."""

    name = "tpu.matmul_pop"

    acc = prop_def(I32_ATTR)
    mxu_index = prop_def(I32_ATTR)
    result = result_def(VECTOR)

    assembly_format = "$acc attr-dict `:` type($result)"


@irdl_op_definition
class MatmulLhsFifoOp(TpuOp):
    """Multiplies lhs with the active right-hand side into the result queue."""

    name = "tpu.matmul_lhs_fifo"

    lhs = operand(VECTOR)
    mxu_index = prop_def(I32_ATTR)
    load_staged_rhs = opt_prop_def(I32_ATTR)

    assembly_format = "$lhs attr-dict `:` type($lhs)"


@irdl_op_definition
class MatmulPopFifoOp(TpuOp):
    """Takes the oldest value of the result queue."""

    name = "tpu.matmul_pop_fifo"

    mxu_index = prop_def(I32_ATTR)
    result = result_def(VECTOR)

    assembly_format = "$mxu_index attr-dict `:` type($result)"

    def verify_(self) -> None:
        if self.result.type.get_num_dims() < 2:
            raise VerifyException(f"expected a result of rank 2, got {self.result.type}")


def check_dimension_numbers(
    numbers: DotDimensionNumbersAttr, lhs: Sequence[int], rhs: Sequence[int]
) -> None:
    """The rules that Mosaic has for dimension numbers (spec/tpu_dialect.md section 3.5)."""
    lhs_contracting, rhs_contracting, lhs_kept, rhs_kept, order, lhs_batch, rhs_batch = (
        numbers.lists()
    )
    if len(lhs_contracting) != len(rhs_contracting) or not lhs_contracting:
        raise VerifyException(
            "expected as many contracting dimensions of both sides and at least one, "
            f"got {list(lhs_contracting)} and {list(rhs_contracting)}"
        )
    check_side("lhs", lhs_contracting, lhs_kept, lhs_batch, lhs)
    check_side("rhs", rhs_contracting, rhs_kept, rhs_batch, rhs)
    for left, right in zip(lhs_contracting, rhs_contracting, strict=True):
        if lhs[left] != rhs[right]:
            raise VerifyException(
                f"expected contracting dimensions of one size, got {lhs[left]} and {rhs[right]}"
            )
    if len(lhs_batch) != len(rhs_batch):
        raise VerifyException(
            f"expected as many batch dimensions, got {list(lhs_batch)} and {list(rhs_batch)}"
        )
    for left, right in zip(lhs_batch, rhs_batch, strict=True):
        if lhs[left] != rhs[right] or lhs[left] < 1:
            raise VerifyException(
                f"expected batch dimensions of one size, got {lhs[left]} and {rhs[right]}"
            )
    pairs = [(0, d) for d in lhs_batch] + [(0, d) for d in lhs_kept] + [(1, d) for d in rhs_kept]
    expected = [n for pair in pairs for n in pair]
    if list(order) != expected:
        raise VerifyException(f"expected output dimension order {expected}, got {list(order)}")


def check_side(
    side: str,
    contracting: Sequence[int],
    kept: Sequence[int],
    batch: Sequence[int],
    shape: Sequence[int],
) -> None:
    """Every dimension of one side is contracted, kept or batched, exactly once."""
    if list(kept) != sorted(kept):
        raise VerifyException(
            f"expected sorted non-contracting {side} dimensions, got {list(kept)}"
        )
    dims = [*contracting, *kept, *batch]
    if sorted(dims) != list(range(len(shape))):
        raise VerifyException(
            f"expected each of the {len(shape)} {side} dimensions once, got {dims}"
        )


OPERATIONS = (
    MatmulOp,
    MatmulPushRhsOp,
    MatmulAccLhsOp,
    MatmulPopOp,
    MatmulLhsFifoOp,
    MatmulPopFifoOp,
)
