"""Flat vectors that cross the borders of loops and branches.

Asked of libtpu 0.0.51, element by element: a one-dimensional vector lies as memory holds it, or in
one sublane of registers where it was a row of something, or along their sublanes where it was a
column. The compiler gives what `scf.for` and `scf.if` carry one place and fails (`Invalid input
layout`, or an abort) where another arrives; `scf.while` moves them, as our own lowering does. Rows
have to lie in tiles of equally many rows, and in the same row of those. The tiles of packed
elements are those of memory until they are computed as words and narrowed, which leaves them in the
tiles of registers, in the same row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue

from pallasite.dialects import arith, memref, scf, tpu, vector
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import AnyVector, bit_width, tiling_of
from pallasite.dialects.vector_shapes import values_of
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.passes.check_kernel.words import SUMS, compares_packed, through_words
from pallasite.passes.reference_tiles import rows_of_tiles
from pallasite.targets import Target

PACKED, COLUMN = "packed", "column"
EVERY = -1
"""The row of what is the same in all rows of a tile."""


@dataclass(frozen=True)
class Row:
    """A row of registers whose tiles have `tile` rows, in row `row` of its tile.

    None says that it is not known.
    """

    tile: int | None = None
    row: int | None = None

    def meets(self, other: Row) -> bool:
        """Whether both may be one value."""
        if self.tile != other.tile and self.tile is not None and other.tile is not None:
            return False
        rows = {self.row, other.row}
        return len(rows) < 2 or bool(rows & {None, EVERY})


Place = Row | str
"""Where a flat vector lies: `PACKED`, as memory holds it, `COLUMN`, or in a row."""

_BITWISE = (arith.AndIOp, arith.OrIOp, arith.XOrIOp)
_NARROWING = (
    arith.TruncFOp, arith.TruncIOp, arith.FPToSIOp, arith.FPToUIOp, arith.SIToFPOp, arith.UIToFPOp,
)  # fmt: skip
_WIDENING = (
    arith.ExtFOp, arith.ExtSIOp, arith.ExtUIOp, arith.SIToFPOp, arith.UIToFPOp, tpu.ExtfOp,
    tpu.SitofpOp,
)  # fmt: skip


def carried_flat(op: scf.ForOp | scf.IfOp, target: Target) -> None:
    """Refuses a loop or branch where flat vectors of different places meet in one value."""
    for result in op.results:
        kind = result.type
        if not isinstance(kind, VectorType):
            continue
        bits = bit_width(cast(AnyVector, kind))
        if len(kind.get_shape()) != 1 or bits == 1:
            continue
        found = (_place(value, target) for value in arriving(op, result.index))
        places = list(dict.fromkeys(place for place in found if place is not None))
        said = list(dict.fromkeys("row" if isinstance(p, Row) else p for p in places))
        if len(said) > 1:
            raise refusal(
                op, "carried-flat", f"{op.name} carries a one-dimensional {kind} that is "
                f"{_SAID[said[0]]} on one way and {_SAID[said[1]]} on another",
                "arrays of one dimension fill registers row by row as memory holds them, a row or "
                "column of more dimensions, or what was computed as words of 32 bits, only part of "
                "each, and a carried vector has one place",
                _ADVICE,
            )  # fmt: skip
        rows = [place for place in places if isinstance(place, Row)]
        if not all(a.meets(b) for a in rows for b in rows):
            raise refusal(
                op, "carried-flat", f"{op.name} carries a one-dimensional {kind} that lies in "
                "another row of registers on one way than on another",
                "rows of packed elements lie where they do in the tiles of their array, what was "
                "computed as words of 32 bits in tiles of registers, and a carried vector has one "
                "place",
                _ADVICE,
            )  # fmt: skip


_ADVICE = "carry it in two dimensions, x.reshape(1, n)"
_SAID = {
    PACKED: "laid out as memory holds it",
    "row": "a row of more dimensions or computed as words",
    COLUMN: "a column of more dimensions",
}


def arriving(op: scf.ForOp | scf.IfOp, index: int) -> Iterable[SSAValue]:
    """What result `index` may be: the initial value and the values that the regions yield."""
    if isinstance(op, scf.ForOp):
        yield op.iter_args[index]
    for region in op.regions:
        for block in region.blocks:
            if isinstance(block.last_op, scf.YieldOp):
                yield block.last_op.operands[index]


def _place(value: SSAValue, target: Target) -> Place | None:
    """Where a flat vector lies; None for constants, which lie anywhere, and what is not known."""
    while True:
        if isinstance(value, BlockArgument):
            following = carried_from(value)
        else:
            op = cast(OpResult, value).op
            if isinstance(op, vector.LoadOp | tpu.VectorLoadOp):
                return PACKED
            if isinstance(op, _NARROWING) and bit_width(value.type) < 32:
                if bit_width(op.operands[0].type) < 32:
                    return None
                return _narrowed(op.operands[0], value, target)
            if isinstance(op, _WIDENING) and 1 < bit_width(op.operands[0].type) < 32:
                return _widened(op.operands[0], target)
            if isinstance(op, vector.MultiReductionOp):
                return _of_reduction(op, target)
            if isinstance(op, vector.ShapeCastOp):
                return _of_reshape(op, target)
            if isinstance(op, tpu.ConcatenateOp):
                # Whatever its pieces are.
                return PACKED
            if through_words(op, target):
                return _narrowed(_first(_values(op)), value, target)
            if isinstance(op, arith.CmpiOp | arith.CmpfOp) and bit_width(op.lhs.type) < 32:
                return _of_comparison(op, target)
            if isinstance(op, arith.SelectOp) and bit_width(op.result.type) < 32:
                return _of_choice(op, target)
            following = _followed(op, cast(OpResult, value).index, target)
            if following is not None and op.dialect_name() in ("arith", "math"):
                others = [v for v in _values(op) if v is not following]
                return _combined(_place(following, target), others, target)
        if following is None:
            return None
        value = following


def _values(op: Operation) -> list[SSAValue]:
    """The operands of the type of the result."""
    return [v for v in op.operands if v.type == op.results[0].type]


def _combined(place: Place | None, others: list[SSAValue], target: Target) -> Place | None:
    """Where a result lies whose first operand lies at `place`: in every row if all others do."""
    if not isinstance(place, Row) or place.row != EVERY or not others:
        return place
    free = [_first([other]) is None for other in others]
    rows = [
        _in_row(_place(other, target), place.tile)
        for other, none in zip(others, free, strict=True)
        if not none
    ]
    return Row(place.tile, next((row for row in rows if row != EVERY), EVERY))


def _in_row(place: Place | None, tile: int | None) -> int | None:
    """The row of words in `place` once they lie in tiles of registers; of others if they do."""
    if place == PACKED:
        return 0 if tile == SUBLANES else None
    return place.row if isinstance(place, Row) and place.tile == tile else None


def _narrowed(source: SSAValue | None, result: SSAValue, target: Target) -> Place:
    """Where `result` lies, which is narrowed from words that are, or are widened from, `source`."""
    place = None if source is None else _place(source, target)
    return COLUMN if place == COLUMN else _in_registers(place, result, target)


def _of_comparison(op: arith.CmpiOp | arith.CmpfOp, target: Target) -> Place | None:
    """A mask lies as what was compared, by words or not."""
    first = _first(op.operands)
    place = None if first is None else _place(first, target)
    if first is None or place is None or place == COLUMN or compares_packed(op, target):
        return place
    return _in_registers(place, first, target)


def _of_choice(op: arith.SelectOp, target: Target) -> Place | None:
    """A selection of packed elements lies as its mask, if that compares such elements or lies as
    memory holds them; in tiles of the first value, if they are compared as words. Without a mask
    it lies as the first value."""
    mask = _first(v for v in op.operands[:1] if isinstance(v.type, VectorType))
    first = _first(op.operands[1:])
    chosen = None if first is None else _place(first, target)
    if mask is None:
        return chosen
    place, made = _place(mask, target), mask.owner
    if not isinstance(made, arith.CmpiOp | arith.CmpfOp) or place == PACKED:
        return place if place == PACKED else None
    if bit_width(made.operands[0].type) != bit_width(op.result.type):
        return None
    if compares_packed(made, target) or not isinstance(place, Row):
        return place
    return Row(chosen.tile, place.row) if isinstance(chosen, Row) else None


def _widened(source: SSAValue, target: Target) -> Place | None:
    """Where words lie that `source` is widened to: tiles of few rows stay."""
    place = _place(source, target)
    if place is None or place == COLUMN:
        return place
    if not isinstance(place, Row):
        return Row(SUBLANES, 0)
    known = place.tile is not None and bit_width(source.type) == 16
    return Row(min(place.tile or SUBLANES, SUBLANES) if known else None, place.row)


def _in_registers(place: Place | None, value: SSAValue, target: Target) -> Row:
    """The row of `value` in tiles of whole registers, where it was in `place` as words or in tiles
    of memory; what memory holds row by row becomes the first row of each."""
    row = 0 if place == PACKED else place.row if isinstance(place, Row) else None
    return Row(_register_rows(bit_width(value.type), target), row)


def _register_rows(bits: int, target: Target) -> int:
    """Rows that a register holds; chips that compute no half words keep a word for each."""
    return SUBLANES if bits == 16 and not target.i16_ops else SUBLANES * packing(bits)


def _of_reduction(op: vector.MultiReductionOp, target: Target) -> Place | None:
    """Lanes that are left are a row, sublanes a column; single rows are reduced where they lie."""
    shape = cast(AnyVector, op.source.type).get_shape()
    last = len(shape) - 1
    reduced = {int(d) for d in op.reduction_dims.get_values()}
    stays = last - 1 not in reduced and shape[last - 1] == 1
    if last not in reduced and (stays or all(shape[dim] == 1 for dim in reduced)):
        return _of_row(op.source, target)
    if last not in reduced:
        return Row(_register_rows(bit_width(op.source.type), target), EVERY)
    return COLUMN if last - 1 not in reduced else None


def _of_reshape(op: vector.ShapeCastOp, target: Target) -> Place | None:
    """Rows of 128 become flat, unless they were loaded; one row or column stays what it was."""
    source = op.operands[0]
    shape = cast(AnyVector, source.type).get_shape()
    length = cast(AnyVector, op.results[0].type).get_shape()[0]
    if len(shape) < 2:
        return None
    if shape[-2:] == (1, length) and (bit_width(source.type) < 16 or length <= LANES):
        return _of_row(source, target)
    if bit_width(source.type) < 16:
        return None
    loaded = isinstance(source.owner, vector.LoadOp | tpu.VectorLoadOp)
    if shape[-1] == LANES and (loaded or length > LANES):
        return Row(_register_rows(bit_width(source.type), target), 0) if loaded else PACKED
    if shape[-2:] == (length, 1):
        return None if loaded else COLUMN
    return _of_row(source, target) if shape[-2:] == (1, length) else None


def _of_row(value: SSAValue, target: Target, depth: int = 8) -> Place | None:
    """Where the one row of a vector of more dimensions lies."""
    op = value.owner
    if not isinstance(op, Operation) or not depth:
        return None
    if isinstance(op, vector.LoadOp | tpu.VectorLoadOp):
        # Words of a row of several tiles are loaded to where a flat vector has them.
        wide = cast(AnyVector, value.type).get_shape()[-1] > LANES
        return PACKED if wide and bit_width(value.type) == 32 else _of_load(op, target)
    if isinstance(op, tpu.IotaOp):
        return Row()
    if isinstance(op, vector.ExtractStridedSliceOp):
        many = cast(AnyVector, op.operands[0].type).get_shape()[-2] > 1
        return _of_slice(op, target) if many else None
    if isinstance(op, vector.MultiReductionOp):
        return _of_reduction(op, target)
    if isinstance(op, vector.ShapeCastOp):
        source = op.operands[0]
        if (
            cast(AnyVector, source.type).get_shape()[-1]
            != cast(AnyVector, value.type).get_shape()[-1]
        ):
            return None
        if len(cast(AnyVector, source.type).get_shape()) == 1:
            return _place(source, target)
        return _of_row(source, target, depth - 1)
    if isinstance(op, _NARROWING) and bit_width(value.type) < bit_width(op.operands[0].type) == 32:
        return _in_registers(_of_row(op.operands[0], target, depth - 1), value, target)
    if op.dialect_name() not in ("arith", "math"):
        return None
    following = _first(_values(op))
    place = None if following is None else _of_row(following, target, depth - 1)
    return _in_registers(place, value, target) if through_words(op, target) else place


def _of_load(op: vector.LoadOp | tpu.VectorLoadOp, target: Target) -> Row:
    """Where the first row of what `op` loads lies: in tiles as memory has them."""
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
    tile = rows_of_tiles(op.operands[0], target)
    return Row(tile, _start_row(op, tile))


def _start_row(op: vector.LoadOp | tpu.VectorLoadOp, tile: int) -> int | None:
    start = arith.known_integer(list(op.indices)[-2]) if len(op.indices) > 1 else None
    return None if start is None else start % tile


def _of_slice(op: vector.ExtractStridedSliceOp, target: Target) -> Row:
    """A row of several lies as many rows behind the first."""
    first = _rows(op.operands[0], target)
    if first.tile is None or first.row is None or first.row == EVERY:
        return first
    return Row(first.tile, (first.row + values_of(op.offsets)[-2]) % first.tile)


def _rows(value: SSAValue, target: Target, depth: int = 8) -> Row:
    """Where the first of several rows lies."""
    op = value.owner
    if not isinstance(op, Operation) or not depth:
        return Row()
    if isinstance(op, vector.LoadOp | tpu.VectorLoadOp):
        return _of_load(op, target)
    if isinstance(op, _NARROWING) and bit_width(value.type) < bit_width(op.operands[0].type) == 32:
        return _in_registers(_rows(op.operands[0], target, depth - 1), value, target)
    if op.dialect_name() in ("arith", "math"):
        first = _first(_values(op))
        if first is None:
            return Row()
        place = _rows(first, target, depth - 1)
        return _in_registers(place, value, target) if through_words(op, target) else place
    return Row()


def _first(values: Iterable[SSAValue]) -> SSAValue | None:
    """The first of `values` that is no constant."""
    free = (arith.ConstantOp, vector.BroadcastOp)
    return next((v for v in values if not isinstance(v.owner, free)), None)


def ways_to(value: SSAValue) -> list[SSAValue]:
    """What a result of a loop or branch, or a loop's carried argument, may be; of loops what it is
    at first comes first. Nothing for other values."""
    if isinstance(value, BlockArgument):
        loop, index = value.owner.parent_op(), value.index - 1
        return list(arriving(loop, index)) if isinstance(loop, scf.ForOp) and index >= 0 else []
    op = value.owner
    if not isinstance(op, scf.ForOp | scf.IfOp):
        return []
    return list(arriving(op, cast(OpResult, value).index))


def carried_from(value: SSAValue) -> SSAValue | None:
    """The value in whose place a loop's argument lies, or a result of a loop or branch.

    None for other values, and where all that arrives is constant.
    """
    ways = ways_to(value)
    return next(iter(ways), None) if isinstance(value, BlockArgument) else _first(ways)


def _followed(op: Operation, index: int, target: Target) -> SSAValue | None:
    """The value in whose place result `index` of `op` lies: the first that is no constant."""
    if isinstance(op, scf.ForOp | scf.IfOp):
        return carried_from(op.results[index])
    if isinstance(op, (*_BITWISE, *SUMS)) or op.name in target.bf16_ops:
        return _first(op.operands)
    vectors = [v for v in (*op.operands, op.results[index]) if isinstance(v.type, VectorType)]
    wide = all(bit_width(v.type) in (1, 32) for v in vectors)
    if wide and op.dialect_name() in ("arith", "math"):
        # A selection lies as its mask, and a mask as what was compared.
        return _first(v for v in op.operands if isinstance(v.type, VectorType))
    return None
