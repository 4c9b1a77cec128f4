"""What is known of an integer at compile time: its value, or its remainder by a divisor.

A small congruence analysis over SSA values (spec/tpu_dialect.md section 3.14): constants, sums and
products, minima and maxima, remainders, `tpu.assume_multiple`, casts, and loop counters whose
bounds and steps are known.
"""

from __future__ import annotations

from math import gcd
from typing import cast

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from pallasite.dialects import arith, scf, tpu
from pallasite.dialects.directives import CMPI_PREDICATES

_FUEL = 32


def constant_of(value: SSAValue) -> int | None:
    """The value of an integer constant, looking through casts; None if it is not one."""
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    if isinstance(owner, arith.IndexCastOp | tpu.AssumeMultipleOp):
        return constant_of(owner.operands[0])
    if isinstance(owner, arith.SelectOp):
        # The guard of a divisor that is not zero: `select(512 == 0, 1, 512)`.
        chosen = _chosen(owner)
        return None if chosen is None else constant_of(chosen)
    return None


def _chosen(op: arith.SelectOp) -> SSAValue | None:
    """The operand that a comparison of equal or different constants selects."""
    condition = op.cond.owner
    if not isinstance(condition, arith.CmpiOp):
        return None
    equals = {"eq": True, "ne": False}.get(CMPI_PREDICATES[condition.predicate.value.data])
    left, right = (constant_of(v) for v in condition.operands)
    if equals is None or left is None or right is None:
        return None
    return op.operands[1] if (left == right) == equals else op.operands[2]


def remainder(value: SSAValue, divisor: int) -> int | None:
    """`value mod divisor` (not negative) if it is the same in every execution, else None."""
    return _remainder(value, divisor, _FUEL)


def _remainder(value: SSAValue, divisor: int, fuel: int) -> int | None:
    if divisor == 1:
        return 0
    known = constant_of(value)
    if known is not None:
        return known % divisor
    if not fuel:
        return None
    owner = value.owner
    if isinstance(owner, Block):
        return _loop_counter(cast(BlockArgument, value), owner, divisor, fuel)
    return _of_operation(owner, divisor, fuel // 2)


def _loop_counter(value: BlockArgument, block: Block, divisor: int, fuel: int) -> int | None:
    loop = block.parent_op()
    if not isinstance(loop, scf.ForOp) or value.index != 0:
        return None
    step = _remainder(loop.step, divisor, fuel // 2)
    return _remainder(loop.lb, divisor, fuel // 2) if step == 0 else None


def _of_operation(op: Operation, divisor: int, fuel: int) -> int | None:
    if isinstance(op, tpu.AssumeMultipleOp):
        if op.multiple.value.data % divisor == 0:
            return 0
        return _remainder(op.operands[0], divisor, fuel)
    if isinstance(op, arith.IndexCastOp):
        return _remainder(op.operands[0], divisor, fuel)
    if isinstance(op, arith.AddiOp | arith.SubiOp):
        left = _remainder(op.operands[0], divisor, fuel)
        right = _remainder(op.operands[1], divisor, fuel)
        if left is None or right is None:
            return None
        return (left + right if isinstance(op, arith.AddiOp) else left - right) % divisor
    if isinstance(op, arith.MuliOp):
        for one, other in (op.operands, tuple(op.operands)[::-1]):
            factor = constant_of(one)
            if factor is not None:
                rest = _remainder(other, divisor // gcd(divisor, factor), fuel)
                return None if rest is None else rest * factor % divisor
            if _remainder(one, divisor, fuel) == 0:
                return 0
        return None
    if isinstance(op, arith.SelectOp | arith.MinSIOp | arith.MaxSIOp):
        one, other = (_remainder(v, divisor, fuel) for v in op.operands[-2:])
        return one if one == other else None
    if isinstance(op, arith.RemSIOp):
        # It differs from its first operand by a multiple of the second.
        factor = constant_of(op.operands[1])
        if factor and factor % divisor == 0:
            return _remainder(op.operands[0], divisor, fuel)
    return None
