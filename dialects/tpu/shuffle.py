"""Gathers, rotations and shuffles of the rows and lanes of a vector."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    VectorType,
    i32,
)
from xdsl.irdl import (
    VarConstraint,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.tpu.base import (
    I32_ARRAY,
    I32_ATTR,
    SI32_ATTR,
    VECTOR,
    VECTOR_INTEGER,
    HasCanonicalForms,
    TpuOp,
    check_inferred,
    operand,
    sublane_counts,
)
from pallasite.dialects.tpu.movement import check_dimensions
from pallasite.dialects.types import split_grid

SAME_VECTOR = VarConstraint("T", VECTOR)


@irdl_op_definition
class BroadcastInSublanesOp(TpuOp):
    """Sublane i is filled with lane `lane + i` of the source."""

    name = "tpu.broadcast_in_sublanes"

    source = operand(VECTOR)
    lane = prop_def(I32_ATTR)
    result = result_def(VECTOR)

    traits = traits_def(Pure())
    assembly_format = "$source `,` $lane attr-dict `:` type($source) `->` type($result)"

    def verify_(self) -> None:
        source = self.source.type
        check_inferred(self.result.type, source)
        if split_grid(source) is None:
            raise VerifyException(f"expected registers, got {source}")


@irdl_op_definition
class GatherOp(TpuOp):
    """Position p along `dimension` is position `indices[p]` of the source."""

    name = "tpu.gather"

    source = operand(VECTOR)
    indices = prop_def(I32_ARRAY)
    dimension = prop_def(I32_ATTR)
    result = result_def(VECTOR)

    traits = traits_def(Pure())
    assembly_format = (
        "$source `[` $indices `]` `in` $dimension attr-dict `:` type($source) `->` type($result)"
    )

    def verify_(self) -> None:
        source, dim = self.source.type, self.dimension.value.data
        indices = self.indices.get_values()
        check_dimensions([dim], source.get_num_dims())
        shape = list(source.get_shape())
        for index in indices:
            if not 0 <= index < shape[dim]:
                raise VerifyException(f"indices are in [0, {shape[dim]}), got {index}")
        shape[dim] = len(indices)
        check_inferred(self.result.type, VectorType(source.element_type, shape))


@irdl_op_definition
class DynamicGatherOp(TpuOp):
    """Gathers along `dimensions`, taken together row-major, at run-time indices modulo the size."""

    name = "tpu.dynamic_gather"

    source = operand(VECTOR)
    indices = operand(VECTOR_INTEGER)
    dimensions = prop_def(I32_ARRAY)
    result = result_def(VECTOR)

    traits = traits_def(Pure(), HasCanonicalForms())
    assembly_format = (
        "$source `[` $indices `]` `in` $dimensions attr-dict"
        " `:` type($source) `,` type($indices) `->` type($result)"
    )

    def verify_(self) -> None:
        source, indices = self.source.type, self.indices.type
        check_inferred(self.result.type, VectorType(source.element_type, indices.get_shape()))
        shapes = source.get_shape(), indices.get_shape()
        dims = self.dimensions.get_values()
        check_dimensions(dims, len(shapes[0]))
        if len(shapes[0]) != len(shapes[1]):
            raise VerifyException(f"expected one rank, got {source} and {indices}")
        for dim, (n, m) in enumerate(zip(*shapes, strict=True)):
            if n != m and dim not in dims:
                raise VerifyException(
                    f"expected equal sizes outside dimensions {list(dims)}, "
                    f"got {source} and {indices}"
                )


@irdl_op_definition
class DynamicRotateOp(TpuOp):
    """Rotates towards higher indices of `dimension`, by `stride` more per step of another one."""

    name = "tpu.dynamic_rotate"

    value = operand(VECTOR)
    amount = operand(i32)
    dimension = prop_def(SI32_ATTR)
    stride = opt_prop_def(SI32_ATTR)
    stride_dimension = opt_prop_def(SI32_ATTR)
    result = result_def(VECTOR)

    traits = traits_def(Pure())
    assembly_format = (
        "$value `by` $amount `dim` $dimension attr-dict"
        " `:` type($value) `,` type($amount) `->` type($result)"
    )

    def verify_(self) -> None:
        if self.result.type != self.value.type:
            raise VerifyException(f"expected result {self.value.type}, got {self.result.type}")
        check_rotation(self)


@irdl_op_definition
class RotateOp(TpuOp):
    """Rotates by a constant amount; only modules of the old C++ passes have it."""

    name = "tpu.rotate"

    value = operand(SAME_VECTOR)
    amount = prop_def(SI32_ATTR)
    dimension = prop_def(SI32_ATTR)
    stride = opt_prop_def(SI32_ATTR)
    stride_dimension = opt_prop_def(SI32_ATTR)
    result = result_def(SAME_VECTOR)

    traits = traits_def(Pure())
    assembly_format = "$value `by` $amount `dim` $dimension attr-dict `:` type($value)"

    def verify_(self) -> None:
        if self.amount.value.data < 0:
            raise VerifyException(f"expected an amount of at least 0, got {self.amount.value.data}")
        check_rotation(self)


@irdl_op_definition
class SublaneShuffleOp(TpuOp):
    """Row p is row `pattern[p]` of the two registers one above the other."""

    name = "tpu.sublane_shuffle"

    lhs = operand(VECTOR)
    rhs = operand(VECTOR)
    pattern = prop_def(I32_ARRAY)
    result = result_def(VECTOR)

    assembly_format = (
        "$lhs `,` $rhs `,` $pattern attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)"
    )

    def verify_(self) -> None:
        types = self.lhs.type, self.rhs.type, self.result.type
        if types[0] != types[1] or types[0] != types[2]:
            raise VerifyException(f"expected three equal types, got {', '.join(map(str, types))}")
        if types[0].get_num_dims() < 2:
            raise VerifyException(f"expected registers of rank 2 or 3, got {types[0]}")
        pattern = self.pattern.get_values()
        if len(pattern) not in sublane_counts(types[0]):
            raise VerifyException(
                f"expected a pattern of {sublane_counts(types[0])[-1]} sublanes, got {len(pattern)}"
            )
        for row in pattern:
            if not 0 <= row < 2 * len(pattern):
                raise VerifyException(f"pattern entries are in [0, {2 * len(pattern)}), got {row}")


def check_rotation(op: DynamicRotateOp | RotateOp) -> None:
    """The dimensions exist; a stride comes with its dimension and is not negative."""
    rank = op.value.type.get_num_dims()
    check_dimensions([op.dimension.value.data], rank)
    if (op.stride is None) != (op.stride_dimension is None):
        raise VerifyException("expected either both stride and stride_dimension or neither")
    if op.stride is None or op.stride_dimension is None:
        return
    if op.stride.value.data < 0:
        raise VerifyException(f"expected a stride of at least 0, got {op.stride.value.data}")
    check_dimensions([op.stride_dimension.value.data], rank)


OPERATIONS = (
    BroadcastInSublanesOp,
    GatherOp,
    DynamicGatherOp,
    DynamicRotateOp,
    RotateOp,
    SublaneShuffleOp,
)
