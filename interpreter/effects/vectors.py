"""Loads and stores of logical vectors, whole, masked or strided (spec/tpu_dialect.md 3.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pallasite.diagnostics import SourceLocation
from pallasite.dialects import tpu, vector
from pallasite.dialects.locations import source_location
from pallasite.dialects.types import shape_of
from pallasite.interpreter import values
from pallasite.interpreter.effects.compressed import (
    is_compressed,
    load_expanded,
    store_compressed,
)
from pallasite.interpreter.effects.observed import is_read, part_read
from pallasite.interpreter.machine.accesses import Box
from pallasite.interpreter.machine.core import Core
from pallasite.interpreter.machine.undefined import load_box
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.meanings import Facts, effect
from pallasite.interpreter.values import Array


def _box(rank: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    # A vector of lower rank than the memref covers its trailing dimensions.
    return (1,) * (rank - len(shape)) + shape


@effect(vector.LoadOp, tpu.VectorLoadOp)
def load(op: vector.LoadOp | tpu.VectorLoadOp, facts: Facts) -> Callable[..., Array]:
    """A box of memory; what a mask leaves out is poison. If nobody uses it, as nobody does of most
    stores' destinations, it is no access: lowering drops it, and the store tells what is wrong."""
    if isinstance(op, tpu.VectorLoadOp) and is_compressed(op):
        return load_expanded(op, facts)
    at = source_location(op)
    shape = shape_of(op.result.type)
    rank = len(op.indices)
    box = _box(rank, shape)
    watched = is_read(op, op.base)
    masked = isinstance(op, tpu.VectorLoadOp) and op.mask is not None
    poison = values.poison(op.result.type, (), facts.poison)
    part = part_read(op.result, box) if watched else None

    def fn(core: Core, ref: Ref, *operands: Any) -> Array:
        index = operands[:rank]
        if part is not None:
            observe_part(core, ref, index, part, at)
        loaded = load_box(core, ref, index, box, None, at, watched=watched and part is None)
        if box != shape:
            loaded = loaded.reshape(shape)
        return np.where(operands[rank], loaded, poison) if masked else loaded

    nothing = np.broadcast_to(poison, shape)

    return fn if op.result.uses else lambda *operands: nothing


def observe_part(
    core: Core,
    ref: Ref,
    index: Sequence[int],
    part: tuple[int, tuple[int, ...]],
    at: SourceLocation | None,
) -> None:
    """Tells the observer of the lanes `part_read` of a load at `index`."""
    if core.observer is not None:
        first, box = part
        core.observer.read(core, Box(ref, (*index[:-1], index[-1] + first), box), at)


@effect(tpu.StridedLoadOp)
def strided_load(op: tpu.StridedLoadOp, facts: Facts) -> Callable[..., Array]:
    """Every stride-th element in each dimension; stride 0 reads one element again and again."""
    at = source_location(op)
    shape = shape_of(op.result.type)
    strides = tuple(int(s) for s in op.strides.get_values())
    watched = is_read(op, op.base)

    def fn(core: Core, ref: Ref, *index: int) -> Array:
        return load_box(core, ref, index, shape, strides, at, watched=watched)

    return fn


@effect(vector.StoreOp)
def vector_store(op: vector.StoreOp, facts: Facts) -> Callable[..., None]:
    """Writes a box."""
    return _store(op, len(op.indices), None, add=False)


@effect(tpu.VectorStoreOp)
def store(op: tpu.VectorStoreOp, facts: Facts) -> Callable[..., None]:
    """Writes, or adds to, the part of a box that the mask selects."""
    if is_compressed(op):
        return store_compressed(op)
    return _store(op, len(op.indices), None, add=bool(op.add.value.data))


@effect(tpu.StridedStoreOp)
def strided_store(op: tpu.StridedStoreOp, facts: Facts) -> Callable[..., None]:
    """Writes every stride-th element in each dimension."""
    strides = tuple(int(s) for s in op.strides.get_values())
    return _store(op, len(op.indices), strides, add=False)


def _store(
    op: Any, rank: int, strides: tuple[int, ...] | None, *, add: bool
) -> Callable[..., None]:
    at = source_location(op)

    def fn(core: Core, value: Array, ref: Ref, *operands: Any) -> None:
        index = operands[:rank]
        mask: Array | None = operands[rank] if len(operands) > rank else None
        if value.ndim != rank:
            box = _box(rank, value.shape)
            value = value.reshape(box)
            mask = None if mask is None else mask.reshape(box)
        if add and core.observer is not None:
            core.observer.read(core, Box(ref, index, value.shape, strides, mask), at)
        ref.store(index, value, mask, strides, at, add=add)
        if core.observer is not None:
            core.observer.write(core, Box(ref, index, value.shape, strides, mask), at)

    return fn


@effect(tpu.VectorLoadIdxOp)
def load_idx(op: tpu.VectorLoadIdxOp, facts: Facts) -> Callable[..., Array]:
    """Gathers elements; positions that the mask leaves out are poison and touch no memory."""
    at = source_location(op)
    rank = len(op.indices)
    poison = values.poison(op.result.type, shape_of(op.result.type), facts.poison)

    def fn(core: Core, ref: Ref, *operands: Any) -> Array:
        index: list[Array] = [i.astype(np.int64) for i in operands[:rank]]
        if len(operands) == rank:
            offsets = ref.element_offsets(index, at)
            _observe(core, ref, index, at, write=False)
            return ref.codec.take(ref.buffer.bytes, offsets).astype(ref.codec.carrier)
        mask = np.broadcast_to(operands[rank], poison.shape)
        out = poison.copy()
        index = [i[mask] for i in index]
        offsets = ref.element_offsets(index, at)
        _observe(core, ref, index, at, write=False)
        out[mask] = ref.codec.take(ref.buffer.bytes, offsets)
        return out

    return fn


@effect(tpu.VectorStoreIdxOp)
def store_idx(op: tpu.VectorStoreIdxOp, facts: Facts) -> Callable[..., None]:
    """Scatters elements in ascending order of lanes: the last to an address wins, or all add."""
    at = source_location(op)
    rank = len(op.indices)
    add = bool(op.add.value.data)

    def fn(core: Core, value: Array, ref: Ref, *operands: Any) -> None:
        index: list[Array] = [i.astype(np.int64) for i in operands[:rank]]
        if len(operands) > rank:
            mask = operands[rank]
            value, index = value[mask], [i[mask] for i in index]
        offsets = ref.element_offsets(index, at)
        if not add:
            ref.codec.put(ref.buffer.bytes, offsets, value)
        else:
            _observe(core, ref, index, at, write=False)
            # `add.at` adds one element after the other where addresses repeat.
            cells = ref.buffer.bytes.view(ref.codec.storage)
            np.add.at(cells, offsets, value)
        ref.mark(offsets)
        _observe(core, ref, index, at, write=True)

    return fn


def _observe(
    core: Core, ref: Ref, index: list[Array], at: SourceLocation | None, *, write: bool
) -> None:
    """Tells the observer of scattered elements, one by one."""
    if core.observer is None:
        return
    tell = core.observer.write if write else core.observer.read
    one = (1,) * len(index)
    for place in zip(*(i.reshape(-1).tolist() for i in index), strict=True):
        tell(core, Box(ref, place, one), at)
