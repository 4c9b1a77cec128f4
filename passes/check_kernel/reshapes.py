"""Refuses reshapes of vectors that the TPU compiler does not lower.

It moves whole rows if both shapes have rows of a multiple of 128 lanes, folds dimensions into the
lanes or out of them, and treats a vector of rank 1 as adjacent rows (spec/vreg_lowering.md section
5.6, and what libtpu 0.0.51 said of some 1,500 random reshapes). Our movement planner does every
reshape, so `--allow-beyond-reference` lifts these refusals.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from operator import mul
from typing import cast

from xdsl.ir import SSAValue

from pallasite.diagnostics import Unsupported
from pallasite.dialects import tpu, vector
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import AnyVector, bit_width, shape_of
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.passes.check_kernel.lane_offsets import LaneOffsets
from pallasite.targets import Target

_LOADS = (tpu.VectorLoadOp, vector.LoadOp)
_STORES = (tpu.VectorStoreOp, vector.StoreOp)


def reshape_rule(op: vector.ShapeCastOp, target: Target) -> None:
    """Raises `Unsupported` for a reshape that the TPU compiler does not lower on `target`.

    It merges reshapes that follow each other, so only the first and the last shape count.
    """
    source = reshaped_from(op)
    if source is None:
        return
    kind = cast(AnyVector, source.type)
    old, new = kind.get_shape(), cast(AnyVector, op.results[0].type).get_shape()
    if not old or not new or old == new:
        return
    per_word = packing(bit_width(kind))
    if spreads_lanes(old, new):
        _check_spread(op, source, target)
    elif _but_ones(old) == _but_ones(new):
        return
    elif len(old) == 1 or len(new) == 1:
        flat, rows = (old[0], new) if len(old) == 1 else (new[0], old)
        if flat > LANES and not _flattens(flat, rows, per_word, _with_memory(source, op)):
            raise _refused(
                op, kind,
                "more than 128 elements of a flat vector become rows, or are made of them, only if "
                f"these fill registers of {SUBLANES * per_word * LANES} elements",
                "keep two dimensions, for example (1, n) in place of (n,), or reshape outside the "
                "kernel",
                _by_slices(old, new),
            )  # fmt: skip
    elif not (_folds(old, new, target) or _columns(old, new, bit_width(kind), target)):
        raise _refused(
            op, kind,
            "lanes are folded only whole: trailing dimensions into the last one or out of it, or "
            "rows of at most 128 elements where one length divides the other; reshapes that follow "
            "each other count as one",
            _by_slices(old, new), "or reshape outside the kernel",
        )  # fmt: skip


def _check_spread(op: vector.ShapeCastOp, source: SSAValue, target: Target) -> None:
    """Refuses to move lanes to sublanes where the compiler cannot.

    From the lanes of one register it can move any to sublanes. Those of several registers are moved
    one row of tiles at a time, so they must begin at a tile, unless they become leading dimensions.
    Only newer targets do that with packed elements.
    """
    kind = cast(AnyVector, source.type)
    lanes, bits = kind.get_shape()[-1], bit_width(kind)
    if bits == 1:
        return
    whole = _spreads_any(bits, target)
    if not whole and lanes > LANES:
        raise _refused(
            op, kind,
            f"{target.name} spreads lanes of {bits} bits over sublanes within one register only",
            "cast to a 32-bit type first, and the result back",
        )  # fmt: skip
    begins = (LaneOffsets(target).of(source) or 0) % LANES
    rows = SUBLANES * packing(bits)
    new = cast(AnyVector, op.results[0].type).get_shape()
    if _before_ones(new):
        return
    if whole and begins % rows and begins + lanes > LANES:
        raise _refused(
            op, kind,
            f"lanes of several registers are spread over sublanes if the first of them is a "
            f"multiple of {rows}, here it is {begins}",
            f"begin the slice at a multiple of {rows} lanes, or spread the lanes first and slice "
            "the result",
        )  # fmt: skip


def reshaped_from(op: vector.ShapeCastOp) -> SSAValue | None:
    """The operand of the first of the reshapes of which `op` is the last; None if another one
    follows `op`."""
    users = [use.operation for use in op.results[0].uses]
    if users and all(isinstance(user, vector.ShapeCastOp) for user in users):
        return None
    source = op.operands[0]
    while isinstance(source.owner, vector.ShapeCastOp):
        source = source.owner.operands[0]
    return source


def _folds(old: Sequence[int], new: Sequence[int], target: Target) -> bool:
    """Whether the compiler can make the rows `new` of the rows `old`, both of rank 2 or more."""
    lanes, others = old[-1], new[-1]
    if lanes == others or (lanes % LANES == 0 and others % LANES == 0):
        return True
    if others == 1 and len(new) == 2:
        # Of a matrix, the column is one register's lanes; more dimensions fold as they lie.
        return lanes <= LANES and (len(old) > 2 or new[0] <= LANES)
    if max(lanes, others) <= LANES and (lanes % others == 0 or others % lanes == 0):
        return True
    return joins_lanes(old, new) or (target.splits_wide_rows and joins_lanes(new, old))


def _columns(old: Sequence[int], new: Sequence[int], bits: int, target: Target) -> bool:
    """Whether the reshape makes rows of any length of a column of one lane, or one column of a
    matrix whose rows fill registers.

    The latter needs a power of two of tiles side by side, of words or, on newer targets, of packed
    elements.
    """
    if old[-1] == 1:
        return True
    if len(old) != 2 or old[-1] % LANES or new[0] != prod(new):
        return False
    tiles = old[-1] // LANES
    return tiles.bit_count() == 1 and _spreads_any(bits, target)


def spreads_lanes(old: Sequence[int], new: Sequence[int]) -> bool:
    """Whether all of the last dimension becomes one in front of dimensions of size 1.

    In front of two of these it is a leading dimension, and all leading dimensions may be regrouped
    freely. Any other change of them does not matter; masks are moved as words.
    """
    if new[-1] != 1 or old[-1] == 1:
        return False
    return _before_ones(new) or _but_ones(new)[-1:] == [old[-1]]


def _before_ones(new: Sequence[int]) -> bool:
    """Whether all elements lie along leading dimensions, in front of two dimensions of size 1."""
    return len(new) > 2 and new[-2:] == (1, 1)


def _spreads_any(bits: int, target: Target) -> bool:
    """Whether the compiler moves lanes of several registers to sublanes."""
    return bits == 32 or (target.spreads_packed_lanes and bits >= 8)


def joins_lanes(old: Sequence[int], new: Sequence[int]) -> bool:
    """Whether several trailing dimensions, not including the first one, become the last dimension;
    False for reshapes to rank 1, which have other rules."""
    joined = list(accumulate(reversed(_but_ones(old[1:])), mul))[1:]
    return len(new) > 1 and new[-1] in joined


def _but_ones(shape: Sequence[int]) -> list[int]:
    return [n for n in shape if n != 1]


def _flattens(flat: int, shape: Sequence[int], per_word: int, with_memory: bool) -> bool:
    """Whether `flat` elements, as rows, are adjacent in registers or in memory."""
    rows, lanes = shape[-2:]
    tile_rows, register = SUBLANES * per_word, SUBLANES * per_word * LANES
    if (lanes % register == 0 and flat % register == 0) or (
        lanes == LANES and not rows % tile_rows
    ):
        return True
    if register % lanes == 0 and prod(shape[:-2]) == 1:
        held = register // lanes
        if held <= tile_rows and held % per_word == 0:
            return True
    # Small tiles have as many rows as the array, a power of two that fills words.
    whole = per_word <= rows <= tile_rows and rows.bit_count() == 1
    return with_memory and lanes == LANES and whole


def _with_memory(source: SSAValue, op: vector.ShapeCastOp) -> bool:
    """Whether the rows are a whole ref that is loaded only for `op`, or to which its result is only
    stored.

    The compiler then reshapes that ref to rank 1; it never reshapes a ref of rank 1 to rows.
    """
    result = op.results[0]
    if len(cast(AnyVector, result.type).get_shape()) == 1:
        load = source.owner
        if not isinstance(load, _LOADS) or not source.has_one_use():
            return False
        return shape_of(load.base.type) == shape_of(source.type)
    if not result.has_one_use():
        return False
    (use,) = result.uses
    store = use.operation
    return isinstance(store, _STORES) and shape_of(store.base.type) == shape_of(result.type)


def _by_slices(old: Sequence[int], new: Sequence[int]) -> str:
    """The JAX code for a reshape that splits or joins rows of lanes, by slices."""
    lanes, others = old[-1], new[-1]
    rows = f"x.reshape(-1, {lanes})"
    if others % lanes == 0:
        held = others // lanes
        return (
            f"join rows: jnp.concatenate([x.reshape(-1, {held}, {lanes})[:, i] for i in "
            f"range({held})], 1).reshape({list(new)})"
        )
    if lanes % others == 0:
        # Rows of several parts fold into a column; parts of one element would be many.
        part = _part(lanes) if others == 1 else others
        return (
            f"cut rows: jnp.stack([{rows}[:, i : i + {part}] for i in range(0, {lanes}, "
            f"{part})], 1).reshape({list(new)})"
        )
    return (
        f"join all rows and cut that: jnp.concatenate([row[:, i : i + {others}] for i in "
        f"range(0, {prod(old)}, {others})]).reshape({list(new)}) with row = jnp.concatenate("
        f"[{rows}[i : i + 1] for i in range({prod(old) // lanes})], 1)"
    )


def _part(lanes: int) -> int:
    """The largest divisor of `lanes` that fits one register."""
    return next(n for n in range(min(LANES, lanes // 2), 0, -1) if lanes % n == 0)


def _refused(op: vector.ShapeCastOp, source: AnyVector, reason: str, *instead: str) -> Unsupported:
    old, new = list(source.get_shape()), list(cast(AnyVector, op.results[0].type).get_shape())
    message = f"the TPU compiler cannot reshape {old} to {new} of {source.element_type}"
    return refusal(op, "reshape", message, reason, *instead)
