"""A model of the tiles and rows in which the TPU compiler lays out vectors.

A vector of rank 1 ("flat") has one of three layouts (asked of libtpu 0.0.51, element by element):

* packed: as memory holds it, each register filled row by row (loaded flat vectors);
* a row: in one sublane of each register (it was a row of a vector of higher rank);
* a column: along the sublanes (it was a column, such as the sums along the lanes).

Vectors of higher rank consist of rows. Rows of packed elements lie in certain rows of tiles. A tile
has as many rows as the tiles of the array in memory, until the vector is computed as 32-bit words
and narrowed again: the tile is then a whole register, and the row stays the same.

`carried_layouts.py` needs this because loops and branches cannot change the layout of flat vectors,
`replicated_masks.py` because masks do not move to small tiles.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from pallasite.dialects import arith, memref, scf, tpu, vector
from pallasite.dialects.arithmetic import is_arithmetic
from pallasite.dialects.types import bit_width, shape_of, tiling_of
from pallasite.dialects.vector_shapes import values_of
from pallasite.layouts.registers import LANES, SUBLANES
from pallasite.passes.check_kernel.arriving_values import layout_source, values_arriving_in
from pallasite.passes.check_kernel.constants import first_varying, is_constant
from pallasite.passes.check_kernel.demand import on_demand
from pallasite.passes.check_kernel.flat_layouts import (
    EVERY,
    FEW_ROWS,
    NARROWING,
    PACKED,
    WIDENING,
    Layout,
    Row,
    in_registers,
    layout_of_flat,
    of_rows_of_a_tile,
    operands_like_result,
    reduced_layout,
)
from pallasite.passes.check_kernel.widening import compares_packed, through_words
from pallasite.passes.reference_tiles import rows_of_tiles
from pallasite.targets import Target


class RowLayouts:
    """The layouts of vectors on `target`, computed when they are asked for."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._known: dict[SSAValue, Layout | None] = {}

    def of(self, value: SSAValue) -> Layout | None:
        """The layout of `value`, of higher rank that of its first row; None for constants, which
        fit any, and where it is not known."""
        return on_demand(value, self._known, _sources, self._find)

    def has_small_tiles(self, value: SSAValue) -> bool:
        """Whether the packed rows of `value` have tiles of few rows of which a register holds
        several, so that their order is another one than in larger tiles."""
        shape = shape_of(value.type)
        while isinstance(op := value.owner, vector.BroadcastOp) and _repeats_column(op):
            # What is repeated along the lanes stays in its rows.
            value = op.source
        layout = self.of(value)
        if layout == PACKED:
            return shape[-1] > LANES
        if not isinstance(layout, Row) or layout.tile is None or layout.tile > FEW_ROWS:
            return False
        return shape[-1] > LANES or layout.regrouped

    def _find(self, value: SSAValue) -> Layout | None:
        op = value.owner
        if not isinstance(op, Operation) or isinstance(op, scf.ForOp | scf.IfOp):
            arriving = list(dict.fromkeys(self.of(source) for source in _sources(value)))
            return arriving[0] if len(arriving) == 1 else None
        if len(shape_of(value.type)) == 1:
            return layout_of_flat(op, cast(OpResult, value), self.of, self._target)
        return self._of_rows(op, value)

    def _of_rows(self, op: Operation, value: SSAValue) -> Layout | None:
        """The layout of the first row of `value`, of rank 2 or more, which `op` makes."""
        if isinstance(op, vector.LoadOp | tpu.VectorLoadOp):
            return self._of_load(op)
        if isinstance(op, tpu.IotaOp):
            return Row()
        if isinstance(op, vector.ExtractStridedSliceOp):
            return self._of_slice(op)
        if isinstance(op, vector.MultiReductionOp):
            one = shape_of(value.type)[-2] == 1
            return reduced_layout(op, self.of, self._target) if one else None
        if isinstance(op, vector.ShapeCastOp):
            return self._of_reshape(op)
        if is_arithmetic(op) or isinstance(op, NARROWING):
            return self._of_elementwise(op, value)
        return None

    def _of_elementwise(self, op: Operation, value: SSAValue) -> Layout | None:
        bits = bit_width(value.type)
        if isinstance(op, NARROWING) and bits < bit_width(op.operands[0].type) == 32:
            return in_registers(self.of(op.operands[0]), value, self._target)
        if isinstance(op, arith.CmpiOp | arith.CmpfOp):
            first = first_varying(op.operands)
            packed = first is not None and compares_packed(op, self._target)
            return self.of(first) if first is not None and packed else None
        first = first_varying(operands_like_result(op))
        layout = None if first is None else self.of(first)
        return (
            in_registers(layout, value, self._target) if through_words(op, self._target) else layout
        )

    def _of_load(self, op: vector.LoadOp | tpu.VectorLoadOp) -> Layout | None:
        """The layout of the first row that `op` loads: in the tiles of its array."""
        held = cast("MemRefType[Attribute]", op.operands[0].type)
        shape = shape_of(op.results[0].type)
        if bit_width(held) == 32:
            if shape[-2] == 1:
                # A load of a row of over 128 words gives the packed layout.
                return PACKED if shape[-1] > LANES else Row(SUBLANES, EVERY)
            return Row(SUBLANES, 0 if _start_row(op, SUBLANES) == 0 else None)
        base = op.operands[0].owner
        if len(held.get_shape()) < 2 or bit_width(held) != bit_width(op.results[0].type):
            return Row()
        viewed = isinstance(base, Operation) and not isinstance(base, memref.AllocaOp)
        if viewed or tiling_of(held) is not None:
            return Row()
        tile = rows_of_tiles(op.operands[0], self._target)
        return Row(tile, _start_row(op, tile))

    def _of_slice(self, op: vector.ExtractStridedSliceOp) -> Layout | None:
        """The layout of rows cut out of several: the tile row of the first plus the offset."""
        source = op.operands[0]
        first, begins = self.of(source), values_of(op.offsets)
        if shape_of(source.type)[-2] == 1:
            return first if isinstance(first, Row) else None
        if not isinstance(first, Row):
            return Row()
        if first.tile is None or first.row is None or first.row == EVERY:
            return first
        down = begins[-2] if len(begins) == len(shape_of(source.type)) else 0
        return Row(first.tile, (first.row + down) % first.tile, first.regrouped)

    def _of_reshape(self, op: vector.ShapeCastOp) -> Layout | None:
        source = op.operands[0]
        old, new = shape_of(source.type), shape_of(op.results[0].type)
        if new[-2] == 1 and old[-1] == LANES < new[-1]:
            return of_rows_of_a_tile(source, self._target)
        if old[-1] != new[-1]:
            return None
        if len(old) > 1 and old[-2] != new[-2] and (old[-2] % SUBLANES or new[-2] % SUBLANES):
            # Rows that do not fill sublanes are regrouped in small tiles.
            return Row(FEW_ROWS, None, regrouped=True)
        return self.of(source)


def _sources(value: SSAValue) -> list[SSAValue]:
    """The vectors whose layouts decide that of `value`."""
    op = value.owner
    if not isinstance(op, Operation) or isinstance(op, scf.ForOp | scf.IfOp):
        if isinstance(op, Operation) and len(shape_of(value.type)) > 1:
            # Vectors of rank 2 and more are moved to one layout where they differ.
            return [v for v in values_arriving_in(value) if not is_constant(v)]
        following = layout_source(value)
        return [] if following is None else [following]
    moved = (
        vector.ShapeCastOp, vector.ExtractStridedSliceOp, vector.MultiReductionOp,
        *WIDENING, *NARROWING,
    )  # fmt: skip
    if not is_arithmetic(op) and not isinstance(op, moved):
        return []
    return [v for v in op.operands if isinstance(v.type, VectorType)]


def _repeats_column(op: vector.BroadcastOp) -> bool:
    return shape_of(op.source.type) == (*shape_of(op.results[0].type)[:-1], 1)


def _start_row(op: vector.LoadOp | tpu.VectorLoadOp, tile: int) -> int | None:
    """The row of its tile in which a load begins."""
    start = arith.known_integer(list(op.indices)[-2]) if len(op.indices) > 1 else None
    return None if start is None else start % tile
