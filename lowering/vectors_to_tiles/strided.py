"""Strided loads and stores: the distance between rows becomes the sublane stride.

Rows of packed types share words, so a packed load loads every row of its span, and a planned move
selects the wanted ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import Operation, SSAValue

from pallasite.dialects import tpu
from pallasite.dialects.types import bit_width, element_of, shape_of
from pallasite.layouts.move import Move
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.boxes import accessed
from pallasite.lowering.vectors_to_tiles.access import Access, access
from pallasite.lowering.vectors_to_tiles.converter import Converter, rule
from pallasite.lowering.vectors_to_tiles.loading import load_grid
from pallasite.lowering.vectors_to_tiles.stores import store_grid


def strided_access(
    op: Operation, memref: SSAValue, indices: Sequence[SSAValue], strides: Sequence[int],
    shape: tuple[int, ...], c: Converter,
) -> Access:  # fmt: skip
    """The access of rows `strides[-2]` apart; other strides count positions of leading dimensions.

    Raises `Unsupported` if rows are apart and memory is not tiled by single rows.
    """
    plan = access(op, memref, indices, shape, c)
    if strides[-2] != 1 and not plan.single_rows:
        raise c.unsupported(
            op, "strided-access", f"a strided access of {memref.type} is not supported",
            "only memory that is tiled by single rows is accessed at a distance",
            "access the whole block and slice or select its value",
        )  # fmt: skip
    span = [(size - 1) * stride + 1 for size, stride in zip(shape, strides, strict=True)]
    lead = [step * stride for step, stride in zip(plan.steps[:-1], strides[:-1], strict=True)]
    return replace(
        plan,
        steps=(*lead, plan.steps[-1]),
        sublane_stride=plan.sublane_stride * strides[-2],
        open_row=plan.open_row and strides[-2] == 1,
        box=accessed(op, indices, span, shape_of(memref.type)),
    )


def _strides(
    op: tpu.StridedLoadOp | tpu.StridedStoreOp, value: SSAValue, c: Converter
) -> list[int]:
    """The strides of `op`; raises `Unsupported` if lanes are apart, too."""
    strides = [int(s) for s in op.strides.get_values()]
    if len(strides) < 2 or strides[-1] != 1:
        raise c.unsupported(
            op, "strided-access", f"a strided access of {value.type} with strides {strides} is not "
            "supported", "sublanes are read at a distance, lanes are not",
            "stride along the second to last or a leading dimension",
        )  # fmt: skip
    return strides


@rule(tpu.StridedLoadOp)
def lower_strided_load(op: tpu.StridedLoadOp, c: Converter) -> None:
    """Loads sublanes that are `stride` rows apart."""
    result, indices = op.results[0], list(op.indices)
    strides, shape, element = _strides(op, result, c), shape_of(result.type), element_of(result)
    if bit_width(element) == 32 or strides[-2] == 1:
        plan = strided_access(op, op.base, indices, strides, shape, c)
        c.define(result, load_grid(plan, shape, element, c), plan.layout)
    else:
        rows = (shape[-2] - 1) * strides[-2] + 1
        span = (*shape[:-2], rows, shape[-1])
        plan = strided_access(op, op.base, indices, [*strides[:-2], 1, 1], span, c)
        whole = load_grid(plan, span, element, c)
        layout = VectorLayout.native(len(shape), bit_width(element))
        steps = (*[1] * (len(shape) - 2), strides[-2], 1)
        move = Move.slice((plan.layout, span), layout, [0] * len(shape), shape, steps)
        c.define(result, c.move(move, [whole]), layout)
    c.retire(op)


@rule(tpu.StridedStoreOp)
def lower_strided_store(op: tpu.StridedStoreOp, c: Converter) -> None:
    """Stores sublanes that are `stride` rows apart; raises `Unsupported` for packed rows."""
    strides = _strides(op, op.value, c)
    if bit_width(element_of(op.value)) != 32 and strides[-2] != 1:
        raise c.unsupported(
            op, "strided-access", f"a strided store of {op.value.type} is not supported",
            "rows of packed types share words with the rows between them",
            "load the whole block, select between it and the value, and store that",
        )  # fmt: skip
    plan = strided_access(op, op.base, list(op.indices), strides, shape_of(op.value.type), c)
    store_grid(op, op.value, None, plan, (), c)
    c.retire(op)
