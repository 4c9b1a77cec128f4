"""Strided loads and stores: the distance between rows goes into the sublane stride."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import Operation, SSAValue

from pallasite.dialects import tpu
from pallasite.dialects.types import bit_width
from pallasite.lowering.vectors_to_tiles.converter import Converter, element_of, rule, shape_of
from pallasite.lowering.vectors_to_tiles.memory import Access, access, load_grid
from pallasite.lowering.vectors_to_tiles.stores import store_grid


def strided_access(
    op: Operation, memref: SSAValue, indices: Sequence[SSAValue], strides: list[int],
    value: SSAValue, c: Converter,
) -> Access:  # fmt: skip
    """The access of rows `strides[-2]` apart in memory tiled by single rows."""
    shape = shape_of(value)
    if len(shape) < 2 or bit_width(element_of(value)) != 32 or strides[-1] != 1:
        raise c.unsupported(
            op, "strided-access", f"a strided access of {value.type} with strides {strides} is not "
            "supported", "sublanes are read at a distance, lanes are not; words have 32 bits",
            "stride along the second to last or a leading dimension of a 32-bit array",
        )  # fmt: skip
    plan = access(op, memref, indices, shape, c)
    lead = [step * stride for step, stride in zip(plan.steps[:-1], strides[:-1], strict=True)]
    return replace(
        plan,
        steps=(*lead, plan.steps[-1]),
        sublane_stride=plan.sublane_stride * strides[-2],
        open_row=False,
    )


@rule(tpu.StridedLoadOp)
def lower_strided_load(op: tpu.StridedLoadOp, c: Converter) -> None:
    """A load whose sublanes lie `stride` rows apart."""
    strides = [int(s) for s in op.strides.get_values()]
    plan = strided_access(op, op.base, list(op.indices), strides, op.results[0], c)
    result = op.results[0]
    c.define(result, load_grid(plan, shape_of(result), element_of(result), c), plan.layout)
    c.retire(op)


@rule(tpu.StridedStoreOp)
def lower_strided_store(op: tpu.StridedStoreOp, c: Converter) -> None:
    """A store whose sublanes lie `stride` rows apart."""
    strides = [int(s) for s in op.strides.get_values()]
    plan = strided_access(op, op.base, list(op.indices), strides, op.value, c)
    store_grid(op, op.value, None, plan, (), c)
    c.retire(op)
