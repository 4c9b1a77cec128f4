"""`scf`; every class is found here under its upstream name."""

from __future__ import annotations

from xdsl.dialects.scf import (
    ConditionOp,
    ExecuteRegionOp,
    ForOp,
    IfOp,
    IndexSwitchOp,
    ParallelOp,
    ReduceOp,
    ReduceReturnOp,
    Scf,
    WhileOp,
    YieldOp,
)

__all__ = [
    "ConditionOp",
    "ExecuteRegionOp",
    "ForOp",
    "IfOp",
    "IndexSwitchOp",
    "ParallelOp",
    "ReduceOp",
    "ReduceReturnOp",
    "Scf",
    "WhileOp",
    "YieldOp",
]
