"""Derivatives of kernels that JAX gives up on: what a note says, and that the rewrite works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.jax import simulate  # noqa: E402

pytestmark = pytest.mark.jax

X = jnp.arange(1024, dtype=jnp.float32).reshape(8, 128)


def body(x: Any, o: Any) -> None:
    o[...] = 2 * x[...]


def copies(x: Any, o: Any) -> None:
    pltpu.sync_copy(x, o)


def doubled(x: Any) -> Any:
    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def copied(x: Any) -> Any:
    mesh = pltpu.create_tensorcore_mesh("core", num_cores=1)
    return pl.kernel(copies, out_type=jax.ShapeDtypeStruct(x.shape, x.dtype), mesh=mesh)(x)


def told(function: Callable[[], Any]) -> str:
    """The note on the error that `function` raises in a simulation."""
    with simulate(), pytest.raises((ValueError, AssertionError, NotImplementedError)) as caught:
        function()
    (note,) = [n for n in caught.value.__notes__ if "[traced-kernel]" in n]
    return note


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("kernel, function", [(body, doubled), (copies, copied)])
def test_the_transpose(kernel: Any, function: Any, jit: bool) -> None:
    def transposed(cotangent: Any) -> Any:
        return jax.linear_transpose(function, X)(cotangent)

    note = told(lambda: (jax.jit(transposed) if jit else transposed)(X))
    assert note.startswith(f"{__file__}:{kernel.__code__.co_firstlineno}:")
    assert "JAX transposes no kernel" in note
    assert "jax.custom_derivatives.linear_call(f, transposed, (), x)" in note


def test_the_transpose_that_is_given() -> None:
    def function(x: Any) -> Any:
        forward, transposed = (lambda _, x: doubled(x)), (lambda _, x: doubled(x))
        return jax.custom_derivatives.linear_call(forward, transposed, (), x)

    with simulate():
        (cotangent,) = jax.linear_transpose(function, X)(X)
    np.testing.assert_array_equal(cotangent, 2 * X)


@pytest.mark.parametrize("jit", [False, True])
def test_the_jacobian(jit: bool) -> None:
    jacobian = jax.jacfwd(doubled)
    for _ in range(2):  # JAX has kept what it traced, the second time
        note = told(lambda: (jax.jit(jacobian) if jit else jacobian)(X))
        assert note.startswith(f"{__file__}:{body.__code__.co_firstlineno}:")
        assert "jax.jvp(f, (x,), (t,))[1], out_axes=-1)" in note and "jax.custom_jvp" in note


def test_the_jacobian_by_one_of_several_arguments() -> None:
    def scaled(kind: str, x: Any, *, by: float) -> Any:
        return doubled(x) * by if kind == "twice" else x

    note = told(lambda: jax.jacfwd(scaled, 1)("twice", X, by=3.0))
    assert "wants them apart" in note


def test_the_jacobian_by_directions() -> None:
    x = X[:, :8]
    directions = jnp.eye(x.size).reshape(-1, *x.shape)
    with simulate():
        columns = jax.vmap(lambda t: jax.jvp(doubled, (x,), (t,))[1], out_axes=-1)(directions)
    np.testing.assert_array_equal(columns.reshape(x.size, x.size), 2 * np.eye(x.size))


def test_the_jacobian_of_a_rule_of_the_user() -> None:
    function = jax.custom_jvp(doubled)
    function.defjvp(lambda x, t: (doubled(*x), doubled(*t)))
    x = X[:, :8]
    with simulate():
        jacobian = jax.jacfwd(function)(x)
    np.testing.assert_array_equal(jacobian.reshape(x.size, x.size), 2 * np.eye(x.size))


def test_jacobians_without_kernels_are_left_to_jax() -> None:
    function = jax.custom_jvp(lambda x: x)
    function.defjvp(lambda x, t: (x[0] + 0 * t[0], t[0]))
    with simulate(), pytest.raises(ValueError, match="output was batched") as caught:
        jax.jacfwd(function)(X)
    assert not any("traced-kernel" in note for note in getattr(caught.value, "__notes__", ()))


def test_outside_of_simulations_nothing_is_added() -> None:
    with simulate():
        pass
    with pytest.raises(AssertionError, match="must override") as caught:
        jax.linear_transpose(doubled, X)(X)
    assert not any("traced-kernel" in note for note in getattr(caught.value, "__notes__", ()))
