"""Folds unrolled functions with what is known of single registers.

A register that counts positions (`tpu.iota` plus a constant) has a small range of row and lane
numbers. The rules of `fold-ranges`, and some exact rules of `fold-kernel`, therefore decide more
than they do for whole vectors: in `row < 32` on 40 rows, each of the five registers is all true or
all false.
"""

from __future__ import annotations

import math
from functools import lru_cache

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import arith, func
from pallasite.dialects.types import splat_value
from pallasite.lowering.tiles_to_vregs.branches import select_what_is_passed_on
from pallasite.passes.fold_kernel.casts import fold_cast_of_integer, fold_number_of_integer
from pallasite.passes.fold_kernel.choices import fold_choice
from pallasite.passes.fold_kernel.driver import KERNEL, Rules, constant
from pallasite.passes.fold_kernel.integers import fold_absorbing, fold_constants, fold_neutral
from pallasite.passes.fold_ranges import RANGES, RangeFolder

_EXACT = (
    fold_neutral, fold_absorbing, fold_constants, fold_choice, fold_cast_of_integer,
    fold_number_of_integer,
)  # fmt: skip
"""Rules of `fold-kernel` whose results one register can hold."""


@lru_cache(maxsize=1)
def _rules() -> Rules:
    """All rules of `fold-ranges`, and those of `_EXACT`."""
    chosen = Rules()
    for rules, admitted in ((RANGES, None), (KERNEL, _EXACT)):
        for kind, functions in rules.of.items():
            for function in functions:
                if admitted is None or function in admitted:
                    chosen.rule(kind)(function)
    return chosen


class RegisterFolder(RangeFolder):
    """Folds single registers; defines each constant once, at the entry of the function."""

    def __init__(self, function: func.FuncOp) -> None:
        super().__init__(rules=_rules())
        self._entry = function.body.blocks[0]
        self._constants: dict[tuple[Attribute, float, float], arith.ConstantOp] = {}
        for op in self._entry.ops:
            if isinstance(op, arith.ConstantOp) and isinstance(op.result.type, VectorType):
                number = splat_value(op.value)
                if number is not None:
                    self._constants.setdefault(_key(op.result.type, number), op)

    def constant(self, kind: Attribute, number: int | float) -> SSAValue:
        """The constant `number` of register type `kind`, at the entry of the function."""
        key = _key(kind, number)
        known = self._constants.get(key)
        if known is None or known.parent is None:
            # It is new, or was removed as dead code.
            known = self._constants[key] = constant(kind, number)
        first = self._entry.first_op
        if known is not first:
            # A constant in the middle of the block would come too late for earlier operations.
            assert first is not None
            if known.parent is not None:
                known.detach()
            self._entry.insert_op_before(known, first)
        return known.result


def _key(kind: Attribute, number: int | float) -> tuple[Attribute, float, float]:
    """A key of a constant that tells 0.0 from -0.0."""
    return kind, number, math.copysign(1, number)


def fold_registers(function: func.FuncOp) -> None:
    """Folds the unrolled `function` in place."""
    if RegisterFolder(function).function(function):
        select_what_is_passed_on(function)
