"""The cost of a plan if some of the source registers are equal to one another.

The unrolled code executes an operation on equal registers only once
(`lowering/tiles_to_vregs/computed.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pallasite.layouts.plan import (
    Elements,
    GridReshape,
    KeepElements,
    Plan,
    Select,
    Step,
    TransposeBlocks,
    Value,
    Words,
)
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.demand import origins
from pallasite.layouts.planner.fields import Field
from pallasite.layouts.planner.lines import Array


def distinct_cost(plan: Plan, costs: Costs, sources: Sequence[Array]) -> float:
    """The cost of `plan`, counting each operation on equal registers once.

    `sources` has a flat array per source; registers with equal numbers there hold equal data.
    """
    made = list(sources)
    total = 0.0
    for number, step in enumerate(plan.steps, plan.sources):
        value = plan.values[number]
        given = [plan.values[o] for o in step.operands]
        operands = [made[o] for o in step.operands]
        renamed = _renamed(step, given, value, operands)
        if renamed is not None:
            made.append(renamed)
            continue
        if isinstance(step, TransposeBlocks):
            result, count = _transposed(operands[0], given[0])
        else:
            result, count = _numbered([*operands, *_patterns(step, value)])
        made.append(result)
        total += costs.step(step, value.on((count,)))
    return total


def _renamed(
    step: Step, given: Sequence[Value], value: Value, operands: Sequence[Array]
) -> Array | None:
    """The numbers of the result of a step that only rearranges registers; None for other steps.

    -1 stands for an undefined register.
    """
    if isinstance(step, Words | Elements | GridReshape):
        return operands[0]
    found = origins(step, given, value)
    if found is None:
        return None
    result = np.full(value.registers, -1)
    for origin, numbers in zip(found, operands, strict=True):
        there = origin >= 0
        result[there] = numbers[origin[there]]
    return result


def _numbered(keys: Sequence[Array]) -> tuple[Array, int]:
    """Numbers the registers such that equal keys have equal numbers; returns (numbers, count)."""
    kinds, numbers = np.unique(np.stack(keys), axis=1, return_inverse=True)
    return numbers.reshape(-1), kinds.shape[1]


def _patterns(step: Step, value: Value) -> list[Array]:
    """Per register, the number of the index register or mask that the step applies to it.

    Empty if it is the same one for all.
    """
    what = vars(step).get("mask" if isinstance(step, Select | KeepElements) else "index")
    field = what if isinstance(what, Field) else getattr(what, "field", None)
    if field is None or field.registers == 1:
        return []
    numbers = field.numbers()
    return [np.arange(value.registers) if numbers is None else numbers]


def _transposed(numbers: Array, operand: Value) -> tuple[Array, int]:
    """The register numbers of a `TransposeBlocks` result, and how many are distinct."""
    side = 16 // operand.elements
    rows, columns = operand.grid[-2:]
    blocks = numbers.reshape(-1, rows // side, side, columns).transpose(0, 1, 3, 2)
    same, count = _numbered(list(blocks.reshape(-1, side).T))
    # In the result a block is `side` registers below each other.
    tiles = same.reshape(-1, rows // side, columns, 1) * side + np.arange(side)
    return tiles.transpose(0, 2, 3, 1).reshape(-1), count * side
