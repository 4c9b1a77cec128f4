"""Values that are not loaded: constants, splats of scalars, iota, random bits."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, VectorType, i32
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import arith, grid, tpu, vector
from pallasite.dialects.types import (
    bit_width,
    element_of,
    is_vector,
    shape_of,
    splat,
    splat_value,
    vector_of,
)
from pallasite.layouts.registers import register_shape
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.casts import narrow
from pallasite.lowering.vectors_to_tiles.converter import Converter, rule
from pallasite.lowering.vectors_to_tiles.tiled import Tiled, grid_type


def data_bits(element: Attribute) -> int:
    """The width that a layout of `element` states; a mask (i1) is taken to be for words."""
    bits = bit_width(element)
    return 32 if bits == 1 else bits


@rule(arith.ConstantOp)
def lower_constant(op: arith.ConstantOp, c: Converter) -> None:
    """Makes one register of a splat constant, which serves everywhere."""
    if not is_vector(op.results[0]):
        return
    value = splat_value(op.value)
    if value is None:
        raise c.unsupported(
            op, "register-constant", "a vector constant whose elements differ is not supported",
            "the TPU has no instruction that loads an arbitrary register constant",
            "pass the array to the kernel as an input, or compute it from iota",
        )  # fmt: skip
    shape, element = shape_of(op.results[0].type), element_of(op.results[0])
    layout = VectorLayout.replicated(len(shape), data_bits(element))
    kind = grid_type(layout, shape, element)
    c.define(op.results[0], c.emit(arith.ConstantOp(splat(kind, value))), layout)
    c.retire(op)


def splat_scalar(
    scalar: SSAValue, layout: VectorLayout, shape: tuple[int, ...], c: Converter
) -> SSAValue:
    """A grid in the replicated `layout` whose elements are all `scalar`."""
    element = scalar.type
    register = vector_of(element, register_shape(layout.bits))
    one = c.emit(vector.BroadcastOp(scalar, register))
    return c.emit(grid.BroadcastOp(one, grid_type(layout, shape, element)))


@rule(tpu.PrngRandomBitsOp)
def lower_random_bits(op: tpu.PrngRandomBitsOp, c: Converter) -> None:
    """Makes new random bits for every register of the grid, in grid order."""
    shape, element = shape_of(op.results[0].type), element_of(op.results[0])
    if bit_width(element) != 32:
        raise c.unsupported(
            op,
            "random-width",
            f"random bits of {element} are not supported, only of i32",
            "the generator fills words",
            "draw 32-bit words and convert them",
        )
    layout = VectorLayout.native(len(shape), 32)
    made = tpu.PrngRandomBitsOp.create(result_types=[grid_type(layout, shape, element)])
    c.define(op.results[0], c.emit(made), layout)
    c.retire(op)


@rule(tpu.IotaOp)
def lower_iota(op: tpu.IotaOp, c: Converter) -> None:
    """Adds, in each register, a multiple of its position in the grid to the iota of a register.

    The listed dimensions count row-major: each contributes its coordinate times the product of the
    extents listed after it.
    """
    shape, element = shape_of(op.results[0].type), element_of(op.results[0])
    dims = [int(d) for d in op.dimensions.get_values()]
    rank = len(shape)
    layout = VectorLayout.native(
        rank, 32, 0 if rank - 2 in dims else None, 0 if rank - 1 in dims else None
    )
    kind = grid_type(layout, shape, i32)
    total: SSAValue | None = None
    weight = 1
    for dim in reversed(dims):
        part = coordinate(dim, rank, layout, kind, c)
        if weight != 1:
            factor = c.emit(arith.ConstantOp(splat(kind, weight)))
            part = c.emit(arith.MuliOp(part, factor))
        total = part if total is None else c.emit(arith.AddiOp(total, part))
        weight *= shape[dim]
    if total is None:
        total = c.emit(arith.ConstantOp(splat(kind, 0)))
    if bit_width(element) < 32:
        # Registers count in words.
        total, layout = narrow(Tiled(total, layout, shape), element, c)
    c.define(op.results[0], total, layout)
    c.retire(op)


def coordinate(
    dim: int, rank: int, layout: VectorLayout, kind: VectorType[Attribute], c: Converter
) -> SSAValue:
    """A grid whose elements are their coordinates along logical dimension `dim`.

    `layout` holds 32-bit elements in native tiles, with element 0 at the first place along `dim`.
    """
    grid_rank = len(kind.get_shape()) - len(register_shape(32))
    axes = (layout.sublane_dim, layout.lane_dim)
    if dim not in axes:
        return c.emit(grid.PositionOp(layout.leading_dims(rank).index(dim), 1, kind))
    axis = axes.index(dim)
    place = grid_rank - len(axes) + axis
    blocks = c.emit(grid.PositionOp(place, layout.block[axis], kind))
    inside = tpu.IotaOp.create(
        result_types=[VectorType(i32, register_shape(32))],
        properties={"dimensions": DenseArrayBase.from_list(i32, [axis])},
    )
    spread = c.emit(grid.BroadcastOp(c.emit(inside), kind))
    shape = kind.get_shape()[: -len(register_shape(32))]
    if shape[place] == 1:
        return spread
    # The first block along the dimension counts as its registers do: nothing is added.
    begin, rest, first = [0] * len(shape), list(shape), list(shape)
    begin[place], rest[place], first[place] = 1, shape[place] - 1, 1
    others = c.emit(arith.AddiOp(c.box(blocks, begin, rest), c.box(spread, begin, rest)))
    return c.emit(grid.ConcatOp([c.box(spread, [0] * len(shape), first), others], place))
