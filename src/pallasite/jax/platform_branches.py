"""`jax.lax.platform_dependent` in a simulation: what a TPU would run, though XLA runs on the CPU.

JAX picks the branch when it lowers the choice for a platform. A branch for TPUs is where programs
have their kernels, so that of the CPU, or the default, would leave them out without a word.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np
from jax._src.interpreters import mlir
from jax._src.lax.control_flow import conditionals

TPU = "tpu"
Platforms = Sequence[Sequence[str] | None]


def take_tpu_branches(simulating: Callable[[], bool]) -> None:
    """Programs that are lowered for the CPU while `simulating` take the branches for TPUs."""
    index_rule: Any = mlir._lowerings[conditionals.platform_index_p].rule
    cond_rule: Any = mlir._lowerings[conditionals.cond_p].rule

    def replaces(ctx: mlir.LoweringRuleContext) -> bool:
        return simulating() and tuple(mlir._platforms_for_eqn(ctx)) == ("cpu",)

    @wraps(index_rule)
    def index(ctx: mlir.LoweringRuleContext, *, platforms: Platforms) -> Any:
        number = _branch(platforms) if replaces(ctx) else None
        if number is None:
            return index_rule(ctx, platforms=platforms)
        return [mlir.ir_constant(np.int32(number))]

    @wraps(cond_rule)
    def cond(
        ctx: mlir.LoweringRuleContext, which: Any, *operands: Any, branches: Any, **params: Any
    ) -> Any:
        number = _branch(params.get("branches_platforms") or ()) if replaces(ctx) else None
        if number is not None:
            del params["branches_platforms"]
            which, branches = mlir.ir_constant(np.int32(0)), (branches[number],)
        return cond_rule(ctx, which, *operands, branches=branches, **params)

    mlir.register_lowering(conditionals.platform_index_p, index)
    mlir.register_lowering(conditionals.cond_p, cond)


def _branch(platforms: Platforms) -> int | None:
    """The number of the branch for TPUs, if there is one."""
    return next((i for i, names in enumerate(platforms) if names and TPU in names), None)
