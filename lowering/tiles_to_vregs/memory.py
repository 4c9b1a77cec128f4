"""Unrolls loads and stores: one access per grid position, `grid.steps` elements apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import cast

import numpy as np
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import tpu
from pallasite.dialects.registers import BOX, box_of, grid_steps
from pallasite.dialects.types import is_vector
from pallasite.lowering.creation import Model
from pallasite.lowering.tiles_to_vregs.grids import as_grid
from pallasite.lowering.tiles_to_vregs.unroll import Unroller, rule


def _steps(op: Operation, base: SSAValue, type: Attribute, rank: int) -> tuple[int, ...]:
    """By how many elements the index grows per grid position; zeros for a single register."""
    # None are needed for one register.
    return grid_steps(op, base.type, cast("VectorType[Attribute]", type)) or (0,) * rank


def _places(
    base: Sequence[SSAValue], steps: Sequence[int], shape: tuple[int, ...], u: Unroller
) -> Iterator[tuple[SSAValue, ...]]:
    """The indices of each position of a grid of `shape`, in row-major order."""
    # The index of a dimension depends on the position in that dimension only.
    counts = shape or (1,) * len(base)
    return product(*map(u.offsets, base, steps, counts))


def _keep_box(
    op: Operation,
    steps: Sequence[int],
    positions: Callable[[], Iterable[tuple[int, ...]]],
    accesses: Sequence[Operation],
) -> None:
    """Gives each of `accesses` the box that the kernel accesses, as `op` states it, seen from its
    index."""
    box = box_of(op)
    if box is None:
        return
    for position, access in zip(positions(), accesses, strict=True):
        # A single register has no position.
        amounts = [p * step for p, step in zip(position, steps, strict=False)] or [0] * len(steps)
        access.attributes[BOX] = box.moved(amounts).attribute


@rule(tpu.LoadOp, tpu.ShuffledLoadOp)
def unroll_load(op: tpu.LoadOp | tpu.ShuffledLoadOp, u: Unroller) -> None:
    """Loads the register at grid position g from `index + g * steps`."""
    (result,) = op.results
    split, kind = u.split(result.type)
    grid = split or ()
    held, *base = op.operands  # `op.indices` counts operands anew each time
    steps = _steps(op, held, result.type, len(base))
    memory, out = u.scalar(held), u.out
    model = Model(type(op), (kind,), op.properties, location=op.location)
    rows = [(memory, *indices) for indices in _places(base, steps, grid, u)]
    if BOX in op.attributes:
        u.define(result, as_grid(model.results(rows, out), grid))
        _keep_box(op, steps, lambda: np.ndindex(*grid), out[len(out) - len(rows) :])
        return
    keys = [tuple([*map(id, row)]) for row in rows]
    loaded = u.results(model, dict(zip(keys, rows, strict=True)))
    u.define(result, as_grid([loaded[key] for key in keys], grid))


@rule(tpu.StoreOp, tpu.ShuffledStoreOp)
def unroll_store(op: tpu.StoreOp | tpu.ShuffledStoreOp, u: Unroller) -> None:
    """Stores the register at grid position g to `index + g * steps`; poison is not stored."""
    stored, held, *base = op.operands
    # A mask, if there is one, comes last.
    masks = u.registers(base.pop()) if is_vector(base[-1]) else None
    values = u.registers(stored)
    steps = _steps(op, held, stored.type, len(base))
    memory, out = u.scalar(held), u.out
    model = Model(type(op), (), op.properties, location=op.location)
    places = zip(values.flat, _places(base, steps, values.shape, u), strict=True)
    rows: list[tuple[SSAValue, ...]]
    if masks is None:
        rows = [(value, memory, *indices) for value, indices in places if value is not None]
    else:
        rows = [
            (value, memory, *indices, mask)
            for (value, indices), mask in zip(places, masks.flat, strict=True)
            if value is not None
        ]
    model.results(rows, out)

    def kept() -> list[tuple[int, ...]]:
        return [place for place, value in np.ndenumerate(values) if value is not None]

    _keep_box(op, steps, kept, out[len(out) - len(rows) :])
