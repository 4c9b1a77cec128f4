"""Elementwise operations: operands agree on a layout, then one operation serves the whole grid."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from pallasite.dialects import arith, math, tpu
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.converter import (
    Converter,
    Tiled,
    element_of,
    grid_type,
    is_one_value,
    is_vector,
    rule,
    shape_of,
)
from pallasite.lowering.vectors_to_tiles.masks import is_mask, mask_in_layout
from pallasite.lowering.vectors_to_tiles.positions import lower_position_mask


def agree(operands: Sequence[Tiled], bits: int) -> VectorLayout:
    """The layout in which values of one shape meet.

    The first layout with the most registers decides which dimensions lie where; an axis stays
    replicated if all agree on that, or if the dimension has extent 1 there and somebody already
    has it replicated (re-creating a replicated column later costs more than spreading it now).
    Different offsets meet at 0.
    """
    shape = operands[0].shape
    layouts = [o.layout for o in operands]
    leader = max(layouts, key=lambda layout: layout.register_count(shape))
    rows, columns = leader.extents(shape)
    alike = [layout for layout in layouts if _same_axes(layout, leader)]
    row = _meet([layout.row for layout in alike], rows)
    column = _meet([layout.column for layout in alike], columns)
    layout = VectorLayout(bits, leader.sublane_dim, leader.lane_dim, row, column, leader.tile_rows)
    # Somebody with other dimensions on these axes may vary where the leader does not.
    return spelled_out(layout, shape) if len(alike) < len(layouts) else layout


def spelled_out(layout: VectorLayout, shape: tuple[int, ...]) -> VectorLayout:
    """`layout` without replication along dimensions of more than one element."""
    rows, columns = layout.extents(shape)
    row = 0 if layout.row is None and rows > 1 else layout.row
    column = 0 if layout.column is None and columns > 1 else layout.column
    return layout.with_offsets(row, column)


def _same_axes(layout: VectorLayout, other: VectorLayout) -> bool:
    return (layout.sublane_dim, layout.lane_dim, layout.tile_rows) == (
        other.sublane_dim,
        other.lane_dim,
        other.tile_rows,
    )


def _meet(offsets: Sequence[int | None], extent: int) -> int | None:
    concrete = {o for o in offsets if o is not None}
    if not concrete or (extent == 1 and None in offsets):
        return None
    return concrete.pop() if len(concrete) == 1 else 0


def elementwise_kinds() -> list[type[Operation]]:
    """Every elementwise operation of `arith` and `math`, and those of `tpu`."""
    kinds: list[type[Operation]] = []
    for module in (arith, math):
        kinds += [
            k for k in vars(module).values()
            if isinstance(k, type) and issubclass(k, Operation) and getattr(k, "name", "")
            and k not in (arith.ConstantOp, *CASTS)
        ]  # fmt: skip
    return [
        *kinds, tpu.WeirdOp, tpu.ReciprocalOp, tpu.LogisticOp,
        tpu.StochasticConvertElementwiseOp,
    ]  # fmt: skip


CASTS: tuple[type[Operation], ...] = (
    arith.ExtFOp, arith.TruncFOp, arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp,
    arith.SIToFPOp, arith.UIToFPOp, arith.FPToSIOp, arith.FPToUIOp,
)  # fmt: skip
"""Operations that may change the width of elements, and so the packing: another family."""


@rule(*elementwise_kinds())
def lower_elementwise(op: Operation, c: Converter) -> None:
    """The same operation on grids; scalar operands (a select's condition) stay as they are."""
    if not op.results or not is_vector(op.results[0]):
        return
    if isinstance(op, arith.CmpiOp) and lower_position_mask(op, c):
        return
    vectors = [c.tiled(v) for v in op.operands if is_vector(v)]
    data = {c.tiled(v).layout.bits for v in op.operands if is_vector(v) and not is_mask(v)}
    bits = data or _mask_bits(vectors)
    if len(bits) != 1:
        raise c.unsupported(
            op,
            "mixed-widths",
            f"{op.name} meets values of {sorted(bits)} bits in one register",
            "a mask of wide data does not fit packed registers",
            "compute the mask from data of the width it governs, or widen the data first",
        )
    width = bits.pop()
    alike = [v for v in vectors if v.layout.bits == width]
    layout = agree(alike, width) if alike else VectorLayout.native(len(vectors[0].shape), width)
    if len(alike) < len(vectors):
        # Masks are packed row block by row block, which needs tiles of whole registers.
        if not layout.is_native:
            layout = VectorLayout.native(len(vectors[0].shape), width)
        layout = spelled_out(layout, vectors[0].shape)
    lower_in_layout(op, layout, c)


def _mask_bits(masks: Sequence[Tiled]) -> set[int]:
    """The width of the data that masks govern together: splats of masks fit any, and masks of
    different widths meet as masks of words."""
    every = {mask.layout.bits for mask in masks}
    found = {mask.layout.bits for mask in masks if not is_one_value(mask)} or {max(every)}
    return found if len(found) == 1 else {32}


def lower_in_layout(op: Operation, layout: VectorLayout, c: Converter) -> None:
    """Clones `op` onto the grids of its operands in `layout`."""
    result = op.results[0]
    c.define(result, _cloned(op, layout, c), layout)
    if result.has_one_use() and _moves_alone(op, c):
        c.offer_smaller(result, lambda other: _in_fewer_registers(op, layout, other, c))
    c.retire(op)


def _cloned(op: Operation, layout: VectorLayout, c: Converter) -> SSAValue:
    operands: list[SSAValue] = [
        (mask_in_layout(c, v, layout) if is_mask(v) else c.in_layout(v, layout))
        if is_vector(v)
        else v
        for v in op.operands
    ]
    made = type(op).create(
        operands=operands,
        result_types=[grid_type(layout, shape_of(op.results[0]), element_of(op.results[0]))],
        properties=op.properties,
        attributes=op.attributes,
    )
    return c.emit(made)


def _moves_alone(op: Operation, c: Converter) -> bool:
    """Whether `op` computes data from one vector and values that are the same everywhere."""
    if any(is_mask(v) for v in (*op.operands, *op.results)):
        return False
    vectors = {v for v in op.operands if is_vector(v)}
    return sum(not is_one_value(c.tiled(v)) for v in vectors) == 1


def _in_fewer_registers(
    op: Operation, layout: VectorLayout, other: VectorLayout, c: Converter
) -> SSAValue | None:
    """`op` after its operand has moved to layout `other`, where that leaves it less to do."""
    shape = shape_of(op.results[0])
    if layout.bits != other.bits or other.register_count(shape) >= layout.register_count(shape):
        return None
    return _cloned(op, other, c)
