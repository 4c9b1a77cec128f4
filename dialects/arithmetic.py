"""The operations of `arith` and `math`, which compute each element from those at its position."""

from __future__ import annotations

from typing import TypeGuard

from xdsl.ir import Operation

_DIALECTS = frozenset({"arith", "math"})


def is_arithmetic(op: object) -> TypeGuard[Operation]:
    """Whether `op` is an operation of `arith` or `math`; constants and conversions are, too."""
    return isinstance(op, Operation) and op.dialect_name() in _DIALECTS
