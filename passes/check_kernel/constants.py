"""Which values are constants, and which fit any layout for it."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import SSAValue

from pallasite.dialects import arith, vector


def is_constant(value: SSAValue) -> bool:
    """Whether `value` is a constant, or a broadcast of one."""
    while isinstance(op := value.owner, vector.BroadcastOp):
        value = op.source
    return isinstance(op, arith.ConstantOp)


def first_varying(values: Iterable[SSAValue]) -> SSAValue | None:
    """The first of `values` that is neither a constant nor a broadcast."""
    free = (arith.ConstantOp, vector.BroadcastOp)
    return next((v for v in values if not isinstance(v.owner, free)), None)
