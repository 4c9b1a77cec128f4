"""One rule per version and operation that brings a serialized operation back to an older version.

The table is spec/tpu_dialect.md section 4.5: a rule of version v makes the operation one that
version v - 1 knows, or refuses. Rules see operations in serialized form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    i1,
    i32,
)
from xdsl.ir import Attribute, Operation

from pallasite.diagnostics import Unsupported
from pallasite.dialects.locations import source_location
from pallasite.dialects.tpu.cores import VECTOR_SUBCORE, own_core
from pallasite.dialects.types import splat_value
from pallasite.frontend.serialized import (
    SEGMENTS,
    inserted,
    is_true,
    name_of,
    operand_of,
    segments,
    set_segments,
)
from pallasite.frontend.upgrades import SUBCORES

PREFIX = "stable_mosaic."

Rule = Callable[[Operation], None]
DOWNGRADES: dict[str, list[tuple[int, Rule]]] = {}
"""Operation name -> rules with the version each takes the operation back from, newest first."""


def _downgrade(version: int, *names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        for name in names:
            rules = DOWNGRADES.setdefault(name, [])
            rules.append((version, rule))
            rules.sort(key=lambda entry: -entry[0])
        return rule

    return register


def _refuse(op: Operation, version: int, what: str) -> Unsupported:
    return Unsupported(
        "serialization-version",
        f"{name_of(op).removeprefix(PREFIX)}: {what} needs version {version} of the format",
        source_location(op),
    )


@_downgrade(15, "tpu.reinterpret_cast")
def _reinterpret_cast_sizes(op: Operation) -> None:
    if segments(op, 3)[2]:
        raise _refuse(op, 15, "dynamic sizes")
    del op.attributes[SEGMENTS]


@_downgrade(14, "tpu.enqueue_dma", "tpu.wait_dma")
def _dma_subcore(op: Operation) -> None:
    _merge_core(op, segments(op, 7), 5)


@_downgrade(14, "tpu.sem_signal")
def _sem_signal_subcore(op: Operation) -> None:
    _merge_core(op, segments(op, 5), 3)


@_downgrade(13, "tpu.matmul")
def _matmul_hint(op: Operation) -> None:
    if is_true(op.attributes.pop("transpose_lhs_hint", None)):
        raise _refuse(op, 13, "transpose_lhs_hint")


@_downgrade(12, "tpu.reinterpret_cast")
def _reinterpret_cast_offset(op: Operation) -> None:
    if len(op.operands) > 1:
        raise _refuse(op, 12, "a dynamic offset")


@_downgrade(12, "tpu.enqueue_dma")
def _enqueue_dma_target_semaphore(op: Operation) -> None:
    if not segments(op, 6)[3]:
        raise _refuse(op, 12, "a missing target semaphore")


@_downgrade(11, "tpu.store")
def _store_add(op: Operation) -> None:
    if is_true(op.attributes.pop("add", None)):
        raise _refuse(op, 11, "an accumulating store")


@_downgrade(10, "arith.constant")
def _boolean_constant(op: Operation) -> None:
    value = op.attributes.get("value")
    if not isinstance(value, DenseIntOrFPElementsAttr):
        return
    kind = cast(Attribute, value.get_element_type())
    if kind == i1 and splat_value(value) is None:
        raise _refuse(op, 10, "a boolean constant that is no splat")


@_downgrade(8, "tpu.enqueue_dma")
def _enqueue_dma_ordering(op: Operation) -> None:
    if is_true(op.attributes.pop("strict_ordering", None)):
        raise _refuse(op, 8, "strict_ordering")


@_downgrade(7, "tpu.wait_dma2")
def _wait_dma_core(op: Operation) -> None:
    if any(segments(op, 5)[3:]):
        raise _refuse(op, 7, "a device or core id")
    del op.attributes[SEGMENTS]


@_downgrade(6, "tpu.iota")
def _iota_dimensions(op: Operation) -> None:
    _one_dimension(op, 6)


@_downgrade(5, "tpu.dynamic_gather")
def _dynamic_gather_dimensions(op: Operation) -> None:
    _one_dimension(op, 5)


@_downgrade(4, "tpu.enqueue_dma")
def _enqueue_dma_priority(op: Operation) -> None:
    op.attributes.pop("priority", None)


@_downgrade(3, "vector.multi_reduction", "tpu.wait_dma2")
def _newer_operation(op: Operation) -> None:
    raise _refuse(op, 3, "the operation")


@_downgrade(2, "tpu.enqueue_dma")
def _enqueue_dma(op: Operation) -> None:
    raise _refuse(op, 2, "the operation")


@_downgrade(2, "tpu.sem_signal")
def _sem_signal_core(op: Operation) -> None:
    if segments(op, 4)[3]:
        raise _refuse(op, 2, "a core id")
    del op.attributes[SEGMENTS]


def _one_dimension(op: Operation, version: int) -> None:
    dimensions = op.attributes.pop("dimensions", None)
    values: tuple[int, ...] = ()
    if isinstance(dimensions, DenseArrayBase):
        values = cast(DenseArrayBase[IntegerType], dimensions).get_values()
    if len(values) != 1:
        raise _refuse(op, version, f"{len(values)} dimensions")
    op.attributes["dimension"] = IntegerAttr(values[0], i32)


def _merge_core(op: Operation, sizes: tuple[int, ...], core: int) -> None:
    """A subcore id is folded into the core id, which then counts subcores."""
    subcore = operand_of(op, sizes, core + 1)
    if subcore is not None:
        identifier = operand_of(op, sizes, core)
        if identifier is None or own_core(op) != VECTOR_SUBCORE:
            raise _refuse(op, 14, "a subcore id without core id, or outside a vector subcore,")
        count = inserted(op, PREFIX + "arith.constant", (), {"value": IntegerAttr(SUBCORES, i32)})
        base = inserted(op, PREFIX + "arith.muli", (identifier, count), {})
        operands = list(op.operands)
        first = sum(sizes[:core])
        operands[first : first + 2] = [inserted(op, PREFIX + "arith.addi", (base, subcore), {})]
        op.operands = operands
    set_segments(op, sizes[: core + 1])
