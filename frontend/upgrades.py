"""One rule per version and operation that brings a serialized operation to the newest version.

The table is spec/tpu_dialect.md section 4.5. Rules see operations in serialized form
(`pallasite.frontend.serialized`), of the version before theirs. Versions 8, 9 and 12 only add
optional things, and version 10 only changes how bytes are stored, so they have no rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation

from pallasite.dialects.tpu.cores import VECTOR_SUBCORE, own_core
from pallasite.frontend.serialized import (
    SEGMENTS,
    inserted,
    malformed,
    operand_of,
    rename,
    segments,
    set_segments,
)

Rule = Callable[[Operation], None]
UPGRADES: dict[str, list[tuple[int, Rule]]] = {}
"""Operation name -> rules with the version each brings the operation to, oldest first."""

SUBCORES = 16
"""Vector subcores of a SparseCore: before version 14 a core id counted subcores."""
FALSE = IntegerAttr(0, i1)


def _upgrade(version: int, *names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        for name in names:
            rules = UPGRADES.setdefault(name, [])
            rules.append((version, rule))
            rules.sort(key=lambda entry: entry[0])
        return rule

    return register


@_upgrade(2, "tpu.enqueue_dma")
def _enqueue_dma_core(op: Operation) -> None:
    """Source, source semaphore, target, target semaphore, device and core become segments."""
    sizes = {3: (1, 0, 1, 1, 0, 0), 5: (1, 1, 1, 1, 1, 0)}.get(len(op.operands))
    if sizes is None:
        raise malformed(op, f"expected 3 or 5 operands before version 2, got {len(op.operands)}")
    set_segments(op, sizes)


@_upgrade(2, "tpu.sem_signal")
def _sem_signal_core(op: Operation) -> None:
    """Operands become optional: semaphore, amount, device, core."""
    sizes = {2: (1, 1, 0, 0), 3: (1, 1, 1, 0)}.get(len(op.operands))
    if sizes is None:
        raise malformed(op, f"expected 2 or 3 operands before version 2, got {len(op.operands)}")
    set_segments(op, sizes)


@_upgrade(3, "vector.multi_reduction")
def _multi_reduction_dims(op: Operation) -> None:
    """The reduced dimensions become a dense array."""
    dims = op.attributes.get("reduction_dims")
    if not isinstance(dims, ArrayAttr):
        raise malformed(op, f"expected an array as reduction_dims before version 3, got {dims}")
    values: list[int] = []
    for dim in cast(ArrayAttr[Attribute], dims):
        if not isinstance(dim, IntegerAttr):
            raise malformed(op, f"expected integers as reduction_dims, got {dim}")
        values.append(dim.value.data)
    op.attributes["reduction_dims"] = DenseArrayBase.from_list(i64, values)


@_upgrade(4, "tpu.enqueue_dma")
def _enqueue_dma_priority(op: Operation) -> None:
    op.attributes["priority"] = IntegerAttr(0, i32)


@_upgrade(4, "tpu.wait_dma")
def _wait_dma_of_a_ref(op: Operation) -> None:
    """JAX 0.4 waited for as many bytes as a ref has: operands semaphore and ref, no segments.

    The name was given to another operation since, so jaxlib and the compiler have no such rule.
    """
    if len(op.operands) == 2 and SEGMENTS not in op.attributes:
        semaphore, ref = op.operands
        op.operands = (semaphore, ref, ref)
        rename(op, "tpu.wait_dma2")


@_upgrade(5, "tpu.dynamic_gather")
@_upgrade(6, "tpu.iota")
def _dimensions(op: Operation) -> None:
    """One dimension becomes a list of them."""
    dimension = op.attributes.pop("dimension", None)
    if not isinstance(dimension, IntegerAttr) or dimension.type != i32:
        raise malformed(op, f"expected a 32-bit integer as dimension, got {dimension}")
    op.attributes["dimensions"] = DenseArrayBase.from_list(i32, [dimension.value.data])


@_upgrade(7, "tpu.wait_dma2")
def _wait_dma_core(op: Operation) -> None:
    """Operands become optional: semaphore, source, destination, device, core."""
    if len(op.operands) != 3:
        raise malformed(op, f"expected 3 operands before version 7, got {len(op.operands)}")
    set_segments(op, (1, 1, 1, 0, 0))


@_upgrade(11, "tpu.store")
def _store_add(op: Operation) -> None:
    op.attributes["add"] = FALSE


@_upgrade(13, "tpu.matmul")
def _matmul_hint(op: Operation) -> None:
    op.attributes["transpose_lhs_hint"] = FALSE


@_upgrade(14, "tpu.enqueue_dma", "tpu.wait_dma")
def _dma_subcore(op: Operation) -> None:
    _split_core(op, segments(op, 6), 5)


@_upgrade(14, "tpu.sem_signal")
def _sem_signal_subcore(op: Operation) -> None:
    _split_core(op, segments(op, 4), 3)


@_upgrade(15, "tpu.reinterpret_cast")
def _reinterpret_cast_sizes(op: Operation) -> None:
    """Sizes join the operands: input, dynamic offset, dynamic sizes."""
    if len(op.operands) not in (1, 2):
        raise malformed(op, f"expected 1 or 2 operands before version 15, got {len(op.operands)}")
    set_segments(op, (1, len(op.operands) - 1, 0))


def _split_core(op: Operation, sizes: tuple[int, ...], core: int) -> None:
    """The subcore gets an operand of its own, after the core id in segment `core`.

    On a vector subcore of a SparseCore the core id was `core * 16 + subcore`.
    """
    mangled = operand_of(op, sizes, core)
    if mangled is None or own_core(op) != VECTOR_SUBCORE:
        set_segments(op, (*sizes, 0))
        return
    count = inserted(op, "arith.constant", (), {"value": IntegerAttr(SUBCORES, i32)})
    operands = list(op.operands)
    first = sum(sizes[:core])
    operands[first] = inserted(op, "arith.divui", (mangled, count), {})
    operands.insert(first + 1, inserted(op, "arith.remui", (mangled, count), {}))
    op.operands = operands
    set_segments(op, (*sizes, 1))
