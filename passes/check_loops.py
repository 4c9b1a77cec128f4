"""Loops that the TPU compiler fails on.

Asked of libtpu 0.0.51 for v4, v5e, v6e and v7x: a loop of step 1 from a negative constant to a
positive one fails (`range.IsValid()`) where anything uses its counter, whatever it carries; up to
zero, to a bound known at run time, or in steps of more than 1 it compiles.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from pallasite.dialects import arith, scf
from pallasite.passes.check_vectors import refusal
from pallasite.passes.divisibility import constant_of
from pallasite.targets import Target


def signed_counter(op: scf.ForOp, target: Target) -> None:
    """Refuses a loop whose counter is known to pass from below zero to above it."""
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


def _bound(value: SSAValue) -> int | None:
    """A constant, or the sum of constants that JAX writes for the end of a loop."""
    if isinstance(value.owner, arith.AddiOp):
        left, right = (_bound(operand) for operand in value.owner.operands)
        return None if left is None or right is None else left + right
    return constant_of(value)
