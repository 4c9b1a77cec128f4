"""What a kernel costs: transfers, memory, operations on registers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects.builtin import VectorType

from pallasite.api import lower, simulate
from pallasite.jax import trace


def outcome(function: Callable[..., Any], *inputs: Any, form: str = "dma", **options: Any) -> Any:
    """Everything that a run of the only kernel of `function` tells."""
    module = trace(function, *inputs)
    return simulate(module, [np.asarray(x) for x in inputs], form=form, **options)


def transfers(function: Callable[..., Any], *inputs: Any) -> int:
    """The DMAs that it starts."""
    return outcome(function, *inputs).transfers["count"]


def operations(function: Callable[..., Any], *inputs: Any) -> Counter[str]:
    """Operations on registers of its `vreg` form, by name; taking apart and putting together is
    free."""
    lowered = lower(trace(function, *inputs), form="vreg")
    return Counter(
        op.name
        for op in lowered.walk()
        if op.dialect_name() not in ("func", "scf")
        and any(isinstance(v.type, VectorType) for v in (*op.operands, *op.results))
        and op.name not in ("tpu.roll_vectors", "tpu.unroll_vectors")
    )
