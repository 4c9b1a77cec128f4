"""Kernels in programs with `jax_enable_x64`: what is 64 bits wide is told, and how to go on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

pytestmark = pytest.mark.jax

X = np.arange(2048, dtype=np.float32).reshape(16, 128)
FORMS = ["pallas", "mosaic", "vreg"]


def scaled(x: Any, o: Any) -> None:
    o[...] = x[...] * np.log(2.0)


def looped(x: Any, o: Any) -> None:
    o[...] = lax.fori_loop(0, 2, lambda i, v: jnp.where(i >= 0, v + x[...], v), x[...])


def positions(x: Any, o: Any) -> None:
    o[...] = x[...] + jnp.argmax(x[...], 1, keepdims=True).astype(jnp.float32)


def rolled(x: Any, o: Any) -> None:
    o[...] = pltpu.roll(x[...], 1, 0)


def remainders(x: Any, o: Any) -> None:
    o[...] = x[...]

    @pl.loop(1, 3)
    def _store(i: Any) -> None:
        o[pl.ds(lax.rem(pl.program_id(0), i), 1)] = x[pl.ds(0, 1)]


def pipelined(x: Any, o: Any) -> None:
    def step(a: Any, b: Any) -> None:
        b[...] = a[...] + 1.0

    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    pltpu.emit_pipeline(step, grid=(2,), in_specs=[spec], out_specs=[spec])(x, o)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("body", [scaled, looped, positions, rolled, remainders, pipelined])
def test_the_note_works(body: Any, form: str) -> None:
    hbm = pl.BlockSpec(memory_space=pl.ANY)
    specs = {"in_specs": [hbm], "out_specs": hbm} if body is pipelined else {"grid": (1,)}
    call = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(X.shape, jnp.float32), **specs)
    with simulate(form=form):
        expected = call(X)
        with jax.enable_x64(True):
            try:
                result = call(X)
            except Exception as error:
                told = "\n".join([str(error), *getattr(error, "__notes__", [])])
                assert "with jax.enable_x64(False):" in told
                with jax.enable_x64(False):
                    result = call(X)
    np.testing.assert_array_equal(result, expected)


NUMBERS: dict[str, Any] = {
    "remainder": lambda x: x % 7,
    "of a negative number": lambda x: (x - 500) % -7,
    "quotient": lambda x: x // 3,
    "choice": lambda x: jnp.where(x > 100, x, -5),
    "limits": lambda x: jnp.clip(x, 30, 100),
    "places": lambda x: x + lax.broadcasted_iota(jnp.int32, x.shape, 1) % 4,
    "a place in memory": lambda x: x + pl.program_id(0) % 2,
    "one of many": lambda x: x + jax.nn.one_hot(x[:, 0] % 128, 128, dtype=jnp.int32),
    "more than a word": lambda x: jnp.where(x > 100, x, 5 << 33 | 6),
    "a float's": lambda x: x.astype(jnp.float32) % 7 // 3,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_python_take_the_type_of_what_they_meet(name: str, form: str) -> None:
    """As JAX lowers them: a function of JAX's takes them as 64 bits, and casts."""
    x = np.arange(2048, dtype=np.int32).reshape(16, 128)

    def body(x: Any, o: Any) -> None:
        o[...] = NUMBERS[name](x[...]).astype(jnp.int32)

    block = pl.BlockSpec((16, 128), lambda i: (jnp.int32(0), jnp.int32(0)))
    shape = jax.ShapeDtypeStruct(x.shape, jnp.int32)
    call = pl.pallas_call(body, out_shape=shape, grid=(1,), in_specs=[block], out_specs=block)
    with jax.enable_x64(True), simulate("v6e", form):
        found = call(x)
        expected = pl.pallas_call(body, out_shape=shape, grid=(1,), interpret=True)(x)
    np.testing.assert_array_equal(found, expected)


def test_wide_floats_are_refused_in_every_form() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = jnp.clip(x[...], 0.3, 200.0)

    call = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(X.shape, jnp.float32))
    for form in FORMS:
        with simulate(form=form), pytest.raises(Unsupported, match=r"f64|float64"):
            with jax.enable_x64(True):
                call(X)


@pytest.mark.parametrize("form", FORMS)
def test_wide_operands_are_cast_before_the_call(form: str) -> None:
    """They stay 64 bits wide where the kernel is called with `jax_enable_x64` off."""

    def body(x: Any, o: Any) -> None:
        o[...] = x[...].astype(jnp.float32) * 2

    def program(x: Any) -> Any:
        with jax.enable_x64(False):
            return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, jnp.float32))(x)

    with simulate(form=form), jax.enable_x64(True):
        for wide, name in ((np.float64, "float32"), (np.int64, "int32")):
            with pytest.raises((Unsupported, NotImplementedError)) as caught:
                jax.jit(program)(X.astype(wide))
            told = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
            assert f"x.astype(jnp.{name}) before the call" in told
            found = jax.jit(lambda x, name=name: program(x.astype(name)))(X.astype(wide))
            np.testing.assert_array_equal(found, 2 * X)


def test_index_maps_have_a_line() -> None:
    """JAX gives none to an index map that computes nothing."""
    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    call = pl.pallas_call(
        lambda x, o: o.__setitem__(..., x[...]),
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        grid=(1,),
        in_specs=[spec],
        out_specs=spec,
    )
    with simulate(form="mosaic"), jax.enable_x64(True), pytest.raises(Exception) as caught:
        call(X[:8])
    assert __file__ in str(caught.value) and "enable_x64(False)" in str(caught.value)


def test_a_grid_of_a_wide_size() -> None:
    def ones(o: Any) -> None:
        o[...] = jnp.ones(o.shape, jnp.float32)

    def kernel(n: Any) -> Any:
        shape = jax.ShapeDtypeStruct((8, 128), jnp.float32)
        block = pl.BlockSpec((8, 128), lambda i: (jnp.int32(0), jnp.int32(0)))
        return pl.pallas_call(ones, shape, grid=(n,), out_specs=block)()

    with simulate(form="tiles"), jax.enable_x64(True):
        with pytest.raises(Exception) as caught:
            jax.jit(kernel)(2)
        assert "cast it before the call, jnp.int32(n)" in str(caught.value)
        np.testing.assert_array_equal(jax.jit(kernel)(jnp.int32(2)), np.ones((8, 128)))


def sums(x: Any, o: Any) -> None:
    o[...] = jnp.full(o.shape, lax.fori_loop(0, 8, lambda i, v: v + x[i] * i, x[8]))


def stores(x: Any, o: Any) -> None:
    def step(i: Any, _: Any) -> None:
        o[pl.ds(i, 1), :] = x[pl.ds(i, 1), :] * 2.0

    lax.fori_loop(0, 16, step, None, unroll=3)


def total(x: Any, o: Any) -> None:
    last = lax.fori_loop(0, 8, lambda i, v: v + i, jnp.int32(0))
    o[...] = x[...] + last.astype(jnp.float32)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("body", [sums, stores, total])
def test_a_loop_over_numbers_of_pythons_counts_in_words(body: Any, form: str) -> None:
    call = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(X.shape, jnp.float32))
    with simulate():
        expected = call(X)
    with simulate(form=form), jax.enable_x64(True):
        if body is total and form != "pallas":
            with pytest.raises(Exception, match="trunci"):
                call(X)
        else:
            np.testing.assert_array_equal(call(X), expected)


@pytest.mark.parametrize("form", FORMS)
def test_the_note_about_a_counter_works(form: str) -> None:
    def call(number: Any) -> Any:
        def counted(x: Any, o: Any) -> None:
            o[...] = lax.fori_loop(number(0), 8, lambda i, v: v + x[i * 2], x[...])

        return pl.pallas_call(counted, out_shape=jax.ShapeDtypeStruct(X.shape, jnp.float32))(X)

    with simulate():
        expected = call(int)
    with simulate(form=form), jax.enable_x64(True):
        with pytest.raises(Exception, match="kernels cannot hold elements of type int64") as caught:
            call(int)
        assert "lax.fori_loop(jnp.int32(0), n, ...)" in str(caught.value)
        np.testing.assert_array_equal(call(jnp.int32), expected)
