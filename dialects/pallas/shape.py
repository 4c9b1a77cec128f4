"""Shapes that `vector` has no operation for."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import VectorType
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.pallas.base import PallasOp, integers_of
from pallasite.dialects.tpu.base import I64_ARRAY
from pallasite.dialects.types import dense_integers, vector_type


@irdl_op_definition
class BroadcastOp(PallasOp):
    """Repeats a vector along new dimensions and along dimensions of size 1.

    Dimension d of the operand becomes dimension `dims[d]` of the result, as in
    `jax.lax.broadcast_in_dim`. For scalars there is `vector.broadcast`.

    Example: `%c = pallas.broadcast %x dims [0] : vector<8xf32> -> vector<8x128xf32>`
    """

    name = "pallas.broadcast"

    value = operand_def(VectorType)
    dims = prop_def(I64_ARRAY)
    result = result_def(VectorType)

    traits = traits_def(Pure())
    assembly_format = "$value `dims` $dims attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue, dims: Sequence[int], shape: Sequence[int]):
        super().__init__(
            operands=[value],
            properties={"dims": dense_integers(dims)},
            result_types=[VectorType(vector_type(value).element_type, shape)],
        )

    def verify_(self) -> None:
        source, result = vector_type(self.value), vector_type(self.result)
        dims, shape = integers_of(self.dims), result.get_shape()
        if len(dims) != source.get_num_dims():
            raise VerifyException(f"expected one entry per dimension of {source}, got {list(dims)}")
        if list(dims) != sorted(set(dims)) or (dims and not 0 <= dims[0] <= dims[-1] < len(shape)):
            raise VerifyException(f"expected rising dimensions of {result}, got {list(dims)}")
        for size, dim in zip(source.get_shape(), dims, strict=True):
            if size not in (1, shape[dim]):
                raise VerifyException(
                    f"size {size} does not broadcast to dimension {dim} of {result}"
                )
        if source.element_type != result.element_type:
            raise VerifyException(f"expected one element type, got {source} and {result}")
