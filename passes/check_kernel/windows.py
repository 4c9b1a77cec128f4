"""Refuses windows that the TPU compiler refuses; `--allow-beyond-reference` lifts these.

Asked of libtpu 0.0.51 for v4, v5e, v6e and v7x, of every type and number of rows; all agree.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import AnyFloat, MemRefType, ModuleOp
from xdsl.ir import Attribute, Operation

from pallasite.dialects.func import FuncOp, ReturnOp
from pallasite.dialects.kernel import Kernel, Window, functions_of
from pallasite.dialects.kernel_call import call_of
from pallasite.dialects.locations import refusal, source_location
from pallasite.dialects.types import bit_width, memory_space
from pallasite.layouts.registers import LANES, packing
from pallasite.passes.check_kernel.arrays_in_vmem import pads_less_otherwise
from pallasite.passes.divisibility import constant_of, remainder
from pallasite.passes.reference_tiles import retiled_rows, tile_rows


def check_windows(module: ModuleOp, kernel: Kernel) -> None:
    """Raises `Unsupported` for the first window that is illegal.

    Blocks counted in blocks must start at whole tiles, and element windows must be proven to. The
    tiles are those of the block, not of the array. Arrays of rank 0 have no blocks, even in a grid
    of a single step.
    """
    _check_elements(module, kernel.func)
    _check_spaces(kernel)
    maps, arrays = functions_of(module), _arrays(module, kernel)
    for number, (window, operand) in enumerate(zip(kernel.windows, kernel.operands, strict=True)):
        if window.windowed and not window.bounds:
            raise refusal(
                kernel.func, "scalar-window",
                f"operand {number} has no dimensions, and the kernel a grid: no block is cut from "
                "it",
                "the pipeline copies blocks of at least one dimension",
                "make it an array of one element, or pass it as a scalar-prefetch operand "
                "(pltpu.PrefetchScalarGridSpec)",
            )  # fmt: skip
        if arrays:
            _check_pairs_of_bits(kernel.func, number, window, arrays[number], operand.type)
        if window.windowed and arrays:
            _check_scalar_tiles(kernel.func, number, arrays[number], operand.type)
            if window.transform in maps:
                _check_place(window, maps[window.transform], number, arrays[number], kernel.func)
        if window.low is not None and window.transform in maps:
            type = cast("MemRefType[Attribute]", operand.type)
            _check(window, maps[window.transform], bit_width(type), kernel.func)


def _check_spaces(kernel: Kernel) -> None:
    """Refuses operands in CMEM, on every target, also without a grid (asked of libtpu 0.0.51).

    libtpu: "Operand windows can only be requested in VMEM, SMEM, or HOST".
    """
    for number, operand in enumerate(kernel.operands):
        if memory_space(operand.type) == "cmem":
            raise refusal(
                kernel.func, "operand-space", f"operand {number} of the kernel is in CMEM",
                "the TPU compiler places operands in VMEM, SMEM and HBM",
                "use memory_space=pltpu.VMEM for blocks, or pl.ANY for what is copied from",
            )  # fmt: skip


def _arrays(module: ModuleOp, kernel: Kernel) -> list[tuple[int, ...]]:
    """The shapes of the operands' arrays, as the call has them; empty without a call."""
    call = call_of(module)
    types = (*call.operands, *call.results) if call is not None else ()
    first = len(types) - len(kernel.operands)
    return [type.get_shape() for type in types[first:]] if first >= 0 else []


def _check_scalar_tiles(
    func: FuncOp, number: int, array: tuple[int, ...], operand: Attribute
) -> None:
    """Refuses blocks in SMEM that have other tiles than their array (asked of libtpu 0.0.51).

    libtpu fails a check, "memory_space == kVmem (smem == vmem)".
    """
    block = cast("MemRefType[Attribute]", operand)
    if not isinstance(operand, MemRefType) or memory_space(block) != "smem":
        return
    rows = retiled_rows(array, block.get_shape(), bit_width(block))
    if rows is None:
        return
    raise refusal(
        func, "scalar-tiles",
        f"blocks {list(block.get_shape())} in SMEM cannot be cut from operand {number}, an array "
        f"of {block.element_type} of shape {list(array)}",
        f"the array lies in tiles of {rows[0]} rows, the block in tiles of {rows[1]}, and no "
        "transfer changes them on the way to SMEM",
        f"take blocks of {rows[0]} rows or a multiple of them, pass int32, or keep the array whole"
        if rows[0] > rows[1] else "pass int32, or keep the array whole",
    )  # fmt: skip


def _check_pairs_of_bits(
    func: FuncOp, number: int, window: Window, array: tuple[int, ...], operand: Attribute
) -> None:
    """Refuses operands of 2-bit integers whose tiles are not those that the kernel expects.

    Blocks must have the tiles of their array and whole ones of these: 16 rows, or 128 where they
    divide the rows. Of wider types the compiler transfers other blocks as well. It aborts for
    arrays that XLA stores with rows and columns exchanged, since that pads less, also in HBM (asked
    of libtpu 0.0.51 for v5e to v7x about 80 arrays and blocks).
    """
    block = cast("MemRefType[Attribute]", operand)
    if not isinstance(operand, MemRefType) or bit_width(block) != 2 or len(array) < 2:
        return
    space = memory_space(block)
    if space == "smem":
        return
    told = f"operand {number}, an array of {block.element_type} of shape {list(array)}"
    if pads_less_otherwise(array, bit_width(block)):
        raise refusal(
            func, "pairs-of-bits", f"{told}, cannot be passed to a kernel",
            "XLA stores it with its dimensions in another order, in which it has less padding, and "
            "the compiler changes the order of wider types only",
            "pass it as int4, or transposed, or with a multiple of 128 columns",
            "the TPU compiler says: Check failed: rank >= 2 (1 vs. 2)",
        )  # fmt: skip
    tile, rows = tile_rows(array[-2], 2), block.get_shape()[-2]
    if not window.windowed or space not in ("vmem", None) or rows == array[-2]:
        return
    if rows % tile or tile_rows(rows, 2) != tile:
        raise refusal(
            func, "pairs-of-bits",
            f"blocks {list(block.get_shape())} cannot be cut from {told}",
            f"the array lies in tiles of {tile} rows, which blocks of 2-bit integers take whole "
            "and keep",
            f"take blocks of {tile} rows, or pass int4",
            "the TPU compiler says: its block shape is not divisible by tiling evenly, or: layout "
            "too complicated",
        )  # fmt: skip


def _check_elements(module: ModuleOp, func: FuncOp) -> None:
    """Refuses arrays without elements, for which XLA has no tiles.

    A call whose results are all empty, and which has no effects, is dropped before that matters.
    """
    call = call_of(module)
    if call is None:
        return
    if all(0 in result.get_shape() for result in call.results) and not call.effects:
        return
    parts = (("operand", call.operands), ("result", call.results))
    for what, number, type in ((w, n, t) for w, types in parts for n, t in enumerate(types)):
        if 0 in type.get_shape():
            raise refusal(
                func,
                "empty-array",
                f"{what} {number} of the call, {type}, has no elements",
                "XLA lays no tiles over it, which the TPU compiler asks for",
                "leave it out of the call, or skip the call where it is empty",
            )


def check_operand_floats(module: ModuleOp, func: FuncOp) -> None:
    """Refuses operands of float types of which the compiler accepts no arrays; results may have any
    type.

    libtpu: "Only arguments with float8e5m2, ... or 32-bit element types are supported".
    """
    call = call_of(module)
    for number, type in enumerate(call.operands if call is not None else ()):
        element = type.element_type
        if isinstance(element, AnyFloat) and str(element) not in _TAKEN:
            raise refusal(
                func, "operand-type", f"operand {number} of the call, {type}, is not supported",
                f"a kernel takes arrays of integers and of {', '.join(_TAKEN)}",
                f"convert it outside of the kernel, or pass its bits: "
                f"jax.lax.bitcast_convert_type(x, jnp.uint{element.bitwidth})",
            )  # fmt: skip


_TAKEN = ("f32", "bf16", "f8E5M2", "f8E4M3FN", "f8E4M3B11FNUZ", "f8E8M0FNU", "f4E2M1FN")


def _check_place(
    window: Window, index_map: FuncOp, number: int, array: tuple[int, ...], kernel: FuncOp
) -> None:
    """Refuses a block that lies outside of its array at a constant index.

    libtpu aborts for a block behind its array, "Check failed: llo::CouldLtS32(digits[i],
    bounds[i])", except on v7x if the block is one piece of memory. It accepts a block in front of
    its array. Both fail at run time in every step, so both are refused.
    """
    result = index_map.body.blocks[-1].last_op
    if not isinstance(result, ReturnOp) or window.bounds is None:
        return
    places = zip(result.operands, window.bounds, array, strict=True)
    for dim, (index, size, extent) in enumerate(places):
        found, step = constant_of(index), 1 if window.low is not None else size
        before = (window.low or (0,) * len(array))[dim]
        if found is None or not extent or -size < found * step - before < extent:
            continue
        last = (extent - 1) // step
        raise refusal(
            _place(result, kernel), "block-outside",
            f"block {found} along dimension {dim} of operand {number} is outside of the array of "
            f"shape {list(array)} in every step" if step == size else
            f"a block at element {found} of dimension {dim} of operand {number} is outside of the "
            f"array of shape {list(array)} in every step",
            f"blocks have {size} of the {extent} elements of this dimension, and at least one is "
            "inside of the array",
            f"return {f'0 to {last}' if last else '0'} for dimension {dim} in the index map, which "
            f"counts {'blocks' if step == size else 'elements'}",
        )  # fmt: skip


def _place(result: ReturnOp, kernel: FuncOp) -> Operation:
    """The operation whose line a message gives: JAX records none for a map that computes
    nothing."""
    return kernel if source_location(result) is None else result


def _check(window: Window, index_map: FuncOp, bits: int, kernel: FuncOp) -> None:
    result = index_map.body.blocks[-1].last_op
    if not isinstance(result, ReturnOp) or window.bounds is None:
        return
    place = _place(result, kernel)
    if any(window.low or ()):
        raise refusal(
            place, "element-window",
            f"a block of shape {list(window.bounds)} with {list(window.low or ())} elements of "
            "padding in front is not supported",
            "a transfer begins inside of the array; padding behind it is skipped",
            "pad the array outside of the kernel, or clamp the index and shift the block's value",
        )  # fmt: skip
    tiles = _tile(window.bounds, bits)
    for dim in range(len(window.bounds) - len(tiles), len(window.bounds)):
        tile = tiles[dim - len(window.bounds)]
        if remainder(result.operands[dim], tile) != 0:
            raise refusal(
                place, "element-window",
                f"the index of dimension {dim} of a block of shape {list(window.bounds)} is not "
                f"known to be a multiple of {tile}",
                f"blocks are transferred by whole tiles, which have {_words(tiles)} of its type",
                f"count in blocks, or by multiples of {tile} (pl.multiple_of where it is known)",
                *_turned(window.bounds, dim, tile),
            )  # fmt: skip


def _turned(bounds: tuple[int, ...], dim: int, tile: int) -> list[str]:
    """Advice: how a kernel gets a block that begins within a tile, from a larger one by a
    rotation."""
    flat = len(bounds) == 1
    # Flat blocks are multiples of this (spec/pallas_semantics.md).
    step = 8 * LANES if flat else tile
    size = -(-(bounds[dim] + tile - 1) // step) * step
    value, along = ("ref[...].reshape(1, -1)", 1) if flat else ("ref[...]", dim)
    taken = "0, " if flat else ":, " * dim
    return [
        f"or take {size} from p // {tile} * {tile} on, where p is the first that is wanted, and "
        f"rotate: pltpu.roll({value}, -(p % {tile}) % {size}, {along})[{taken}:{bounds[dim]}]"
    ]


def _tile(bounds: tuple[int, ...], bits: int) -> tuple[int, ...]:
    """The sizes of the block's tile in its last two dimensions, or in the only one."""
    if len(bounds) == 1:
        return (LANES * packing(bits),)
    return (tile_rows(bounds[-2], bits), LANES)


def _words(tiles: tuple[int, ...]) -> str:
    return " x ".join(map(str, tiles)) + " elements"
