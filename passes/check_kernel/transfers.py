"""Refuses DMAs that the engines of a target, or its compiler, cannot do."""

from __future__ import annotations

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue

from pallasite.dialects import tpu
from pallasite.dialects.locations import refusal
from pallasite.dialects.tpu.views import squeezed_dimensions
from pallasite.dialects.types import bit_width, shape_of
from pallasite.dialects.viewed import viewed
from pallasite.layouts.registers import LANES
from pallasite.passes.check_kernel.rules import RuleTable
from pallasite.passes.check_kernel.viewed_array import Array, array_of
from pallasite.passes.divisibility import constant_of
from pallasite.targets import Target, targets_with

_MOST_STRIDES = 3
"""Distances that one transfer knows. The compiler splits copies that have more where the semaphore
counts bytes (asked of libtpu 0.0.51 for v6e and v7x)."""

_Level = tuple[int, int, int]
"""How many pieces there are, and bits from one to the next in the source and in the destination."""


def _counts_transfers(op: tpu.EnqueueDmaOp, target: Target) -> None:
    """Refuses DMAs that signal a regular semaphore, on targets whose engines only count bytes."""
    if target.dma_signals_regular or not _signals_regular(op):
        return
    raise refusal(
        op, "transfer-semaphore",
        f"a DMA of {target.name} cannot signal a regular semaphore",
        "its engines count bytes; those of "
        f"{targets_with(lambda t: t.dma_signals_regular)} count transfers, too",
        "use a DMA semaphore (pltpu.SemaphoreType.DMA) and wait for the copy",
    )  # fmt: skip


def _equal_ends(op: tpu.EnqueueDmaOp, target: Target) -> None:
    """Refuses ends of different sizes; constant sizes of slices are operands and not in the
    types."""
    pairs = zip(_sizes(op.source), _sizes(op.target), strict=True)
    for dim, (source, other) in enumerate(pairs):
        if DYNAMIC_INDEX not in (source, other) and source != other:
            least = min(source, other)
            raise refusal(
                op, "dma-shape",
                f"a DMA of {source} elements to {other} (dimension {dim} of {op.source.type} and "
                f"{op.target.type})",
                "a DMA moves every element of its source to one of its target",
                f"give both ends one size: pl.ds(start, {least})",
            )  # fmt: skip


def _no_number(op: tpu.EnqueueDmaOp, target: Target) -> None:
    """Refuses a DMA of a ref of rank 0; an array of one element is legal (asked of libtpu
    0.0.51)."""
    if not op.source.type.get_shape() or not op.target.type.get_shape():
        raise refusal(
            op, "dma-number",
            f"a DMA of {op.source.type}, which has no dimensions",
            "the TPU compiler says: The contiguous inner slice in the DMA transfer must be "
            "divisible by 512 bytes",
            "give the array a dimension of one element, x.reshape(1), or load and store it",
        )  # fmt: skip


def _sizes(view: SSAValue) -> tuple[int, ...]:
    """The sizes of a ref, with constant size operands of a slice filled in."""
    owner = view.owner
    shape = shape_of(view.type)
    if isinstance(owner, tpu.MemrefSqueezeOp):
        dropped = squeezed_dimensions(shape_of(owner.input.type), shape) or ()
        return tuple(n for dim, n in enumerate(_sizes(owner.input)) if dim not in dropped)
    if not isinstance(owner, tpu.MemrefSliceOp):
        return shape
    amounts = iter(owner.dynamic_sizes)
    known = [constant_of(next(amounts)) if size == DYNAMIC_INDEX else size for size in shape]
    return tuple(DYNAMIC_INDEX if size is None else size for size in known)


def _one_transfer(op: tpu.EnqueueDmaOp, target: Target) -> None:
    """Refuses copies of many strides that signal a regular semaphore: they must be a single
    transfer."""
    if not _signals_regular(op):
        return
    arrays = array_of(op.source, target), array_of(op.target, target)
    shape = op.source.type.get_shape()
    if arrays[0] is None or arrays[1] is None:
        return
    levels = _levels(shape, arrays[0], arrays[1])
    if levels is not None and len(levels) > _MOST_STRIDES:
        raise refusal(
            op, "transfer-semaphore",
            f"a DMA of {len(levels)} strided dimensions cannot signal a regular semaphore",
            f"a transfer has at most {_MOST_STRIDES} beside what lies in one piece, and a regular "
            "semaphore counts transfers",
            "use a DMA semaphore (pltpu.SemaphoreType.DMA) and wait for the copy, or copy in a "
            "loop over the first dimension",
        )  # fmt: skip


def _last_odd_rows(op: tpu.EnqueueDmaOp, target: Target) -> None:
    """Refuses to drop the dimension of the last row, at a constant index, of an odd number of rows
    of over 128 words.

    The compiler sees that row in a pair with a row of padding (asked of libtpu 0.0.51 for up to 20
    rows).
    """
    for end in (op.source, op.target):
        view = viewed(end, tpu.MemrefSliceOp).owner
        if not isinstance(view, tpu.MemrefSqueezeOp):
            continue
        part = view.input.owner
        if not isinstance(part, tpu.MemrefSliceOp):
            continue
        array = array_of(part.mem_ref, target)
        if array is None or array.type.get_shape()[-1] <= LANES or bit_width(array.type) < 32:
            continue
        rank, whole = len(part.base_idx), array.type.get_shape()
        dim = rank - 2
        if dim < 0 or array.dims[dim:] != (len(whole) - 2, len(whole) - 1):
            continue
        rows, kept = part.mem_ref.type.get_shape()[dim], len(view.result.type.get_shape())
        last = rows > 1 and rows % 2 and constant_of(part.base_idx[dim]) == rows - 1
        if last and _drops(part.result.type.get_shape(), view.result.type.get_shape()):
            raise refusal(
                op, "last-row",
                f"the TPU compiler cannot copy row {rows - 1}, the last of {rows}, as an array of "
                f"{kept} dimensions",
                "it sees the last row of an odd number with a row of padding, and drops no "
                "dimension that is padded",
                f"keep the dimension on both sides, ref.at[pl.ds({rows - 1}, 1)], or make the "
                "number of rows even",
            )  # fmt: skip


def _drops(part: tuple[int, ...], view: tuple[int, ...]) -> bool:
    """Whether `view` does not have the rows of `part`, its second minor dimension."""
    return len(view) < len(part) and (len(view) < 2 or view[-2] != 1)


def _signals_regular(op: tpu.EnqueueDmaOp) -> bool:
    kinds = (s.type for s in (op.source_semaphore, op.target_semaphore) if s is not None)
    return any(isinstance(kind.element_type, tpu.SemaphoreType) for kind in kinds)


def _levels(shape: tuple[int, ...], source: Array, target: Array) -> list[_Level] | None:
    """The strides of a copy of `shape` that go beyond pieces which are contiguous in both arrays.

    A piece is the rows that a tile of both arrays has in common, or all rows if both have one
    column of tiles. Dimensions that are contiguous in both arrays count as one. None where the
    strides are not known: for sizes known only at run time, views without rows or columns, and rows
    of wide arrays that end within a tile.
    """
    last = [len(array.type.get_shape()) for array in (source, target)]
    if -1 in shape or any(
        array.dims[-2:] != (rank - 2, rank - 1)
        for array, rank in zip((source, target), last, strict=True)
    ):
        return None
    *leading, rows, columns = shape
    small, large = sorted((source.tile, target.tile))
    if max(array.type.get_shape()[-1] for array in (source, target)) <= LANES:
        small = large = rows
    piece = min(rows, small)
    if rows > small and (rows % small or (rows > large and rows % large)):
        return None
    across = -(-columns // LANES)
    inner = min(rows, large) // piece
    outer = rows // (piece * inner)
    counts = (*leading, outer, inner, across)
    steps = [_steps(array, piece, inner) for array in (source, target)]
    levels = [level for level in zip(counts, *steps, strict=True) if level[0] > 1]
    bits = bit_width(source.type)
    return _merged(levels, piece * LANES * bits)


def _steps(array: Array, piece: int, inner: int) -> list[int]:
    """The strides, in bits, of the leading dimensions, of the `inner` pieces, of a piece, and of a
    column of tiles."""
    *leading, rows, columns = array.type.get_shape()
    row = LANES * bit_width(array.type)
    tile = array.tile * row
    across = -(-columns // LANES)
    size = -(-rows // array.tile) * across * tile
    strides: list[int] = []
    for count in reversed(leading):
        strides.insert(0, size)
        size *= count
    kept = [strides[dim] for dim in array.dims[:-2]]
    whole = array.tile <= piece
    one = tile * across if whole else piece * row
    many = tile * across * inner if whole else tile * across
    return [*kept, many, one, tile]


def _merged(levels: list[_Level], piece: int) -> list[_Level]:
    """`levels` without those that continue the contiguous piece, or another level."""
    merged: list[_Level] = []
    current: _Level = (piece, 1, 1)
    for count, first, second in sorted(levels, key=lambda level: level[1:]):
        if (first, second) == (current[0] * current[1], current[0] * current[2]):
            current = (current[0] * count, current[1], current[2])
        else:
            merged.append(current)
            current = (count, first, second)
    return [*merged, current][1:]


TRANSFER_RULES: RuleTable = {tpu.EnqueueDmaOp: (_equal_ends, _counts_transfers)}
TRANSFER_REFERENCE_RULES: RuleTable = {
    tpu.EnqueueDmaOp: (_no_number, _one_transfer, _last_odd_rows)
}
