"""Narrow elements packed into and taken out of words by the kernel itself.

`pack_elementwise` puts element i of every source into the same word, source 0 lowest: that is the
interleaved packing of registers (spec/tpu_dialect.md section 3.4). The compiler takes neither
operation, so they become packs, unpacks, shifts and masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, VectorType, i32
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import arith, tpu
from pallasite.dialects.types import bit_width, splat
from pallasite.layouts.registers import register_shape
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.agreement import meet
from pallasite.lowering.vectors_to_tiles.casts import narrow, widen
from pallasite.lowering.vectors_to_tiles.converter import (
    Converter,
    Tiled,
    element_of,
    grid_type,
    is_float,
    rule,
)


def _like(value: SSAValue, element: Attribute) -> VectorType[Attribute]:
    return VectorType(element, cast(VectorType[Attribute], value.type).get_shape())


def _constant(value: SSAValue, number: int, c: Converter) -> SSAValue:
    return c.emit(arith.ConstantOp(splat(_like(value, i32), number)))


def _signed(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number


@rule(tpu.PackElementwiseOp)
def lower_pack_elementwise(op: tpu.PackElementwiseOp, c: Converter) -> None:
    """Source i lands in bits [i * width, (i + 1) * width) of its word."""
    held = [c.tiled(v) for v in op.operands]
    layout = meet(op.operands, 32, c)
    grids = [c.in_layout(v, layout) for v in op.operands]
    width = bit_width(op.target_type)
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


def _interleaved(
    grids: Sequence[SSAValue],
    shape: tuple[int, ...],
    layout: VectorLayout,
    op: tpu.PackElementwiseOp,
    c: Converter,
) -> SSAValue:
    """One pack instruction, whose registers are then seen as words."""
    words = _like(grids[0], i32)
    packed = VectorType(
        op.target_type, (*layout.grid_shape(shape), *register_shape(bit_width(op.target_type)))
    )
    made = tpu.PackSubelementsOp.create(
        operands=grids,
        result_types=[packed],
        properties={
            "positions": DenseArrayBase.from_list(i32, list(range(len(grids)))),
            "pack_format": tpu.PackFormatAttr(tpu.PackFormat.INTERLEAVED),
        },
    )
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
        narrowed, packed = narrow(c, Tiled(value, layout, shape), element)
        whole, _ = widen(c, Tiled(narrowed, packed, shape), element_of(value))
        bits = c.bitcast(whole, _like(whole, i32))
        words.append(c.emit(arith.ShRUIOp(bits, _constant(bits, shift, c))))
    return words


@rule(tpu.UnpackElementwiseOp)
def lower_unpack_elementwise(op: tpu.UnpackElementwiseOp, c: Converter) -> None:
    """Bits [index * width, (index + 1) * width) of every word, widened to 32 bits."""
    held = c.tiled(op.operands[0])
    layout = held.layout
    words = c.in_layout(op.operands[0], layout)
    words = c.bitcast(words, _like(words, i32))
    width = bit_width(op.source_type)
    low = op.index.value.data * width
    kind = grid_type(layout, held.shape, element_of(op.results[0]))
    if is_float(op.source_type):
        # A bf16 is the upper half of the f32 of the same value.
        if low:
            keep = _signed((1 << 32) - (1 << 32 - width))
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
