"""The names of scopes, which a profiler shows."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i32
from xdsl.ir import Operation

from pallasite.dialects.tpu import TraceStartOp, TraceStopOp

LEVEL = 10
"""The level at which JAX records named scopes."""


def start_scope(name: str) -> Operation:
    """The beginning of a named scope."""
    return TraceStartOp(properties={"message": StringAttr(name), "level": IntegerAttr(LEVEL, i32)})


def stop_scope() -> Operation:
    """The end of the innermost named scope."""
    return TraceStopOp()
