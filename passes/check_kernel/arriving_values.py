"""The values that may arrive in a result of `scf.for` or `scf.if`, or in a loop's argument."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from xdsl.ir import BlockArgument, OpResult, SSAValue

from pallasite.dialects import scf
from pallasite.passes.check_kernel.constants import first_varying


def values_arriving(op: scf.ForOp | scf.IfOp, index: int) -> Iterable[SSAValue]:
    """The values that result `index` may be: a loop's initial value, then what regions yield."""
    if isinstance(op, scf.ForOp):
        yield op.iter_args[index]
    for region in op.regions:
        for block in region.blocks:
            if isinstance(block.last_op, scf.YieldOp):
                yield block.last_op.operands[index]


def values_arriving_in(value: SSAValue) -> list[SSAValue]:
    """The values that `value` may be, if it is a result of a loop or branch or an argument that a
    loop carries: a loop's initial value first. [] for other values."""
    if isinstance(value, BlockArgument):
        loop, index = value.owner.parent_op(), value.index - 1
        return (
            list(values_arriving(loop, index)) if isinstance(loop, scf.ForOp) and index >= 0 else []
        )
    op = value.owner
    if not isinstance(op, scf.ForOp | scf.IfOp):
        return []
    return list(values_arriving(op, cast(OpResult, value).index))


def layout_source(value: SSAValue) -> SSAValue | None:
    """The value whose layout the TPU compiler gives to a loop's argument (the initial value), or to
    a result of a loop or branch (the first that is no constant).

    None for other values, and where all values that arrive are constant.
    """
    values = values_arriving_in(value)
    return next(iter(values), None) if isinstance(value, BlockArgument) else first_varying(values)
