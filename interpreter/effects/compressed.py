"""Masked loads and stores of vector subcores: the lanes of the mask are neighbours in memory.

The n-th lane that takes part has the n-th element (`plsc.load_expanded`, `plsc.store_compressed`),
where a TensorCore's masked store leaves each lane its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pallasite.dialects import tpu
from pallasite.dialects.locations import source_location
from pallasite.dialects.tpu.cores import VECTOR_SUBCORE, own_core
from pallasite.dialects.types import shape_of
from pallasite.interpreter import values
from pallasite.interpreter.effects.observed import is_read
from pallasite.interpreter.machine.accesses import Box
from pallasite.interpreter.machine.core import Core
from pallasite.interpreter.machine.undefined import load_box
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.meanings import Facts
from pallasite.interpreter.values import Array


def is_compressed(op: tpu.VectorLoadOp | tpu.VectorStoreOp) -> bool:
    """Whether the mask of `op` says how many elements there are, and not which ones."""
    return op.mask is not None and own_core(op) == VECTOR_SUBCORE


def load_expanded(op: tpu.VectorLoadOp, facts: Facts) -> Callable[..., Array]:
    """Loads as many elements as the mask has lanes; the others are poison."""
    at = source_location(op)
    shape, rank = shape_of(op.result.type), len(op.indices)
    watched = is_read(op, op.base)
    poison = values.poison(op.result.type, shape, facts.poison)

    def fn(core: Core, ref: Ref, *operands: Any) -> Array:
        lanes = np.broadcast_to(operands[rank], shape)
        out = poison.copy()
        if lanes.any():
            box = _run(rank, int(np.count_nonzero(lanes)))
            loaded = load_box(core, ref, operands[:rank], box, None, at, watched=watched)
            out[lanes] = loaded.reshape(-1)
        return out

    return fn


def store_compressed(op: tpu.VectorStoreOp) -> Callable[..., None]:
    """Stores the elements of the mask's lanes one behind the other, or adds them."""
    at = source_location(op)
    rank, add = len(op.indices), bool(op.add.value.data)

    def fn(core: Core, value: Array, ref: Ref, *operands: Any) -> None:
        kept = value[np.broadcast_to(operands[rank], value.shape)]
        if not kept.size:
            return
        index, box = operands[:rank], _run(rank, kept.size)
        if add and core.observer is not None:
            core.observer.read(core, Box(ref, index, box), at)
        ref.store(index, kept.reshape(box), None, None, at, add=add)
        if core.observer is not None:
            core.observer.write(core, Box(ref, index, box), at)

    return fn


def _run(rank: int, count: int) -> tuple[int, ...]:
    """A box of neighbours in a row."""
    return (*[1] * (rank - 1), count)
