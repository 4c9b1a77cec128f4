"""`fill-registers`: work on single elements fills registers, however few rows arrays have.

    %v = vector.load %x[0, 0] : memref<2x384xf32, tiled<(2,128),[3,1]>>, vector<2x384xf32>
    %w = arith.mulf %v, %v : vector<2x384xf32>
    tpu.vector_store %y[0, 0], %w : memref<2x384xf32, tiled<(2,128),[3,1]>>, vector<2x384xf32>
becomes
    %a = tpu.reinterpret_cast %x : ... -> memref<6x128xf32, tiled<(1,128),[1,1]>>
    %v = vector.load %a[0, 0] : memref<6x128xf32, ...>, vector<6x128xf32>
    %w = arith.mulf %v, %v : vector<6x128xf32>
    %b = tpu.reinterpret_cast %y : ... -> memref<6x128xf32, tiled<(1,128),[1,1]>>
    vector.store %w, %b[0, 0] : memref<6x128xf32, ...>, vector<6x128xf32>

Needs tiled memrefs. Registers of the matrix hold 2 rows of one tile each; of the rows of 128 that
memory consists of, one holds 8, so 1 operation does the work of 3. What is between loads and stores
may only look at one element at a time, all arrays have the same tiles, and their matrices are
loaded and stored whole. Arrays whose elements follow each other row by row are also reshaped into
each other so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, VectorType, i32
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from pallasite.dialects import arith, func, memref, tpu, vector
from pallasite.dialects.tpu.views import is_contiguous
from pallasite.dialects.types import (
    bit_width,
    element_of,
    memory_space,
    shape_of,
    splat,
    splat_value,
    tiling_of,
    vector_of,
)
from pallasite.layouts.registers import LANES, packing
from pallasite.layouts.tiling import packed_tiling, word_tiles
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.passes.divisibility import constant_of
from pallasite.passes.insertion import Insertion
from pallasite.passes.laid_out import MemRef, laid_out

_STORES = (vector.StoreOp, tpu.VectorStoreOp)
Order = tuple[int, ...]
"""How memory has the elements of an array: (rows,) if row by row, else the sizes of its matrices,
the rows of its tiles, and all rows of 128."""


@dataclass(eq=False)
class _Island:
    """Values of one shape that operations on single elements make of each other."""

    shape: tuple[int, ...]
    order: Order = ()
    sound: bool = True
    """Nobody else makes or uses the values, and all memories have them in one order."""
    operations: set[Operation] = field(default_factory=set[Operation])
    values: set[SSAValue] = field(default_factory=set[SSAValue])

    def lies(self, order: Order) -> None:
        """Notes the order of another memory; there is none if it is empty."""
        self.sound &= bool(order) and self.order in ((), order)
        self.order = order


@dataclass(frozen=True)
class FillRegistersPass(ModulePass):
    """Fills registers with the rows of arrays that have few."""

    name = "fill-registers"

    target: str = "v5e"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            if isinstance(function, func.FuncOp) and function.body.blocks:
                for islands in _groups(function):
                    _rewrite(function, islands)


def _groups(function: func.FuncOp) -> Iterator[list[_Island]]:
    """Islands that can be rewritten, and gain by it; those between which values are reshaped
    together."""
    homes: dict[SSAValue, _Island] = {}
    casts: list[vector.ShapeCastOp] = []
    islands: list[_Island] = []
    for op in function.walk():
        if isinstance(op, vector.ShapeCastOp):
            casts.append(op)
        if isinstance(op, vector.LoadOp | vector.ShapeCastOp) and op.results[0] not in homes:
            islands.append(_island(op.results[0], homes))
    doubtful = True
    while doubtful:
        doubtful = False
        for op in casts:
            one, other = homes.get(op.source), homes.get(op.result)
            for island in () if _agree(one, other) else (one, other):
                if island is not None and island.sound:
                    island.sound, doubtful = False, True
    group_of = {island: [island] for island in islands if island.sound}
    for op in casts:
        one, other = homes.get(op.source), homes.get(op.result)
        if one in group_of and other in group_of and group_of[one] is not group_of[other]:
            group_of[one] += group_of[other]
            for island in group_of[other]:
                group_of[island] = group_of[one]
    for group in {id(group): group for group in group_of.values()}.values():
        if sum(map(_gain, group)) > 0:
            yield group


def _agree(one: _Island | None, other: _Island | None) -> bool:
    """Whether a reshape from one to the other leaves every element where it is."""
    if one is None or other is None or not (one.sound and other.sound):
        return False
    return one.order == other.order


def _island(start: SSAValue, homes: dict[SSAValue, _Island]) -> _Island:
    """All values that operations on single elements connect with `start`."""
    island = _Island(shape_of(start.type))
    waiting = [start]
    while waiting:
        value = waiting.pop()
        if value in island.values:
            continue
        if isinstance(value, BlockArgument) or shape_of(value.type) != island.shape:
            island.sound = False
            continue
        island.values.add(value)
        homes[value] = island
        for op in {cast(Operation, value.owner), *(use.operation for use in value.uses)}:
            if op not in island.operations:
                island.operations.add(op)
                waiting += _joined(op, value, island)
    return island


def _joined(op: Operation, value: SSAValue, island: _Island) -> list[SSAValue]:
    """The values that `op` brings to the island of `value`."""
    if isinstance(op, vector.LoadOp):
        island.lies(_order(op.base, op.indices, island.shape))
    elif isinstance(op, vector.ShapeCastOp):
        pass
    elif isinstance(op, _STORES):
        plain = op.operands[0] is value and (
            isinstance(op, vector.StoreOp) or (op.mask is None and not op.add.value.data)
        )
        island.lies(_order(op.base, op.indices, island.shape) if plain else ())
    elif op.name.startswith(("arith.", "math.")) and not isinstance(op, arith.ConstantOp):
        vectors = [v for v in (*op.operands, *op.results) if isinstance(v.type, VectorType)]
        return [v for v in vectors if not _is_one_value(v)]
    else:
        island.sound = False
    return []


def _is_one_value(value: SSAValue) -> bool:
    """Whether all elements are one number, so that a vector of any shape can have them."""
    owner = value.owner
    if isinstance(owner, vector.BroadcastOp):
        return not isinstance(owner.source.type, VectorType)
    return isinstance(owner, arith.ConstantOp) and splat_value(owner.value) is not None


def _order(ref: SSAValue, indices: Sequence[SSAValue], shape: tuple[int, ...]) -> Order:
    """The order in which the matrices of `ref` that are loaded or stored lie in VMEM; () if they
    are not whole, or there are gaps between their tiles, or others have their elements there."""
    kind = cast(MemRef, ref.type)
    tiling = tiling_of(kind)
    if tiling is None or memory_space(kind) != "vmem" or len(indices) != len(shape):
        return ()
    if not is_contiguous(tiling, shape):
        return ()
    bits = bit_width(kind)
    known = [constant_of(index) for index in indices]
    if tuple(kind.get_shape()[-2:]) != shape[-2:] or any(start != 0 for start in known[-2:]):
        return ()
    for start, count, size in zip(known, shape, kind.get_shape(), strict=True):
        if start is None or not 0 <= start <= size - count:
            return ()
    if tiling.tiles[1:] != word_tiles(len(tiling.first), bits) or tiling.first[-1] % LANES:
        return ()
    if len(shape) == 1:
        return (shape[0] // LANES,) if bits == 32 and shape[0] % LANES == 0 else ()
    if len(tiling.first) != 2 or tiling.first[1] != LANES:
        return ()
    *outer, rows, columns = shape
    tile = tiling.first[0]
    padded = bool(rows % tile or columns % LANES)
    # Several matrices of padded tiles cost registers of their own, as Pallas documents
    # (spec/pallas_semantics.md, row O25).
    if padded and (prod(outer) > 1 or not _is_own(ref)):
        return ()
    total = prod(outer) * -(-rows // tile) * tile * -(-columns // LANES)
    row_by_row = not padded and (columns == LANES or (tile == 1 and bits == 32))
    return (total,) if row_by_row else (rows, columns, tile, total)


def _is_own(ref: SSAValue) -> bool:
    """Whether the padding of the last tiles belongs to nobody else."""
    owner = ref.owner
    if isinstance(owner, tpu.MemrefSliceOp | tpu.MemrefSqueezeOp):
        source = cast(MemRef, owner.operands[0].type)
        same = source.get_shape()[-2:] == cast(MemRef, ref.type).get_shape()[-2:]
        return same and _is_own(owner.operands[0])
    return isinstance(owner, memref.AllocaOp) or isinstance(ref, BlockArgument)


def _gain(island: _Island) -> int:
    """How many registers fewer the values take, and those that are stored or reshaped."""
    gain = 0
    for value in island.values:
        bits = bit_width(value.type)
        if bits == 1:
            continue
        before, after = _registers(island.shape, bits), _registers((island.order[-1], LANES), bits)
        gain += before - after
        gain += sum(isinstance(use.operation, _STORES) for use in value.uses) * (before - after)
        if isinstance(value.owner, vector.ShapeCastOp):
            source = shape_of(value.owner.source.type)
            gain += before if source[-2:] != island.shape[-2:] else 0
    return gain


def _registers(shape: tuple[int, ...], bits: int) -> int:
    if len(shape) == 1:
        return VectorLayout(bits, None, 0, tile_rows=packing(bits)).register_count(shape)
    return VectorLayout.native(len(shape), bits).register_count(shape)


class _Rows(Insertion):
    """Puts in front of operations what does their work on `rows` of 128."""

    def __init__(self, rows: int) -> None:
        self.shape = (rows, LANES)
        self.new: dict[SSAValue, SSAValue] = {}

    def work(self, op: Operation) -> None:
        """What `op` does; its results are found in `new`."""
        self._anchor = op
        if isinstance(op, vector.ShapeCastOp):
            self.new[op.result] = self.new[op.source]
        elif isinstance(op, vector.LoadOp):
            kind = vector_of(element_of(op.result), self.shape)
            place = [op.indices[-1]] * 2
            rows = self._seen(op.base, op.indices, shape_of(op.result.type))
            self.new[op.result] = self.emit(vector.LoadOp(rows, place, kind))
        elif isinstance(op, _STORES):
            place = [op.indices[-1]] * 2
            value = op.operands[0]
            rows = self._seen(op.base, op.indices, shape_of(value.type))
            self.insert(vector.StoreOp(self._value(value), rows, place))
        else:
            self._single(op)

    def _single(self, op: Operation) -> None:
        made = type(op).create(
            operands=[self._value(v) for v in op.operands],
            result_types=[vector_of(element_of(r), self.shape) for r in op.results],
            properties=op.properties,
            attributes=op.attributes,
        )
        self.insert(made)
        self.new.update(zip(op.results, made.results, strict=True))

    def _value(self, old: SSAValue) -> SSAValue:
        """The rows of a value of an island; scalars are what they are."""
        owner = old.owner
        if not isinstance(old.type, VectorType) or old in self.new:
            return self.new.get(old, old)
        kind = vector_of(element_of(old), self.shape)
        if isinstance(owner, vector.BroadcastOp):
            return self.emit(vector.BroadcastOp(owner.source, kind))
        value = splat_value(cast(arith.ConstantOp, owner).value)
        assert value is not None
        return self.emit(arith.ConstantOp(splat(kind, value)))

    def _seen(self, ref: SSAValue, indices: Sequence[SSAValue], shape: tuple[int, ...]) -> SSAValue:
        """The matrices as rows of words: in one column of tiles these are where larger ones are."""
        kind = cast(MemRef, ref.type)
        bits, tiling = bit_width(kind), tiling_of(kind)
        if tuple(kind.get_shape()) != shape and tiling is not None:
            starts = [constant_of(index) or 0 for index in indices]
            places = [self.emit(arith.ConstantOp.from_int_and_width(n, i32)) for n in starts]
            part = laid_out(kind, shape, tiling)
            ref = self.emit(tpu.MemrefSliceOp(operands=[ref, places, []], result_types=[part]))
        seen = laid_out(kind, self.shape, packed_tiling(self.shape, (packing(bits), LANES), bits))
        return self.emit(tpu.ReinterpretCastOp(operands=[ref, [], []], result_types=[seen]))


def _rewrite(function: func.FuncOp, islands: list[_Island]) -> None:
    """Has the operations of islands work on the rows of memory."""
    operations = set[Operation]().union(*(island.operations for island in islands))
    ordered = [op for op in function.walk() if op in operations]
    rows = _Rows(islands[0].order[-1])
    for op in ordered:
        rows.work(op)
    for op in reversed(ordered):
        op.detach()
        op.erase()
