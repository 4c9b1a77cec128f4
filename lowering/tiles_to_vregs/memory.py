"""Loads and stores of registers: one access per grid position, `grid.steps` elements apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from xdsl.ir import Operation, SSAValue

from pallasite.dialects import tpu
from pallasite.lowering.creation import Model
from pallasite.lowering.tiles_to_vregs.unroll import Unroller, as_grid, is_vector, rule

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
    (result,) = op.results
    split, kind = u.split(result.type)
    grid = split or ()
    held, *base = op.operands  # `op.indices` counts operands anew each time
    steps = _steps(op, len(base), u)
    memory, out = u.scalar(held), u.out
    new = Model(type(op), (kind,), op.properties, location=op.location).result
    loaded: list[SSAValue | None] = [
        new((memory, *indices), out) for indices in _places(base, steps, grid, u)
    ]
    u.define(result, as_grid(loaded, grid))


@rule(tpu.StoreOp, tpu.ShuffledStoreOp)
def unroll_store(op: tpu.StoreOp | tpu.ShuffledStoreOp, u: Unroller) -> None:
    """Position g of the grid writes at `index + g * steps`; poison is not written."""
    stored, held, *base = op.operands
    # A mask, if there is one, comes last.
    masks = u.registers(base.pop()) if is_vector(base[-1].type) else None
    values = u.registers(stored)
    steps = _steps(op, len(base), u)
    memory, out = u.scalar(held), u.out
    make = Model(type(op), (), op.properties, location=op.location).make
    places = _places(base, steps, values.shape, u)
    if masks is None:
        for value, indices in zip(values.flat, places, strict=True):
            if value is not None:
                out.append(make((value, memory, *indices)))
        return
    for value, mask, indices in zip(values.flat, masks.flat, places, strict=True):
        if value is not None:
            out.append(make((value, memory, *indices, mask)))
