"""Decides which buffers in VMEM are tiled by single rows of words, and which have small tiles.

With tiles of single rows, a register may begin at any row. Buffers need this if they are accessed
at rows that do not begin a register, if a view regroups their rows, or if a transfer takes part of
a tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import UnionType
from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import memref, tpu, vector
from pallasite.dialects.types import AnyMemRef, bit_width, shape_of
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.passes.divisibility import constant_of, remainder
from pallasite.passes.fill_registers.islands import is_one_value
from pallasite.passes.infer_memref_layout.spread_rows import spread_tile

LAYOUT_VIEWS = (
    tpu.MemrefSliceOp, tpu.MemrefSqueezeOp, tpu.MemrefReshapeOp, tpu.MemrefBitcastOp,
    tpu.EraseMemrefLayoutOp, tpu.AssumeLayoutOp, memref.CastOp, memref.MemorySpaceCastOp,
)  # fmt: skip
"""Views whose layout follows from that of their source."""


TRANSFERS = tpu.EnqueueDmaOp | tpu.WaitDma2Op | tpu.WaitDmaOp
"""DMAs and waits for them."""


def ref_type(value: SSAValue) -> MemRefType[Attribute] | None:
    """The type of `value` if it is a ref, else None."""
    kind = value.type
    return kind if type(kind) is MemRefType else None


def register_rows(rows: int, p: int) -> int:
    """The rows of a tile for an array of `rows` rows, whose words are shared by `p` rows.

    They are the rows of a register, 8 * p, or a smaller power of two times p that holds all rows.
    """
    tile = SUBLANES * p
    while tile > p and tile // 2 >= rows:
        tile //= 2
    return tile


def needs_single_rows(buffer: SSAValue, bits: int) -> bool:
    """Whether some access to `buffer` may begin at a row that does not begin a register, or a view
    of it regroups its rows.

    For packed types this is asked of rows of words; known rows within a register are shifted
    instead.
    """
    kind = ref_type(buffer)
    if kind is None or len(kind.get_shape()) < 2:
        return False
    tile = register_rows(kind.get_shape()[-2], packing(bits))
    if refolded_tiles(buffer, tile):
        return True
    if any(_unknown_rows(*part) for part in _transferred_parts(buffer, tile)):
        return True
    if bits < 32 and _recast_within_tiles(buffer, tile):
        return True
    packed = ((row, max(p, packing(bits))) for row, p in _rows(buffer))
    if any(p > 1 and _begins_words(row, p) for row, p in packed):
        return True
    if bits < 32 and any(_cuts_known_rows(*part) for part in _copied_parts(buffer, tile)):
        return True
    if bits == 32 and _has_few_rows(buffer):
        return True
    rows = _rows(buffer) if bits == 32 else _word_rows(buffer)
    return any(row is None or remainder(row, SUBLANES) != 0 for row, _ in rows)


def small_tile(buffer: SSAValue, bits: int) -> int | None:
    """The rows of the smallest tile such that every access to `buffer` covers the first rows of one
    tile.

    The tile has more than one row of words. None if there is no such tile smaller than a register.
    Rows that are the same in all sublanes fill tiles of 8; a single number fills packed tiles of
    any size.
    """
    shape, p = cast(MemRefType[Attribute], buffer.type).get_shape(), packing(bits)
    if len(shape) < 2 or shape[-1] <= LANES:
        return None
    accesses = list(_whole_rows(buffer))
    if (spread := spread_tile(buffer, accesses)) is not None:
        return spread
    filling = {op for op in accesses if p > 1 and _fills(op, buffer)}
    others = [op for op in accesses if op not in filling]
    rows, most = 2 * p, min(register_rows(shape[-2], p), SUBLANES * p // 2)
    if filling:
        # One number is stored by rows, which fill registers where tiles are as in HBM.
        rows = max(rows, SUBLANES)
        others = others if shape[-2] % most == 0 and shape[-1] % LANES == 0 else accesses
    while rows <= most and not all(within_tile(op, rows) for op in others):
        rows *= 2
    return rows if rows <= most and others else None


def _fills(op: Operation, buffer: SSAValue) -> bool:
    """Whether `op` stores a single number to the whole `buffer`."""
    if not _stores_one_number(op) or (isinstance(op, tpu.VectorStoreOp) and op.mask is not None):
        return False
    store = cast(tpu.VectorStoreOp | vector.StoreOp, op)
    whole = shape_of(store.operands[0].type) == cast(AnyMemRef, buffer.type).get_shape()
    return store.base is buffer and whole and all(constant_of(i) == 0 for i in store.indices)


def _has_few_rows(buffer: SSAValue) -> bool:
    """Whether a buffer of words is filled with a single number in more rows than all other accesses
    cover.

    The others begin at a register and cover at most half of its rows.
    """
    shape = cast(MemRefType[Attribute], buffer.type).get_shape()
    accesses = list(_whole_rows(buffer))
    others = [op for op in accesses if not _stores_one_number(op)]
    few = SUBLANES // 2
    return (
        shape[-1] > LANES
        and 0 < len(others) < len(accesses)
        and all(within_tile(op, few) for op in others)
        and not all(within_tile(op, few) for op in accesses)
    )


def _stores_one_number(op: Operation) -> bool:
    """Whether `op` stores a vector whose elements are all the same number."""
    return isinstance(op, tpu.VectorStoreOp | vector.StoreOp) and is_one_value(op.operands[0])


def _whole_rows(value: SSAValue) -> Iterator[Operation]:
    """The operations, except transfers, that use `value` or views of it that keep its matrices
    whole."""
    shape = cast(MemRefType[Attribute], value.type).get_shape()
    for use in value.uses:
        op = use.operation
        if isinstance(op, tpu.MemrefSliceOp | tpu.MemrefSqueezeOp):
            kind = ref_type(op.results[0])
            if kind is not None and tuple(kind.get_shape()[-2:]) == tuple(shape[-2:]):
                yield from _whole_rows(op.results[0])
                continue
        if not isinstance(op, TRANSFERS):
            yield op


def within_tile(op: Operation, tile: int) -> bool:
    """Whether `op` accesses only first rows of one tile of `tile` rows."""
    if not isinstance(op, vector.LoadOp | tpu.VectorStoreOp | vector.StoreOp):
        return False
    value = op.results[0] if isinstance(op, vector.LoadOp) else op.operands[0]
    return remainder(op.indices[-2], tile) == 0 and shape_of(value.type)[-2] <= tile


def _begins_words(row: SSAValue | None, p: int) -> bool:
    """Whether an access at a packed row, known only at run time, begins at a row of words, but
    perhaps not at a register."""
    if row is None or constant_of(row) is not None:
        return False
    return remainder(row, SUBLANES * p) is None and remainder(row, p) == 0


def _transferred_parts(value: SSAValue, tile: int) -> Iterator[tuple[tpu.MemrefSliceOp, int]]:
    """The slices of `value` and of its views that transfers or their waits use, each with the rows
    of its tiles.

    `value` has tiles of `tile` rows.
    """
    for use in value.uses:
        op = use.operation
        if type(op) not in LAYOUT_VIEWS or (kind := ref_type(op.results[0])) is None:
            continue
        if isinstance(op, tpu.MemrefSliceOp) and _has_user(op.result, TRANSFERS):
            yield op, tile
        rows = tile
        if isinstance(op, tpu.MemrefBitcastOp):
            source = op.operands[0].type
            rows = tile * _bits(source) // _bits(kind)
        yield from _transferred_parts(op.results[0], rows)


def _recast_within_tiles(value: SSAValue, tile: int) -> bool:
    """Whether a slice of packed rows that may begin within a tile of `tile` rows has a bitcast.

    Accesses to that bitcast cannot be rewritten as accesses to the array.
    """
    for use in value.uses:
        op = use.operation
        if type(op) not in LAYOUT_VIEWS or ref_type(op.results[0]) is None:
            continue
        if isinstance(op, tpu.MemrefBitcastOp):
            continue
        starts = list(op.base_idx) if isinstance(op, tpu.MemrefSliceOp) else []
        cut = len(starts) > 1 and remainder(starts[-2], tile) != 0
        if cut and _has_user(op.results[0], tpu.MemrefBitcastOp):
            return True
        if _recast_within_tiles(op.results[0], tile):
            return True
    return False


def _bits(kind: Attribute) -> int:
    """Bits of an element of a ref."""
    return bit_width(cast(MemRefType[Attribute], kind).element_type)


def _copied_parts(value: SSAValue, tile: int) -> Iterator[tuple[tpu.MemrefSliceOp, int]]:
    """Those `_transferred_parts` that have packed elements and that a DMA, not only a wait,
    uses."""
    for op, rows in _transferred_parts(value, tile):
        if bit_width(op.mem_ref.type) < 32 and _has_user(op.result, tpu.EnqueueDmaOp):
            yield op, rows


def _cuts_known_rows(op: tpu.MemrefSliceOp, tile: int) -> bool:
    """Whether a slice of packed rows, from a constant row, begins within a tile of `tile` rows, or
    begins at one and ends within another."""
    shape, sizes = op.mem_ref.type.get_shape(), op.result.type.get_shape()
    if len(sizes) < 2 or len(shape) < 2:
        return False
    start, rows = constant_of(op.base_idx[-2]), sizes[-2]
    if start is None:
        return False
    return start % tile != 0 or (rows > tile and rows % tile != 0 and start + rows < shape[-2])


def _unknown_rows(op: tpu.MemrefSliceOp, tile: int) -> bool:
    """Whether the slice `op` has a dynamic number of rows that may not be whole tiles.

    The TPU compiler wants that proven.
    """
    sizes = op.result.type.get_shape()
    if len(sizes) < 2 or sizes[-2] != DYNAMIC_INDEX:
        return False
    return remainder(op.dynamic_sizes[sizes[:-2].count(DYNAMIC_INDEX)], tile) != 0


def _has_user(view: SSAValue, kinds: type[Operation] | UnionType) -> bool:
    """Whether an operation of one of `kinds` uses `view` or a view of it."""
    return any(
        isinstance(use.operation, kinds)
        or (isinstance(use.operation, LAYOUT_VIEWS) and _has_user(use.operation.results[0], kinds))
        for use in view.uses
    )


def _word_rows(value: SSAValue) -> Iterator[tuple[SSAValue | None, int]]:
    """The row index of every access to a bitcast of packed `value` to words, as `_rows` gives
    it."""
    for use in value.uses:
        op = use.operation
        if type(op) in LAYOUT_VIEWS and (kind := ref_type(op.results[0])) is not None:
            of_words = bit_width(kind.element_type) == 32
            yield from (_rows if of_words else _word_rows)(op.results[0])


def refolded_tiles(value: SSAValue, tile: int) -> bool:
    """Whether `value`, tiled by `tile` rows, or a view of it has a reshape that regroups rows of
    tiles."""
    for use in value.uses:
        op = use.operation
        if type(op) not in LAYOUT_VIEWS:
            continue
        kinds = ref_type(op.operands[0]), ref_type(op.results[0])
        if None in kinds:
            continue
        source, result = (cast(MemRefType[Attribute], kind) for kind in kinds)
        rows = tile
        if isinstance(op, tpu.MemrefBitcastOp):
            rows = tile * bit_width(source.element_type) // bit_width(result.element_type)
        old, new = source.get_shape(), result.get_shape()
        if isinstance(op, tpu.MemrefReshapeOp) and len(new) > 1:
            # Registers load the rows of one tile, or of any number of rows of words.
            small = tile < SUBLANES * packing(bit_width(source.element_type))
            cut = any(shape[-2] % tile for shape in (old, new)) and old[-2] != new[-2]
            if old[-1] != new[-1] or cut or (small and new[-2] > tile):
                return True
        if len(new) > 1 and refolded_tiles(op.results[0], rows):
            return True
    return False


def _rows(value: SSAValue) -> Iterator[tuple[SSAValue | None, int]]:
    """The row index of every access to `value` and to its views, None for strided ones, each with
    the number of rows that share a word."""
    p = packing(_bits(value.type))
    for use in value.uses:
        op = use.operation
        if isinstance(op, vector.LoadOp | tpu.VectorStoreOp | vector.StoreOp):
            if len(op.indices) > 1:
                yield op.indices[-2], p
        elif isinstance(op, tpu.StridedLoadOp | tpu.StridedStoreOp):
            yield None, p
        elif type(op) in LAYOUT_VIEWS:
            if isinstance(op, tpu.MemrefSliceOp) and len(op.base_idx) > 1:
                yield op.base_idx[-2], p
            yield from _rows(op.results[0])
