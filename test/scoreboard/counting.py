"""How many transfers a program's kernel starts, and how much memory it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pallasite.api import simulate
from pallasite.jax import trace


def outcome(function: Callable[..., Any], *inputs: Any, form: str = "dma", **options: Any) -> Any:
    """Everything that a run of the only kernel of `function` tells."""
    module = trace(function, *inputs)
    return simulate(module, [np.asarray(x) for x in inputs], form=form, **options)


def transfers(function: Callable[..., Any], *inputs: Any) -> int:
    """The DMAs that it starts."""
    return outcome(function, *inputs).transfers["count"]
