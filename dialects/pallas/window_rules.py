"""The rules of grids and windows (spec/pallas_semantics.md 1.3 to 1.7), for kernels and pipelines.

Messages name the operand, the rule with the value that breaks it, and what may be written instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from xdsl.dialects.builtin import i1, i32
from xdsl.ir import Attribute, Operation, Region
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.traits import MemoryEffectKind, RecursiveMemoryEffect, get_effects
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.kernel import DYNAMIC, broken_grid_rule
from pallasite.dialects.pallas.attrs import DimKind, WindowAttr
from pallasite.dialects.pallas.scope import check_yield
from pallasite.dialects.tpu import ACTS_OF_MAPS
from pallasite.dialects.types import bit_width
from pallasite.dialects.verification import BrokenRule
from pallasite.layouts.registers import LANES, SUBLANES

MOST_POINTS = 4096
"""Grids of at most this many points are walked to see which blocks return."""


def check_axes(
    sizes: Sequence[int],
    semantics: Sequence[str],
    mapped: Sequence[int],
    names: Sequence[str] | None = None,
) -> None:
    """One name and one kind per axis; mapped axes exist."""
    rank = len(sizes)
    broken = broken_grid_rule(sizes)
    if broken is not None:
        message, advice = broken
        raise BrokenRule(message, advice=[advice])
    if semantics and len(semantics) != rank:
        raise VerifyException(
            f"expected the semantics of all {rank} axes of the grid or of none, "
            f"got {len(semantics)}"
        )
    if names is not None and (len(names) != rank or not any(names)):
        raise VerifyException(
            f"expected names for {rank} axes of the grid, got {[str(n) for n in names]}"
        )
    if list(mapped) != sorted(set(mapped)) or not all(0 <= axis < rank for axis in mapped):
        raise VerifyException(f"expected mapped axes of {rank}, in order, got {list(mapped)}")


def check_window(window: WindowAttr, rank: int, what: str) -> None:
    """One entry per dimension of the array; sizes and paddings make sense."""
    if len(window.dims) != rank:
        raise VerifyException(
            f"{what}: expected a block with {rank} dimensions, as its array has, got "
            f"{block_text(window)}"
        )
    for dim in window.dims:
        if dim.size < 1:
            raise VerifyException(f"{what}: expected block sizes of at least 1, got {dim.inline()}")
        if dim.low < 0 or dim.high < 0:
            raise VerifyException(f"{what}: expected paddings of at least 0, got {dim.inline()}")
    if window.buffers is not None and window.buffers < 1:
        raise VerifyException(f"{what}: expected at least 1 buffer, got {window.buffers}")


def check_block_shape(
    window: WindowAttr, shape: Sequence[int], element: Attribute, what: str
) -> None:
    """The last dimensions of a block in VMEM are whole tiles, or those of the array."""
    block = window.bounds
    if not block:
        raise VerifyException(f"{what}: blocks have at least one dimension; pass it in smem")
    if len(block) == 1:
        _check_flat_block(block[0], shape[0], element, what)
        return
    for dim, tile, name in ((-1, LANES, "last"), (-2, SUBLANES, "second-to-last")):
        if block[dim] != shape[dim] and block[dim] % tile:
            raise BrokenRule(
                f"{what}: the {name} dimension of a block is a multiple of {tile} or the whole "
                f"dimension of the array ({shape[dim]}), got {block[dim]} in block "
                f"{block_text(window)}",
                advice=_block_advice(block, shape, dim, tile),
            )


def _block_advice(block: Sequence[int], shape: Sequence[int], dim: int, tile: int) -> Iterator[str]:
    """Blocks that may be written instead of `block`, whose dimension `dim` cuts tiles."""
    if shape[dim] <= tile:
        yield f"take all {shape[dim]}"
    else:
        yield f"take a multiple of {tile}, or all {shape[dim]}; blocks may reach over the end"
    if dim == -2 and block[dim] == 1:
        array, rows = (*shape[:-1], 1, shape[-1]), (*block[:-1], 1, block[-1])
        yield f"for one row at a time, reshape the array to {array}, with blocks {rows}"
    if dim == -1 and block[-2:] == (1, 1):
        array, numbers = (*shape, 1, 1), (*block, 1, 1)
        yield f"for one number at a time, reshape the array to {array}, with blocks {numbers}"
    elif dim == -1 and block[dim] == 1 and (block[-2] == shape[-2] or not block[-2] % tile):
        rows = (*block[:-2], 1, 1, block[-2])
        yield (
            "for one column at a time, make rows of them: jnp.swapaxes(x, -1, -2)[..., None, :], "
            f"with blocks {rows}"
        )


def _check_flat_block(size: int, extent: int, element: Attribute, what: str) -> None:
    least = LANES * (32 // (32 if element == i1 else bit_width(element)))
    if size == extent or size % (SUBLANES * LANES) == 0:
        return
    if size >= least and size & (size - 1) == 0:
        return
    raise BrokenRule(
        f"{what}: a block of rank 1 is the whole array ({extent}), a multiple of "
        f"{SUBLANES * LANES}, or a power of two of at least {least}, got {size}",
        advice=[f"take all {extent}, and what a step needs in the kernel, by pl.program_id"],
    )


def block_text(window: WindowAttr) -> str:
    """A block's dimensions as they are written."""
    return f"({', '.join(dim.inline() for dim in window.dims)})"


def check_maps(
    windows: Sequence[tuple[WindowAttr, str]],
    maps: Sequence[Region],
    rank: int,
    prefetch: Sequence[Attribute],
) -> None:
    """Index maps take the grid's axes, give one value per dimension; each region has one use."""
    regions = 0
    for window, what in windows:
        if isinstance(window.map, AffineMap):
            _check_affine(window.map, window, rank, what)
            continue
        if window.map != regions:
            raise VerifyException(
                f"{what}: expected index map regions in the order of the operands, so region "
                f"{regions}, got region {window.map}"
            )
        if regions >= len(maps):
            raise VerifyException(f"{what}: there is no index map region {regions}")
        _check_region(maps[regions], window, rank, prefetch, what)
        regions += 1
    if regions != len(maps):
        raise VerifyException(f"expected {regions} index map regions, got {len(maps)}")


def _results_text(window: WindowAttr) -> str:
    per = "one per dimension"
    if any(dim.kind is DimKind.BOUNDED for dim in window.dims):
        per += ", and a size after each bounded one"
    return f"{window.results} values, {per}"


def _check_affine(map: AffineMap, window: WindowAttr, rank: int, what: str) -> None:
    if map.num_dims != rank or map.num_symbols:
        raise VerifyException(f"{what}: an index map takes the {rank} axes of the grid, got {map}")
    if len(map.results) != window.results:
        raise VerifyException(
            f"{what}: expected an index map that gives {_results_text(window)}, got {map}"
        )


def _check_region(
    region: Region, window: WindowAttr, rank: int, prefetch: Sequence[Attribute], what: str
) -> None:
    expected = (*[i32] * rank, *prefetch)
    types = tuple(argument.type for argument in region.block.args)
    if types != expected:
        names = ", ".join(map(str, expected)) or "nothing"
        raise VerifyException(
            f"{what}: an index map takes one i32 per axis of the grid, then the scalar-prefetch "
            f"refs ({names}), got ({', '.join(map(str, types))})"
        )
    check_yield(region, [i32] * window.results, f"the index map of {what}")
    owner = region.parent_op()
    asks_sizes = owner is not None and owner.name == "pallas.kernel"
    for op in region.walk():
        given = op.name == "pallas.num_programs" and not asks_sizes
        if given or op.name == "pallas.program_id":
            raise VerifyException(f"{what}: an index map is given its position, got {op.name}")
        if not _is_ahead(op):
            raise VerifyException(
                f"{what}: an index map only computes, reads, prints and asserts, for it runs "
                f"ahead of its step; got {op.name}"
            )


def _is_ahead(op: Operation) -> bool:
    """Whether an operation may run before its step, apart from those in its regions: it changes
    nothing, or only says something, which is said as often as the form runs the map."""
    if isinstance(op, ACTS_OF_MAPS) or op.has_trait(RecursiveMemoryEffect):
        return True
    effects = get_effects(op)
    return effects is not None and all(e.kind is MemoryEffectKind.READ for e in effects)


# Outputs


def returning_block(
    map: AffineMap, sizes: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """A block that is visited again after others, and the grid point that does so, if known.

    Small grids are walked; larger ones are judged by axes that stand alone in the map.
    """
    if DYNAMIC in sizes or 0 in sizes:
        return None
    if prod(sizes) <= MOST_POINTS:
        return _first_return(map, product(*map_ranges(sizes)))
    varied = [
        e.position for e in map.results if isinstance(e, AffineDimExpr) and sizes[e.position] > 1
    ]
    used = map.used_dims()
    for axis, size in enumerate(sizes):
        if axis not in used and size > 1 and any(inner > axis for inner in varied):
            origin = [0] * len(sizes)
            origin[axis] = 1
            return tuple(map.eval([0] * len(sizes), ())), tuple(origin)
    return None


def map_ranges(sizes: Sequence[int]) -> list[range]:
    """The positions along every axis."""
    return [range(size) for size in sizes]


def _first_return(
    map: AffineMap, points: Iterator[tuple[int, ...]]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    left: set[tuple[int, ...]] = set()
    present: tuple[int, ...] | None = None
    for point in points:
        index = tuple(map.eval(point, ()))
        if index == present:
            continue
        if index in left:
            return index, point
        if present is not None:
            left.add(present)
        present = index
    return None
