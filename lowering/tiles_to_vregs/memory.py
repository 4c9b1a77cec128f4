"""Loads and stores of registers: one access per grid position, `grid.steps` elements apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import tpu
from pallasite.dialects.types import split_grid
from pallasite.lowering.tiles_to_vregs.unroll import Unroller, as_grid, rule

STEPS = "grid.steps"


def _steps(op: Operation, rank: int) -> list[int]:
    steps = op.attributes.get(STEPS)
    if steps is None:
        return [0] * rank
    return [int(s) for s in cast(DenseArrayBase[Any], steps).get_values()]


def _places(
    base: Sequence[SSAValue], steps: list[int], shape: tuple[int, ...], u: Unroller
) -> Iterator[tuple[tuple[int, ...], list[SSAValue]]]:
    """The positions of a grid of `shape`, each with its indices."""
    # Each index depends on the position along one dimension only.
    known = [
        [u.offset(b, p * s) for p in range(n)]
        for b, s, n in zip(base, steps, shape or [1] * len(base), strict=True)
    ]
    if not shape:
        yield (), [one[0] for one in known]
        return
    for position in np.ndindex(*shape):
        yield position, [one[p] for one, p in zip(known, position, strict=True)]


@rule(tpu.LoadOp, tpu.ShuffledLoadOp)
def unroll_load(op: tpu.LoadOp | tpu.ShuffledLoadOp, u: Unroller) -> None:
    """Position g of the grid reads at `index + g * steps`."""
    grid = (split_grid(op.results[0].type) or ((), ()))[0]
    kind = u.register_type(op.results[0].type)
    base = list(op.indices)
    steps = _steps(op, len(base))
    memory = u.scalar(op.base)
    loaded: list[SSAValue | None] = []
    for _, indices in _places(base, steps, grid, u):
        made = type(op).create(
            operands=[memory, *indices],
            result_types=(kind,),
            properties=op.properties,
            location=op.location,
        )
        loaded.append(u.emit(made).results[0])
    u.define(op.results[0], as_grid(loaded, grid))


@rule(tpu.StoreOp, tpu.ShuffledStoreOp)
def unroll_store(op: tpu.StoreOp | tpu.ShuffledStoreOp, u: Unroller) -> None:
    """Position g of the grid writes at `index + g * steps`; poison is not written."""
    stored = op.value
    values = u.registers(stored)
    base = list(op.indices)
    steps = _steps(op, len(base))
    mask = getattr(op, "mask", None)
    masks = u.registers(mask) if mask is not None else None
    memory = u.scalar(op.base)
    for position, indices in _places(base, steps, values.shape, u):
        value = cast(SSAValue | None, values[position])
        if value is None:
            continue
        operands = [value, memory, *indices]
        if masks is not None:
            operands.append(cast(SSAValue, masks[position]))
        u.emit(type(op).create(operands=operands, properties=op.properties, location=op.location))
