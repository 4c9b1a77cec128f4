"""Allocation, and loads and stores of scalars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import DYNAMIC_INDEX

from pallasite.dialects import memref, tpu
from pallasite.dialects.kernel import UNSPECIFIED
from pallasite.dialects.locations import allocated_name, allocation_place, source_location
from pallasite.interpreter.effects.observed import is_read
from pallasite.interpreter.machine import dma
from pallasite.interpreter.machine.accesses import Box
from pallasite.interpreter.machine.boxes import place
from pallasite.interpreter.machine.core import Core
from pallasite.interpreter.machine.undefined import load_scalar
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.meanings import Facts, effect


@effect(memref.AllocaOp, memref.AllocOp)
def alloc(op: memref.AllocaOp | memref.AllocOp, facts: Facts) -> Callable[..., Ref]:
    """Fresh memory, undefined, until the scope ends that the driver has opened."""
    at = allocation_place(op)
    type = op.memref.type
    shape = type.get_shape()
    name = allocated_name(op, "the scoped ref")
    unspecified = UNSPECIFIED in op.attributes

    dynamic = DYNAMIC_INDEX in shape

    def fn(core: Core, *sizes: int) -> Ref:
        given = iter(sizes)
        full = [next(given) if n == DYNAMIC_INDEX else n for n in shape] if dynamic else shape
        ref = core.allocate(type, name, at, shape=full)
        if unspecified:
            ref.buffer.shadow = None
            core.machine.overruns = True
        return ref

    return fn


@effect(memref.DeallocOp)
def dealloc(op: memref.DeallocOp, facts: Facts) -> Callable[..., None]:
    """Nothing: memory lives to the end of its scope."""

    def fn(core: Core, ref: Ref) -> None:
        return None

    return fn


@effect(tpu.InternalScratchOp)
def internal_scratch(op: tpu.InternalScratchOp, facts: Facts) -> Callable[[Core], Ref]:
    """The core's scratch area of that type."""
    at = source_location(op)
    type = op.result.type
    return lambda core: core.internal_scratch(type, at)


@effect(memref.LoadOp)
def load(op: memref.LoadOp, facts: Facts) -> Callable[..., Any]:
    """One element."""
    at = source_location(op)
    watched = is_read(op, op.memref)

    def first(core: Core, ref: Ref, index: int) -> Any:
        codec, buffer = ref.codec, ref.buffer
        if codec.integral and core.observer is None and core.recorder is None and not buffer.freed:
            (digits,), (extent,) = ref.digits, ref.shape
            if 0 <= index < extent and len(digits) == 1:
                offset = ref.base + (ref.starts[0] + index) * digits[0][1]
                return buffer.integers(codec.storage)[offset]
        return fn(core, ref, index)

    def fn(core: Core, ref: Ref, *index: int) -> Any:
        codec, buffer = ref.codec, ref.buffer
        if codec.integral and core.observer is None and core.recorder is None and not buffer.freed:
            # Nobody is told and nothing is undefined: a few calls less for each index of a table.
            offset = place(ref.digits, ref.starts, ref.shape, index)
            if offset is not None:
                return codec.item(buffer, ref.base + offset)
        return load_scalar(core, ref, index, at, watched=watched)

    return first if len(op.indices) == 1 else fn


@effect(memref.StoreOp)
def store(op: memref.StoreOp, facts: Facts) -> Callable[..., None]:
    """Writes one element."""
    at = source_location(op)
    one = (1,) * len(op.indices)

    def fn(core: Core, value: Any, ref: Ref, *index: int) -> None:
        ref.store_scalar(index, value, at)
        if core.recorder is not None:
            core.recorder.stored_scalar(ref.buffer)
        if core.observer is not None:
            core.observer.write(core, Box(ref, index, one), at)

    return fn


@effect(memref.CopyOp)
def copy(op: memref.CopyOp, facts: Facts) -> Callable[..., None]:
    """Writes every element of one memref to another, at once."""
    at = source_location(op)

    def fn(core: Core, source: Ref, target: Ref) -> None:
        origin = (0,) * len(source.shape)
        if core.observer is not None:
            core.observer.read(core, Box(source, origin, source.shape), at)
        dma.copy(source, target, at)
        if core.observer is not None:
            core.observer.write(core, Box(target, origin, target.shape), at)

    return fn
