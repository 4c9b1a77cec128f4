"""Refuses loops on which the TPU compiler fails.

A loop with step 1 from a negative constant to a positive one fails (`range.IsValid()`) if anything
uses its counter. With another step, up to zero, or up to a bound known only at run time, it
compiles. A loop from 1 or more up to a grid index that is always 0, because the grid has one step,
fails too (`index_space_.start <= index_space_.limit`). Asked of libtpu 0.0.51 for v4, v5e, v6e and
v7x.
"""

from __future__ import annotations

from math import prod
from typing import cast

from xdsl.ir import SSAValue

from pallasite.dialects import arith, scf
from pallasite.dialects.func import FuncOp
from pallasite.dialects.kernel import describe_kernel
from pallasite.dialects.locations import refusal
from pallasite.dialects.tpu.cores import enclosing_function
from pallasite.passes.divisibility import constant_of
from pallasite.passes.scalar_folds import fold_numbers
from pallasite.targets import Target

_FOLDED = (arith.MaxSIOp, arith.MinSIOp, arith.DivSIOp)
"""Operations on a known grid index that the compiler folds before it checks bounds of loops; it
does not fold sums, products and selections."""


def signed_counter(op: scf.ForOp, target: Target) -> None:
    """Refuses a loop with step 1 from a negative constant to a positive one."""
    first, last = _bound(op.lb), _bound(op.ub)
    if first is None or last is None or constant_of(op.step) != 1:
        return
    if first < 0 < last and op.body.block.args[0].uses:
        raise refusal(
            op, "signed-counter", f"a loop that counts from {first} to {last} is not supported",
            "the compiler takes the counter's range for one of unsigned numbers",
            f"count from 0 and subtract: fori_loop(0, {last - first}, lambda i, x: "
            f"body(i - {-first}, x), x)",
        )  # fmt: skip


def loop_to_the_only_step(op: scf.ForOp, target: Target) -> None:
    """Refuses a loop that never runs because its end is a grid index that is always 0."""
    function = enclosing_function(op)
    if not isinstance(function, FuncOp) or constant_of(op.ub) is not None:
        return
    kernel = describe_kernel(function)
    if not kernel.grid or prod(kernel.grid) != 1:
        return
    first, last = _bound(op.lb), _in_only_step(op.ub, set[SSAValue](kernel.indices))
    if first is None or last is None or first <= last:
        return
    raise refusal(
        op, "loop-to-only-step", f"a loop that counts from {first} to {last}, the index of a grid "
        "of one step, is not supported",
        "the compiler knows that the index is 0, and fails on the end that lies before the start",
        f"count from 0 and add: fori_loop(0, end - {first}, lambda i, x: body(i + {first}, x), x)",
    )  # fmt: skip


def _in_only_step(value: SSAValue, indices: set[SSAValue]) -> int | None:
    """The number that the compiler folds `value` to if all `indices` are 0; None if it does not."""
    if value in indices:
        return 0
    owner = value.owner
    if not isinstance(owner, _FOLDED):
        return constant_of(value)
    found = [_in_only_step(operand, indices) for operand in owner.operands]
    return None if None in found else fold_numbers(owner, cast("list[int]", found))


def _bound(value: SSAValue) -> int | None:
    """`value` as a number: a constant, or the sum of constants that JAX writes for a loop's end."""
    if isinstance(value.owner, arith.AddiOp):
        left, right = (_bound(operand) for operand in value.owner.operands)
        return None if left is None or right is None else left + right
    return constant_of(value)
