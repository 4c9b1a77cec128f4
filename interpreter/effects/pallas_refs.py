"""Loads, stores, swaps and views by the indexers of the `pallas` form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pallasite.dialects import pallas
from pallasite.dialects.kernel import DYNAMIC
from pallasite.dialects.locations import source_location
from pallasite.dialects.pallas.base import integers_of
from pallasite.dialects.pallas.indexing import Indexed
from pallasite.dialects.promises import multiples
from pallasite.interpreter import values
from pallasite.interpreter.effects.observed import is_counted, is_read, part_read
from pallasite.interpreter.effects.vectors import observe_part
from pallasite.interpreter.machine.accesses import Box
from pallasite.interpreter.machine.core import Core
from pallasite.interpreter.machine.rounding import check_rounded
from pallasite.interpreter.machine.undefined import load_box, load_scalar
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.meanings import Facts, effect, meaning


class _Box:
    """The static part of an indexer: where its dynamic starts go, and the shape that it names."""

    def __init__(self, op: Indexed):
        self.starts = integers_of(op.starts)
        self.sizes = integers_of(op.sizes)
        strides = integers_of(op.strides)
        self.strides = strides if set(strides) - {1} else None
        self.drops = integers_of(op.drops)
        self.shape = tuple(n for d, n in enumerate(self.sizes) if d not in self.drops)
        self.scalar = len(self.drops) == len(self.sizes)
        self.dynamic = [d for d, start in enumerate(self.starts) if start == DYNAMIC]

    def index(self, given: Sequence[int]) -> tuple[int, ...]:
        """The first element in every dimension."""
        if not self.dynamic:
            return self.starts
        index = list(self.starts)
        for dim, start in zip(self.dynamic, given, strict=True):
            index[dim] = start
        return tuple(index)


def _loader(op: Any, facts: Facts) -> Callable[..., Any]:
    """`fn(core, ref, dynamic starts, mask) -> value`; what the mask leaves out is poison."""
    at = source_location(op)
    box = _Box(op)
    watched = is_read(op, op.ref)
    dynamic = len(box.dynamic)
    masked = op.mask is not None
    type = op.result.type
    poison = values.poison(type, (), facts.poison)
    plain = watched and not masked and not box.scalar and box.strides is None
    part = part_read(op.result, box.sizes) if plain else None

    def scalar(core: Core, ref: Ref, *operands: Any) -> Any:
        index = box.index(operands[:dynamic])
        return load_scalar(core, ref, index, at, watched=watched)

    def fn(core: Core, ref: Ref, *operands: Any) -> Any:
        index = box.index(operands[:dynamic])
        if part is not None:
            observe_part(core, ref, index, part, at)
        whole = watched and part is None
        loaded = load_box(core, ref, index, box.sizes, box.strides, at, watched=whole)
        loaded = loaded.reshape(box.shape)
        return np.where(operands[dynamic], loaded, poison) if masked else loaded

    return scalar if box.scalar else fn


def _storer(op: Any) -> Callable[..., None]:
    """`fn(core, value, ref, dynamic starts, mask)`."""
    at = source_location(op)
    box = _Box(op)
    dynamic = len(box.dynamic)
    masked = op.mask is not None

    def scalar(core: Core, value: Any, ref: Ref, *operands: Any) -> None:
        index = box.index(operands[:dynamic])
        ref.store_scalar(index, value, at)
        if core.observer is not None:
            core.observer.write(core, Box(ref, index, box.sizes), at)

    def fn(core: Core, value: Any, ref: Ref, *operands: Any) -> None:
        index = box.index(operands[:dynamic])
        mask = operands[dynamic].reshape(box.sizes) if masked else None
        ref.store(index, value.reshape(box.sizes), mask, box.strides, at)
        if core.observer is not None:
            core.observer.write(core, Box(ref, index, box.sizes, box.strides, mask), at)

    return scalar if box.scalar else fn


@effect(pallas.LoadOp)
def load(op: pallas.LoadOp, facts: Facts) -> Callable[..., Any]:
    """The elements that the indexer names."""
    return _loader(op, facts)


@effect(pallas.StoreOp)
def store(op: pallas.StoreOp, facts: Facts) -> Callable[..., None]:
    """Replaces them, where the mask is true."""
    return _storer(op)


@effect(pallas.SwapOp)
def swap(op: pallas.SwapOp, facts: Facts) -> Callable[..., Any]:
    """Replaces them, and gives what was there."""
    load_old, store_new = _loader(op, facts), _storer(op)

    def fn(core: Core, value: Any, ref: Ref, *operands: Any) -> Any:
        old = load_old(core, ref, *operands)
        store_new(core, value, ref, *operands)
        return old

    return fn


@meaning(pallas.AtOp)
def at(op: pallas.AtOp, facts: Facts) -> Callable[..., Ref]:
    """The view; dropped dimensions are gone."""
    where = source_location(op)
    box = _Box(op)
    dynamic = len(box.dynamic)
    unknown = [d for d, size in enumerate(box.sizes) if size == DYNAMIC]
    kept = [d for d in range(len(box.sizes)) if d not in box.drops]
    counted = bool(unknown) and is_counted(op.result)
    rounded = multiples(op)

    def fn(ref: Ref, *operands: int) -> Ref:
        sizes: Sequence[int] = box.sizes
        starts = box.index(operands[:dynamic])
        if unknown:
            sizes = list(box.sizes)
            for dim, size in zip(unknown, operands[dynamic:], strict=True):
                sizes[dim] = size
            if rounded and not counted:
                check_rounded(ref, starts, sizes, rounded, where)
        view = ref.slice(starts, sizes, where, counted)
        return view.keep(kept) if box.drops else view

    return fn
