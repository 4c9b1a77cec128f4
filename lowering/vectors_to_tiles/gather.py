"""Gathers along lanes or sublanes; elements narrower than 32 bits are gathered as words.

The hardware gathers within one register. A gather from several registers takes one of these per
register, and selects the one that holds each element.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerType, VectorType, i32
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import arith, grid, tpu
from pallasite.dialects.types import bit_width, element_of, shape_of, splat, vector_of
from pallasite.layouts.registers import LANES, SUBLANES
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.casts import narrow, widen
from pallasite.lowering.vectors_to_tiles.converter import Converter, rule
from pallasite.lowering.vectors_to_tiles.tiled import Tiled, grid_type
from pallasite.passes.check_kernel.vectors import gather_form, gather_unit


def gather(source: SSAValue, index: SSAValue, c: Converter, *, lanes: bool) -> SSAValue:
    """`jnp.take_along_axis` on a matrix of registers of words, along lanes or sublanes."""
    kind, wanted = (cast(VectorType[Attribute], v.type) for v in (source, index))
    shape = kind.get_shape()
    result = vector_of(kind.element_type, wanted.get_shape())
    unit, position = (LANES, len(shape) - 3) if lanes else (SUBLANES, len(shape) - 4)
    axis = DenseArrayBase.from_list(i32, [len(shape) - (1 if lanes else 2)])

    def constant(value: int) -> SSAValue:
        """A grid like `index` of equal numbers."""
        return c.emit(arith.ConstantOp(splat(wanted, value)))

    # The hardware takes indices modulo the register's extent; the upper bits choose the register.
    count = shape[position]
    bits = (1 << (count - 1).bit_length()) * unit - unit
    number = c.emit(arith.AndIOp(index, constant(bits))) if count > 1 else index
    found: SSAValue | None = None
    for block in range(count):
        begin, sizes = [0] * (len(shape) - 2), list(shape[:-2])
        begin[position], sizes[position] = block, 1
        part = c.emit(grid.BroadcastOp(c.box(source, begin, sizes), result))
        made = tpu.DynamicGatherOp.create(
            operands=[part, index], result_types=[result], properties={"dimensions": axis}
        )
        taken = c.emit(made)
        if found is not None:
            here = c.emit(arith.CmpiOp(number, constant(block * unit), "eq"))
            taken = c.emit(arith.SelectOp(here, taken, found))
        found = taken
    assert found is not None
    return found


@rule(tpu.DynamicGatherOp)
def lower_gather(op: tpu.DynamicGatherOp, c: Converter) -> None:
    """Lowers `jnp.take_along_axis` along lanes or sublanes; raises `Unsupported` for other
    forms."""
    source, index, result = op.operands[0], op.operands[1], op.results[0]
    gather_form(op, c.target)
    gather_unit(op, c.target)
    rank = len(shape_of(source.type))
    lanes = op.dimensions.get_values()[0] == rank - 1
    element = element_of(source)
    gathered = gather(words(source, c).grid, words(index, c).grid, c, lanes=lanes)
    made = Tiled(gathered, VectorLayout.native(rank, 32), shape_of(result.type))
    c.define(result, *_from_words(made, element, c))
    c.retire(op)


@rule(tpu.GatherOp)
def lower_static_gather(op: tpu.GatherOp, c: Converter) -> None:
    """Takes rows of one register in another order: by a load in that order, if it is offered, or by
    a shuffle."""
    source, result = op.source, op.result
    shape, rank = shape_of(result.type), len(shape_of(source.type))
    rows = [int(i) for i in op.indices.get_values()]
    axis, bits = op.dimension.value.data, bit_width(element_of(source))
    if axis != rank - 2 or max(len(rows), shape_of(source.type)[axis]) > SUBLANES or bits != 32:
        raise c.unsupported(
            op, "static-gather", f"a gather of positions {rows} of {source.type} is not supported",
            "a shuffle moves rows of 32-bit elements inside one register",
            "slice the rows and concatenate them",
        )  # fmt: skip
    layout = VectorLayout.native(rank, bits)
    value = c.form("rows", source, layout, rows)
    if value is None:
        held = c.in_layout(source, layout)
        pattern = DenseArrayBase.from_list(i32, [*rows, *[rows[-1]] * (SUBLANES - len(rows))])
        made = tpu.SublaneShuffleOp.create(
            operands=[held, held],
            result_types=[grid_type(layout, shape, element_of(source))],
            properties={"pattern": pattern},
        )
        value = c.emit(made)
    c.define(result, value, layout)
    c.retire(op)


def words(value: SSAValue, c: Converter) -> Tiled:
    """`value` in native tiles of words: the bits of narrower elements, also of floats,
    sign-extended."""
    shape, bits = shape_of(value.type), bit_width(element_of(value))
    layout = VectorLayout.native(len(shape), bits)
    held = c.in_layout(value, layout)
    if bits == 32:
        return Tiled(held, layout, shape)
    kind = grid_type(layout, shape, IntegerType(bits))
    grown, wide = widen(Tiled(c.bitcast(held, kind), layout, shape), i32, c)
    return Tiled(grown, wide, shape)


def _from_words(held: Tiled, element: Attribute, c: Converter) -> tuple[SSAValue, VectorLayout]:
    """The inverse of `words`: registers of `element` and their layout."""
    bits = bit_width(element)
    if bits == 32:
        return held.grid, held.layout
    value, layout = narrow(held, IntegerType(bits), c)
    return c.bitcast(value, grid_type(layout, held.shape, element)), layout
