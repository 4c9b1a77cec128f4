"""Refs of another shape or type over the same memory: reshape, bitcast, reinterpret.

These are arithmetic on address digits (`boxes`); none moves data, and where data would have to move
they refuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import Attribute

from pallasite.diagnostics import SourceLocation
from pallasite.interpreter.machine import boxes
from pallasite.interpreter.machine.boxes import Digits, blocks_of, digits_of
from pallasite.interpreter.machine.codec import codec
from pallasite.interpreter.machine.faults import no_view
from pallasite.interpreter.machine.views import Ref
from pallasite.layouts.tiling import Tiling


def reshape(ref: Ref, shape: Sequence[int], at: SourceLocation | None = None) -> Ref:
    """The same elements, row-major, in another shape; tiles must not be cut across."""
    shape = tuple(shape)
    same = 0
    while same < min(len(shape), len(ref.shape)) and shape[-1 - same] == ref.shape[-1 - same]:
        same += 1
    for keep in range(same, -1, -1):
        # Keeping trailing dimensions as they are keeps their padding and offset, too; but
        # sizes that only happen to agree must not stop a reshape that needs them.
        rest = len(ref.shape) - keep
        grouped = _regroup(ref, range(rest), shape[: len(shape) - keep])
        if grouped is not None:
            digits, base = grouped
            return Ref(
                ref.buffer,
                ref.element,
                shape,
                (*digits, *ref.digits[rest:]),
                ((0,) * len(digits)) + ref.starts[rest:],
                base,
            )
    for held in (_with_units(ref, shape), _around_padded(ref, shape)):
        if held is not None:
            return held
    raise no_view(ref, "reshape", shape, at)


def _with_units(ref: Ref, shape: tuple[int, ...]) -> Ref | None:
    """The reshape if it only drops and adds dimensions of size 1, whatever padding the others have;
    else None."""
    core = ref.keep([dim for dim, size in enumerate(ref.shape) if size != 1])
    if core.shape != tuple(size for size in shape if size != 1):
        return None
    kept = iter(zip(core.digits, core.starts, strict=True))
    alone: tuple[Digits, int] = (((0, 0),), 0)
    digits, starts = zip(*(alone if size == 1 else next(kept) for size in shape), strict=True)
    return Ref(ref.buffer, ref.element, shape, digits, starts, core.base)


def _around_padded(ref: Ref, shape: tuple[int, ...]) -> Ref | None:
    """The reshape that keeps the one dimension which starts or ends within a tile; None if there is
    none, or if the reshape changes it."""
    cut = [dim for dim in range(len(ref.shape)) if len(_runs(ref, dim)) > 1]
    if len(cut) != 1:
        return None
    (dim,), outer = cut, prod(ref.shape[: cut[0]])
    for place, size in enumerate(shape):
        if size == ref.shape[dim] and prod(shape[:place]) == outer:
            before = _regroup(ref, range(dim), shape[:place])
            after = _regroup(ref, range(dim + 1, len(ref.shape)), shape[place + 1 :])
            if before is None or after is None:
                return None
            digits = (*before[0], ref.digits[dim], *after[0])
            starts = tuple(ref.starts[dim] if d == place else 0 for d in range(len(shape)))
            base = before[1] + after[1] - ref.base
            return Ref(ref.buffer, ref.element, shape, digits, starts, base)
    return None


def _regroup(
    ref: Ref, dims: range, shape: tuple[int, ...]
) -> tuple[tuple[Digits, ...], int] | None:
    """The dimensions `dims` of `ref` in another shape: their address digits and first
    coordinates."""
    axes: list[tuple[int, int]] = []
    base = ref.base
    for dim in dims:
        runs = _runs(ref, dim)
        if len(runs) != 1:
            return None
        base += runs[0].base
        axes += runs[0].axes
    digits = boxes.regroup(axes, shape)
    return None if digits is None else (digits, base)


def _runs(ref: Ref, dim: int) -> list[boxes.Run]:
    return boxes.split(ref.digits[dim], ref.starts[dim], ref.shape[dim])


def bitcast(
    ref: Ref, shape: Sequence[int], element: Attribute, at: SourceLocation | None = None
) -> Ref:
    """The same bytes as another type; a change of width rescales the second-minor dimension."""
    shape = tuple(shape)
    old, new = ref.codec.bits, codec(element).bits
    if old == new:
        return Ref(ref.buffer, element, shape, ref.digits, ref.starts, ref.base, ref.blocks)
    rows = len(shape) - 2
    if rows < 0:
        raise no_view(ref, "bitcast", shape, at)
    if old > new:
        k = old // new
        scaled = [tuple((e, s * k) for e, s in digits) for digits in ref.digits]
        scaled[rows] = boxes.simplify((*scaled[rows], (k, 1)))
        starts = [s * k if d == rows else s for d, s in enumerate(ref.starts)]
        base = ref.base * k
        block = ref.blocks[rows] * k
    else:
        k = new // old
        *slow, (extent, stride) = ref.digits[rows]
        fits = stride == 1 and extent % k == 0 and ref.starts[rows] % k == 0
        finest = [(extent // k, k)] if extent != k else []
        # A digit of one value adds nothing, whatever its stride.
        others = [d for i, ds in enumerate(ref.digits) if i != rows for d in ds if d[0] != 1]
        if not fits or ref.base % k or any(s % k for _, s in [*others, *slow]):
            raise no_view(ref, "bitcast", shape, at)
        scaled = [tuple((e, s // k) for e, s in digits) for digits in ref.digits]
        scaled[rows] = boxes.simplify(tuple((e, s // k) for e, s in [*slow, *finest]))
        starts = [s // k if d == rows else s for d, s in enumerate(ref.starts)]
        base = ref.base // k
        block = max(1, ref.blocks[rows] // k)
    blocks = (*ref.blocks[:rows], block, *ref.blocks[rows + 1 :])
    return Ref(ref.buffer, element, shape, tuple(scaled), tuple(starts), base, blocks)


def reinterpret(
    ref: Ref,
    shape: Sequence[int],
    element: Attribute,
    tiling: Tiling,
    offset: int = 0,
    at: SourceLocation | None = None,
) -> Ref:
    """Memory from `offset` elements (of the new type) behind the first one on, as another array."""
    bits = codec(element).bits
    origin = ref.offset((0,) * len(ref.shape)) * ref.codec.bits
    if origin % bits:
        raise no_view(ref, "reinterpret", shape, at)
    first = origin // bits + offset
    fits = (first + tiling.elements(shape)) * bits <= ref.buffer.size * 8
    if first < 0 or min(shape, default=0) < 0 or not fits:
        raise no_view(ref, "reinterpret", shape, at)
    return Ref(ref.buffer, element, tuple(shape), digits_of(tiling), None, first, blocks_of(tiling))
