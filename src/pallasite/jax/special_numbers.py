"""NaNs and infinities that `jax.debug_nans` and `jax.debug_infs` look for in results of kernels.

JAX looks for the operation that made one by running a program again, operation by operation. A
kernel it calls inside a program of its own, finds the same there, and would run that again without
end (`_pallas_call_impl` of 0.10.2).
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax._src import config as jax_config

from pallasite.dialects.locations import position_of
from pallasite.frontend.jaxprs.internals import jax_core
from pallasite.frontend.jaxprs.locations import location_of_kernel


def look_at_results(primitive: jax_core.Primitive, simulating: Callable[[], bool]) -> None:
    """Where `simulating`, a call of `primitive` that gives such a number is the operation."""
    call = primitive.impl

    @functools.wraps(call)
    def looking(*args: Any, **params: Any) -> Any:
        nans, infs = jax_config.debug_nans.value, jax_config.debug_infs.value
        if not (nans or infs) or not simulating():
            return call(*args, **params)
        with jax.debug_nans(False), jax.debug_infs(False):
            results = call(*args, **params)
        for number, result in enumerate(results):
            if not jax.numpy.issubdtype(result.dtype, jax.numpy.inexact):
                continue
            values = np.asarray(result).astype(np.float32)
            if nans and np.isnan(values).any():
                raise _found("nan", number, params)
            if infs and np.isinf(values).any():
                raise _found("inf", number, params)
        return results

    primitive.def_impl(looking)


def _found(what: str, number: int, params: dict[str, Any]) -> FloatingPointError:
    jaxpr = params["jaxpr"] if "jaxpr" in params else params["jaxprs"][0]
    location = position_of(location_of_kernel(jaxpr))
    where = "" if location is None else f"{location}: "
    return FloatingPointError(f"{where}invalid value ({what}) in result {number} of the kernel")
