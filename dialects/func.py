"""`func` as upstream has it; every class is found here under its upstream name."""

from __future__ import annotations

from xdsl.dialects.func import CallOp, Func, FuncOp, ReturnOp

__all__ = ["CallOp", "Func", "FuncOp", "ReturnOp"]
