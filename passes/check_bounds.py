"""Advice about loads and stores at known places outside of their refs.

The TPU compiler takes them. Registers are loaded and stored in whole tiles, so what lies behind an
array but in its last tile is padding; what a kernel reads there has no meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.diagnostics import Diagnostic, Note
from pallasite.dialects import tpu, vector
from pallasite.dialects.func import FuncOp
from pallasite.dialects.locations import source_location
from pallasite.passes.divisibility import constant_of

_ACCESSES = (
    tpu.StridedLoadOp, tpu.StridedStoreOp, tpu.VectorLoadOp, tpu.VectorStoreOp, vector.LoadOp,
    vector.StoreOp,
)  # fmt: skip


def bounds_advice(func: FuncOp) -> Iterator[Diagnostic]:
    """A warning for each unmasked access of `func` that certainly leaves its ref."""
    for op in func.walk():
        if not isinstance(op, _ACCESSES):
            continue
        if isinstance(op, tpu.VectorLoadOp | tpu.VectorStoreOp) and op.mask is not None:
            continue
        base = next(v for v in op.operands if isinstance(v.type, MemRefType))
        moved = (*op.results, *op.operands)
        kind = next(v.type for v in moved if isinstance(v.type, VectorType))
        strides: Sequence[int] = ()
        if isinstance(op, tpu.StridedLoadOp | tpu.StridedStoreOp):
            strides = op.strides.get_values()
        shape = cast(MemRefType[Attribute], base.type).get_shape()
        taken = cast(VectorType[Attribute], kind).get_shape()
        yield from _outside(op, shape, list(op.indices), taken, strides)


def _outside(
    op: Operation,
    shape: Sequence[int],
    indices: Sequence[SSAValue],
    taken: Sequence[int],
    strides: Sequence[int],
) -> Iterator[Diagnostic]:
    sizes = (*(1,) * (len(shape) - len(taken)), *taken)
    for dim, (extent, index, size) in enumerate(zip(shape, indices, sizes, strict=True)):
        start = constant_of(index)
        if start is None or extent == DYNAMIC_INDEX:
            continue
        end = start + (size - 1) * (strides[dim] if strides else 1)
        if start >= 0 and end < extent:
            continue
        stores = op.name.endswith("store")
        yield Diagnostic(
            "outside-ref",
            f"{'store to' if stores else 'load of'} positions {start} to {end} of dimension {dim}, "
            f"of which the ref has {extent}",
            source_location(op),
            [
                Note(
                    "what lies behind an array is padding or another array: "
                    + ("it may be overwritten" if stores else "what is read has no meaning")
                ),
                Note("mask the positions outside, or make the ref as large as what is accessed"),
            ],
            severity="warning",
        )
        return
