"""Matrix multiplication of values."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import VectorType, f32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.pallas.base import PallasOp, check_type, integers_of
from pallasite.dialects.tpu import ContractPrecision, ContractPrecisionAttr
from pallasite.dialects.tpu.base import I64_ARRAY
from pallasite.dialects.types import dense_integers, is_float, vector_type


@irdl_op_definition
class DotOp(PallasOp):
    """The sum of products over the contracting dimensions, as `jax.lax.dot_general`.

    The dimensions of the result are the batch dimensions, then the free ones of the left operand
    (neither batch nor contracting), then those of the right operand. Without a precision, float32
    operands are rounded to bfloat16; `fp32` keeps them, and `bf16x3` multiplies in three passes.
    Integers are signed, and are converted to floats if the result has floats. Sums are in float32,
    or int32 if the result has integers, and are then rounded to the type of the result.

    Example: `%c = pallas.dot %a, %b contracting [1] [0] precision <fp32>
    : vector<128x64xf32>, vector<64x128xf32> -> vector<128x128xf32>`
    """

    name = "pallas.dot"

    lhs = operand_def(VectorType)
    rhs = operand_def(VectorType)
    lhs_contracting = prop_def(I64_ARRAY)
    rhs_contracting = prop_def(I64_ARRAY)
    lhs_batch = opt_prop_def(I64_ARRAY)
    rhs_batch = opt_prop_def(I64_ARRAY)
    precision = opt_prop_def(ContractPrecisionAttr)
    result = result_def(VectorType)

    traits = traits_def(Pure())
    assembly_format = (
        "$lhs `,` $rhs `contracting` $lhs_contracting $rhs_contracting"
        " (`batch` $lhs_batch^ $rhs_batch)? (`precision` $precision^)? attr-dict"
        " `:` type($lhs) `,` type($rhs) `->` type($result)"
    )

    def __init__(
        self,
        lhs: SSAValue,
        rhs: SSAValue,
        contracting: tuple[Sequence[int], Sequence[int]],
        element: Attribute,
        *,
        batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
        precision: ContractPrecision | None = None,
    ):
        """`contracting` and `batch` pair dimensions of `lhs` with dimensions of `rhs`, as the
        `dimension_numbers` of `jax.lax.dot_general`; `element` is the result's element type."""
        properties: dict[str, Attribute] = {
            "lhs_contracting": dense_integers(contracting[0]),
            "rhs_contracting": dense_integers(contracting[1]),
        }
        if batch[0] or batch[1]:
            properties |= {
                "lhs_batch": dense_integers(batch[0]),
                "rhs_batch": dense_integers(batch[1]),
            }
        if precision is not None:
            properties["precision"] = ContractPrecisionAttr(precision)
        left, right = vector_type(lhs), vector_type(rhs)
        shape = dot_shape(left.get_shape(), right.get_shape(), contracting, batch)
        super().__init__(
            operands=[lhs, rhs], properties=properties, result_types=[VectorType(element, shape)]
        )

    @property
    def contracting(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The dimensions that are multiplied and added up: of the left, of the right operand."""
        return integers_of(self.lhs_contracting), integers_of(self.rhs_contracting)

    @property
    def batch(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The dimensions of which each pair is a product of its own: left, right."""
        return integers_of(self.lhs_batch), integers_of(self.rhs_batch)

    @property
    def is_matrix_times_vector(self) -> bool:
        """Whether this is (M, K) times the transpose of (1, K) in floats, not both float32.

        One column of the matrix unit would be useful, so it is computed as a product of elements
        and a sum along the lanes, in float32 (spec/pallas_semantics.md 4.6).
        """
        left, right = vector_type(self.lhs), vector_type(self.rhs)
        shapes = left.get_shape(), right.get_shape()
        if len(shapes[0]) != 2 or len(shapes[1]) != 2 or shapes[1][0] != 1:
            return False
        if self.contracting != ((1,), (1,)):
            return False
        elements = {left.element_type, right.element_type}
        return all(map(is_float, elements)) and elements != {f32}

    def verify_(self) -> None:
        left, right = vector_type(self.lhs), vector_type(self.rhs)
        shapes = left.get_shape(), right.get_shape()
        for what, lists in (("contracting", self.contracting), ("batch", self.batch)):
            check_pairs(what, lists, shapes)
        for side, shape in enumerate(shapes):
            used = (*self.contracting[side], *self.batch[side])
            if len(set(used)) != len(used):
                raise VerifyException(
                    f"expected each dimension of {shape} contracted or batched once, got {used}"
                )
        result = vector_type(self.result)
        shape = dot_shape(*shapes, self.contracting, self.batch)
        check_type(result, VectorType(result.element_type, shape), "a result")
        floats = is_float(left.element_type) or is_float(right.element_type)
        if floats and not is_float(result.element_type):
            raise VerifyException(f"expected a float result of {left} and {right}, got {result}")


def check_pairs(
    what: str,
    lists: tuple[Sequence[int], Sequence[int]],
    shapes: tuple[Sequence[int], Sequence[int]],
) -> None:
    """Both lists name dimensions of equal sizes, in pairs."""
    if len(lists[0]) != len(lists[1]):
        raise VerifyException(
            f"expected as many {what} dimensions of both operands, got {lists[0]} and {lists[1]}"
        )
    for dims, shape in zip(lists, shapes, strict=True):
        for dim in dims:
            if not 0 <= dim < len(shape):
                raise VerifyException(f"{what} dimension {dim} is out of range for {shape}")
    for left, right in zip(*lists, strict=True):
        if shapes[0][left] != shapes[1][right]:
            raise VerifyException(
                f"expected {what} dimensions of one size, got {shapes[0][left]} and "
                f"{shapes[1][right]}"
            )


def dot_shape(
    lhs: Sequence[int],
    rhs: Sequence[int],
    contracting: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]],
) -> tuple[int, ...]:
    """The shape of a product: batch, left free, right free."""
    free = [
        [
            n
            for dim, n in enumerate(shape)
            if dim not in contracting[side] and dim not in batch[side]
        ]
        for side, shape in enumerate((lhs, rhs))
    ]
    return (*(lhs[dim] for dim in batch[0]), *free[0], *free[1])


def is_one_matmul(op: DotOp) -> bool:
    """Whether one `tpu.matmul` can express `op`: it has one contracting dimension and at most one
    batch dimension (spec/tpu_dialect.md section 3.5, REL)."""
    return len(op.contracting[0]) == 1 and len(op.batch[0]) <= 1


def free_dimensions(op: DotOp) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The dimensions of each operand that are neither contracted nor batched."""
    ranks = (vector_type(value).get_num_dims() for value in (op.lhs, op.rhs))
    left, right = (
        tuple(d for d in range(rank) if d not in op.contracting[side] and d not in op.batch[side])
        for side, rank in enumerate(ranks)
    )
    return left, right
