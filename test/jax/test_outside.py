"""Vectors that are read behind the end of a buffer, by kernels that switch bounds checks off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

import pallasite  # noqa: E402
import pallasite.jax  # noqa: E402

pytestmark = pytest.mark.jax

FORMS = ["pallas", "mosaic", "dma", "tiles", "vreg"]
Function = Callable[..., Any]


def table(body: Callable[..., None], dtype: Any, unchecked: bool) -> Function:
    """`body(number, tables, out)` on 4 tables of 8 rows, of which the result is one."""
    return pl.pallas_call(
        body,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(1,),
            in_specs=[pl.BlockSpec((4, 16, 128), lambda i, n: (0, 0, 0))],
            out_specs=pl.BlockSpec((16, 128), lambda i, n: (0, 0)),
        ),
        out_shape=jax.ShapeDtypeStruct((16, 128), dtype),
        compiler_params=pltpu.CompilerParams(disable_bounds_checks=unchecked),
    )


def select(number: Any, tables: Any, out: Any) -> None:
    """Table `number`, zeros if there is none."""
    out[...] = jnp.where(number[0] < 4, tables[number[0]], jnp.zeros_like(out))


def tables(dtype: Any) -> jax.Array:
    return jnp.arange(4 * 16 * 128).reshape(4, 16, 128).astype(dtype)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("number", [3, 4, 1000, -1])
def test_a_block_behind_the_end_is_read_and_not_used(form: str, dtype: Any, number: int) -> None:
    x = tables(dtype)
    with pallasite.jax.simulate(form=form, checks=("race",)):
        y = table(lambda n, t, o: select_from_zero(n, t, o), dtype, True)(jnp.array([number]), x)
        jax.block_until_ready(y)
    expected = x[number] if 0 <= number < 4 else jnp.zeros_like(x[0])
    np.testing.assert_array_equal(np.asarray(y, np.float32), np.asarray(expected, np.float32))


def select_from_zero(number: Any, tables: Any, out: Any) -> None:
    inside = (number[0] >= 0) & (number[0] < 4)
    out[...] = jnp.where(inside, tables[number[0]], jnp.zeros_like(out))


@pytest.mark.parametrize("form", FORMS)
def test_rows_inside_are_right(form: str) -> None:
    """Rows 60 to 75 of 64: the first four exist."""

    def body(number: Any, tables: Any, out: Any) -> None:
        flat = tables.reshape(64, 128)
        rows = flat[pl.ds(pl.multiple_of(number[0], 4), 16)]
        there = number[0] + jax.lax.broadcasted_iota(jnp.int32, rows.shape, 0) < 64
        out[...] = jnp.where(there, rows, -1.0)

    x = tables(jnp.float32)
    with pallasite.jax.simulate(form=form):
        y = table(body, jnp.float32, True)(jnp.array([60]), x)
        jax.block_until_ready(y)
    expected = np.full((16, 128), -1.0, np.float32)
    expected[:4] = np.asarray(x).reshape(64, 128)[60:]
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_known_to_lie_outside(form: str) -> None:
    """A part that is larger than the ref: its first elements are those of the ref."""

    def body(x: Any, out: Any) -> None:
        rows, lanes = (jax.lax.broadcasted_iota(jnp.int32, out.shape, axis) for axis in (0, 1))
        out[...] = jnp.where((rows < 8) & (lanes < 128), x[pl.ds(16), pl.ds(256)], -1.0)

    call = pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((16, 256), jnp.float32),
        compiler_params=pltpu.CompilerParams(disable_bounds_checks=True),
    )
    x = np.arange(8 * 128, dtype=np.float32).reshape(8, 128)
    with pallasite.jax.simulate(form=form):
        y = np.asarray(call(x))
    expected = np.full((16, 256), -1.0, np.float32)
    expected[:8, :128] = x
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("form", FORMS)
def test_without_the_parameter_the_read_is_a_diagnostic(form: str) -> None:
    with pytest.raises(pallasite.Diagnostic) as error, pallasite.jax.simulate(form=form):
        table(select, jnp.float32, False)(jnp.array([4]), tables(jnp.float32))
    assert error.value.code == "out-of-bounds"
    assert "disable_bounds_checks=True" in str(error.value)
    assert error.value.location is not None and error.value.location.file.endswith(
        "test_outside.py"
    )


@pytest.mark.parametrize("form", FORMS)
def test_the_bounds_check_raises_all_the_same(form: str) -> None:
    with (
        pytest.raises(pallasite.Diagnostic) as error,
        pallasite.jax.simulate(form=form, checks=("bounds",)),
    ):
        table(select, jnp.float32, True)(jnp.array([4]), tables(jnp.float32))
    assert error.value.code == "out-of-bounds"
