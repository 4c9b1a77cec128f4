"""Values of other shapes: broadcasts, reshapes, slices, concatenations, transposes, gathers."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from jax import lax
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i32
from xdsl.ir import SSAValue

from pallasite.dialects import vector
from pallasite.dialects.pallas import BroadcastOp
from pallasite.dialects.tpu import (
    ConcatenateOp,
    DynamicGatherOp,
    DynamicRotateOp,
    IotaOp,
    TransposeOp,
)
from pallasite.dialects.tpu.base import si32
from pallasite.dialects.types import element_type as element_of
from pallasite.dialects.types import shape_of
from pallasite.frontend.jaxprs import types
from pallasite.frontend.jaxprs.internals import (
    lax_internal,
    pallas_einshape,
    primitives,
    tpu_primitives,
)
from pallasite.frontend.jaxprs.rules import Result, rule
from pallasite.frontend.jaxprs.tracer import Equation, Value


@rule(lax.broadcast_in_dim_p)
def _broadcast_in_dim(e: Equation) -> Result:
    source, shape = e.inputs[0].shape, tuple(e.params["shape"])
    dims = tuple(e.params["broadcast_dimensions"])
    if source == shape:
        return e.arguments[0]
    if not source:
        return e.tracer.spread(e.operand(0), shape)
    with_units = [1] * len(shape)
    for dim, size in zip(dims, source, strict=True):
        with_units[dim] = size
    if tuple(with_units) == shape:
        return reshaped(e, e.operand(0), shape)
    return e.emit(BroadcastOp(e.operand(0), dims, shape))


@rule(lax.reshape_p)
def _reshape(e: Equation) -> Result:
    if e.params["dimensions"] is not None:
        raise e.unsupported("a reshape with dimensions=", "transpose before")
    return reshaped(e, e.operand(0), e.output.shape)


@rule(lax.squeeze_p)
def _squeeze(e: Equation) -> Result:
    if not e.output.shape and types.bits(e.output.dtype) != 32:
        raise e.unsupported(
            f"only 32-bit elements become scalars, got {e.output.dtype}",
            "cast the array to a 32-bit type first",
            code="unsupported-type",
        )
    return reshaped(e, e.operand(0), e.output.shape)


def reshaped(e: Equation, value: SSAValue, shape: Sequence[int]) -> SSAValue:
    """`value` with the same elements in another shape."""
    old, element = shape_of(value.type), element_of(value.type)
    if old == tuple(shape):
        return value
    if not old:
        return e.tracer.spread(value, shape)
    if not shape:
        return e.emit(vector.ExtractOp(value, [0] * len(old), element))
    return e.emit(vector.ShapeCastOp(value, types.value_type(shape, element)))


@rule(lax.concatenate_p)
def _concatenate(e: Equation) -> Result:
    return concatenated(e, e.operands(), int(e.params["dimension"]))


@rule(*primitives(lax_internal, "stack_p"))
def _stack(e: Equation) -> Result:
    axis = int(e.params["axis"])
    shape = list(e.inputs[0].shape)
    shape.insert(axis, 1)
    return concatenated(e, [reshaped(e, value, shape) for value in e.operands()], axis)


@rule(*primitives(lax_internal, "unstack_p"))
def _unstack(e: Equation) -> Result:
    axis, shape = int(e.params["axis"]), e.inputs[0].shape
    results: list[Value] = []
    for position, aval in enumerate(e.outputs):
        starts, sizes = [0] * len(shape), list(shape)
        starts[axis], sizes[axis] = position, 1
        part = sliced(e, e.operand(0), starts, sizes, [1] * len(shape))
        results.append(reshaped(e, part, aval.shape))
    return results


@rule(lax.split_p)
def _split(e: Equation) -> Result:
    axis, shape = int(e.params["axis"]), e.inputs[0].shape
    starts = [0] * len(shape)
    results: list[Value] = []
    for size, aval in zip(e.params["sizes"], e.outputs, strict=True):
        results.append(sliced(e, e.operand(0), starts, aval.shape, [1] * len(shape)))
        starts[axis] += size
    return results


@rule(lax.slice_p)
def _slice(e: Equation) -> Result:
    starts, limits = e.params["start_indices"], e.params["limit_indices"]
    strides = e.params["strides"] or (1,) * len(starts)
    sizes = [limit - start for start, limit in zip(starts, limits, strict=True)]
    if any(stride != 1 for stride in strides):
        # `vector` counts the elements that it takes.
        sizes = list(e.output.shape)
    return sliced(e, e.operand(0), starts, sizes, strides)


@rule(lax.pad_p)
def _pad(e: Equation) -> Result:
    value, shape = e.operand(0), list(e.inputs[0].shape)
    if not shape:
        return e.arguments[0]
    for axis, (low, high, interior) in enumerate(e.params["padding_config"]):
        if low < 0 or high < 0 or interior:
            period = interior + 1
            raise e.unsupported(
                f"padding of ({low}, {high}, {interior}) along dimension {axis}",
                *([f"spread and choose: jnp.where(lax.broadcasted_iota(jnp.int32, shape, {axis}) % "
                   f"{period} == 0, jnp.repeat(x, {period}, {axis}), value), without the last "
                   f"{interior}"] if interior else []),
                *(["slice to make an array smaller"] if min(low, high) < 0 else []),
            )  # fmt: skip
        for size, before in ((low, True), (high, False)):
            if size:
                size = int(size)
                edge = e.tracer.spread(e.operand(1), [*shape[:axis], size, *shape[axis + 1 :]])
                value = concatenated(e, [edge, value] if before else [value, edge], axis)
                shape[axis] += size
    return value


@rule(lax.tile_p)
def _tile(e: Equation) -> Result:
    value = e.operand(0)
    for axis, times in enumerate(e.params["reps"]):
        if times > 1:
            value = concatenated(e, [value] * times, axis)
    return value


@rule(lax.transpose_p)
def _transpose(e: Equation) -> Result:
    permutation = [int(p) for p in e.params["permutation"]]
    return e.emit(TransposeOp.of(e.operand(0), permutation))


@rule(pallas_einshape.einshape_lo_p)
def _einshape(e: Equation) -> Result:
    """By whole tiles where their elements stay together, else by reshapes and transposes."""
    equation, whole_tiles = e.params["equation"], e.params["assert_is_tile_preserving"]
    kernel = functools.partial(
        pallas_einshape._einshape_kernel,  # pyright: ignore[reportPrivateUsage]
        equation,
        assert_is_tile_preserving=whole_tiles,
        **dict(e.params["sizes"]),
    )
    try:
        return e.expand(kernel)
    except ValueError as error:
        if not whole_tiles:
            raise
        raise e.unsupported(
            f"{equation!r} moves elements of {list(e.inputs[0].shape)} within tiles",
            "leave out assert_is_tile_preserving=True",
        ) from error


@rule(lax.iota_p)
def _iota(e: Equation) -> Result:
    shape, dimension = tuple(e.params["shape"]), e.params["dimension"]
    dtype = e.output.dtype
    if not types.is_integer(dtype):
        # Vectors are counted in integers; those of float32 are exact up to 2**24.
        return e.expand(lambda: lax.broadcasted_iota("int32", shape, dimension).astype(dtype))
    # The vector unit counts along two dimensions or more.
    full, dimension = (shape, dimension) if len(shape) > 1 else ((1, *shape), dimension + 1)
    op = IotaOp(
        result_types=[types.value_type(full, types.element_type(e.output.dtype))],
        properties={"dimensions": DenseArrayBase.from_list(i32, [dimension])},
    )
    return reshaped(e, e.emit(op), shape)


@rule(tpu_primitives.roll_p)
def _roll(e: Equation) -> Result:
    properties = {"dimension": IntegerAttr(int(e.params["axis"]), si32)}
    if e.params["stride"] is not None:
        properties["stride"] = IntegerAttr(int(e.params["stride"]), si32)
        properties["stride_dimension"] = IntegerAttr(int(e.params["stride_axis"]), si32)
    return e.emit(
        DynamicRotateOp(operands=e.operands(), result_types=[e.result_type], properties=properties)
    )


def _gather_advice(shape: tuple[int, ...], along: tuple[int, ...]) -> Iterator[str]:
    """What to write instead of a gather from an array of `shape` by indices of `along`."""
    yield (
        "use jnp.take_along_axis(x, indices, axis, mode='promise_in_bounds'), with indices of "
        "the shape of the result: jnp.broadcast_to(indices, shape)"
    )
    if along == (0, 1) and len(shape) == 2:
        yield (
            "x[i, j] of few rows: for each row r, jnp.take_along_axis(jnp.broadcast_to("
            "x[r : r + 1], j.shape), j, 1, mode='promise_in_bounds') where i == r"
        )
    elif 1 in shape[-2:]:
        yield (
            "which leaves out dimensions of one element, so repeat them first, both of x and of "
            "indices: jnp.broadcast_to(x, (8, n)) of a row"
        )
    yield "read rows of a ref of 32 bits one by one, ref[pl.ds(i, 1), :], with i from SMEM"


@rule(lax.gather_p)
def _gather(e: Equation) -> Result:
    source, indices = e.inputs
    shape, numbers = e.output.shape, e.params["dimension_numbers"]
    along = tuple(numbers.collapsed_slice_dims)
    is_take_along_axis = (
        len(source.shape) == len(shape)
        and indices.shape == (*shape, 1)
        and tuple(e.params["slice_sizes"]) == (1,) * len(shape)
        and not numbers.offset_dims
        and along == tuple(numbers.start_index_map)
        and tuple(numbers.operand_batching_dims) == tuple(numbers.start_indices_batching_dims)
        and len(along) == 1
        and len(numbers.operand_batching_dims) == len(shape) - 1
    )
    modes = (lax.GatherScatterMode.FILL_OR_DROP, lax.GatherScatterMode.PROMISE_IN_BOUNDS)
    if not is_take_along_axis or e.params["mode"] not in modes:
        raise e.unsupported(
            "a TPU gathers within rows or columns only", *_gather_advice(source.shape, along)
        )
    if along[0] < len(shape) - 2:
        raise e.unsupported(
            f"a gather along dimension {along[0]} of {len(shape)}",
            "gather along one of the two minormost dimensions, or choose among the parts, from "
            "found = jnp.zeros(indices.shape, x.dtype): for i in "
            f"range({source.shape[along[0]]}): found = jnp.where(indices == i, x"
            f"[{':, ' * along[0]}i : i + 1], found)",
        )
    element = types.element_type(indices.dtype)
    flat = e.emit(vector.ShapeCastOp(e.operand(1), types.value_type(shape, element)))
    return e.emit(
        DynamicGatherOp(
            operands=[e.operand(0), flat],
            result_types=[e.result_type],
            properties={"dimensions": DenseArrayBase.from_list(i32, list(along))},
        )
    )


def concatenated(e: Equation, values: Sequence[SSAValue], axis: int) -> SSAValue:
    """The vectors one after the other along `axis`."""
    if len(values) == 1:
        return values[0]
    shape = list(shape_of(values[0].type))
    shape[axis] = sum(shape_of(value.type)[axis] for value in values)
    return e.emit(
        ConcatenateOp(
            operands=[values],
            result_types=[types.value_type(shape, element_of(values[0].type))],
            properties={"dimension": IntegerAttr(axis, i32)},
        )
    )


def sliced(
    e: Equation,
    value: SSAValue,
    starts: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
) -> SSAValue:
    """A box of a vector."""
    if tuple(sizes) == shape_of(value.type):
        return value
    numbers = [[int(n) for n in column] for column in (starts, sizes, strides)]
    return e.emit(vector.ExtractStridedSliceOp(value, *numbers))
