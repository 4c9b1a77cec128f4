"""Kernels whose calls a rule of `custom_partitioning` divides among devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.custom_partitioning import custom_partitioning  # noqa: E402
from jax.sharding import Mesh, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

from pallasite.diagnostics import Diagnostic  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

from .support import line_of, ramp  # noqa: E402

pytestmark = pytest.mark.jax
Function = Callable[[Any], Any]


def called(body: Callable[..., None]) -> Function:
    return lambda x: pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def by_rows(function: Function) -> Function:
    """`function` of the rows that each device has."""
    divided = custom_partitioning(function)
    divided.def_partition(
        infer_sharding_from_operands=lambda mesh, args, result: args[0].sharding,
        partition=lambda mesh, args, result: (
            mesh, function, result.sharding, (args[0].sharding,)
        ),
        sharding_rule="i j -> i j",
    )  # fmt: skip
    return divided


def among(count: int, x: Any) -> Any:
    """`x`, its rows among `count` devices."""
    mesh = Mesh(np.array(jax.devices()[:count]), ("rows",))
    return jax.device_put(x, NamedSharding(mesh, P("rows")))


def doubled(x: Any, o: Any) -> None:
    o[...] = x[...] * 2


def ended(x: Any, o: Any) -> None:
    o[...] = x[...] + 1
    o[pl.ds(x[0, 0].astype(jnp.int32) + 100, 8)] = x[pl.ds(0, 8)]  # behind the end


def narrow(x: Any, o: Any) -> None:
    o[...] = x[...][:, ::2].repeat(2, 1)  # strided


@pytest.mark.parametrize("form", ["pallas", "tiles"])
@pytest.mark.parametrize("count", [1, 4])
def test_a_rule_calls_a_kernel_on_every_device(form: str, count: int) -> None:
    x = ramp(32, 128)
    with simulate(form=form):
        y = jax.jit(by_rows(called(doubled)))(among(count, x))
    np.testing.assert_array_equal(y, 2 * x)
    assert len(y.sharding.device_set) == count


def test_rules_may_call_several_kernels() -> None:
    def twice(x: Any) -> Any:
        return called(doubled)(jnp.sin(called(doubled)(x)))

    x = ramp(32, 128)
    with simulate():

        @jax.jit
        def program(x: Any) -> Any:
            return by_rows(twice)(x) + by_rows(called(doubled))(x)

        for _ in range(2):
            y = program(among(2, x))
    np.testing.assert_allclose(y, 2 * np.sin(2 * x) + 2 * x, rtol=1e-5, atol=1e-5)


def test_what_fails_when_it_runs_is_the_kernels_diagnostic() -> None:
    with simulate(), pytest.raises(Diagnostic) as caught:
        jax.jit(by_rows(called(ended)))(among(2, ramp(32, 128)))
    assert caught.value.code == "out-of-bounds"
    assert caught.value.location is not None
    assert caught.value.location.line == line_of(__file__, "behind the end")


def test_what_is_refused_has_the_kernels_line() -> None:
    with simulate(form="pallas"), pytest.raises(Diagnostic) as caught:
        jax.jit(by_rows(called(narrow)))(among(2, ramp(32, 128)))
    assert caught.value.location is not None
    assert caught.value.location.line == line_of(__file__, "strided")


def test_outside_of_simulations_rules_are_jaxs_own() -> None:
    x = ramp(32, 128)
    y = jax.jit(by_rows(jnp.sin))(among(2, x))
    np.testing.assert_allclose(y, np.sin(x), rtol=1e-6, atol=1e-6)
