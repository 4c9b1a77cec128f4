"""Loads and stores of several registers at once, where the compiled driver finds them together.

They mean what their operations mean one after the other. Where the registers lie like a grid, they
are accessed as one; if somebody watches, or something is wrong, one by one after all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from xdsl.ir import SSAValue

from pallasite.diagnostics import ExecutionError
from pallasite.dialects import tpu
from pallasite.dialects.locations import source_location
from pallasite.dialects.registers import box_of
from pallasite.dialects.types import shape_of
from pallasite.interpreter.effects import registers
from pallasite.interpreter.machine.core import Core
from pallasite.interpreter.machine.register_access import access
from pallasite.interpreter.machine.rows import Pattern
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.meanings import Facts
from pallasite.interpreter.values import Array

Accesses = Sequence[tpu.LoadOp | tpu.StoreOp]


class _Grid(NamedTuple):
    """Registers that lie like a grid: row-major positions, `steps` elements apart."""

    counts: tuple[int, ...]
    steps: tuple[int, ...]
    moves: list[tuple[int, ...]]
    """Where each of them is, counted from the first one."""


def _grid(ops: Accesses, known: Mapping[SSAValue, Any]) -> _Grid | None:
    """The grid of the indices of `ops`, which are `known` or, in a dimension, the same for all."""
    columns: list[list[int]] = []
    for values in zip(*(op.indices for op in ops), strict=True):
        if all(value is values[0] for value in values):
            columns.append([0] * len(ops))
            continue
        first = int(known[values[0]])
        columns.append([int(known[value]) - first for value in values])
    moves = list(zip(*columns, strict=True))
    along = [sorted(set(column)) for column in columns]
    steps = tuple(places[1] - places[0] if len(places) > 1 else 1 for places in along)
    for places, step in zip(along, steps, strict=True):
        if places != [k * step for k in range(len(places))]:
            return None
    if moves != list(product(*along)):
        return None
    return _Grid(tuple(map(len, along)), steps, moves)


def _pattern(ops: Accesses, grid: _Grid, shape: tuple[int, ...]) -> Pattern | None:
    """What the registers are as one access; None if their boxes are not one box."""
    box = box_of(ops[0])
    fixed = registers.is_fixed(ops[0])
    for op, moved in zip(ops, grid.moves, strict=True):
        other = box_of(op)
        if registers.is_fixed(op) != fixed:
            return None
        if (None if other is None else other.moved([-m for m in moved])) != box:
            return None
    return registers.pattern_of(ops[0], shape, grid.steps, straight=True)


def load_pack(
    ops: Sequence[tpu.LoadOp], known: Mapping[SSAValue, Any], facts: Facts, look: bool = False
) -> Callable[..., Array] | None:
    """`fn(core, ref, *index of the first)`: what `ops` load from one ref, as one array; it may be a
    view of memory if one may `look`."""
    grid = _grid(ops, known)
    if grid is None:
        return None
    register = shape_of(ops[0].result.type)
    wanted = _pattern(ops, grid, (*grid.counts, *register))
    if wanted is None:
        return None
    pack, at = (len(ops), *register), source_location(ops[0])
    single = cache(lambda: [registers.load(op, facts) for op in ops])

    def fn(core: Core, ref: Ref, *index: int) -> Array:
        if core.observer is None:
            try:
                found = access(ref, "load", index, wanted, at)
                return (found.look(ref) if look else found.load(ref)).reshape(pack)
            except ExecutionError:
                pass
        loads = zip(single(), grid.moves, strict=True)
        return np.stack([load(core, ref, *_moved(index, moved)) for load, moved in loads])

    return fn


def store_pack(
    ops: Sequence[tpu.StoreOp], known: Mapping[SSAValue, Any], facts: Facts
) -> Callable[..., None] | None:
    """`fn(core, array, ref, *index of the first)`: stores what `ops` store to one ref."""
    if any(len(op.operands) != len(op.indices) + 2 or op.add.value.data for op in ops):
        return None
    grid = _grid(ops, known)
    if grid is None:
        return None
    shape = (*grid.counts, *shape_of(ops[0].value.type))
    wanted = _pattern(ops, grid, shape)
    if wanted is None:
        return None
    at = source_location(ops[0])
    single = cache(lambda: [registers.store(op, facts) for op in ops])

    def fn(core: Core, array: Array, ref: Ref, *index: int) -> None:
        if core.observer is None:
            try:
                found = access(ref, "store", index, wanted, at)
            except ExecutionError:
                pass
            else:
                if found.apart:
                    found.store(ref, array.reshape(shape))
                    return
        for store, value, moved in zip(single(), array, grid.moves, strict=True):
            store(core, value, ref, *_moved(index, moved))

    return fn


def _moved(index: Sequence[int], amounts: Sequence[int]) -> list[int]:
    return [i + amount for i, amount in zip(index, amounts, strict=True)]
