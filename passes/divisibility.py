"""What is known of an integer at compile time: its value, or its remainder by a power of two.

`constant_of` folds arithmetic on constants. `remainder` is a small congruence analysis over SSA
values (spec/tpu_dialect.md section 3.14) through sums and products, minima and maxima, selections,
remainders, `tpu.assume_multiple`, casts, and loop counters. For example, `remainder(%i * 16 + 8,
8)` is 0 whatever `%i` is. Offsets are proved to be aligned to tiles with it. `ranges` is the
companion analysis for intervals.
"""

from __future__ import annotations

from math import gcd
from typing import cast

from xdsl.dialects.builtin import IntegerAttr, IntegerType, i1
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from pallasite.dialects import arith, scf, tpu
from pallasite.dialects.types import bit_width
from pallasite.passes.scalar_folds import fold_numbers, folds

_FUEL = 32
"""Fuel that `remainder` starts with; it is halved at each operation, so six in a row are looked
through."""
_MOST_FOLDED = 256
"""Operations that are folded to find one constant."""


def constant_of(value: SSAValue) -> int | None:
    """The value of an integer that is known at compile time, else None; an i1 is 0 or 1.

    The TPU compiler folds arithmetic on constants before it looks at offsets and sizes, so this
    does too. JAX's floored divisions and guards of divisors need it: `select(512 == 0, 1, 512)` is
    512.
    """
    return _constant(value, {})


def _constant(value: SSAValue, seen: dict[SSAValue, int | None]) -> int | None:
    """`constant_of`; `seen` has the results of the operations that were folded on the way."""
    # Asked of very many values: comparing types is many times as fast as `isinstance`.
    while type(owner := value.owner) is tpu.AssumeMultipleOp:
        value = owner.value
    if type(owner) is arith.ConstantOp:
        constant = owner.properties["value"]
        if not isinstance(constant, IntegerAttr):
            return None
        number = cast("IntegerAttr[IntegerType]", constant).value.data
        return number & 1 if value.type == i1 else number
    choice = type(owner) is arith.SelectOp
    if value in seen or not (choice or (isinstance(owner, Operation) and folds(owner))):
        return seen.get(value)
    if len(seen) == _MOST_FOLDED:
        return None
    seen[value] = None
    if isinstance(owner, arith.SelectOp):
        condition = _constant(owner.cond, seen)
        if condition is not None:
            seen[value] = _constant(owner.operands[1 if condition else 2], seen)
        return seen[value]
    numbers: list[int] = []
    for operand in owner.operands:
        number = _constant(operand, seen)
        if number is None:
            return None
        numbers.append(number)
    seen[value] = fold_numbers(owner, numbers)
    return seen[value]


def remainder(value: SSAValue, divisor: int) -> int | None:
    """`value mod divisor`, not negative, if it is the same in every execution, else None.

    `divisor` must be a power of two, as the sizes of tiles are: a value that wraps keeps its
    remainder by those.
    """
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
    if isinstance(owner, scf.IfOp):
        return _chosen(cast(OpResult, value), owner, divisor, fuel // 2)
    return _of_operation(owner, divisor, fuel // 2)


def _loop_counter(value: BlockArgument, block: Block, divisor: int, fuel: int) -> int | None:
    """The remainder of the counter of an `scf.for`: that of its lower bound, if the divisor divides
    the step."""
    loop = block.parent_op()
    if not isinstance(loop, scf.ForOp) or value.index != 0:
        return None
    step = _remainder(loop.step, divisor, fuel // 2)
    return _remainder(loop.lb, divisor, fuel // 2) if step == 0 else None


def _chosen(value: OpResult, choice: scf.IfOp, divisor: int, fuel: int) -> int | None:
    """The remainder of a result of an `scf.if`, if both branches yield the same one.

    What they yield must be defined before the `if`, or be a constant: the TPU compiler makes a
    selection of such an `if` and does not look into others.
    """
    found: set[int | None] = set()
    for region in choice.regions:
        if not isinstance(end := region.block.last_op, scf.YieldOp):
            return None
        given = end.operands[value.index]
        inside = isinstance(given.owner, Operation) and given.owner.parent is region.block
        if inside and constant_of(given) is None:
            return None
        found.add(_remainder(given, divisor, fuel))
    return found.pop() if len(found) == 1 else None


def _of_product(op: arith.MuliOp, divisor: int, fuel: int) -> int | None:
    """The remainder of a product by a constant, or by a multiple of `divisor`."""
    for one, other in (op.operands, tuple(op.operands)[::-1]):
        factor = constant_of(one)
        if factor is not None:
            rest = _remainder(other, divisor // gcd(divisor, factor), fuel)
            return None if rest is None else rest * factor % divisor
        if _remainder(one, divisor, fuel) == 0:
            return 0
    return None


def _of_operation(op: Operation, divisor: int, fuel: int) -> int | None:
    """The remainder of the only result of `op`, from those of its operands."""
    if isinstance(op, tpu.AssumeMultipleOp):
        if op.multiple.value.data % divisor == 0:
            return 0
        return _remainder(op.operands[0], divisor, fuel)
    if isinstance(op, arith.IndexCastOp) and bit_width(op.result.type) >= 32:
        return _remainder(op.operands[0], divisor, fuel)
    if isinstance(op, arith.AddiOp | arith.SubiOp):
        left = _remainder(op.operands[0], divisor, fuel)
        right = _remainder(op.operands[1], divisor, fuel)
        if left is None or right is None:
            return None
        return (left + right if isinstance(op, arith.AddiOp) else left - right) % divisor
    if isinstance(op, arith.MuliOp):
        return _of_product(op, divisor, fuel)
    if isinstance(op, arith.SelectOp | arith.MinSIOp | arith.MaxSIOp):
        one, other = (_remainder(v, divisor, fuel) for v in op.operands[-2:])
        return one if one == other else None
    if isinstance(op, arith.RemSIOp):
        # It differs from its first operand by a multiple of the second.
        factor = constant_of(op.operands[1])
        if factor and factor % divisor == 0:
            return _remainder(op.operands[0], divisor, fuel)
    return None
