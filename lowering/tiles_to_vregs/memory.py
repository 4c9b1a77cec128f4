"""Loads and stores of registers: one access per grid position, `grid.steps` elements apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import cast

from xdsl.ir import Operation, SSAValue

from pallasite.dialects import tpu
from pallasite.lowering.creation import Model
from pallasite.lowering.tiles_to_vregs.unroll import Unroller, as_grid, rule

STEPS = "grid.steps"


def _steps(op: Operation, rank: int, u: Unroller) -> tuple[int, ...]:
    steps = op.attributes.get(STEPS)
    return (0,) * rank if steps is None else u.integers(steps)


def _places(
    base: Sequence[SSAValue], steps: Sequence[int], shape: tuple[int, ...], u: Unroller
) -> Iterator[tuple[SSAValue, ...]]:
    """The indices of the positions of a grid of `shape`, in row-major order."""
    # Each index depends on the position along one dimension only.
    counts = shape or (1,) * len(base)
    return product(*map(u.offsets, base, steps, counts))


@rule(tpu.LoadOp, tpu.ShuffledLoadOp)
def unroll_load(op: tpu.LoadOp | tpu.ShuffledLoadOp, u: Unroller) -> None:
    """Position g of the grid reads at `index + g * steps`."""
    grid, kind = u.grid(op.results[0].type), u.register_type(op.results[0].type)
    base = list(op.indices)
    steps = _steps(op, len(base), u)
    memory = u.scalar(op.base)
    model = Model(type(op), (kind,), op.properties, location=op.location)
    loaded: list[SSAValue | None] = [
        u.result(model, (memory, *indices)) for indices in _places(base, steps, grid, u)
    ]
    u.define(op.results[0], as_grid(loaded, grid))


@rule(tpu.StoreOp, tpu.ShuffledStoreOp)
def unroll_store(op: tpu.StoreOp | tpu.ShuffledStoreOp, u: Unroller) -> None:
    """Position g of the grid writes at `index + g * steps`; poison is not written."""
    stored = op.value
    values = u.registers(stored)
    base = list(op.indices)
    steps = _steps(op, len(base), u)
    given = getattr(op, "mask", None)
    masks = u.registers(given) if given is not None else None
    memory = u.scalar(op.base)
    model = Model(type(op), (), op.properties, location=op.location)
    masked = [None] * values.size if masks is None else masks.flat
    places = _places(base, steps, values.shape, u)
    for value, mask, indices in zip(values.flat, masked, places, strict=True):
        if value is not None:
            tail = () if masks is None else (cast(SSAValue, mask),)
            u.emit(model.make((value, memory, *indices, *tail)))
