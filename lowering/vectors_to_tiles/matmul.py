"""Matrix products: operands in native tiles, contraction padding zeroed, one `grid.matmul`."""

from __future__ import annotations

from typing import Any, cast

from xdsl.ir import SSAValue

from pallasite.dialects import grid, tpu
from pallasite.dialects.types import shape_of
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.converter import Converter, rule
from pallasite.lowering.vectors_to_tiles.padding import zero_padding
from pallasite.lowering.vectors_to_tiles.tiled import Tiled


@rule(tpu.MatmulOp)
def lower_matmul(op: tpu.MatmulOp, c: Converter) -> None:
    """Lowers a two-dimensional product; `canonicalize-mosaic` gives every product this form."""
    transposed = _transposed_rhs(op, c)
    lhs, rhs = (_zeroed(v, d, c) for v, d in ((op.lhs, 1), (op.rhs, 1 if transposed else 0)))
    layout = VectorLayout.native(2, 32)
    acc = c.in_layout(op.acc, layout)
    deep = c.target.mxu_contracting
    if max(c.mask_bits(op.lhs), c.mask_bits(op.rhs)) < 8:
        deep *= 2  # two narrow operands share a lane of the array (spec/vreg_lowering.md 7.12)
    made = grid.MatmulOp(
        lhs, rhs, acc, transpose_rhs=transposed, precision=op.precision,
        contracting=deep, columns=c.target.mxu_columns,
    )  # fmt: skip
    c.define(op.results[0], c.emit(made), layout)
    c.retire(op)


def _transposed_rhs(op: tpu.MatmulOp, c: Converter) -> bool:
    """Whether the right operand is (N, K), instead of (K, N); raises `Unsupported` for other
    forms."""
    if len(shape_of(op.lhs.type)) == 2 and len(shape_of(op.rhs.type)) == 2:
        numbers = cast(Any, op.dimension_numbers)
        if numbers is None:
            return bool(op.transpose_rhs.value.data)
        lists = [list(part) for part in numbers.lists()]
        if lists[0] == [1] and lists[1] in ([0], [1]) and not lists[5] and not lists[6]:
            return lists[1] == [1]
    raise c.unsupported(
        op, "matmul-form", "only products of two matrices contracting the left operand's columns "
        "can be lowered to registers", "run canonicalize-mosaic first",
    )  # fmt: skip


def _zeroed(value: SSAValue, dim: int, c: Converter) -> SSAValue:
    """`value` in native tiles, with zeros after its data along dimension `dim`, the contracted
    one."""
    bits = c.mask_bits(value)
    layout = VectorLayout.native(2, bits)
    held = Tiled(c.in_layout(value, layout), layout, shape_of(value.type))
    return zero_padding(held, dim, c)
