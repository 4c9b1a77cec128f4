"""A model of the layouts that the TPU compiler gives vectors of rank 1 ("flat" vectors).

A flat vector has one of three layouts (asked of libtpu 0.0.51, element by element):

* packed: as memory holds it, each register filled row by row (loaded flat vectors);
* a row: in one sublane of each register (it was a row of a vector of higher rank);
* a column: along the sublanes (it was a column, such as the sums along the lanes).

A row of packed elements also lies in a certain row of a tile. The tile has as many rows as the
tiles of the array in memory, until the row is computed as 32-bit words and narrowed again: the tile
is then a whole register, and the row stays the same. `carried.py` needs this because loops and
branches cannot change a layout.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import cast

from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue

from pallasite.dialects import arith, memref, scf, tpu, vector
from pallasite.dialects.types import AnyVector, bit_width, tiling_of
from pallasite.dialects.vector_shapes import values_of
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.passes.check_kernel.ways import carried_from, first_varying
from pallasite.passes.check_kernel.words import SUMS, compares_packed, through_words
from pallasite.passes.reference_tiles import rows_of_tiles
from pallasite.targets import Target

PACKED, COLUMN = "packed", "column"
EVERY = -1
"""`Row.row` of a row that is replicated in all rows of its tile."""


@dataclass(frozen=True)
class Row:
    """The layout of a flat vector in row `row` of tiles of `tile` rows; None is unknown."""

    tile: int | None = None
    row: int | None = None

    def meets(self, other: Row) -> bool:
        """Whether both may be the layout of one value: no known part differs."""
        if self.tile != other.tile and self.tile is not None and other.tile is not None:
            return False
        rows = {self.row, other.row}
        return len(rows) < 2 or bool(rows & {None, EVERY})


Place = Row | str
"""The layout of a flat vector: `PACKED`, `COLUMN`, or a row."""

_BITWISE = (arith.AndIOp, arith.OrIOp, arith.XOrIOp)
_NARROWING = (
    arith.TruncFOp, arith.TruncIOp, arith.FPToSIOp, arith.FPToUIOp, arith.SIToFPOp, arith.UIToFPOp,
)  # fmt: skip
_WIDENING = (
    arith.ExtFOp, arith.ExtSIOp, arith.ExtUIOp, arith.SIToFPOp, arith.UIToFPOp, tpu.ExtfOp,
    tpu.SitofpOp,
)  # fmt: skip
_DEPTH = 8
"""How many operations in a row are looked through to find where a row comes from."""


@dataclass
class Places:
    """The layouts of flat vectors on `target`, computed when they are asked for."""

    target: Target
    known: dict[SSAValue, Place | None] = field(default_factory=dict[SSAValue, "Place | None"])

    def of(self, value: SSAValue) -> Place | None:
        """The layout of `value`; None for constants, which fit any, and where it is not known.

        Iterates instead of recursing, since functions have thousands of operations in a row; each
        value is computed once.
        """
        waiting = [value]
        while waiting:
            last = waiting[-1]
            if last in self.known:
                waiting.pop()
            elif asked := [v for v in _computed_from(last) if v not in self.known]:
                waiting += asked
            else:
                self.known[last] = _place(last, self)
        return self.known[value]


def _computed_from(value: SSAValue) -> list[SSAValue]:
    """The flat vectors whose layouts `_place` needs for that of the flat vector `value`."""
    op = value.owner
    if not isinstance(op, Operation) or isinstance(op, scf.ForOp | scf.IfOp):
        following = carried_from(value)
        return [] if following is None else [following]
    if isinstance(op, vector.ShapeCastOp):
        return _before_rows(op.operands[0])
    if op.dialect_name() not in ("arith", "math") and not isinstance(op, _WIDENING):
        return []
    return [v for v in op.operands if _is_flat(v)]


def _before_rows(value: SSAValue) -> list[SSAValue]:
    """The flat vector from which `value`, a row of higher rank, is made, as `_of_row` finds it;
    [] if there is none."""
    found: SSAValue | None = value
    for _ in range(_DEPTH):
        if found is None or _is_flat(found):
            break
        op = found.owner
        if not isinstance(op, Operation):
            return []
        through = isinstance(op, (vector.ShapeCastOp, *_NARROWING))
        found = op.operands[0] if through else first_varying(_values(op))
    return [] if found is None or not _is_flat(found) else [found]


def _is_flat(value: SSAValue) -> bool:
    return isinstance(value.type, VectorType) and len(value.type.get_shape()) == 1


def _place(value: SSAValue, places: Places) -> Place | None:
    """The layout of `value`, given those of `_computed_from(value)`."""
    if isinstance(value, BlockArgument):
        following = carried_from(value)
        return None if following is None else places.of(following)
    op = cast(OpResult, value).op
    if isinstance(op, vector.LoadOp | tpu.VectorLoadOp):
        return PACKED
    if isinstance(op, _NARROWING) and bit_width(value.type) < 32:
        words = bit_width(op.operands[0].type) == 32
        return _narrowed(op.operands[0], value, places) if words else None
    if isinstance(op, _WIDENING) and 1 < bit_width(op.operands[0].type) < 32:
        return _widened(op.operands[0], places)
    if isinstance(op, vector.MultiReductionOp):
        return _of_reduction(op, places)
    if isinstance(op, vector.ShapeCastOp):
        return _of_reshape(op, places)
    if isinstance(op, tpu.ConcatenateOp):
        # Whatever its pieces are.
        return PACKED
    if through_words(op, places.target):
        return _narrowed(first_varying(_values(op)), value, places)
    if isinstance(op, arith.CmpiOp | arith.CmpfOp) and bit_width(op.lhs.type) < 32:
        return _of_comparison(op, places)
    if isinstance(op, arith.SelectOp) and bit_width(op.result.type) < 32:
        return _of_choice(op, places)
    following = _followed(op, cast(OpResult, value).index, places.target)
    if following is None:
        return None
    if op.dialect_name() not in ("arith", "math"):
        return places.of(following)
    return _combined(places.of(following), [v for v in _values(op) if v is not following], places)


def _values(op: Operation) -> list[SSAValue]:
    """The operands of the type of the result."""
    return [v for v in op.operands if v.type == op.results[0].type]


def _combined(place: Place | None, others: list[SSAValue], places: Places) -> Place | None:
    """The layout of a result whose first operand has the layout `place`: replicated in all rows
    only if the other operands are."""
    if not isinstance(place, Row) or place.row != EVERY or not others:
        return place
    varying = [other for other in others if first_varying([other]) is not None]
    rows = [_in_row(places.of(other), place.tile) for other in varying]
    return Row(place.tile, next((row for row in rows if row != EVERY), EVERY))


def _in_row(place: Place | None, tile: int | None) -> int | None:
    """The row of `place` in tiles of `tile` rows, None if unknown; packed words are in row 0 of
    tiles of 8."""
    if place == PACKED:
        return 0 if tile == SUBLANES else None
    return place.row if isinstance(place, Row) and place.tile == tile else None


def _narrowed(source: SSAValue | None, result: SSAValue, places: Places) -> Place:
    """The layout of `result`, narrowed from 32-bit words: `source`, or words widened from it."""
    place = None if source is None else places.of(source)
    return COLUMN if place == COLUMN else _in_registers(place, result, places)


def _of_comparison(op: arith.CmpiOp | arith.CmpfOp, places: Places) -> Place | None:
    """A mask has the layout of the vectors compared, in tiles of registers if that takes words."""
    first = first_varying(op.operands)
    place = None if first is None else places.of(first)
    if first is None or place is None or place == COLUMN or compares_packed(op, places.target):
        return place
    return _in_registers(place, first, places)


def _of_choice(op: arith.SelectOp, places: Places) -> Place | None:
    """The layout of a selection between packed elements.

    With a scalar condition it is that of the first value. With a mask it is that of the mask if the
    mask is packed, or compares elements of the same width; if those are compared as words, the row
    is that of the mask and the tile that of the first value. Else it is not known.
    """
    mask = first_varying(v for v in op.operands[:1] if isinstance(v.type, VectorType))
    first = first_varying(op.operands[1:])
    chosen = None if first is None else places.of(first)
    if mask is None:
        return chosen
    place, made = places.of(mask), mask.owner
    if not isinstance(made, arith.CmpiOp | arith.CmpfOp) or place == PACKED:
        return place if place == PACKED else None
    if bit_width(made.operands[0].type) != bit_width(op.result.type):
        return None
    if compares_packed(made, places.target) or not isinstance(place, Row):
        return place
    return Row(chosen.tile, place.row) if isinstance(chosen, Row) else None


def _widened(source: SSAValue, places: Places) -> Place | None:
    """The layout of `source` widened to 32-bit words: tiles of fewer than 8 rows stay."""
    place = places.of(source)
    if place is None or place == COLUMN:
        return place
    if not isinstance(place, Row):
        return Row(SUBLANES, 0)
    return Row(None if place.tile is None else min(place.tile, SUBLANES), place.row)


def _in_registers(place: Place | None, value: SSAValue, places: Places) -> Row:
    """The layout of `value` in tiles of whole registers: in the row of `place`, or in row 0 if that
    is packed."""
    row = 0 if place == PACKED else place.row if isinstance(place, Row) else None
    return Row(_register_rows(bit_width(value.type), places), row)


def _register_rows(bits: int, places: Places) -> int:
    """Rows in a register; targets that do not compute with 16-bit integers keep these as words."""
    return SUBLANES if bits == 16 and not places.target.i16_ops else SUBLANES * packing(bits)


def _of_reduction(op: vector.MultiReductionOp, places: Places) -> Place | None:
    """A reduction that leaves the lanes gives a row, one that leaves the sublanes a column; a
    single row keeps its layout if only dimensions around it are reduced."""
    shape = cast(AnyVector, op.source.type).get_shape()
    last = len(shape) - 1
    reduced = {int(d) for d in op.reduction_dims.get_values()}
    stays = last - 1 not in reduced and shape[last - 1] == 1
    if last not in reduced and (stays or all(shape[dim] == 1 for dim in reduced)):
        return _of_row(op.source, places)
    if last not in reduced:
        return Row(_register_rows(bit_width(op.source.type), places), EVERY)
    return COLUMN if last - 1 not in reduced else None


def _of_reshape(op: vector.ShapeCastOp, places: Places) -> Place | None:
    """Rows of 128 become packed, unless they were loaded; a single row or column stays one."""
    source = op.operands[0]
    shape = cast(AnyVector, source.type).get_shape()
    length = cast(AnyVector, op.results[0].type).get_shape()[0]
    if len(shape) < 2:
        return None
    if shape[-2:] == (1, length):
        return _of_row(source, places)
    loaded = isinstance(source.owner, vector.LoadOp | tpu.VectorLoadOp)
    if shape[-1] == LANES and (loaded or length > LANES):
        return _of_rows_of_a_tile(source, places)
    if bit_width(source.type) < 16:
        return None
    if 1 < shape[-1] < length <= LANES:
        # Lanes are folded into those of a row of its own.
        return Row(_register_rows(bit_width(source.type), places), 0)
    return COLUMN if shape[-2:] == (length, 1) and not loaded else None


def _of_rows_of_a_tile(source: SSAValue, places: Places) -> Place:
    """The layout of rows of 128 that are joined to one vector: packed, or row 0 if they are loaded
    and fill words."""
    bits, shape = bit_width(source.type), cast(AnyVector, source.type).get_shape()
    loaded = isinstance(source.owner, vector.LoadOp | tpu.VectorLoadOp)
    filled = prod(shape[:-1]) >= packing(bits)
    return Row(_register_rows(bits, places), 0) if loaded and filled else PACKED


def _of_row(value: SSAValue, places: Places, depth: int = _DEPTH) -> Place | None:
    """The layout of `value`, the single row of a vector of higher rank, as a flat vector."""
    op = value.owner
    if not isinstance(op, Operation) or not depth:
        return None
    if isinstance(op, vector.LoadOp | tpu.VectorLoadOp):
        # A load of a row of over 128 words gives the packed layout.
        wide = cast(AnyVector, value.type).get_shape()[-1] > LANES
        return PACKED if wide and bit_width(value.type) == 32 else _of_load(op, places)
    if isinstance(op, tpu.IotaOp):
        return Row()
    if isinstance(op, vector.ExtractStridedSliceOp):
        many = cast(AnyVector, op.operands[0].type).get_shape()[-2] > 1
        return _of_slice(op, places) if many else None
    if isinstance(op, vector.MultiReductionOp):
        return _of_reduction(op, places)
    if isinstance(op, vector.ShapeCastOp):
        source = op.operands[0]
        lanes, length = (cast(AnyVector, v.type).get_shape()[-1] for v in (source, value))
        if lanes == LANES < length:
            return _of_rows_of_a_tile(source, places)
        if lanes != length:
            return None
        if len(cast(AnyVector, source.type).get_shape()) == 1:
            return places.of(source)
        return _of_row(source, places, depth - 1)
    if isinstance(op, _NARROWING) and bit_width(value.type) < bit_width(op.operands[0].type) == 32:
        return _in_registers(_of_row(op.operands[0], places, depth - 1), value, places)
    if op.dialect_name() not in ("arith", "math"):
        return None
    following = first_varying(_values(op))
    place = None if following is None else _of_row(following, places, depth - 1)
    return _in_registers(place, value, places) if through_words(op, places.target) else place


def _of_load(op: vector.LoadOp | tpu.VectorLoadOp, places: Places) -> Row:
    """The layout of the first row that `op` loads: in the tiles of its array."""
    held = cast("MemRefType[Attribute]", op.operands[0].type)
    shape = cast(AnyVector, op.results[0].type).get_shape()
    if bit_width(held) == 32:
        one = len(shape) > 1 and shape[-2] == 1
        begins = _start_row(op, SUBLANES) == 0
        return Row(SUBLANES, EVERY if one else 0 if begins else None)
    base = op.operands[0].owner
    if len(held.get_shape()) < 2 or bit_width(held) != bit_width(op.results[0].type):
        return Row()
    viewed = isinstance(base, Operation) and not isinstance(base, memref.AllocaOp)
    if viewed or tiling_of(held) is not None:
        return Row()
    tile = rows_of_tiles(op.operands[0], places.target)
    return Row(tile, _start_row(op, tile))


def _start_row(op: vector.LoadOp | tpu.VectorLoadOp, tile: int) -> int | None:
    start = arith.known_integer(list(op.indices)[-2]) if len(op.indices) > 1 else None
    return None if start is None else start % tile


def _of_slice(op: vector.ExtractStridedSliceOp, places: Places) -> Row:
    """The layout of a row cut out of several: the tile row of the first plus the offset."""
    first = _rows(op.operands[0], places)
    if first.tile is None or first.row is None or first.row == EVERY:
        return first
    return Row(first.tile, (first.row + values_of(op.offsets)[-2]) % first.tile)


def _rows(value: SSAValue, places: Places, depth: int = _DEPTH) -> Row:
    """The layout of the first of several rows."""
    op = value.owner
    if not isinstance(op, Operation) or not depth:
        return Row()
    if isinstance(op, vector.LoadOp | tpu.VectorLoadOp):
        return _of_load(op, places)
    if isinstance(op, _NARROWING) and bit_width(value.type) < bit_width(op.operands[0].type) == 32:
        return _in_registers(_rows(op.operands[0], places, depth - 1), value, places)
    if op.dialect_name() in ("arith", "math"):
        first = first_varying(_values(op))
        if first is None:
            return Row()
        place = _rows(first, places, depth - 1)
        return _in_registers(place, value, places) if through_words(op, places.target) else place
    return Row()


def _followed(op: Operation, index: int, target: Target) -> SSAValue | None:
    """The operand whose layout result `index` of `op` has: the first that is no constant."""
    if isinstance(op, scf.ForOp | scf.IfOp):
        return carried_from(op.results[index])
    if isinstance(op, (*_BITWISE, *SUMS)) or op.name in target.bf16_ops:
        return first_varying(op.operands)
    vectors = [v for v in (*op.operands, op.results[index]) if isinstance(v.type, VectorType)]
    wide = all(bit_width(v.type) in (1, 32) for v in vectors)
    if wide and op.dialect_name() in ("arith", "math"):
        # A selection lies as its mask, and a mask as what was compared.
        return first_varying(v for v in op.operands if isinstance(v.type, VectorType))
    return None
