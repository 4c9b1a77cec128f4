"""Moves along sublanes and lanes: rotates, gathers, shuffles, iota, masks.

Every op has its plain array meaning on the full type, whatever grid of registers precedes the
register dimensions (spec/vreg_lowering.md section 10.4). What the hardware leaves undefined is
poison.
"""

# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from pallasite.dialects import tpu
from pallasite.dialects.registers import check_mask
from pallasite.dialects.types import AnyVector, grid_shape, register_rank, shape_of
from pallasite.interpreter.meanings import Facts, Function, Steered, many_of, meaning, stacking
from pallasite.interpreter.ops.shape import box_mask
from pallasite.interpreter.values import Array, carrier, poison
from pallasite.layouts.registers import LANES, SUBLANES

Part = tuple[slice, ...]


@lru_cache(maxsize=1 << 8)
def _halves(size: int, amount: int, dim: int) -> tuple[Part, Part] | None:
    """The two parts into which a rotation cuts dimension `dim`, in their order after it."""
    amount %= size
    before = (slice(None),) * dim
    return (
        ((*before, slice(size - amount, None)), (*before, slice(None, size - amount)))
        if amount
        else None
    )


def _rolled(x: Array, amount: int, dim: int) -> Array:
    """`numpy.roll` along one dimension, as two copies of slices."""
    halves = _halves(x.shape[dim], amount, dim)
    if halves is None:
        return x
    head, tail = halves
    return np.concatenate((x[head], x[tail]), dim)


def rotation(shape: tuple[int, ...], dim: int, stride: int, stride_dim: int | None) -> Function:
    """Rotates towards higher indices; slice k of `stride_dim` by `stride * k` more."""
    if stride_dim is None or stride == 0:
        return stacking(
            lambda x, amount: _rolled(x, amount, dim),
            lambda x, amount: _rolled(x, amount, dim + 1),
        )
    # Gather along `dim`: position j of slice k comes from j - amount - stride * k.
    size = shape[dim]
    places = np.arange(size).reshape([size if d == dim else 1 for d in range(len(shape))])
    slices = shape[stride_dim]
    steps = np.arange(slices).reshape([slices if d == stride_dim else 1 for d in range(len(shape))])
    origin = places - stride * steps

    def along(dim: int) -> Function:
        def function(x: Array, amount: int) -> Array:
            index = np.broadcast_to((origin - amount) % size, x.shape)
            return np.take_along_axis(x, index, dim)

        return function

    return stacking(along(dim), along(dim + 1))


def _rotation_of(op: tpu.DynamicRotateOp | tpu.RotateOp) -> Function:
    stride = 0 if op.stride is None else op.stride.value.data
    stride_dim = None if op.stride_dimension is None else op.stride_dimension.value.data
    return rotation(shape_of(op.value.type), op.dimension.value.data, stride, stride_dim)


@meaning(tpu.DynamicRotateOp)
def dynamic_rotate(op: tpu.DynamicRotateOp, facts: Facts) -> Function:
    """Rotates by an amount known at run time, modulo the size."""
    return _rotation_of(op)


@meaning(tpu.RotateOp)
def rotate(op: tpu.RotateOp, facts: Facts) -> Function:
    """Rotates by the constant amount of `op`, modulo the size."""
    turn, amount = _rotation_of(op), op.amount.value.data
    many = many_of(turn)
    assert many is not None
    return stacking(lambda x: turn(x, amount), lambda x: many.call(x, amount))


def _selection(indices: tuple[int, ...]) -> slice | Array:
    """The fastest NumPy index that takes `indices`: a slice, which gives a view, if they are
    equally spaced."""
    first, count = indices[0], len(indices)
    if indices == tuple(range(first, first + count)):
        return slice(first, first + count)
    return np.array(indices, np.intp)


def _take(indices: tuple[int, ...], dim: int) -> Function:
    chosen = _selection(indices)
    if isinstance(chosen, slice):
        box = (slice(None),) * dim + (chosen,)
        return stacking(lambda x: x[box], lambda x: x[(slice(None), *box)])
    return stacking(lambda x: x.take(chosen, dim), lambda x: x.take(chosen, dim + 1))


@meaning(tpu.GatherOp)
def gather(op: tpu.GatherOp, facts: Facts) -> Function:
    """Takes constant positions along one dimension; as a view if they are equally spaced."""
    return _take(tuple(int(i) for i in op.indices.get_values()), op.dimension.value.data)


@meaning(tpu.SublaneShuffleOp)
def sublane_shuffle(op: tpu.SublaneShuffleOp, facts: Facts) -> Function:
    """Sublane i of the result is sublane `pattern[i]` of the two operands on top of each other."""
    type = op.result.type
    dim = len(type.get_shape()) - register_rank(type)
    sublanes = type.get_shape()[dim]
    pattern = tuple(int(i) for i in op.pattern.get_values())
    if max(pattern) < sublanes:
        take = _take(pattern, dim)
        return lambda lhs, rhs: take(lhs)
    if min(pattern) >= sublanes:
        take = _take(tuple(i - sublanes for i in pattern), dim)
        return lambda lhs, rhs: take(rhs)
    take = _take(pattern, dim)
    return lambda lhs, rhs: take(np.concatenate((lhs, rhs), dim))


def _gather_along(shape: tuple[int, ...], dim: int) -> Steered:
    """Row-major element numbers, computed from the position and the index along `dim`."""
    size, stride = shape[dim], prod(shape[dim + 1 :])
    base = np.arange(prod(shape), dtype=np.intp).reshape(shape)
    base -= base // stride % size * stride
    mask = size - 1 if size & (size - 1) == 0 else None

    def places(index: Array) -> Array:
        place = (index & mask if mask is not None else index % size).astype(np.intp)
        if stride != 1:
            place *= stride
        place += base
        return place

    def by(index: Array) -> Function:
        first = int(index.flat[0]) % size
        if (index % size == first).all():
            box = (slice(None),) * dim + (slice(first, first + 1),)
            return lambda x: np.broadcast_to(x[box], shape)
        place = places(index)
        return lambda x: x.reshape(-1).take(place, mode="clip")

    return Steered(lambda x, index: x.reshape(-1).take(places(index), mode="clip"), by)


@meaning(tpu.DynamicGatherOp)
def dynamic_gather(op: tpu.DynamicGatherOp, facts: Facts) -> Function:
    """Gathers along some dimensions, which count as one, row-major in the order in which they are
    listed.

    Indices beyond it wrap, or take what lies behind it in its registers.
    """
    dims = tuple(int(d) for d in op.dimensions.get_values())
    shape = shape_of(op.source.type)
    if not _fills_registers(shape, dims):
        return _gather_inside(op, facts)
    if len(dims) == 1 and shape_of(op.indices.type) == shape:
        return _gather_along(shape, dims[0])
    if not dims:
        return lambda x, index: x
    sizes = tuple(shape[d] for d in dims)
    total = prod(sizes)
    places = np.indices(shape_of(op.indices.type), sparse=True)

    def function(x: Array, index: Array) -> Array:
        where = list(places)
        for d, coordinate in zip(dims, np.unravel_index(index % total, sizes), strict=True):
            where[d] = coordinate
        return x[tuple(where)]

    return function


def _fills_registers(shape: tuple[int, ...], dims: tuple[int, ...]) -> bool:
    """Whether indices of a gather along `dims` wrap: the elements fill one, two, four, ...
    registers, or there is a single element, which is always taken."""
    if prod(shape[d] for d in dims) == 1:
        return True
    rank = len(shape)
    unit = {rank - 1: LANES, rank - 2: SUBLANES}.get(dims[0]) if len(dims) == 1 else None
    if unit is None or rank < 2:
        return True
    count, behind = divmod(shape[dims[0]], unit)
    return not behind and count & (count - 1) == 0


def _gather_inside(op: tpu.DynamicGatherOp, facts: Facts) -> Function:
    """A gather along a dimension that ends within a register: an index beyond it gives poison."""
    dim = int(op.dimensions.get_values()[0])
    size = shape_of(op.source.type)[dim]
    nothing = poison(op.source.type, (), facts.poison)

    def function(x: Array, index: Array) -> Array:
        outside = (index < 0) | (index >= size)
        found = np.take_along_axis(x, np.where(outside, 0, index).astype(np.intp), dim)
        return np.where(outside, nothing, found)

    return function


@meaning(tpu.BroadcastInSublanesOp)
def broadcast_in_sublanes(op: tpu.BroadcastInSublanesOp, facts: Facts) -> Function:
    """Row r gets its lane `lane + r` everywhere; a packed register has rows sublane*p + element."""
    type = op.result.type
    rank = register_rank(type)
    register = type.get_shape()[-rank:]
    packing = register[2] if rank == 3 else 1
    rows = np.arange(register[0])[:, None] * packing + np.arange(packing)
    lanes = op.lane.value.data + rows
    inside = (lanes >= 0) & (lanes < register[1])
    lanes = np.clip(lanes, 0, register[1] - 1)
    undefined = poison(type, (1,), facts.poison)[0]
    shape = type.get_shape()
    if rank == 2:
        sublane, lane, defined = np.arange(register[0])[:, None], lanes, inside
    else:
        sublane, lane, defined = (
            np.arange(register[0])[:, None, None],
            lanes[:, None],
            inside[:, None],
        )
    element = (np.arange(packing),) if rank == 3 else ()

    def function(x: Array) -> Array:
        picked = x[(..., sublane, lane, *element)]
        if not inside.all():
            picked = np.where(defined, picked, undefined)
        return np.broadcast_to(picked, shape)

    return function


@meaning(tpu.IotaOp)
def iota(op: tpu.IotaOp, facts: Facts) -> Function:
    """Counts row-major over the listed dimensions, in the order in which they are listed."""
    shape, dtype = shape_of(op.result.type), carrier(op.result.type)
    total = np.zeros((1,) * len(shape), np.int64)
    for dim in op.dimensions.get_values():
        size = shape[int(dim)]
        place = np.arange(size).reshape([size if d == dim else 1 for d in range(len(shape))])
        total = total * size + place
    value = np.broadcast_to(total.astype(dtype), shape)
    return lambda: value


def _register_bounds(type: AnyVector, bounds: int) -> int:
    """The first dimension that `bounds` pairs of bounds speak of: all of the type, or, when there
    are fewer, those of the register."""
    rank = len(type.get_shape())
    return 0 if bounds == rank else rank - register_rank(type)


@meaning(tpu.CreateMaskOp)
def create_mask(op: tpu.CreateMaskOp, facts: Facts) -> Function:
    """True from `low` up to, but not including, `high` in every dimension; bounds outside are
    clipped.

    If the bounds have two or three dimensions and the type has more, they apply to each register.
    """
    # The C++ dialect takes any type.
    type = check_mask(op, op.result.type, len(op.low))
    shape, count = type.get_shape(), len(op.low)
    first = _register_bounds(type, count)
    inner = shape[first:]

    def function(*bounds: int) -> Array:
        mask = box_mask(inner, zip(bounds[:count], bounds[count:], strict=True))
        return mask if first == 0 else np.broadcast_to(mask, shape)

    return function


@meaning(tpu.CreateSubelementMaskOp)
def create_subelement_mask(op: tpu.CreateSubelementMaskOp, facts: Facts) -> Function:
    """Rows count in elements; a range that ends before it begins is cleared, not set."""
    type = op.result.type
    first, last = op.from_.value.data, op.to.value.data
    register = type.get_shape()[-register_rank(type) :]
    packing = register[2] if len(register) == 3 else 1
    rows = np.arange(register[0])[:, None] * packing + np.arange(packing)
    if first <= last:
        held = (rows >= first) & (rows < last)
    else:
        held = (rows < last) | (rows >= first)
    held = held[:, None, :] if len(register) == 3 else held
    mask = np.broadcast_to(held, type.get_shape())
    return lambda: mask


def _words_of(packed: Array, register: int) -> Array:
    """A mask with its trailing dimension of elements made explicit."""
    return packed if register == 3 else packed[..., None]


@meaning(tpu.MaskCastOp)
def mask_cast(op: tpu.MaskCastOp, facts: Facts) -> Function:
    """Each bit repeats for narrower elements; for wider ones neighbours are equal by contract."""
    source, result = op.input.type, op.result.type
    rank = register_rank(source)
    before = source.get_shape()[-1] if rank == 3 else 1
    after = result.get_shape()[-1] if register_rank(result) == 3 else 1
    shape = result.get_shape()
    if after >= before:
        return lambda m: np.repeat(_words_of(m, rank), after // before, -1).reshape(shape)
    return lambda m: _words_of(m, rank)[..., :: before // after].reshape(shape)


@meaning(tpu.PackVmskOp)
def pack_vmsk(op: tpu.PackVmskOp, facts: Facts) -> Function:
    """The masks of several registers become that of their compressed pack: rows concatenate."""
    result = op.result.type
    source = op.sources[0].type
    rank, shape = register_rank(source), result.get_shape()
    packing = shape[-1] if register_rank(result) == 3 else 1
    before = source.get_shape()[-1] if rank == 3 else 1
    order = {int(p): k for k, p in enumerate(op.positions.get_values())}
    grid, (sublanes, lanes) = grid_shape(result), shape[len(grid_shape(result)) :][:2]
    absent = np.full(source.get_shape(), facts.poison == 0)

    def function(*masks: Array) -> Array:
        parts = [masks[order[p]] if p in order else absent for p in range(packing // before)]
        rows = [_rows(_words_of(m, rank), grid) for m in parts]
        joined = np.concatenate(rows, -2).reshape(*grid, sublanes, packing, lanes)
        return np.swapaxes(joined, -1, -2).reshape(shape)

    return function


def _rows(packed: Array, grid: tuple[int, ...]) -> Array:
    """(..., sublanes, lanes, p) as (..., sublanes * p, lanes)."""
    turned = np.swapaxes(packed, -1, -2)
    return turned.reshape(*grid, turned.shape[-3] * turned.shape[-2], turned.shape[-1])
