"""The layouts that the TPU compiler gives vectors of rank 1 ("flat" vectors).

`row_layouts.py` says which there are, and asks for each operation in turn. Asked of libtpu 0.0.51,
element by element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import cast

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, OpResult, SSAValue

from pallasite.dialects import arith, tpu, vector
from pallasite.dialects.arithmetic import is_arithmetic
from pallasite.dialects.types import AnyVector, bit_width
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.passes.check_kernel.constants import first_varying
from pallasite.passes.check_kernel.widening import SUMS, compares_packed, through_words
from pallasite.targets import Target

PACKED, COLUMN = "packed", "column"
EVERY = -1
"""`Row.row` of a row that is replicated in all rows of its tile."""
FEW_ROWS = 4
"""Arrays of at most so many rows have smaller tiles in memory, which loaded vectors keep."""


@dataclass(frozen=True)
class Row:
    """The layout of a flat vector, or of the first row of another, in row `row` of tiles of `tile`
    rows; None is unknown. `regrouped` rows are in small tiles that a reshape made."""

    tile: int | None = None
    row: int | None = None
    regrouped: bool = False

    def meets(self, other: Row) -> bool:
        """Whether both may be the layout of one value: no known part differs."""
        if self.tile != other.tile and self.tile is not None and other.tile is not None:
            return False
        rows = {self.row, other.row}
        return len(rows) < 2 or bool(rows & {None, EVERY})


Layout = Row | str
"""The layout of a flat vector: `PACKED`, `COLUMN`, or a row."""
LayoutOf = Callable[[SSAValue], Layout | None]

_BITWISE = (arith.AndIOp, arith.OrIOp, arith.XOrIOp)
NARROWING = (
    arith.TruncFOp, arith.TruncIOp, arith.FPToSIOp, arith.FPToUIOp, arith.SIToFPOp, arith.UIToFPOp,
)  # fmt: skip
WIDENING = (
    arith.ExtFOp, arith.ExtSIOp, arith.ExtUIOp, arith.SIToFPOp, arith.UIToFPOp, tpu.ExtfOp,
    tpu.SitofpOp,
)  # fmt: skip


def layout_of_flat(op: Operation, result: OpResult, of: LayoutOf, target: Target) -> Layout | None:
    """The layout of the flat `result` of `op`, given those `of` its operands."""
    if isinstance(op, vector.LoadOp | tpu.VectorLoadOp | tpu.ConcatenateOp):
        # A concatenation is packed whatever its pieces are.
        return PACKED
    if isinstance(op, NARROWING) and bit_width(result.type) < 32:
        words = bit_width(op.operands[0].type) == 32
        return _narrowed(op.operands[0], result, of, target) if words else None
    if isinstance(op, WIDENING) and 1 < bit_width(op.operands[0].type) < 32:
        return _widened(op.operands[0], of)
    if isinstance(op, vector.MultiReductionOp):
        return reduced_layout(op, of, target)
    if isinstance(op, vector.ShapeCastOp):
        return _of_reshape(op, of, target)
    if isinstance(op, vector.ExtractStridedSliceOp):
        # A part of what is packed stays so.
        return PACKED if of(op.operands[0]) == PACKED else None
    if not is_arithmetic(op):
        return None
    return _of_elementwise(op, result, of, target)


def _of_elementwise(op: Operation, result: OpResult, of: LayoutOf, target: Target) -> Layout | None:
    """The first operand that is no constant decides the layout of an elementwise result."""
    if through_words(op, target):
        return _narrowed(first_varying(operands_like_result(op)), result, of, target)
    if isinstance(op, arith.CmpiOp | arith.CmpfOp) and bit_width(op.lhs.type) < 32:
        return _of_comparison(op, of, target)
    if isinstance(op, arith.SelectOp) and bit_width(op.result.type) < 32:
        return _of_choice(op, of, target)
    following = _followed(op, target)
    if following is None:
        return None
    others = [v for v in operands_like_result(op) if v is not following]
    return _combined(of(following), others, of)


def operands_like_result(op: Operation) -> list[SSAValue]:
    """The operands of the type of the result."""
    return [v for v in op.operands if v.type == op.results[0].type]


def _combined(layout: Layout | None, others: list[SSAValue], of: LayoutOf) -> Layout | None:
    """The layout of a result whose first operand has the layout `layout`: replicated in all rows
    only if the other operands are."""
    if not isinstance(layout, Row) or layout.row != EVERY or not others:
        return layout
    varying = [other for other in others if first_varying([other]) is not None]
    rows = [_in_row(of(other), layout.tile) for other in varying]
    return Row(layout.tile, next((row for row in rows if row != EVERY), EVERY))


def _in_row(layout: Layout | None, tile: int | None) -> int | None:
    """The row of `layout` in tiles of `tile` rows, None if unknown; packed words are in row 0 of
    tiles of 8."""
    if layout == PACKED:
        return 0 if tile == SUBLANES else None
    return layout.row if isinstance(layout, Row) and layout.tile == tile else None


def _narrowed(source: SSAValue | None, result: SSAValue, of: LayoutOf, target: Target) -> Layout:
    """The layout of `result`, narrowed from 32-bit words: `source`, or words widened from it."""
    layout = None if source is None else of(source)
    return COLUMN if layout == COLUMN else in_registers(layout, result, target)


def _of_comparison(op: arith.CmpiOp | arith.CmpfOp, of: LayoutOf, target: Target) -> Layout | None:
    """A mask has the layout of the vectors compared, in tiles of registers if that takes words."""
    first = first_varying(op.operands)
    layout = None if first is None else of(first)
    if first is None or layout is None or layout == COLUMN or compares_packed(op, target):
        return layout
    return in_registers(layout, first, target)


def _of_choice(op: arith.SelectOp, of: LayoutOf, target: Target) -> Layout | None:
    """The layout of a selection between packed elements.

    With a scalar condition it is that of the first value. With a mask it is that of the mask if the
    mask is packed, or compares elements of the same width; if those are compared as words, the row
    is that of the mask and the tile that of the first value. Else it is not known.
    """
    mask = first_varying(v for v in op.operands[:1] if isinstance(v.type, VectorType))
    first = first_varying(op.operands[1:])
    chosen = None if first is None else of(first)
    if mask is None:
        return chosen
    layout, made = of(mask), mask.owner
    if not isinstance(made, arith.CmpiOp | arith.CmpfOp) or layout == PACKED:
        return layout if layout == PACKED else None
    if bit_width(made.operands[0].type) != bit_width(op.result.type):
        return None
    if compares_packed(made, target) or not isinstance(layout, Row):
        return layout
    return Row(chosen.tile, layout.row) if isinstance(chosen, Row) else None


def _widened(source: SSAValue, of: LayoutOf) -> Layout | None:
    """The layout of `source` widened to 32-bit words: tiles of fewer than 8 rows stay."""
    layout = of(source)
    if layout is None or layout == COLUMN:
        return layout
    if not isinstance(layout, Row):
        return Row(SUBLANES, 0)
    return Row(None if layout.tile is None else min(layout.tile, SUBLANES), layout.row)


def in_registers(layout: Layout | None, value: SSAValue, target: Target) -> Row:
    """The layout of `value` in tiles of whole registers: in the row of `layout`, or in row 0 if
    that is packed."""
    row = 0 if layout == PACKED else layout.row if isinstance(layout, Row) else None
    return Row(_register_rows(bit_width(value.type), target), row)


def _register_rows(bits: int, target: Target) -> int:
    """Rows in a register; targets that do not compute with 16-bit integers keep these as words."""
    return SUBLANES if bits == 16 and not target.i16_ops else SUBLANES * packing(bits)


def reduced_layout(op: vector.MultiReductionOp, of: LayoutOf, target: Target) -> Layout | None:
    """A reduction that leaves the lanes gives a row, one that leaves the sublanes a column; a
    single row keeps its layout if only dimensions around it are reduced."""
    shape = cast(AnyVector, op.source.type).get_shape()
    last = len(shape) - 1
    reduced = {int(d) for d in op.reduction_dims.get_values()}
    stays = last - 1 not in reduced and shape[last - 1] == 1
    if last not in reduced and (stays or all(shape[dim] == 1 for dim in reduced)):
        return of(op.source)
    if last not in reduced:
        return Row(_register_rows(bit_width(op.source.type), target), EVERY)
    return COLUMN if last - 1 not in reduced else None


def _of_reshape(op: vector.ShapeCastOp, of: LayoutOf, target: Target) -> Layout | None:
    """Rows of 128 become packed, unless they were loaded; a single row or column stays one."""
    source = op.operands[0]
    shape = cast(AnyVector, source.type).get_shape()
    length = cast(AnyVector, op.results[0].type).get_shape()[0]
    if len(shape) < 2:
        return None
    if shape[-2:] == (1, length):
        return of(source)
    loaded = isinstance(source.owner, vector.LoadOp | tpu.VectorLoadOp)
    if shape[-1] == LANES and (loaded or length > LANES):
        return of_rows_of_a_tile(source, target)
    if bit_width(source.type) < 16:
        return None
    if 1 < shape[-1] < length <= LANES:
        # Lanes are folded into those of a row of its own.
        return Row(_register_rows(bit_width(source.type), target), 0)
    return COLUMN if shape[-2:] == (length, 1) and not loaded else None


def of_rows_of_a_tile(source: SSAValue, target: Target) -> Layout:
    """The layout of rows of 128 that are joined to one vector: packed, or row 0 if they are loaded
    and fill words."""
    bits, shape = bit_width(source.type), cast(AnyVector, source.type).get_shape()
    loaded = isinstance(source.owner, vector.LoadOp | tpu.VectorLoadOp)
    filled = prod(shape[:-1]) >= packing(bits)
    return Row(_register_rows(bits, target), 0) if loaded and filled else PACKED


def _followed(op: Operation, target: Target) -> SSAValue | None:
    """The operand whose layout the result of an elementwise `op` has: the first that is no
    constant; None where the elements of both differ in width."""
    if isinstance(op, (*_BITWISE, *SUMS)) or op.name in target.bf16_ops:
        return first_varying(op.operands)
    vectors = [v for v in op.operands if isinstance(v.type, VectorType)]
    wide = all(bit_width(v.type) in (1, 32) for v in (*vectors, op.results[0]))
    # A selection lies as its mask, and a mask as what was compared.
    return first_varying(vectors) if wide else None
