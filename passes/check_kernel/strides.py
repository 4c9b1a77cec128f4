"""Refuses slices of values with a stride."""

from __future__ import annotations

from pallasite.dialects import vector
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import shape_of
from pallasite.dialects.vector_shapes import values_of
from pallasite.layouts.registers import LANES
from pallasite.passes.spaced_out import Along, spaced_out
from pallasite.targets import Target

_STRIDED_LOADS = (
    f"or load rows of at most {LANES} elements at a distance: ref[pl.ds(start, size, stride), :]",
)


def stride_rule(op: vector.ExtractStridedSliceOp, target: Target) -> None:
    """Raises `Unsupported` for a slice with a stride other than 1, which MLIR's operation does not
    allow, so that the TPU compiler cannot even parse it."""
    strides = values_of(op.strides)
    for dim, stride in enumerate(strides):
        if stride != 1:
            shape = shape_of(op.source.type)
            raise refusal(
                op, "strided-slice",
                f"a slice of a value with stride {stride} along dimension {dim} is not supported",
                "the TPU compiler slices neighbouring elements only: its operation, "
                "vector.extract_strided_slice, has no strides other than 1",
                *spaced_out("x", _taken(op), target),
                *_STRIDED_LOADS[dim == len(shape) - 1 :],
            )  # fmt: skip


def _taken(op: vector.ExtractStridedSliceOp) -> list[Along]:
    """What a slice takes in each dimension of its source: all, in dimensions that it leaves out."""
    shape = shape_of(op.source.type)
    named = [values_of(of) for of in (op.offsets, op.sizes, op.strides)]
    dims = [Along(*dim) for dim in zip(shape, *named)]  # noqa: B905
    return [*dims, *(Along(size, 0, size) for size in shape[len(dims) :])]
