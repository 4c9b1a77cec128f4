"""Loads and stores of registers and of grids of registers (spec/vreg_lowering.md 7.3, 10.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr

from pallasite.dialects import tpu, vector
from pallasite.dialects.locations import refusal, source_location
from pallasite.dialects.registers import box_of, grid_steps
from pallasite.dialects.types import bit_width, shape_of
from pallasite.interpreter.effects.blends import kept_elements
from pallasite.interpreter.effects.observed import is_read
from pallasite.interpreter.machine.accesses import Rows
from pallasite.interpreter.machine.core import Core
from pallasite.interpreter.machine.register_access import access
from pallasite.interpreter.machine.rows import Pattern, pattern
from pallasite.interpreter.machine.undefined import load_box, load_registers
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.meanings import Facts, effect
from pallasite.interpreter.values import Array, carrier
from pallasite.layouts.registers import LANES, SUBLANES


def _flags(mask: Sequence[Any]) -> tuple[bool, ...]:
    # Shorter masks leave the remaining sublanes out.
    flags = tuple(bool(m) for m in mask)[:SUBLANES]
    return flags + (False,) * (SUBLANES - len(flags))


def _offsets(op: Any) -> tuple[int, ...]:
    if isinstance(op, tpu.ShuffledLoadOp | tpu.ShuffledStoreOp):
        offsets = tuple(int(o) for o in op.sublane_offsets.get_values())[:SUBLANES]
        return offsets + (0,) * (SUBLANES - len(offsets))
    stride = int(op.sublane_stride.value.data)
    return tuple(s * stride for s in range(SUBLANES))


def is_fixed(op: Any) -> bool:
    """Whether the text itself says where the registers are."""
    return all(isinstance(index.owner, arith.ConstantOp) for index in op.indices)


def pattern_of(
    op: Any, shape: tuple[int, ...], steps: tuple[int, ...], *, straight: bool = False
) -> Pattern:
    """What a load or store says of its registers, or of a grid of registers like its own."""
    sublanes, offsets = _flags(op.sublane_mask.get_values()), _offsets(op)
    return pattern(
        shape, steps, sublanes, offsets, box=box_of(op), fixed=is_fixed(op), straight=straight
    )


@effect(tpu.LoadOp, tpu.ShuffledLoadOp)
def load(op: tpu.LoadOp | tpu.ShuffledLoadOp, facts: Facts) -> Callable[..., Array]:
    """A grid of registers from rows of memory; sublanes that are masked off are poison."""
    return _load(op, look=False)


def glance(op: tpu.LoadOp) -> Callable[..., Array]:
    """`load` for a value that nobody looks at once memory has changed: it may be a view of it."""
    return _load(op, look=True)


def _load(op: tpu.LoadOp | tpu.ShuffledLoadOp, *, look: bool) -> Callable[..., Array]:
    at = source_location(op)
    shape = shape_of(op.result.type)
    steps = grid_steps(op, op.base.type, op.result.type)
    wanted = pattern_of(op, shape, steps)
    watched = is_read(op, op.base)

    def fn(core: Core, ref: Ref, *index: int) -> Array:
        return load_registers(core, ref, index, wanted, at, watched=watched, look=look)

    return fn


@effect(tpu.StoreOp, tpu.ShuffledStoreOp)
def store(op: tpu.StoreOp | tpu.ShuffledStoreOp, facts: Facts) -> Callable[..., None]:
    """Writes a grid of registers to rows of memory, where the word mask is set.

    Registers that share rows are written one after another, in row-major order of their positions.
    """
    at = source_location(op)
    rank = len(op.indices)
    steps = grid_steps(op, op.base.type, op.value.type)
    shape = shape_of(op.value.type)
    wanted = pattern_of(op, shape, steps)
    add = isinstance(op, tpu.StoreOp) and bool(op.add.value.data)
    # The box of the whole access has been judged by then.
    single = replace(pattern_of(op, shape[len(steps) :], ()), box=None)
    kept = kept_elements(op, facts)

    def one_by_one(ref: Ref, index: Sequence[int], value: Array, mask: Array | None) -> None:
        for position in np.ndindex(*shape[: len(steps)]):
            places = zip(index, position, steps, strict=True)
            place = tuple(int(i) + p * step for i, p, step in places)
            words = None if mask is None else mask[position]
            found = access(ref, "store", place, single, at)
            if kept is None or ref.buffer.shadow is None:
                found.store(ref, value[position], words, add=add)
            else:
                found.blend(ref, value[position], words, kept[position])

    def fn(core: Core, value: Array, ref: Ref, *operands: Any) -> None:
        index = operands[:rank]
        mask: Array | None = operands[rank] if len(operands) > rank else None
        found = access(ref, "store", index, wanted, at)
        if add and core.observer is not None:
            core.observer.read(core, Rows(ref, found, index, mask), at)
        if steps and not found.apart:
            one_by_one(ref, index, value, mask)
        elif kept is None or ref.buffer.shadow is None:
            found.store(ref, value, mask, add=add)
        else:
            found.blend(ref, value, mask, kept)
        if core.recorder is not None:
            if steps and not found.apart:
                core.recorder.give_up()
            else:
                core.recorder.stored(found, ref, value, mask, add)
        if core.observer is not None:
            core.observer.write(core, Rows(ref, found, index, mask), at)

    return fn


def store_result(op: tpu.StoreOp, ufunc: np.ufunc, facts: Facts) -> Callable[..., None]:
    """`store` of what `ufunc` gives of arrays, which are followed by the other operands of `op`:
    computed where it is stored, if possible. `op` has no mask, and does not add."""
    at, whole = source_location(op), store(op, facts)
    shape, dtype = shape_of(op.value.type), carrier(op.value.type)
    wanted = pattern_of(op, shape, grid_steps(op, op.base.type, op.value.type))
    count = ufunc.nin

    def fn(core: Core, *operands: Any) -> None:
        arrays, ref, index = operands[:count], operands[count], operands[count + 1 :]
        found = target = None
        if core.observer is None and ref.buffer.shadow is None:
            found = access(ref, "store", index, wanted, at)
            target = found.target(ref) if found.apart else None
        if found is None or target is None or target.dtype != dtype or target.shape != shape:
            result = ufunc if core.recorder is None else partial(core.recorder.call, ufunc)
            whole(core, result(*arrays), ref, *index)
        else:
            ufunc(*arrays, out=target)
            if core.recorder is not None:
                core.recorder.computed(ufunc, arrays, target, ref.buffer)

    return fn


@effect(vector.TransferReadOp)
def transfer_read(op: vector.TransferReadOp, facts: Facts) -> Callable[..., Array]:
    """One row of memory in every sublane: the only use the register form has for this op."""
    at = source_location(op)
    shape = shape_of(op.result.type)
    dims = _broadcast_map(op, shape)
    rank = len(op.indices)
    wanted = pattern(shape, offsets=(0,) * SUBLANES, fixed=is_fixed(op))

    def fn(core: Core, ref: Ref, *operands: Any) -> Array:
        return load_registers(core, ref, operands[:rank], wanted, at, watched=True)

    def whole(core: Core, ref: Ref, *operands: Any) -> Array:
        return load_box(core, ref, operands[:rank], shape, None, at, watched=True)

    return fn if dims == (None, rank - 1) else whole


def _broadcast_map(op: vector.TransferReadOp, shape: tuple[int, ...]) -> tuple[int | None, ...]:
    """Per result dimension the memref dimension it walks along, None where it repeats."""
    dims: list[int | None] = []
    for result in op.permutation_map.data.results:
        if isinstance(result, AffineDimExpr):
            dims.append(result.position)
        elif isinstance(result, AffineConstantExpr) and result.value == 0:
            dims.append(None)
    rank = len(op.indices)
    register = shape == (SUBLANES, LANES) and bit_width(op.result.type) == 32
    if op.mask is None:
        if register and dims == [None, rank - 1]:
            return tuple(dims)
        if dims == list(range(rank)) and len(shape) == rank:
            return tuple(dims)
    raise refusal(
        op,
        "transfer-read",
        f"a load (vector.transfer_read) of {op.result.type} by {op.permutation_map} is neither a "
        f"row in every sublane of a 32-bit register nor a plain box",
    )
