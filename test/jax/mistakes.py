"""Kernels of a few lines for tests of what is mistaken, and what is checked of each mistake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallasite.jax import simulate

X = jnp.asarray(np.random.default_rng(0).standard_normal((16, 128)), jnp.float32)
NUMBER = jnp.int32(3)
SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)
Function = Callable[[], Any]
Fault = tuple[Function, str, Function, Any]
"""What is wrong, what a note advises, what is right, and its result."""


def call(body: Any, *operands: Any, **options: Any) -> Any:
    out = jax.ShapeDtypeStruct(X.shape, X.dtype)
    return pl.pallas_call(body, out_shape=out, **options)(*operands)


def of_value(compute: Callable[[Any], Any]) -> Function:
    def body(x: Any, o: Any) -> None:
        o[...] = jnp.broadcast_to(compute(x[...]), o.shape)

    return lambda: call(body, X)


def of_numbers(compute: Callable[[Any, Any], Any], numbers: Any) -> Function:
    def body(s: Any, x: Any, o: Any) -> None:
        o[...] = compute(s, x[...])

    return lambda: call(body, numbers, X, in_specs=[SMEM, pl.BlockSpec()])


def scaled(x: Any, o: Any) -> None:
    o[...] = 2 * x[...]


def check(fault: Fault, file: str) -> None:
    """What is told advises what works, and names a line of `file`, or that of the call here."""
    wrong, advice, right, expected = fault
    with simulate(), pytest.raises(Exception) as caught:
        wrong()
    told = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert advice in told
    assert f"{file}:" in told or f"{Path(__file__).name}:" in told
    with simulate():
        np.testing.assert_allclose(right(), expected, rtol=1e-5, atol=1e-5)
