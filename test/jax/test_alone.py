"""Programs that are nothing but a kernel run without XLA, and as they run with it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402

from pallasite.diagnostics import ExecutionError  # noqa: E402
from pallasite.jax import hooks, simulate  # noqa: E402
from pallasite.jax.calls import KernelCall  # noqa: E402

from .support import equal, ramp  # noqa: E402

pytestmark = pytest.mark.jax


def both_body(x: Any, y: Any, total: Any, less: Any) -> None:
    total[...] = x[...] + y[...]
    less[...] = x[...] - y[...]


def both(x: Any, y: Any) -> Any:
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(both_body, out_shape=[shape, shape])(x, y)


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How kernels are called, in order: by XLA or at once."""
    seen: list[str] = []
    back, run = hooks.call_back, KernelCall.run

    def by_xla(*args: Any) -> Any:
        seen.append("XLA")
        return back(*args)

    def telling(self: KernelCall, *given: Any) -> Any:
        if seen[-1:] == ["XLA"]:
            seen[-1] = "by XLA"
        else:
            seen.append("at once")
        return run(self, *given)

    monkeypatch.setattr(hooks, "call_back", by_xla)
    monkeypatch.setattr(KernelCall, "run", telling)
    return seen


def test_operands_and_results_in_any_order(ways: list[str]) -> None:
    x, y = ramp(8, 128), 3 * ramp(8, 128)

    @jax.jit
    def program(y: Any, unused: Any, x: Any) -> Any:
        total, less = both(x, y)
        return less, total, less

    with simulate():
        for a, b in ((x, y), (jnp.asarray(x), jnp.asarray(y)), (x, jnp.asarray(y))):
            for result, expected in zip(program(b, 0, a), (x - y, x + y, x - y), strict=True):
                equal(result, expected)
        equal(jax.jit(lambda x: both(x, x)[1])(x), 0 * x)
        equal(both(x, y)[0], x + y)
    assert ways == ["at once"] * 5


def test_results_are_arrays_as_those_of_other_programs(ways: list[str]) -> None:
    x = jnp.asarray(ramp(8, 128))
    with simulate():
        result, other = jax.jit(both)(x, x)[0], jax.jit(lambda x: both(x, x)[0] + 0)(x)
    assert ways == ["at once", "by XLA"]
    assert result.aval == other.aval and result.sharding == other.sharding
    assert result.committed == other.committed and result.devices() == other.devices()
    equal(result + 1, other + 1)
    placed = jax.device_put(x, jax.devices()[0])
    with simulate():
        assert jax.jit(both)(placed, placed)[0].committed


def test_results_do_not_change_with_their_operands() -> None:
    x, y = np.array(ramp(8, 128)), ramp(8, 128)
    with simulate():
        total, _ = jax.jit(both)(x, y)
        x[...] = 7
        equal(total, 2 * y)
        again, _ = jax.jit(both)(x, y)
    equal(total, 2 * y)
    equal(again, y + 7)


def test_whatever_is_more_than_a_kernel_goes_through_xla(ways: list[str]) -> None:
    x = ramp(8, 128)
    with simulate():
        equal(jax.jit(lambda x: both(x + 1, x)[1])(x), 0 * x + 1)
        equal(jax.jit(lambda x: (both(x, x)[1], x))(x)[1], x)
        equal(jax.jit(lambda x: both(x, both(x, x)[1])[0])(x), x)
        equal(jax.jit(lambda x: both(x, np.ones((8, 128), np.float32))[1])(x), x - 1)
        equal(jax.vmap(both)(x[None], x[None])[0][0], 2 * x)
    assert set(ways) == {"by XLA"}


def test_arguments_that_jax_converts() -> None:
    x = ramp(8, 128)
    with simulate():
        equal(jax.jit(both)(np.asarray(x, np.float64), x)[0], 2 * x)
        equal(jax.jit(both)(x, 1.0 + x.tolist()[0][1] * x)[1], -1.0 + 0 * x)


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
def test_donated_arguments_are_gone() -> None:
    x = jnp.asarray(ramp(8, 128))
    with simulate():
        equal(jax.jit(lambda x: both(x, x)[0], donate_argnums=0)(x), 2 * ramp(8, 128))
    assert x.is_deleted()


def test_deleted_arguments_are_refused() -> None:
    x = jnp.asarray(ramp(8, 128))
    with simulate():
        program = jax.jit(lambda x: both(x, x)[0])
        program(x)
        x.delete()
        with pytest.raises(RuntimeError, match="deleted"):
            program(x)


def test_errors_are_those_of_jax(ways: list[str]) -> None:
    x = ramp(8, 128)

    def body(x: Any, o: Any) -> None:
        o[pl.ds(x[0, 0].astype(jnp.int32) * 8, 8)] = x[...]

    def outside(x: Any) -> Any:
        return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((16, 128), x.dtype))(x)

    with simulate():
        program = jax.jit(outside)
        equal(program(0 * x + 1)[8:], 0 * x + 1)
        for _ in range(2):
            with pytest.raises(ExecutionError) as caught:
                program(0 * x + 2)
            assert isinstance(caught.value, jax.errors.JaxRuntimeError)
        equal(program(0 * x)[:8], 0 * x)
    assert set(ways) == {"at once"}


def test_results_that_jax_looks_at_are_looked_at(ways: list[str]) -> None:
    x = ramp(8, 128)
    with simulate(), jax.debug_nans(True):
        equal(jax.jit(lambda x: both(x, x)[0])(x), 2 * x)
    assert ways == ["by XLA"]


def test_compiled_programs(ways: list[str]) -> None:
    x = ramp(8, 128)
    with simulate():
        compiled = jax.jit(partial(both, x)).lower(x).compile()
        equal(compiled(x)[0], 2 * x)
        compiled = jax.jit(both).lower(x, x).compile()
        equal(compiled(x, x)[0], 2 * x)
    assert ways == ["by XLA", "at once"]
