"""`tpu.pack_elementwise` and `tpu.unpack_elementwise`: kernels that pack narrow elements into words
themselves.

    %w = tpu.pack_elementwise %a, %b to bf16      bits 0-15 of each word of %w are from %a,
                                                  bits 16-31 from %b
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import VectorType, i32
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import arith, tpu
from pallasite.dialects.integers import wrap
from pallasite.dialects.types import bit_width, element_of, is_float, splat, vector_of
from pallasite.layouts.registers import register_shape
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.agreement import meet
from pallasite.lowering.vectors_to_tiles.casts import narrow, widen
from pallasite.lowering.vectors_to_tiles.converter import Converter, rule
from pallasite.lowering.vectors_to_tiles.tiled import Tiled, grid_type


def _like(value: SSAValue, element: Attribute) -> VectorType[Attribute]:
    """The type of `value` with another element type."""
    return vector_of(element, cast(VectorType[Attribute], value.type).get_shape())


def _constant(value: SSAValue, number: int, c: Converter) -> SSAValue:
    """A grid like `value` of equal words."""
    return c.emit(arith.ConstantOp(splat(_like(value, i32), number)))


@rule(tpu.PackElementwiseOp)
def lower_pack_elementwise(op: tpu.PackElementwiseOp, c: Converter) -> None:
    """Puts source i into bits [i * width, (i + 1) * width) of each word."""
    held = [c.tiled(v) for v in op.operands]
    whole, width = bit_width(op.results[0].type), bit_width(op.target_type)
    layout = meet(op.operands, whole, c)
    grids = [c.in_layout(v, layout) for v in op.operands]
    if whole < 32:
        total = _fields(grids, _words(layout, held[0].shape), whole, width, c)
        kind = grid_type(layout, held[0].shape, element_of(op.results[0]))
        c.define(op.results[0], c.bitcast(total, kind), layout)
        c.retire(op)
        return
    if width == 16 and c.target.interleaved_pack_bits <= 16:
        c.define(op.results[0], _interleaved(grids, held[0].shape, layout, op, c), layout)
        c.retire(op)
        return
    if is_float(op.target_type):
        grids = _rounded(grids, held[0].shape, layout, op.target_type, c)
    mask = _constant(grids[0], (1 << width) - 1, c)
    total: SSAValue | None = None
    for position, value in enumerate(grids):
        word = value if position == len(grids) - 1 else c.emit(arith.AndIOp(value, mask))
        if position:
            word = c.emit(arith.ShLIOp(word, _constant(word, position * width, c)))
        total = word if total is None else c.emit(arith.OrIOp(total, word))
    assert total is not None
    c.define(op.results[0], total, layout)
    c.retire(op)


def _words(layout: VectorLayout, shape: tuple[int, ...]) -> VectorType[Attribute]:
    """The type of the registers of a vector in `layout`, seen as words of 32 bits."""
    return vector_of(i32, (*layout.grid_shape(shape), *register_shape(32)))


def _repeated(number: int, whole: int) -> int:
    """A word of 32 bits with `number` in every part of `whole` bits."""
    return wrap(sum(number << place for place in range(0, 32, whole)), 32)


def _fields(
    grids: Sequence[SSAValue], words: VectorType[Attribute], whole: int, width: int, c: Converter
) -> SSAValue:
    """The low `width` bits of every part of `whole` bits, one source after the other."""
    parts = [c.bitcast(value, words) for value in grids]
    if len(parts) == 1:
        return parts[0]
    low = _constant(parts[0], _repeated((1 << width) - 1, whole), c)
    total: SSAValue | None = None
    for position, value in enumerate(parts):
        part = c.emit(arith.AndIOp(value, low))
        if position:
            part = c.emit(arith.ShLIOp(part, _constant(part, position * width, c)))
        total = part if total is None else c.emit(arith.OrIOp(total, part))
    assert total is not None
    return total


def _interleaved(
    grids: Sequence[SSAValue],
    shape: tuple[int, ...],
    layout: VectorLayout,
    op: tpu.PackElementwiseOp,
    c: Converter,
) -> SSAValue:
    """Packs `grids` by one instruction per register; the result is seen as words."""
    words = _like(grids[0], i32)
    packed = vector_of(
        op.target_type, (*layout.grid_shape(shape), *register_shape(bit_width(op.target_type)))
    )
    made = tpu.PackSubelementsOp.in_order(grids, packed, tpu.PackFormat.INTERLEAVED)
    return c.bitcast(c.emit(made), words)


def _rounded(
    grids: Sequence[SSAValue],
    shape: tuple[int, ...],
    layout: VectorLayout,
    element: Attribute,
    c: Converter,
) -> list[SSAValue]:
    """f32 values rounded to `element`, as integers in the low bits of their words."""
    words: list[SSAValue] = []
    shift = 32 - bit_width(element)
    for value in grids:
        narrowed, packed = narrow(Tiled(value, layout, shape), element, c)
        whole, wide = widen(Tiled(narrowed, packed, shape), element_of(value), c)
        # `narrow` may have packed rows of small tiles into others.
        whole = c.relayout(Tiled(whole, wide, shape), layout).grid
        bits = c.bitcast(whole, _like(whole, i32))
        words.append(c.emit(arith.ShRUIOp(bits, _constant(bits, shift, c))))
    return words


@rule(tpu.UnpackElementwiseOp)
def lower_unpack_elementwise(op: tpu.UnpackElementwiseOp, c: Converter) -> None:
    """Widens bits [index * width, (index + 1) * width) of every word to the whole word."""
    held = c.tiled(op.operands[0])
    layout = held.layout
    words = c.in_layout(op.operands[0], layout)
    words = c.bitcast(words, _words(layout, held.shape))
    width = bit_width(op.source_type)
    low = op.index.value.data * width
    kind = grid_type(layout, held.shape, element_of(op.results[0]))
    if layout.bits < 32:
        field = _field(words, layout.bits, width, low, c)
        c.define(op.results[0], c.bitcast(field, kind), layout)
        c.retire(op)
        return
    if is_float(op.source_type):
        # A bf16 is the upper half of the f32 of the same value.
        if low:
            keep = wrap((1 << 32) - (1 << 32 - width), 32)
            bits = c.emit(arith.AndIOp(words, _constant(words, keep, c)))
        else:
            bits = c.emit(arith.ShLIOp(words, _constant(words, 32 - width, c)))
        c.define(op.results[0], c.bitcast(bits, kind), layout)
        c.retire(op)
        return
    up = 32 - width - low
    raised = c.emit(arith.ShLIOp(words, _constant(words, up, c))) if up else words
    c.define(
        op.results[0],
        c.emit(arith.ShRSIOp(raised, _constant(raised, 32 - width, c))),
        layout,
    )
    c.retire(op)


def _field(words: SSAValue, whole: int, width: int, low: int, c: Converter) -> SSAValue:
    """The `width` bits from bit `low` on of every part of `whole` bits, sign-extended.

    Flipping the sign bit and subtracting its weight extends it. A guard in the highest bit of the
    part, which is removed again, keeps the subtraction from borrowing from the next part.
    """
    if width == whole:
        return words
    if low:
        words = c.emit(arith.ShRUIOp(words, _constant(words, low, c)))
    field = c.emit(arith.AndIOp(words, _constant(words, _repeated((1 << width) - 1, whole), c)))
    sign, guard = 1 << (width - 1), 1 << (whole - 1)
    flipped = c.emit(arith.XOrIOp(field, _constant(field, _repeated(sign | guard, whole), c)))
    less = c.emit(arith.SubiOp(flipped, _constant(flipped, _repeated(sign, whole), c)))
    return c.emit(arith.XOrIOp(less, _constant(less, _repeated(guard, whole), c)))
