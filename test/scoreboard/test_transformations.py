"""Transformations of JAX and old spellings (spec/pallas_semantics.md section 8.7)."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

from .support import S, call, equal, jax, jnp, noise, pl, pltpu, ramp, refusal, run

pytestmark = pytest.mark.jax
feature = pytest.mark.feature


def add_body(x: Any, y: Any, o: Any) -> None:
    o[...] = x[...] + y[...] * (pl.program_id(0) + 1)


def add(x: Any, y: Any) -> Any:
    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    grid = (x.shape[0] // 8,)
    return call(add_body, S(*x.shape), grid=grid, in_specs=[spec, spec], out_specs=spec)(x, y)


def expected(x: Any, y: Any) -> Any:
    steps = np.arange(x.shape[-2] // 8).repeat(8)[:, None] + 1
    return np.asarray(x) + np.asarray(y) * steps.astype(np.float32)


@feature("V01", "V06")
def test_vmap_adds_a_parallel_axis() -> None:
    from pallasite.jax import trace

    x, y = noise(3, 16, 128), noise(3, 16, 128, seed=1)
    equal(run(jax.vmap(add), x, y), expected(x, y))
    text = str(trace(jax.vmap(add), x, y))
    assert "parallel" in text
    assert re.search(r"3, 2|= 3.*= 2|3 .*, .*2 ", text), text.splitlines()[:3]


@feature("V02")
def test_other_mapped_axes() -> None:
    x, y = noise(3, 16, 128), noise(16, 128, seed=1)
    equal(run(jax.vmap(add, in_axes=(0, None)), x, y), expected(x, y[None]))
    # An axis among the last two would make blocks of one row, which no TPU has.
    rows_first = jax.vmap(lambda x: add(x, y), in_axes=1)
    assert "divisible by 8" in refusal(rows_first, jnp.moveaxis(x, 0, 1))

    def double(x: Any) -> Any:
        def body(x: Any, o: Any) -> None:
            o[...] = x[...] * 2

        spec = pl.BlockSpec((1, 8, 128), lambda i: (i, 0, 0))
        return call(body, S(*x.shape), grid=x.shape[:1], in_specs=[spec], out_specs=spec)(x)

    z = noise(2, 3, 8, 128)
    equal(run(jax.vmap(double, in_axes=1, out_axes=1), z), z * 2)


@feature("V03")
def test_nested_vmap() -> None:
    x, y = noise(2, 3, 16, 128), noise(2, 3, 16, 128, seed=1)
    equal(run(jax.vmap(jax.vmap(add)), x, y), expected(x, y))


@feature("V04")
def test_mapped_prefetch() -> None:
    def gather(table: Any, x: Any) -> Any:
        def body(table_ref: Any, x_ref: Any, o: Any) -> None:
            o[...] = x_ref[...]

        grid = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(2,),
            in_specs=[pl.BlockSpec((8, 128), lambda i, t: (t[i], 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i, t: (i, 0)),
        )
        return call(body, S(16, 128), grid_spec=grid)(table, x)

    tables, x = jnp.array([[1, 0], [2, 2], [0, 1]], jnp.int32), ramp(24, 128)
    result = run(jax.vmap(gather, in_axes=(0, None)), tables, x)
    equal(result, x.reshape(3, 8, 128)[tables].reshape(3, 16, 128))


@feature("V08")
def test_jit_and_scan() -> None:
    x, y = noise(16, 128), noise(16, 128, seed=1)

    def twice(x: Any, y: Any) -> Any:
        return jax.lax.scan(lambda c, _: (jax.jit(add)(c, y), None), x, None, length=2)[0]

    np.testing.assert_allclose(run(twice, x, y), expected(expected(x, y), y), rtol=1e-5)


@feature("V09")
def test_derivatives() -> None:
    def square(x: Any) -> Any:
        def body(x: Any, o: Any) -> None:
            o[...] = x[...] * x[...]

        return call(body, S(8, 128))(x)

    x = noise(8, 128)
    value, tangent = run(lambda x: jax.jvp(square, (x,), (jnp.ones_like(x),)), x)
    equal(value, x * x)
    np.testing.assert_allclose(tangent, 2 * x, rtol=1e-6)
    assert refusal(jax.grad(lambda x: square(x).sum()), x)

    ruled = jax.custom_vjp(square)
    ruled.defvjp(lambda x: (square(x), x), lambda x, g: (2 * x * g,))
    np.testing.assert_allclose(run(jax.grad(lambda x: ruled(x).sum()), x), 2 * x, rtol=1e-6)


@feature("V12")
def test_old_spellings() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...] + 1

    def program(x: Any) -> Any:
        params = pltpu.TPUCompilerParams(dimension_semantics=())
        space = pltpu.TPUMemorySpace.VMEM
        spec = pl.BlockSpec(memory_space=space)
        return call(body, S(8, 128), in_specs=[spec], compiler_params=params)(x)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        equal(run(program, ramp(8, 128)), ramp(8, 128) + 1)
    assert any(issubclass(w.category, DeprecationWarning) for w in caught)
