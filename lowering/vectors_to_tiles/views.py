"""Bitcasts of registers that memory takes over: a register is loaded or stored through a view of
its buffer as elements of the other type.

    %w = tpu.bitcast_vreg %x : vector<2x8x128x2xi16> -> vector<2x8x128x2xbf16>
    tpu.store %o[%c0, %c0], %w ... : memref<32x128xbf16, ...>, vector<2x8x128x2xbf16>
becomes
    %v = tpu.memref_bitcast %o : memref<32x128xbf16, ...> -> memref<32x128xi16, ...>
    tpu.store %v[%c0, %c0], %x ... : memref<32x128xi16, ...>, vector<2x8x128x2xi16>

Words that differ in width differ in rows: two rows of bf16 are one row of i32 (spec/tpu_dialect.md,
`memref_bitcast`). A renaming of registers between the two keeps its place under the other type.
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith, func, grid, tpu
from pallasite.dialects import memref as memref_dialect
from pallasite.dialects.grid_base import Renaming
from pallasite.dialects.registers import BOX, STEPS, Box, box_of
from pallasite.dialects.tpu import TiledLayoutAttr
from pallasite.dialects.types import (
    AnyMemRef,
    AnyVector,
    bit_width,
    element_of,
    memref_of,
    split_grid,
    tiling_of,
    vector_of,
)
from pallasite.dialects.walking import of_kind
from pallasite.layouts.registers import packing, register_shape
from pallasite.layouts.tiling import Tiling
from pallasite.passes.dead_code import remove_dead_code
from pallasite.passes.divisibility import constant_of
from pallasite.passes.insertion import alike, insert_before, put_before


def absorb_bitcasts(function: func.FuncOp) -> None:
    """Rewrites the loads and stores of `function`, wherever that saves a bitcast."""
    for op in of_kind(function, tpu.LoadOp, tpu.StoreOp):
        if isinstance(op, tpu.StoreOp):
            _retype_store(op)
        else:
            _retype_load(op)
    for block in function.body.blocks:
        remove_dead_code(block)


def _retype_store(op: tpu.StoreOp) -> None:
    """Stores registers that were only bitcast for `op` through a view of its memory."""
    element = _stored(op.value)
    if element is None or (op.mask is not None and _width(op.value) != bit_width(element)):
        return
    place = _place(op, op.base, list(op.indices), element)
    if place is None:
        return
    base, indices, steps = place
    mask = [] if op.mask is None else [op.mask]
    made = tpu.StoreOp.create(
        operands=[_before(op.value, op), base, *indices, *mask],
        properties=op.properties,
        attributes={**op.attributes, **steps},
    )
    put_before(made, op)
    op.detach()
    op.erase()


def _stored(value: SSAValue) -> Attribute | None:
    """The element type that all registers of `value` had before a bitcast for a store.

    None if a register was not bitcast, or if another operation uses the bitcast one.
    """
    if len(list(value.uses)) > 1 and not all(
        isinstance(use.operation, tpu.StoreOp) for use in value.uses
    ):
        return None
    owner = value.owner
    if isinstance(owner, tpu.BitcastVregOp):
        return cast(AnyVector, owner.operands[0].type).element_type
    if isinstance(owner, Renaming | grid.ConcatOp):
        found = {_stored(v) for v in owner.operands}
        return found.pop() if len(found) == 1 else None
    return None


def _before(value: SSAValue, place: Operation) -> SSAValue:
    """The registers of `value` before the bitcast, renamed in the same way, inserted before
    `place`."""
    owner = value.owner
    if isinstance(owner, tpu.BitcastVregOp):
        return owner.operands[0]
    assert isinstance(owner, Renaming | grid.ConcatOp)
    operands = [_before(v, place) for v in owner.operands]
    return insert_before(_alike(owner, operands), place)


def _alike(op: Operation, operands: list[SSAValue]) -> Operation:
    """The renaming `op`, of `operands` of another element type."""
    element = cast(AnyVector, operands[0].type).element_type
    return alike(op, operands, [_as(op.results[0], element)])


def _retype_load(op: tpu.LoadOp) -> None:
    """Loads registers that are only bitcast through a view of the memory of `op`."""
    casts: list[tpu.BitcastVregOp] = []
    if not _casts_of(op.result, casts) or len({element_of(c.results[0]) for c in casts}) != 1:
        return
    element = element_of(casts[0].results[0])
    place = _place(op, op.base, list(op.indices), element)
    if place is None:
        return
    base, indices, steps = place
    made = tpu.LoadOp.create(
        operands=[base, *indices],
        result_types=[_as(op.result, element)],
        properties=op.properties,
        attributes={**op.attributes, **steps},
    )
    _replace(op.result, insert_before(made, op))


def _casts_of(value: SSAValue, casts: list[tpu.BitcastVregOp]) -> bool:
    """Collects the bitcasts of a loaded value into `casts`; False if anything else uses it."""
    for use in value.uses:
        if isinstance(use.operation, tpu.BitcastVregOp):
            casts.append(use.operation)
        elif not isinstance(use.operation, Renaming) or not _casts_of(
            use.operation.results[0], casts
        ):
            return False
    return bool(casts)


def _replace(old: SSAValue, new: SSAValue) -> None:
    """Makes the renamings and bitcasts of `old` use `new`, which has the type after the bitcast."""
    for use in list(old.uses):
        op = use.operation
        if isinstance(op, tpu.BitcastVregOp):
            op.results[0].replace_all_uses_with(new)
        else:
            _replace(op.results[0], insert_before(_alike(op, [new]), op))


def _place(
    op: Operation, memref: SSAValue, indices: list[SSAValue], element: Attribute
) -> tuple[SSAValue, list[SSAValue], dict[str, Attribute]] | None:
    """A view of `memref` as `element`, and the indices and attributes of the access `op` to it.

    None if some of its rows share words with others, or if the first row is not constant.
    """
    kind = cast(AnyMemRef, memref.type)
    tiling, shape = tiling_of(kind), list(kind.get_shape())
    old, new = bit_width(kind.element_type), bit_width(element)
    if tiling is None or len(tiling.first) != 2 or tiling.first[0] * old % new:
        return None
    steps = op.attributes.get(STEPS)
    lines = [int(s) for s in cast("DenseArrayBase[Any]", steps).get_values()] if steps else []
    box = box_of(op)
    if old != new:
        row = constant_of(indices[-2])
        if row is None or row * old % new or (lines and lines[-2] * old % new):
            return None
        if box is not None:
            box = _rows_as(box, row, old, new)
            if box is None:
                return None
        if shape[-2] * old % new:
            if not isinstance(memref.owner, memref_dialect.AllocaOp):
                return None
            # An allocation consists of whole tiles, which consist of whole words.
            shape[-2] = tiling.padded(shape)[-2]
            whole = memref_of(kind.element_type, tuple(shape), kind.memory_space, kind.layout)
            memref = insert_before(
                tpu.ReinterpretCastOp(operands=[memref, [], []], result_types=[whole]), op
            )
        at = arith.ConstantOp(IntegerAttr(row * old // new, IndexType()))
        indices[-2] = insert_before(at, op)
        shape[-2] = shape[-2] * old // new
        if lines:
            lines[-2] = lines[-2] * old // new
    view = memref_of(
        element, tuple(shape), kind.memory_space, TiledLayoutAttr.of(_tiles(tiling, old, new))
    )
    base = insert_before(tpu.MemrefBitcastOp(operands=[memref], result_types=[view]), op)
    kept: dict[str, Attribute] = {STEPS: DenseArrayBase.from_list(i64, lines)} if lines else {}
    if box is not None:
        kept[BOX] = box.attribute
    return base, indices, kept


def _rows_as(box: Box, row: int, old: int, new: int) -> Box | None:
    """`box`, of an access at `row`, in rows of elements of another width (`old` to `new` bits).

    None if it leaves the ref: rows that lie outside might share words with rows inside.
    """
    first, extent = row + box.offsets[-2], box.extents[-2]
    end = first + box.sizes[-2]
    if first < 0 or end > extent:
        return None
    low, high, most = first * old // new, -(-end * old // new), -(-extent * old // new)
    rows = zip(box, (low - row * old // new, high - low, most), strict=True)
    return Box(*((*numbers[:-2], number, numbers[-1]) for numbers, number in rows))


def _tiles(tiling: Tiling, old: int, new: int) -> Tiling:
    """`tiling` of elements of `old` bits for elements of `new` bits in the same memory."""
    rows, columns = tiling.first
    p = packing(new)
    return Tiling(((rows * old // new, columns), *([(p, 1)] if p > 1 else [])), tiling.strides)


def _as(value: SSAValue, element: Attribute) -> AnyVector:
    """The type of the registers of `value` with another element."""
    split = split_grid(value.type)
    assert split is not None, "registers are loaded and stored"
    return vector_of(element, (*split[0], *register_shape(bit_width(element))))


def _width(value: SSAValue) -> int:
    """Bits of an element of `value`."""
    return bit_width(element_of(value))
