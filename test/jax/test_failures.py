"""What goes wrong in a kernel reaches the caller of its program, and nobody keeps it afterwards."""

from __future__ import annotations

import gc
import pickle
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.sharding import Mesh, PartitionSpec  # noqa: E402

from pallasite.diagnostics import Diagnostic, ExecutionError  # noqa: E402
from pallasite.jax import calls, simulate  # noqa: E402
from pallasite.jax.calls import Failures, KernelCall  # noqa: E402
from pallasite.jax.failures import call_back, surfacing_diagnostics  # noqa: E402

pytestmark = pytest.mark.jax


class Failing(KernelCall):
    """A call of which every run fails."""

    def __init__(self) -> None:
        self.devices = 1
        self.failures = Failures()

    def __call__(self, device: int, inputs: Any, into: Any = None) -> Any:
        raise ExecutionError("odd", f"on device {device}")


def executed(keeps: list[Failing], execute: Any) -> Any:
    program = SimpleNamespace(keepalive=keeps, _local_devices=[])
    return surfacing_diagnostics(execute)(program)


def failed(call: KernelCall, device: int) -> str:
    with pytest.raises(Exception, match="pallasite-failure") as raised:
        call_back(call, [], np.int32(device))
    return str(raised.value)


def test_kernels_that_fail_together_leave_nothing() -> None:
    one, other = Failing(), Failing()

    def execute(_: Any) -> None:
        failed(one, 1)
        message = failed(other, 2)
        failed(other, 3)
        raise jax.errors.JaxRuntimeError(f"INTERNAL: {message}")

    with pytest.raises(ExecutionError, match="on device 2"):
        executed([one, other], execute)
    assert not len(one.failures) and not len(other.failures)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("lost"), ValueError("other")])
def test_failures_that_something_else_hides_are_not_kept(error: BaseException) -> None:
    call = Failing()

    def execute(_: Any) -> None:
        failed(call, 1)
        raise error

    with pytest.raises(type(error)):
        executed([call], execute)
    assert not len(call.failures)


def test_executions_of_one_program_know_their_failures_until_the_last_ends() -> None:
    call = Failing()

    def inner(_: Any) -> None:
        raise jax.errors.JaxRuntimeError(failed(call, 2))

    def outer(_: Any) -> None:
        message = failed(call, 1)
        with pytest.raises(ExecutionError, match="on device 2"):
            executed([call], inner)
        raise jax.errors.JaxRuntimeError(message)

    with pytest.raises(ExecutionError, match="on device 1"):
        executed([call], outer)
    assert not len(call.failures)
    # Of a program that is not executed by JAX's own means nobody asks; its message says it.
    assert "on device 3" in failed(call, 3)
    assert not len(call.failures)


@pytest.mark.parametrize("devices", [1, 2])
def test_nothing_of_a_failed_run_outlives_it(devices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[weakref.ref[Any]] = []

    class Odd(Exception):
        pass

    def execute(*_: Any, **__: Any) -> None:
        error = Odd()
        errors.append(weakref.ref(error))
        raise error

    def body(x: Any, o: Any) -> None:
        o[...] = x[...] + 1

    def f(x: Any) -> Any:
        return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    mesh = Mesh(np.array(jax.devices()[:devices]), ("x",))
    rows = PartitionSpec("x")
    program = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=rows, out_specs=rows, check_vma=False))
    x = jnp.zeros((8 * devices, 128))
    with simulate():
        with monkeypatch.context() as patched:
            patched.setattr(calls, "execute", execute)
            with pytest.raises(Odd):
                program(x)
        gc.collect()
        assert errors and all(error() is None for error in errors)
        np.testing.assert_array_equal(program(x), np.ones((8 * devices, 128)))


def test_a_diagnostic_of_a_program_is_still_what_jax_raises() -> None:
    def body(x: Any, i: Any, o: Any) -> None:
        o[...] = x[pl.ds(i[0], 8), :]

    def f(x: Any, i: Any) -> Any:
        return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype))(x, i)

    with simulate(checks=("bounds",)), pytest.raises(jax.errors.JaxRuntimeError) as raised:
        f(jnp.zeros((16, 128)), jnp.full((1,), 100))
    assert isinstance(raised.value, Diagnostic)
    # Processes that get it from this one need no JAX.
    other = pickle.loads(pickle.dumps(raised.value))
    assert (type(other), str(other)) == (ExecutionError, str(raised.value))
