"""`cf` as upstream has it; every class is found here under its upstream name."""

from __future__ import annotations

from xdsl.dialects.cf import AssertOp, BranchOp, Cf, ConditionalBranchOp, SwitchOp

__all__ = ["AssertOp", "BranchOp", "Cf", "ConditionalBranchOp", "SwitchOp"]
