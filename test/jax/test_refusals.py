"""What is refused in every form is told with one rule, at the kernel's line, and with advice that
works when it is followed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.jax import simulate  # noqa: E402

from .mistakes import SMEM, Function, X, call  # noqa: E402
from .support import told  # noqa: E402

pytestmark = pytest.mark.jax

HERE = Path(__file__).name
ANYWHERE = pl.BlockSpec(memory_space=pl.ANY)
TARGETS = ("v4", "v5e", "v6e", "v7x")


def rows(start: Any, to: Any = 0) -> Function:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...]
        o[pl.ds(to, 8), :] = x[pl.ds(start, 8), :]

    return lambda: call(body, X)


def row(index: Any) -> Function:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...]
        o[index, :] = x[0]

    return lambda: call(body, X)


def copied_rows(start: Any) -> Function:
    def body(x: Any, o: Any) -> None:
        pltpu.sync_copy(x.at[pl.ds(start, 8)], o.at[pl.ds(0, 8)])
        pltpu.sync_copy(x.at[pl.ds(8, 8)], o.at[pl.ds(8, 8)])

    return lambda: call(body, X, in_specs=[ANYWHERE], out_specs=ANYWHERE)


def rows_of_turn(start: Callable[[Any], Any]) -> Function:
    def body(x: Any, o: Any) -> None:
        def turn(i: Any, _: Any) -> None:
            at = pl.multiple_of(start(i), 8) if start(i).dtype == jnp.int32 else start(i)
            o[pl.ds(i * 8, 8), :] = x[pl.ds(at, 8), :]

        lax.fori_loop(0, 2, turn, None)

    return lambda: call(body, X)


def through_scratch(scratch: Any) -> Function:
    def body(x: Any, o: Any, s: Any) -> None:
        pltpu.sync_copy(x, s)
        pltpu.sync_copy(s, o)

    return lambda: call(body, X, scratch_shapes=[scratch])


def through_a_result() -> Any:
    def body(x: Any, o: Any, s: Any) -> None:
        pltpu.sync_copy(x, s)
        pltpu.sync_copy(s, o)

    shape = jax.ShapeDtypeStruct(X.shape, X.dtype)
    specs = [pl.BlockSpec(), ANYWHERE]
    return pl.pallas_call(body, out_shape=[shape, shape], out_specs=specs)(X)[0]


def through_a_result_of(memory: Any) -> Function:
    """`X` through memory that `pl.kernel` allocates, or through a result of its own."""
    shape = jax.ShapeDtypeStruct(X.shape, X.dtype)
    mesh = pltpu.create_tensorcore_mesh("core", num_cores=1)
    types = [shape] if memory else [shape, shape]

    def run() -> Any:
        @pl.kernel(out_type=types, mesh=mesh, scratch_types=[memory] if memory else [])
        def copy(x: Any, o: Any, s: Any) -> None:
            pltpu.sync_copy(x, s)
            pltpu.sync_copy(s, o)

        return copy(X)[0]

    return run


def flat(o: Any, value: Any) -> None:
    o[...] = value.reshape(o.shape)


def number_at(memory: Any) -> Function:
    def body(at: Any, x: Any, o: Any) -> None:
        o[...] = jnp.full(o.shape, x[at[0], at[1]])

    specs = [SMEM, pl.BlockSpec(memory_space=memory)]
    return lambda: call(body, jnp.asarray([3, 5]), X, in_specs=specs)


def copied_half(rows: Callable[[Any, Any, Any], None]) -> Function:
    def body(x: Any, o: Any, s: Any) -> None:
        rows(x, o, s)

    x = X.astype(jnp.bfloat16)
    out = jax.ShapeDtypeStruct((8, 128), x.dtype)
    scratch = [pltpu.VMEM((16, 128), x.dtype)]
    call = pl.pallas_call(body, out_shape=out, in_specs=[ANYWHERE], scratch_shapes=scratch)
    return lambda: call(x).astype(jnp.float32)


def copies_all(x: Any, o: Any, s: Any) -> None:
    pltpu.sync_copy(x, s)
    o[...] = s[3:11]


def sums_by_parts(rows: int) -> Function:
    def body(x: Any, o: Any, s: Any) -> None:
        @pl.loop(0, rows // 8)
        def _(i: Any) -> None:
            s[pl.ds(i * 8, 8), :] = jnp.zeros((8, 2048))

        o[...] = jnp.zeros_like(o) + jnp.sum(s[0:8, :])

    return lambda: call(body, X, scratch_shapes=[pltpu.VMEM((rows, 2048), jnp.float32)])


def in_turns(turns: int) -> Function:
    def body(x: Any, o: Any) -> None:
        @pl.loop(0, turns)
        def _(i: Any) -> None:
            o[pl.ds(i * 8, 8), :] = x[pl.ds(i * 8, 8), :]

    return lambda: call(body, X)


def by_number(index: int) -> Function:
    def body(numbers: Any, x: Any, o: Any) -> None:
        o[...] = numbers[index + pl.program_id(0)] * x[...]

    return lambda: call(body, jnp.arange(4.0), X, grid=(1,), in_specs=[SMEM, pl.BlockSpec()])


def product(cast: Callable[[Any], Any], precision: Any = None) -> Function:
    def body(x: Any, o: Any) -> None:
        a = cast(x[...])
        o[...] = jnp.dot(a, a.T, precision=precision).astype(o.dtype)

    out = jax.ShapeDtypeStruct((16, 16), jnp.int32)
    return lambda: pl.pallas_call(body, out_shape=out)(COUNTS)


def plus_bits(count: Callable[[Any], Any]) -> Function:
    def body(s: Any, x: Any, o: Any) -> None:
        o[...] = x[...] + count(s[0]).astype(jnp.float32)

    return lambda: call(body, jnp.asarray([0xB5]), X, in_specs=[SMEM, pl.BlockSpec()])


COUNTS = jnp.arange(2048).reshape(16, 128) % 301
Refusal = tuple[Function, str, str, Function, Any]
"""What is refused, words of the rule and of the advice, what is written instead, its result."""
INTEGERS = "places and sizes are integers"
BITS = "jnp.max(lax.population_count(jnp.full((8, 128), n)))"
REFUSALS: dict[str, Refusal] = {
    "load from a float": (
        rows(0.0), f"{INTEGERS}, got 0.0", "0 instead of 0.0", rows(0), X,
    ),
    "store to a float": (rows(0, 8.0), INTEGERS, "0 instead of 0.0", rows(8, 8), X),
    "float index": (
        row(1.0), INTEGERS, "0 instead of 0.0", row(1), X.at[1].set(X[0]),
    ),
    "copy from a float": (copied_rows(0.0), INTEGERS, "0 instead of 0.0", copied_rows(0), X),
    "computed float": (
        rows_of_turn(lambda i: i * 16 / 2),
        INTEGERS,
        "n // 2 instead of n / 2",
        rows_of_turn(lambda i: i * 16 // 2),
        X,
    ),
    "scratch in HBM": (
        through_scratch(pltpu.HBM(X.shape, X.dtype)),
        "(%s)",
        "pltpu.VMEM(shape, dtype)",
        through_scratch(pltpu.VMEM(X.shape, X.dtype)),
        X,
    ),
    "scratch anywhere": (
        through_scratch(pl.ANY(X.shape, X.dtype)),
        "(%s)",
        "one result more that nobody reads",
        through_a_result,
        X,
    ),
    "scratch of pl.kernel in HBM": (
        through_a_result_of(pltpu.HBM(X.shape, X.dtype)),
        "(%s)",
        "out_type=[..., jax.ShapeDtypeStruct(shape, dtype)] of pl.kernel",
        through_a_result_of(None),
        X,
    ),
    "flat view": (
        lambda: call(lambda x, o: flat(o, x.reshape(X.size)[...]), X),
        "is not reshaped to (2048,)",
        "reshape its value",
        lambda: call(lambda x, o: flat(o, x[...].reshape(X.size)), X),
        X,
    ),
    "number at a computed place": (
        number_at(pltpu.VMEM),
        "cannot prove that the index in the last dimension",
        "read from SMEM: pl.BlockSpec(memory_space=pltpu.SMEM)",
        number_at(pltpu.SMEM),
        jnp.full(X.shape, X[3, 5]),
    ),
    "copy of a part of tiles": (
        copied_half(lambda x, o, s: pltpu.sync_copy(x.at[pl.ds(3, 8)], o)),
        "cannot slice 8 of 16 rows from 3",
        "or copy the tiles and slice the value",
        copied_half(copies_all),
        X[3:11].astype(jnp.bfloat16).astype(jnp.float32),
    ),
    "large scratch": (
        sums_by_parts(4096),
        "33554432 bytes: scratch %s",
        "scratch that holds a part",
        sums_by_parts(8),
        jnp.zeros_like(X),
    ),
    "too many turns": (
        in_turns(3),
        "at [16, 0] is outside",
        "8 elements of dimension 0 begin at 8 at most: take fewer, loop less far",
        in_turns(2),
        X,
    ),
    "no such number": (
        by_number(4),
        "at [4] is outside",
        "the last index of dimension 0 is 3: loop less far",
        by_number(3),
        3 * X,
    ),
    "product of integers": (
        product(lambda x: x),
        "no matmul of i32 by i32",
        "cast the operands to float32, with precision=lax.Precision.HIGHEST",
        product(lambda x: x.astype(jnp.float32), lax.Precision.HIGHEST),
        np.asarray(COUNTS) @ np.asarray(COUNTS).T,
    ),
    "bits of a scalar": (
        plus_bits(lax.population_count),
        "the scalar unit has no population count",
        BITS,
        plus_bits(lambda n: jnp.max(lax.population_count(jnp.full((8, 128), n)))),
        X + 5,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
@pytest.mark.parametrize("form", ["pallas", "mosaic", "tiles"])
def test_every_form_tells(name: str, form: str) -> None:
    wrong, rule, advice, right, expected = REFUSALS[name]
    with simulate(form=form), pytest.raises(Exception) as caught:
        wrong()
    text = told(caught.value)
    assert rule in text and advice in text
    assert f"{HERE}:" in text
    with simulate(form=form):
        np.testing.assert_allclose(right(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("form", ["pallas", "mosaic"])
def test_elements_of_64_bits(form: str) -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = 2 * x[...]

    with simulate(form=form), jax.enable_x64(True), pytest.raises(Exception) as caught:
        x = jnp.zeros((16, 128), jnp.int64)
        pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
    assert "use int32" in told(caught.value) and "jax.enable_x64(False)" in told(caught.value)


def test_a_copy_that_nobody_waits_for() -> None:
    def body(x: Any, o: Any, s: Any, semaphore: Any) -> None:
        pltpu.make_async_copy(x, s, semaphore).start()
        o[...] = jnp.zeros(o.shape)

    scratch = [pltpu.VMEM(X.shape, X.dtype), pltpu.SemaphoreType.DMA]
    with simulate(checks=("sync",)), pytest.raises(Exception) as caught:
        call(body, X, in_specs=[ANYWHERE], scratch_shapes=scratch)
    text = told(caught.value)
    assert "copy.wait()" in text and "scratch 0 (%s) belongs to the kernel here" in text


@pytest.mark.parametrize("target", TARGETS)
def test_bits_of_a_scalar_on_every_target(target: str) -> None:
    *_, right, expected = REFUSALS["bits of a scalar"]
    with simulate(target, "vreg"):
        np.testing.assert_array_equal(right(), expected)
