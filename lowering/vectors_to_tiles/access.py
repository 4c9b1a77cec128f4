"""Which registers a load or store of a box of tiled memory consists of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from xdsl.dialects.builtin import (
    IntegerAttr,
    IntegerType,
    MemRefType,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith, tpu
from pallasite.dialects import memref as memref_dialect
from pallasite.dialects.kernel import EXTENT
from pallasite.dialects.registers import STEPS
from pallasite.dialects.types import array_attribute, bit_width, tiling_of
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.layouts.tiling import Tiling, word_tiles
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.boxes import Accessed, accessed
from pallasite.lowering.vectors_to_tiles.converter import Converter
from pallasite.passes.divisibility import constant_of, remainder


@dataclass(frozen=True)
class Access:
    """How registers meet a box of a tiled memref.

    `start` holds what must be added to the tile-aligned part of the indices (`base`) per memref
    dimension; `row` and `column` are where the box begins inside its first register.
    """

    memref: SSAValue
    base: tuple[SSAValue, ...]
    layout: VectorLayout
    steps: tuple[int, ...]
    sublane_stride: int
    tile_rows: int
    """Rows of a memory tile; a register reads no further unless tiles of one row are strided."""
    single_rows: bool
    """Every row of words has its own tile; rows behind the box may lie behind the buffer."""
    open_row: bool
    """The box ends where the array ends, so rows behind it are padding of the allocation."""
    open_column: bool
    open_word: bool = False
    """The box ends where the array ends, so the rest of its last words is padding."""
    axis: int = -2
    """The memref dimension, counted from the end, whose elements lie on the sublanes."""

    box: Accessed | None = None
    """What the kernel accesses, if that may leave the memref."""

    word_row: SSAValue | None = None
    """The index at which the only row of words begins that is accessed, if that is known."""

    def attributes(self, base: Sequence[SSAValue]) -> dict[str, Attribute]:
        """What a load or store of registers from `base` on says of them."""
        steps: dict[str, Attribute] = {STEPS: array_attribute(i64, *self.steps)}
        return steps if self.box is None else {**steps, **self.box.seen_from(base)}

    def order(self, rank: int) -> list[int]:
        """The memref dimension of every dimension of a grid in this layout."""
        sublanes = rank + self.axis
        return [*(d for d in range(rank - 1) if d != sublanes), sublanes, rank - 1]


def access(
    op: Operation,
    memref: SSAValue,
    indices: Sequence[SSAValue],
    shape: tuple[int, ...],
    c: Converter,
) -> Access:
    """Plans the access of a box of `shape` at `indices`.

    Raises `Unsupported` if the offset within a tile cannot be proven.
    """
    kind = cast(MemRefType[Attribute], memref.type)
    tiling = tiling_of(kind)
    if tiling is None:
        raise c.unsupported(op, "untiled-memref", f"{kind} has no tiled layout")
    bits = bit_width(kind.element_type)
    if tiling.tiles[1:] != word_tiles(len(tiling.first), bits):
        raise c.unsupported(
            op, "memory-tiling",
            f"cannot load registers of {kind.element_type} from tiles {tiling}",
            f"a word holds {packing(bits)} of them, of rows below each other",
            "leave the layout of the buffer out: lowering finds one",
        )  # fmt: skip
    if len(shape) == 1:
        return _flat_access(op, memref, indices[0], shape[0], bits, c)
    return _matrix_access(op, memref, indices, shape, tiling, bits, c)


def _offset(op: Operation, index: SSAValue, unit: int, what: str, c: Converter) -> int:
    """The distance of `index` from the last multiple of `unit`.

    Raises `Unsupported` if it is not the same in every execution.
    """
    rest = remainder(index, unit)
    if rest is None:
        raise c.unsupported(
            op,
            f"unaligned-{what}",
            f"cannot prove that a dynamic {what} index is a multiple of {unit}",
            f"registers are loaded by whole tiles of {unit} {what}s; an unknown start would need a "
            "shift by an amount known only at run time",
            f"promise it with pl.multiple_of(index, {unit}), or load an aligned block and use "
            "pltpu.roll",
        )
    return rest


def _aligned(index: SSAValue, rest: int, c: Converter) -> SSAValue:
    """`index - rest`, folded for constants."""
    if not rest:
        return index
    known = constant_of(index)
    if known is not None:
        return c.constant_index(known - rest)
    return c.emit(arith.SubiOp(index, c.constant_index(rest)))


def _matrix_access(
    op: Operation,
    memref: SSAValue,
    indices: Sequence[SSAValue],
    shape: tuple[int, ...],
    tiling: Tiling,
    bits: int,
    c: Converter,
) -> Access:
    """The access of a box of at least two dimensions."""
    rank = len(shape)
    extent = cast(MemRefType[Attribute], memref.type).get_shape()
    rows = tiling.first[0] if len(tiling.first) == 2 else 0
    if rows == 0 or tiling.first[1] != LANES:
        raise c.unsupported(op, "memory-tiling", f"cannot load registers from tiles {tiling}")
    native = SUBLANES * packing(bits)
    column = _offset(op, indices[-1], LANES, "lane", c)
    single_rows = rows == packing(bits)
    if single_rows:
        # Every row of 128 words has its own tile: any row is the start of a register, and the
        # rows below follow at the distance of one row of tiles.
        row, stride = _offset(op, indices[-2], rows, "sublane", c), tiling.strides[-2]
    elif _begins_a_word(indices[-2], tiling, bits):
        # In one column of tiles the words of all rows follow each other.
        row, stride, single_rows, rows = 0, 1, True, native
    else:
        row, stride = _offset(op, indices[-2], rows, "sublane", c), 1
    if not single_rows and rows < native and (row + shape[-2] > rows):
        raise c.unsupported(
            op, "memory-tiling",
            f"a block of {shape[-2]} rows at row {row} crosses memory tiles of {rows} rows",
        )  # fmt: skip
    base = (*indices[:-2], _aligned(indices[-2], row, c), _aligned(indices[-1], column, c))
    layout = VectorLayout.native(rank, bits, row, column)
    steps = (*[1] * (rank - 2), native, LANES)
    starts = [constant_of(i) for i in indices[-2:]]
    ends = [None if s is None else s + n for s, n in zip(starts, shape[-2:], strict=True)]
    open_rows = ends[0] == extent[-2] and reaches_end(memref, -2)
    return Access(
        memref, base, layout, steps, stride, native if single_rows else rows, single_rows,
        open_rows and not single_rows, ends[1] == extent[-1] and reaches_end(memref, -1),
        open_word=open_rows,
        box=accessed(op, indices, shape, extent),
        word_row=_word_row(starts[0], shape, packing(bits), c),
    )  # fmt: skip


def _word_row(start: int | None, shape: tuple[int, ...], p: int, c: Converter) -> SSAValue | None:
    """The index of the row of words that holds all rows of a box from `start` on; None for several,
    or one that is found only at run time."""
    if start is None or start % p + shape[-2] > p:
        return None
    return c.constant_index(start - start % p)


def _begins_a_word(row: SSAValue, tiling: Tiling, bits: int) -> bool:
    """Whether rows from `row` on are consecutive words, but do not begin a tile."""
    rest = remainder(row, tiling.first[0])
    return tiling.strides[-2] == 1 and bool(rest) and not rest % packing(bits)


def reaches_end(memref: SSAValue, dim: int) -> bool:
    """Whether the last element of `memref` along `dim` (counted from the end) is the last of its
    allocation.

    What follows in its tile is then padding that nobody reads. After the end of a slice there may
    be other elements.
    """
    op = memref.owner
    if not isinstance(op, Operation) or isinstance(op, memref_dialect.AllocaOp):
        return True
    source = op.operands[0] if op.operands else None
    if source is None or not isinstance(source.type, MemRefType):
        return False
    outer = cast(MemRefType[Attribute], source.type).get_shape()
    inner = cast(MemRefType[Attribute], memref.type).get_shape()
    if isinstance(op, tpu.MemrefSliceOp):
        start = constant_of(list(op.base_idx)[dim])
        return start is not None and start + inner[dim] == outer[dim] and reaches_end(source, dim)
    if isinstance(op, tpu.MemrefSqueezeOp):
        return inner[-2:] == outer[-2:] and reaches_end(source, dim)
    if isinstance(op, tpu.MemrefBitcastOp | memref_dialect.CastOp):
        return reaches_end(source, dim)
    return False


def access_in(
    plan: Access, indices: Sequence[SSAValue], shape: tuple[int, ...], layout: VectorLayout
) -> Access | None:
    """The access of `plan` for a value in another `layout`; None if memory cannot serve it.

    Rows of 128 words can be taken at any distance. So 32-bit elements of a leading dimension may
    lie on the sublanes, and one row may be replicated over all sublanes: the only row, or each of
    several rows in registers of its own.
    """
    if layout == plan.layout:
        return plan
    if layout.tile_rows != plan.layout.tile_rows:
        found = (dense for dense in dense_accesses(plan, shape) if dense.layout == layout)
        return next(found, None)
    tiling = tiling_of(plan.memref.type)
    rank = len(shape)
    if rank < 2 or tiling is None or layout.bits != 32 or not layout.is_native:
        return None
    if layout.lane_dim != rank - 1 or layout.column != plan.layout.column:
        return None
    fixed_row = constant_of(indices[-2]) is not None or tiling.first[0] == 1
    dim = layout.sublane_dim
    base = (*indices[:-1], plan.base[-1])
    if layout.row is None and (dim is None or (dim == rank - 2 and shape[-2] == 1)):
        if not fixed_row:
            return None
        steps = (*[1] * (rank - 1), LANES)
        return replace(
            plan, base=base, layout=layout, steps=steps, sublane_stride=0, tile_rows=SUBLANES
        )
    if dim is None or dim >= rank - 2 or layout.row != 0 or not fixed_row:
        return None
    steps = [*[1] * (rank - 1), LANES]
    steps[dim] = SUBLANES
    return replace(
        plan,
        base=base,
        layout=layout,
        steps=tuple(steps),
        sublane_stride=tiling.strides[dim] * tiling.first[0],
        tile_rows=SUBLANES,
        open_row=False,
        axis=dim - rank,
    )


def shifted_access(plan: Access, layout: VectorLayout, c: Converter) -> Access | None:
    """The access of `plan` with registers in which rows lie as in `layout`, further down or up.

    Registers then begin before the rows that are accessed, perhaps before the buffer. None if
    registers would hold other elements, or if the rows do not have one distance in memory.
    """
    tiling, held = tiling_of(plan.memref.type), plan.layout
    if tiling is None or None in (layout.row, held.row, plan.layout.sublane_dim):
        return None
    if layout != held.with_offsets(layout.row, held.column) or not layout.is_native:
        return None
    if tiling.first[0] != held.packing and (
        tiling.strides[-2] != 1 or constant_of(plan.base[-2]) is None
    ):
        return None
    up = (layout.row or 0) - (held.row or 0)
    if up % held.packing:
        return None
    base = (*plan.base[:-2], moved(plan.base[-2], -up, c), plan.base[-1])
    return replace(plan, base=base, layout=layout, tile_rows=held.native_rows, open_row=False)


def moved(index: SSAValue, amount: int, c: Converter) -> SSAValue:
    """`index + amount`, folded for constants."""
    known = constant_of(index)
    if known is not None:
        return c.constant_index(known + amount)
    return c.emit(arith.AddiOp(index, c.constant_index(amount)))


def dense_access(plan: Access, shape: Sequence[int]) -> Access | None:
    """The access of `plan` with most tiles, or parts of tiles, per register; None if none saves
    registers."""
    found = dense_accesses(plan, shape)
    return min(found, key=lambda dense: dense.layout.register_count(shape), default=None)


def dense_accesses(plan: Access, shape: Sequence[int]) -> list[Access]:
    """The accesses with several small tiles per register, and with a row of several tiles, that
    save registers."""
    tiling, layout = tiling_of(plan.memref.type), plan.layout
    if len(shape) < 2 or tiling is None or len(tiling.first) != 2 or layout.row is None:
        return []
    found = [_tiles_access(plan, shape, tiling), _row_access(plan, shape, tiling)]
    count = layout.register_count(shape)
    return [f for f in found if f is not None and f.layout.register_count(shape) < count]


def _tiles_access(plan: Access, shape: Sequence[int], tiling: Tiling) -> Access | None:
    """The access of whole small tiles, of which a register holds several; None if there are
    none."""
    layout, rows = plan.layout, tiling.first[0]
    assert layout.row is not None
    if rows % layout.packing or layout.native_rows <= rows or layout.native_rows % rows:
        return None
    if tiling.strides[-1] != 1 or layout.row + shape[-2] > rows or plan.axis != -2:
        return None
    if plan.single_rows and rows != layout.packing:
        return None
    dense = replace(layout, tile_rows=rows)
    return replace(
        plan, layout=dense, steps=(*plan.steps[:-2], *dense.block), sublane_stride=1,
        tile_rows=layout.native_rows, single_rows=False, open_row=plan.open_word,
    )  # fmt: skip


def _row_access(plan: Access, shape: Sequence[int], tiling: Tiling) -> Access | None:
    """The access of a single row of words, of which a register holds as many tiles as it has
    sublanes; None for several rows."""
    layout, p = plan.layout, plan.layout.packing
    if plan.word_row is None or plan.axis != -2 or tiling.first[0] == p:
        return None
    assert layout.row is not None
    dense = replace(layout, tile_rows=p, row=layout.row % p)
    return replace(
        plan, base=(*plan.base[:-2], plan.word_row, plan.base[-1]), layout=dense,
        steps=(*plan.steps[:-2], *dense.block),
        sublane_stride=tiling.strides[-1] * tiling.first[0] // p,
        tile_rows=layout.native_rows, single_rows=False, open_row=plan.open_word,
    )  # fmt: skip


def _extent(memref: SSAValue) -> int:
    """The elements of a flat memref, without padding to whole tiles of its allocation."""
    kept = memref.owner.attributes.get(EXTENT) if isinstance(memref.owner, Operation) else None
    if isinstance(kept, IntegerAttr):
        return cast("IntegerAttr[IntegerType]", kept).value.data
    return cast(MemRefType[Attribute], memref.type).get_shape()[0]


def _flat_access(
    op: Operation,
    memref: SSAValue,
    index: SSAValue,
    size: int,
    bits: int,
    c: Converter,
) -> Access:
    """The access of `size` elements of a one-dimensional memref of elements of `bits`."""
    # One-dimensional memory is rows of 128 elements; a register takes as many as it has rows,
    # so its layout is that of tiles of one row.
    unit = LANES * packing(bits)
    offset = _offset(op, index, unit, "element", c)
    layout = VectorLayout(bits, None, 0, 0, offset, 1)
    extent = _extent(memref)
    start = constant_of(index)
    return Access(
        memref,
        (_aligned(index, offset, c),),
        layout,
        steps=(layout.block[1],),
        sublane_stride=1,
        tile_rows=SUBLANES * packing(bits),
        single_rows=False,
        open_row=False,
        open_column=start is not None and start + size == extent and reaches_end(memref, -1),
        box=accessed(op, [index], [size], [extent]),
    )
