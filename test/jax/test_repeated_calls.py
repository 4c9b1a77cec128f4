"""What calls of one kernel share: programs, lowered modules, what was prepared to run them."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from jax.experimental import pallas as pl  # noqa: E402
from xdsl.dialects.builtin import ModuleOp  # noqa: E402

from pallasite.dialects import verification  # noqa: E402
from pallasite.dialects.kernel import form_of  # noqa: E402
from pallasite.dialects.verification import verify  # noqa: E402
from pallasite.interpreter.run import prepare  # noqa: E402
from pallasite.jax import calls, simulate  # noqa: E402

from .support import ramp  # noqa: E402

pytestmark = pytest.mark.jax


def body(x: Any, y: Any, o: Any) -> None:
    o[...] = x[...] + y[...]


def add(x: Any, y: Any) -> Any:
    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)


def test_compiled_programs_serve_equal_simulations() -> None:
    traces: list[int] = []

    @jax.jit
    def f(x: Any) -> Any:
        traces.append(1)
        return add(x, x)

    for _ in range(3):
        with simulate():
            f(ramp(8, 128))
    assert len(traces) == 1
    with simulate(target="v6e"):
        f(ramp(8, 128))
    assert len(traces) == 2


def test_equal_calls_share_what_was_lowered_and_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[Any] = []

    def counted(*args: Any, **options: Any) -> Any:
        prepared.append(prepare(*args, **options))
        return prepared[-1]

    monkeypatch.setattr(calls, "prepare", counted)
    x = ramp(8, 128)
    simulate().settings.kernels.clear()
    with simulate():
        for factor in (1, 2, 3):
            # JAX traces and lowers the kernel of each call anew.
            np.testing.assert_array_equal(add(factor * x, x), (factor + 1) * x)
    assert len(prepared) == 1


def test_traced_kernels_are_verified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    verified: list[str] = []

    def noted(module: ModuleOp) -> None:
        verified.append(form_of(module))
        verify(module)

    monkeypatch.setattr(verification, "verify", noted)
    x = ramp(8, 128)
    simulate().settings.kernels.clear()
    with simulate(form="pallas"):
        np.testing.assert_array_equal(add(x, x), 2 * x)
    assert verified.count("pallas") == 1


@pytest.mark.parametrize("form", ["pallas", "tiles"])
def test_simulations_of_one_program_leave_nothing(form: str) -> None:
    f = jax.jit(lambda x: add(x, x))
    x = ramp(8, 128)

    def objects(runs: int) -> int:
        for _ in range(runs):
            with simulate(form=form):
                jax.block_until_ready(f(x))
        gc.collect()
        return len(gc.get_objects())

    objects(3)
    before = objects(3)
    assert objects(20) <= before + 3


def test_what_is_traced_runs_where_nothing_may_be_traced() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...] * 2

    @jax.jit
    def program(x: Any) -> Any:
        call = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))
        return jax.lax.fori_loop(0, 2, lambda _, x: call(x) + 1, x)

    x = ramp(8, 128)
    more = x + 1
    with simulate():
        program(x)
        with jax.no_tracing():
            again = program(more)
            with pytest.raises(RuntimeError, match="no_tracing"):
                program(np.zeros((16, 128), np.float32))
    np.testing.assert_array_equal(again, 4 * more + 3)
    with jax.no_tracing(), pytest.raises(RuntimeError, match="no_tracing"):
        jax.jit(lambda x: x - 5)(x)
