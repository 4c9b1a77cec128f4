"""Refuses branches that only rearrange registers, or recompute values from before them.

If both sides of an `scf.if` yield values from before it, MLIR replaces it by a selection. The TPU
compiler does so again when vectors have become registers, but has no selection of registers by a
scalar condition: it fails on `lax.cond(p, lambda: concatenate([x[8:], x[:8]]), lambda: x)`, which
computes nothing but takes registers in another order. It also fails if both sides yield such values
only after common subexpressions are removed:
`w = x + 1; lax.cond(p, lambda: x + 1, lambda: x) + w`.
Asked of libtpu 0.0.51 for v5e, v6e and v7x.
"""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import cast

import numpy as np
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import func, scf
from pallasite.dialects.in_words import in_words
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import bit_width
from pallasite.passes.check_kernel.branch_registers import (
    COMPUTED,
    BranchRegisters,
    grid_of,
)
from pallasite.passes.check_kernel.constants import is_constant
from pallasite.passes.check_kernel.replication import Replications
from pallasite.passes.equal_values import EarlierValues, equal_values
from pallasite.targets import Target

_MOST_REGISTERS = 4096


def renamed_by_branches(known: Replications, op: scf.IfOp, target: Target) -> None:
    """Refuses results with a register that differs between the sides, and is computed on none;
    `known` says which vectors are replicated."""
    if len(op.regions) < 2 or not all(region.blocks for region in op.regions):
        return
    ends = [region.block.last_op for region in op.regions]
    for number, result in enumerate(op.results):
        if not isinstance(result.type, VectorType) or not _is_judged(result):
            continue
        yielded = [end.operands[number] for end in ends if end is not None]
        # If neither value is made inside, MLIR makes a selection of whole vectors, which is legal.
        if len(yielded) < 2 or not any(_is_computed_in(op, value) for value in yielded):
            continue
        of_branch = BranchRegisters(op, target, known)
        if not of_branch.lie_alike(yielded[0], yielded[1]) or equal_values(*yielded):
            continue
        first, second = map(of_branch.registers, yielded)
        if np.any((first != COMPUTED) & (second != COMPUTED) & (first != second)):
            raise refusal(
                op, "renamed-registers",
                f"the branches of {in_words(op)} give {result.type} whose registers they only "
                "rearrange",
                "what both branches know before them becomes a selection, and a condition selects "
                "no registers",
                "select the values, jnp.where(condition, a, b), or compute something in a branch",
                "the TPU compiler says: failed to legalize operation 'arith.select'",
            )  # fmt: skip


class RepeatedByBranches:
    """The rule about values that are recomputed in branches, for one function."""

    def __init__(self, function: func.FuncOp) -> None:
        self._function = function

    @cached_property
    def _earlier(self) -> EarlierValues:
        return EarlierValues(self._function)

    def check(self, op: scf.IfOp, target: Target) -> None:
        """Refuses results that both sides have from before `op`, but that one computes again."""
        if len(op.regions) < 2 or not all(region.blocks for region in op.regions):
            return
        ends = [region.block.last_op for region in op.regions]
        for number, result in enumerate(op.results):
            yielded = [end.operands[number] for end in ends if end is not None]
            if not isinstance(result.type, VectorType) or len(yielded) < 2:
                continue
            # If neither is computed again, MLIR makes a selection of whole vectors, which is legal.
            if not any(_is_computed_in(op, value) for value in yielded):
                continue
            before = [self._before(value, op) for value in yielded]
            if None not in before and not equal_values(*cast("list[SSAValue]", before)):
                raise refusal(
                    op, "repeated-values",
                    f"the branches of {in_words(op)} give {result.type} that are computed "
                    "before it, "
                    "too",
                    "what is computed again is taken from before, and the selection that is left "
                    "of the branches has no layout",
                    "use what was computed before in the branch, or select: "
                    "jnp.where(condition, a, b)",
                    "the TPU compiler says: Null layout / non-vector operand in elementwise "
                    "operation",
                )  # fmt: skip

    def _before(self, value: SSAValue, op: scf.IfOp) -> SSAValue | None:
        """`value` if it is from before `op` or constant, else an equal one from before; or None."""
        if not _is_inside(value, op) or is_constant(value):
            return value
        return self._earlier.find(value, op)


def _is_judged(value: SSAValue) -> bool:
    return bit_width(value.type) in (32, 16, 8, 4) and prod(grid_of(value)) <= _MOST_REGISTERS


def _is_computed_in(op: scf.IfOp, value: SSAValue) -> bool:
    return _is_inside(value, op) and not is_constant(value)


def _is_inside(value: SSAValue, op: scf.IfOp) -> bool:
    owner = value.owner
    return isinstance(owner, Operation) and op.is_ancestor(owner)
