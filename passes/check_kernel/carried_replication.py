"""Refuses loops that carry a vector which starts replicated and becomes varying too late.

The TPU compiler decides in two rounds over the body which of the vectors that a loop carries are
replicated (`replication.py`). A value that varies only at the end of the second round, as `a` in

    a, b = zeros, zeros;  for ...: a, b = b, x

gets a replicated layout that it does not fit (`Invalid relayout: ... replicated in destination`, or
`Sublane broadcast` for a single row). Asked of libtpu 0.0.51 about some 700 loops of all shapes and
element types on v4 to v7x. Our own lowering has no such restriction, so `--allow-beyond-reference`
lifts the refusal.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from pallasite.dialects import func, scf
from pallasite.dialects.in_words import in_words
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import is_vector
from pallasite.dialects.walking import inner_first
from pallasite.layouts.registers import LANES
from pallasite.passes.check_kernel.replication import Replications


def check_carried_replication(function: func.FuncOp, known: Replications) -> None:
    """Raises `Unsupported` for a loop of `function` that carries such a vector."""
    for op in inner_first(function):
        if isinstance(op, scf.ForOp):
            carried, end = op.body.block.args[1:], op.body.block.last_op
        elif isinstance(op, scf.WhileOp):
            carried, end = op.before_region.block.args, op.after_region.block.last_op
        else:
            continue
        if end is not None and any(is_vector(argument) for argument in carried):
            _check_loop(op, carried, end.operands, known)


def _check_loop(
    op: Operation, carried: Sequence[SSAValue], ends: Sequence[SSAValue], known: Replications
) -> None:
    """Refuses the loop `op`, which carries `carried` and yields `ends` to them."""
    for argument, end in zip(carried, ends, strict=True):
        if known.of_row(argument) is True and known.of_row(end) is False:
            raise refusal(
                op, "carried-splat", f"{in_words(op)} carries a {argument.type} that is kept "
                "for all rows of a register at first and in one of them from the third turn on",
                "the TPU compiler looks for the place of a carried vector two turns ahead: "
                "what is one row for all by then does not become a row of its own",
                "carry 8 equal rows, jnp.broadcast_to(x, (8, n)), or rows of more than "
                f"{LANES} elements",
            )  # fmt: skip
        begun, found = known.of_sizes(argument), known.of_sizes(end)
        if any(a is True and b is False for a, b in zip(begun, found, strict=True)):
            raise refusal(
                op, "carried-splat", f"{in_words(op)} carries a {argument.type} whose "
                "elements are one number at first and differ from the third turn on",
                "the TPU compiler looks for the place of a carried vector two turns ahead: "
                "what is one element for all by then has no room for more",
                "begin with a vector that is loaded: fill a scratch buffer with the constant "
                "and read it before the loop, or carry the vectors in one array",
            )  # fmt: skip
