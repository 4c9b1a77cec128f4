"""Warns about loads and stores at constant indices outside of their refs.

The TPU compiler accepts them: registers are loaded and stored as whole tiles, and behind an array
there is padding up to the end of its last tile, then other memory. What a kernel reads there has no
meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX

from pallasite.diagnostics import Diagnostic, Note
from pallasite.dialects import tpu
from pallasite.dialects.func import FuncOp
from pallasite.dialects.locations import source_location
from pallasite.dialects.types import shape_of
from pallasite.dialects.walking import of_kind
from pallasite.passes.accesses import ACCESSES, Access, accessed_shape, base_of, stores
from pallasite.passes.divisibility import constant_of


def bounds_advice(func: FuncOp) -> Iterator[Diagnostic]:
    """A warning for each unmasked access of `func` that certainly leaves its ref."""
    for op in of_kind(func, *ACCESSES):
        if isinstance(op, tpu.VectorLoadOp | tpu.VectorStoreOp) and op.mask is not None:
            continue
        strides = [1] * len(op.indices)
        if isinstance(op, tpu.StridedLoadOp | tpu.StridedStoreOp):
            strides = list(op.strides.get_values())
        yield from _outside(op, strides)


def _outside(op: Access, strides: Sequence[int]) -> Iterator[Diagnostic]:
    places = zip(shape_of(base_of(op).type), op.indices, accessed_shape(op), strides, strict=True)
    for dim, (extent, index, size, stride) in enumerate(places):
        start = constant_of(index)
        if start is None or extent == DYNAMIC_INDEX:
            continue
        end = start + (size - 1) * stride
        if start >= 0 and end < extent:
            continue
        verb = "store to" if stores(op) else "load of"
        where = f"position {start}" if end == start else f"positions {start} to {end}"
        yield Diagnostic(
            "outside-ref",
            f"{verb} {where} of dimension {dim}, of which the ref has {extent}",
            source_location(op),
            [
                Note(
                    "what lies behind an array is padding or another array: "
                    + ("it may be overwritten" if stores(op) else "what is read has no meaning")
                ),
                Note(
                    f"nothing is counted from the end: write {extent + start} for {start}"
                    if 0 <= extent + start < extent
                    else "mask the positions outside, or make the ref as large as what is accessed"
                ),
            ],
            severity="warning",
        )
        return
