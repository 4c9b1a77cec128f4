"""`absorb-moves`: data movement that a load or a store can do on its way.

    %x = vector.load %a[%c0, %c0] : memref<16x256xf32>, vector<16x256xf32>
    %y = arith.addf %x, %one : vector<16x256xf32>
    %z = vector.extract_strided_slice %y {offsets = [3, 0], sizes = [8, 128], strides = [1, 1]}
becomes
    %x = vector.load %a[%c3, %c0] : memref<16x256xf32>, vector<8x128xf32>
    %z = arith.addf %x, %one : vector<8x128xf32>

Runs before memory is tiled, because an access at any row asks for tiles of single rows
(`infer-memref-layout`). Slices move up through elementwise operations into loads, concatenations
and rolls of rows that are only stored become stores of their parts, and reshapes of rows become
views of memory. Registers are touched only where they are wanted, and nothing moves between them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    VectorType,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from pallasite.dialects import arith, func, tpu, vector
from pallasite.dialects import memref as memref_dialect
from pallasite.dialects.types import bit_width, memory_space, splat, splat_value, tiling_of
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.lowering.vectors_to_tiles.elementwise import elementwise_kinds
from pallasite.passes.dead_code import remove_dead_code
from pallasite.passes.divisibility import constant_of, remainder

Shape = tuple[int, ...]

_ELEMENTWISE = tuple(elementwise_kinds())


def _shape(value: SSAValue) -> Shape:
    return tuple(cast(VectorType[Attribute], value.type).get_shape())


def _element(value: SSAValue) -> Attribute:
    return cast(VectorType[Attribute], value.type).element_type


def _rows_are_ours(memref: SSAValue) -> bool:
    """Whether `infer-memref-layout` may tile the buffer behind `memref` by single rows."""
    while isinstance(memref.owner, tpu.MemrefSliceOp | tpu.MemrefSqueezeOp):
        memref = memref.owner.operands[0]
    if not isinstance(memref.owner, memref_dialect.AllocaOp):
        return False
    return memory_space(memref.type) in ("vmem", None) and tiling_of(memref.type) is None


def _is_whole_buffer(memref: SSAValue) -> bool:
    """Whether `memref` is an allocation, or one slot of it, so that its rows follow each other."""
    owner = memref.owner
    if isinstance(owner, tpu.MemrefSqueezeOp):
        return _is_whole_buffer(owner.operands[0])
    if isinstance(owner, tpu.MemrefSliceOp):
        whole = cast(MemRefType[Attribute], owner.operands[0].type).get_shape()
        part = cast(MemRefType[Attribute], memref.type).get_shape()
        first = next((d for d, n in enumerate(part) if n != 1), 0)
        return tuple(whole[first:]) == tuple(part[first:]) and _is_whole_buffer(owner.operands[0])
    return isinstance(owner, memref_dialect.AllocaOp)


def _registers(shape: Shape, bits: int) -> int:
    """Registers of a vector in native tiles."""
    rows, columns = SUBLANES * packing(bits), LANES
    return math.prod(shape[:-2]) * -(-shape[-2] // rows) * -(-shape[-1] // columns)


def _used_once(value: SSAValue) -> bool:
    return value.has_one_use()


def _only_sliced(value: SSAValue) -> bool:
    """Whether `value` is used by slices alone, which together touch no more registers."""
    bits = bit_width(_element(value))
    total = 0
    for use in value.uses:
        if not isinstance(use.operation, vector.ExtractStridedSliceOp):
            return False
        box = _box(use.operation)
        if box is None:
            return False
        total += _registers((*box.sizes[:-1], box.offsets[-1] % LANES + box.sizes[-1]), bits)
    return total <= _registers(_shape(value), bits)


def _insert(op: Operation, place: Operation) -> SSAValue:
    """Inserts `op` in front of `place`; returns its result."""
    op.location = place.location
    Rewriter.insert_op(op, InsertPoint.before(place))
    return op.results[0]


def _plus(index: SSAValue, amount: int, place: Operation) -> SSAValue:
    """`index + amount`, in front of `place`."""
    if not amount:
        return index
    known = constant_of(index)
    step = arith.ConstantOp(IntegerAttr((known or 0) + amount, IndexType()))
    added = _insert(step, place)
    return added if known is not None else _insert(arith.AddiOp(index, added), place)


@dataclass(frozen=True)
class _Box:
    """A slice of a vector with unit strides."""

    offsets: Shape
    sizes: Shape

    def is_aligned(self, bits: int) -> bool:
        """Whether the slice begins at the corner of a register in native tiles."""
        return not self.offsets[-2] % (SUBLANES * packing(bits)) and not self.offsets[-1] % LANES


def _box(op: vector.ExtractStridedSliceOp) -> _Box | None:
    """What `op` takes, if it names every dimension and skips nothing."""
    offsets = tuple(int(a.value.data) for a in op.offsets)
    sizes = _shape(op.result)
    if len(offsets) != len(sizes) or len(sizes) < 2:
        return None
    return _Box(offsets, sizes) if all(int(a.value.data) == 1 for a in op.strides) else None


def _memory_serves(memref: SSAValue, row: SSAValue, offset: int, bits: int) -> bool:
    """Whether registers of `memref` may begin `offset` rows behind index `row`."""
    native = SUBLANES * packing(bits)
    rest = remainder(row, native)
    if rest is not None and (rest + offset) % native == 0:
        return True
    if not _rows_are_ours(memref):
        return False
    if bits == 32:
        return True
    # Packed rows follow each other, word by word, where the array is one column of tiles.
    columns = cast(MemRefType[Attribute], memref.type).get_shape()[-1]
    return rest is not None and (rest + offset) % packing(bits) == 0 and columns <= LANES


# Slices.


def _unserved(value: SSAValue, box: _Box) -> int:
    """How many slices between registers remain if the slice `box` of `value` moves up."""
    owner = value.owner
    bits = bit_width(_element(value))
    if isinstance(owner, arith.ConstantOp) and splat_value(owner.value) is not None:
        return 0
    if isinstance(owner, vector.BroadcastOp) and not isinstance(owner.source.type, VectorType):
        return 0
    if isinstance(owner, vector.LoadOp):
        return not _memory_serves(owner.base, owner.indices[-2], box.offsets[-2], bits)
    if isinstance(owner, _ELEMENTWISE) and len(owner.results) == 1:
        vectors = [v for v in owner.operands if isinstance(v.type, VectorType)]
        return sum(_unserved(v, box) if _may_shrink(v) else _moved(v, box) for v in vectors)
    return _moved(value, box)


def _may_shrink(value: SSAValue) -> bool:
    """Whether nobody else needs what would no longer be computed."""
    return _used_once(value) or isinstance(value.owner, arith.ConstantOp | vector.BroadcastOp)


def _moved(value: SSAValue, box: _Box) -> int:
    return not box.is_aligned(bit_width(_element(value)))


def _sliced(value: SSAValue, box: _Box) -> SSAValue:
    """`value[box]`, computed in front of what computes `value`."""
    owner = cast(Operation, value.owner)
    kind = VectorType(_element(value), box.sizes)
    if isinstance(owner, arith.ConstantOp):
        number = splat_value(owner.value)
        if number is not None:
            return _insert(arith.ConstantOp(splat(kind, number)), owner)
    if isinstance(owner, vector.BroadcastOp) and not isinstance(owner.source.type, VectorType):
        return _insert(vector.BroadcastOp(owner.source, kind), owner)
    if isinstance(owner, vector.LoadOp):
        places = zip(owner.indices, box.offsets, strict=True)
        indices = [_plus(index, offset, owner) for index, offset in places]
        return _insert(vector.LoadOp(owner.base, indices, kind), owner)
    if isinstance(owner, _ELEMENTWISE) and len(owner.results) == 1:
        operands = [
            v if not isinstance(v.type, VectorType)
            else _sliced(v, box) if _may_shrink(v) else _cut(v, box, owner)
            for v in owner.operands
        ]  # fmt: skip
        made = type(owner).create(
            operands=operands,
            result_types=[kind],
            properties=owner.properties,
            attributes=owner.attributes,
        )
        return _insert(made, owner)
    return _cut(value, box, None)


def _cut(value: SSAValue, box: _Box, place: Operation | None) -> SSAValue:
    """A slice of a value that stays, in front of `place`, or behind what computes `value`."""
    op = vector.ExtractStridedSliceOp(value, box.offsets, box.sizes)
    if place is not None:
        return _insert(op, place)
    owner = cast(Operation, value.owner)
    op.location = owner.location
    Rewriter.insert_op(op, InsertPoint.after(owner))
    return op.result


def move_slice_up(op: vector.ExtractStridedSliceOp) -> None:
    """A slice of a load, or of what is computed from loads: loads and operations of less."""
    box = _box(op)
    if box is None or not isinstance(op.source.owner, (vector.LoadOp, *_ELEMENTWISE)):
        return
    bits = bit_width(_element(op.source))
    whole = box.sizes[-2:] == _shape(op.source)[-2:]
    if (box.is_aligned(bits) and whole) or _unserved(op.source, box):
        return
    if not _only_sliced(op.source):
        return
    op.result.replace_all_uses_with(_sliced(op.source, box))
    op.detach()
    op.erase()


# Stores.


def split_store(op: tpu.VectorStoreOp) -> None:
    """A store of rows put together: a store of each part, straight to where it belongs."""
    owner = op.value.owner
    if op.mask is not None or op.add.value.data or not _used_once(op.value):
        return
    rows = len(_shape(op.value)) - 2
    if rows < 0:
        return
    if isinstance(owner, tpu.ConcatenateOp) and owner.dimension.value.data == rows:
        parts = _concatenated(owner, op)
    elif isinstance(owner, tpu.DynamicRotateOp) and owner.dimension.value.data == rows:
        parts = _rolled(owner)
    else:
        return
    bits = bit_width(_element(op.value))
    if not parts or not all(
        _memory_serves(op.base, op.indices[-2], offset, bits) for offset, _ in parts
    ):
        return
    for offset, part in parts:
        indices: list[SSAValue] = list(op.indices)
        indices[-2] = _plus(indices[-2], offset, op)
        value = _sliced(owner.operands[0], part) if isinstance(part, _Box) else part
        stored = tpu.VectorStoreOp.create(
            operands=[value, op.base, *indices],
            properties=op.properties,
            attributes=op.attributes,
        )
        stored.location = op.location
        Rewriter.insert_op(stored, InsertPoint.before(op))
    op.detach()
    op.erase()


def _concatenated(
    owner: tpu.ConcatenateOp, store: tpu.VectorStoreOp
) -> list[tuple[int, SSAValue | _Box]]:
    """The operands and their first rows; none if all of them begin a register."""
    parts: list[tuple[int, SSAValue | _Box]] = []
    offset = 0
    for source in owner.sources:
        parts.append((offset, source))
        offset += _shape(source)[-2]
    native = SUBLANES * packing(bit_width(_element(store.value)))
    return parts if any(place % native for place, _ in parts) else []


def _rolled(owner: tpu.DynamicRotateOp) -> list[tuple[int, SSAValue | _Box]]:
    """The two parts of a roll of loaded rows by a constant."""
    amount = constant_of(owner.amount)
    shape = _shape(owner.value)
    rows = shape[-2]
    native = SUBLANES * packing(bit_width(_element(owner.value)))
    if amount is None or not amount % rows or owner.stride is not None:
        return []
    if not _used_once(owner.value):
        return []
    amount %= rows
    if not amount % native and not rows % native:
        return []
    zeros = (0,) * len(shape)
    end = _Box((*zeros[:-2], rows - amount, 0), (*shape[:-2], amount, shape[-1]))
    begin = _Box(zeros, (*shape[:-2], rows - amount, shape[-1]))
    if _unserved(owner.value, end) or _unserved(owner.value, begin):
        return []
    return [(0, end), (amount, begin)]


# Reshapes.


def _only_rows_change(one: Shape, other: Shape) -> bool:
    """Whether a reshape of 32-bit values regroups rows that do not fill registers."""
    if min(len(one), len(other)) < 2 or one[-1] != other[-1]:
        return False
    alike = [n for n in one if n != 1] == [n for n in other if n != 1]
    return not alike and bool(one[-2] % SUBLANES or other[-2] % SUBLANES)


def _view(memref: SSAValue, indices: Sequence[SSAValue], old: Shape, new: Shape) -> bool:
    """Whether an access of `old` at `indices` is one of all of `memref`, seen as `new`."""
    kind = cast(MemRefType[Attribute], memref.type)
    return (
        bit_width(kind.element_type) == 32
        and _only_rows_change(old, new)
        and tuple(kind.get_shape()) == old
        and all(constant_of(index) == 0 for index in indices)
        and _rows_are_ours(memref)
        and _is_whole_buffer(memref)
    )


def _reshaped(memref: SSAValue, shape: Shape, place: Operation) -> SSAValue:
    kind = cast(MemRefType[Attribute], memref.type)
    result = MemRefType(kind.element_type, shape, kind.layout, kind.memory_space)
    return _insert(tpu.MemrefReshapeOp(operands=[memref], result_types=[result]), place)


def _origin(place: Operation, rank: int) -> list[SSAValue]:
    zero = _insert(arith.ConstantOp(IntegerAttr(0, IndexType())), place)
    return [zero] * rank


def reshape_memory(op: vector.ShapeCastOp | tpu.ReshapeOp) -> None:
    """A reshape between a load and a store: one of the two sees its memory in the other shape."""
    source, result = op.operands[0], op.results[0]
    old, new = _shape(source), _shape(result)
    if not _only_rows_change(old, new) or not _used_once(source):
        return
    load, use = source.owner, result.first_use
    store = use.operation if use is not None and _used_once(result) else None
    loads = isinstance(load, vector.LoadOp) and _view(load.base, load.indices, old, new)
    stores = (
        isinstance(store, tpu.VectorStoreOp)
        and store.mask is None
        and _view(store.base, store.indices, new, old)
    )
    if loads and (not stores or _registers(new, 32) <= _registers(old, 32)):
        assert isinstance(load, vector.LoadOp)
        view = _reshaped(load.base, new, load)
        value = _insert(vector.LoadOp(view, _origin(load, len(new)), result.type), load)
        result.replace_all_uses_with(value)
    elif stores:
        assert isinstance(store, tpu.VectorStoreOp)
        view = _reshaped(store.base, old, store)
        stored = tpu.VectorStoreOp.create(
            operands=[source, view, *_origin(store, len(old))],
            properties={
                **store.properties,
                "operandSegmentSizes": DenseArrayBase.from_list(i32, [1, 1, len(old), 0]),
            },
            attributes=store.attributes,
        )
        stored.location = store.location
        Rewriter.insert_op(stored, InsertPoint.before(store))
        store.detach()
        store.erase()
    else:
        return
    op.detach()
    op.erase()


@dataclass(frozen=True)
class AbsorbMovesPass(ModulePass):
    """Lets loads and stores do the movement that they can."""

    name = "absorb-moves"

    target: str = "v5e"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            if not isinstance(function, func.FuncOp) or not function.body.blocks:
                continue
            for found in list(function.walk()):
                if isinstance(found, tpu.VectorStoreOp):
                    split_store(found)
                elif isinstance(found, vector.ShapeCastOp | tpu.ReshapeOp):
                    reshape_memory(found)
            for found in list(function.walk()):
                if isinstance(found, vector.ExtractStridedSliceOp):
                    move_slice_up(found)
            for block in function.body.blocks:
                remove_dead_code(block)
