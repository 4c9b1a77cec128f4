"""`jax.debug_nans` and `jax.debug_infs` find the kernel that makes such numbers."""

from __future__ import annotations

from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402

from pallasite.jax import simulate  # noqa: E402

from .support import equal, ramp  # noqa: E402

pytestmark = pytest.mark.jax

X = ramp(8, 128)


def root(x: Any, o: Any) -> None:
    o[...] = jnp.sqrt(x[...])


def inverse(x: Any, o: Any) -> None:
    o[...] = 1 / x[...]


def call(body: Any, x: Any) -> Any:
    return pl.pallas_call(body, out_shape=x)(x)


@pytest.mark.parametrize("form", ["pallas", "tiles"])
def test_the_kernel_is_found(form: Any) -> None:
    line = root.__code__.co_firstlineno
    with simulate(form=form), jax.debug_nans(True):
        equal(call(root, X), jnp.sqrt(X))
        with pytest.raises(FloatingPointError, match=rf"numbers\.py:{line}.*\(nan\) in result 0"):
            call(root, -1 - X)
        with pytest.raises(FloatingPointError, match=r"\(nan\) in result 0 of the kernel"):
            jax.jit(lambda x: call(root, x) + 1)(-1 - X)
    with simulate(form=form), jax.debug_infs(True):
        equal(call(root, X), jnp.sqrt(X))
        with pytest.raises(FloatingPointError, match=r"\(inf\) in result 0"):
            call(inverse, X * 0)


def test_numbers_of_other_operations_are_found_by_jax() -> None:
    with simulate(), jax.debug_nans(True), pytest.raises(FloatingPointError, match="in log"):
        jax.jit(lambda x: jnp.log(-1 - call(root, x)))(X)
