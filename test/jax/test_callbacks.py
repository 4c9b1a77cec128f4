"""Kernels within larger programs work on XLA's own memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.jax import hooks, simulate  # noqa: E402

pytestmark = pytest.mark.jax


def add_body(x: Any, y: Any, total: Any, less: Any) -> None:
    total[...] = x[...] + y[...]
    less[...] = x[...] - y[...]


def add(x: Any, y: Any) -> Any:
    return pl.pallas_call(add_body, out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype)] * 2)(x, y)


@pytest.fixture
def in_place(monkeypatch: pytest.MonkeyPatch) -> list[list[bool]]:
    """For each call by XLA, which results were left where it wants them."""
    seen: list[list[bool]] = []
    original = hooks.call_back

    def telling(call: Any, results: Sequence[Any] | None, *operands: Any) -> Any:
        assert results is None or not any(array.flags.writeable for array in operands)
        found = original(call, results, *operands)
        wanted = results or [None] * len(found)
        seen.append([array is result for array, result in zip(found, wanted, strict=True)])
        return found

    monkeypatch.setattr(hooks, "call_back", telling)
    return seen


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "int4", "float8_e5m2"])
def test_replays_leave_results_where_xla_wants_them(dtype: str, in_place: list[list[bool]]) -> None:
    x = jnp.asarray(np.arange(32 * 128).reshape(32, 128) % 5, dtype)

    def body(x: Any, o: Any) -> None:
        o[...] = x[...]

    copy = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))
    with simulate():
        step = jax.jit(lambda x: jax.lax.fori_loop(0, 12, lambda _, c: copy(c), x))
        found = step(x)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(x))
    # XLA packs elements of less than a byte.
    assert in_place[0] == [False] and in_place[-1] == [dtype != "int4"]


def test_results_are_not_what_later_calls_overwrite(in_place: list[list[bool]]) -> None:
    x = jnp.asarray(np.arange(8 * 128, dtype=np.float32).reshape(8, 128))

    def step(carry: Any, y: Any) -> Any:
        total, less = add(carry, y)
        return total, (total, less)

    ys = jnp.stack([n * x for n in range(20)])
    with simulate():
        last, (totals, lesses) = jax.jit(lambda x: jax.lax.scan(step, x, ys))(x)
        again, _ = jax.jit(lambda x: add(*add(x, x + 1)))(x)
    factors = np.cumsum(np.arange(20)) + 1
    np.testing.assert_array_equal(last, factors[-1] * x)
    np.testing.assert_array_equal(totals, factors[:, None, None] * np.asarray(x))
    before = np.concatenate([[1], factors[:-1]]) - np.arange(20)
    np.testing.assert_array_equal(lesses, before[:, None, None] * np.asarray(x))
    np.testing.assert_array_equal(again, 2 * x)
    assert in_place[-1] == [True, True]


def test_results_of_one_number(in_place: list[list[bool]]) -> None:
    def body(x: Any, o: Any) -> None:
        o[0, 0] = x[0, 0] + 1

    smem = pl.BlockSpec(memory_space=pltpu.SMEM)
    one = pl.pallas_call(
        body, out_shape=jax.ShapeDtypeStruct((1, 1), jnp.int32), in_specs=[smem], out_specs=smem
    )
    with simulate():
        count = jax.jit(lambda x: jax.lax.fori_loop(0, 12, lambda _, c: one(c), x))
        assert int(count(jnp.zeros((1, 1), jnp.int32))[0, 0]) == 12
