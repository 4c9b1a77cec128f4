"""First kernels with one mistake each: the line, the rule, and what to write, which works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.diagnostics import KernelWarning  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

from .support import ramp, told  # noqa: E402

pytestmark = pytest.mark.jax

X = ramp(16, 128)
Body = Callable[..., None]


def rank_is_lost(x: Any, o: Any) -> None:
    o[...] = jnp.sum(x[...], axis=1)


def rank_is_kept(x: Any, o: Any) -> None:
    o[...] = jnp.sum(x[...], axis=1, keepdims=True)


def rank_is_added(x: Any, o: Any) -> None:
    o[...] = jnp.sum(x[...], axis=1)[:, None]


def shape_is_given(x: Any, o: Any) -> None:
    o[...] = jnp.sum(x[...], axis=1).reshape(o.shape)


SUMS = np.sum(X, axis=1, keepdims=True)


@pytest.mark.parametrize("form", ["pallas", "tiles"])
@pytest.mark.parametrize("right", [rank_is_kept, rank_is_added, shape_is_given])
def test_a_value_without_the_dimension_of_size_1(right: Body, form: str) -> None:
    def call(body: Body) -> Any:
        return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((16, 1), X.dtype))(X)

    with simulate(form=form):
        with pytest.raises(ValueError, match="Invalid shape for `swap`") as caught:
            call(rank_is_lost)
        note = told(caught.value)
        assert f":{rank_is_lost.__code__.co_firstlineno + 1}:" in note
        assert "keepdims=True" in note and "value[:, None], value.reshape(ref.shape)" in note
        np.testing.assert_array_equal(call(right), SUMS)


def maps_a_ref(x: Any, o: Any) -> None:
    o[...] = jax.jacfwd(lambda r: r[...].sum())(x)


def derives_a_ref(x: Any, o: Any) -> None:
    o[...] = jax.grad(lambda r: r[...].sum())(x)


def derives_a_value(x: Any, o: Any) -> None:
    o[...] = jax.grad(lambda v: (v * v).sum())(x[...])


@pytest.mark.parametrize("wrong", [maps_a_ref, derives_a_ref])
def test_what_is_differentiated_is_a_function_of_values(wrong: Body) -> None:
    def call(body: Body) -> Any:
        return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype))(X)

    with simulate():
        with pytest.raises(ValueError, match="Ref") as caught:
            call(wrong)
        note = told(caught.value)
        assert f":{wrong.__code__.co_firstlineno + 1}:" in note and "(ref[...])" in note
        np.testing.assert_array_equal(call(derives_a_value), 2 * X)


def test_a_block_of_a_pipeline_without_a_map() -> None:
    def piped(block: pl.BlockSpec) -> Any:
        def step(a: Any, b: Any) -> None:
            b[...] = a[...] + 1.0

        def body(x: Any, o: Any) -> None:
            rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
            pltpu.emit_pipeline(step, grid=(2,), in_specs=[block], out_specs=[rows])(x, o)

        hbm = pl.BlockSpec(memory_space=pl.ANY)
        result = jax.ShapeDtypeStruct(X.shape, X.dtype)
        return pl.pallas_call(body, in_specs=[hbm], out_specs=hbm, out_shape=result)(X)

    with simulate():
        with pytest.raises(TypeError, match="not callable") as caught:
            piped(pl.BlockSpec((8, 128)))
        note = told(caught.value)
        assert "pl.BlockSpec(block, lambda i: (i, 0))" in note and "test_first_kernels.py:" in note
        np.testing.assert_array_equal(piped(pl.BlockSpec((8, 128), lambda i: (i, 0))), X + 1)


def names_only(x: Any, o: Any) -> None:
    o = x[...] * 2  # noqa: F841


def leaves_the_rest(x: Any, o: Any) -> None:
    o[0:8] = x[0:8]


@pytest.mark.parametrize(
    ("body", "whole"), [(names_only, True), (leaves_the_rest, False)], ids=["named", "half"]
)
def test_a_result_that_is_only_named(body: Body, whole: bool) -> None:
    call = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype))
    with simulate(checks="init"), pytest.warns(KernelWarning) as caught:
        call(X)
    (warning,) = caught
    assert ("out = value gives a value a name" in str(warning.message)) == whole


def test_a_grid_that_ends_before_its_array() -> None:
    def doubled(x: Any, o: Any) -> None:
        o[...] = x[...] * 2

    def call(steps: int, rows: Any) -> Any:
        block = pl.BlockSpec((16, 128), lambda i: (i, 0))
        return pl.pallas_call(
            doubled,
            grid=(steps,),
            in_specs=[block],
            out_specs=block,
            out_shape=jax.ShapeDtypeStruct(rows.shape, rows.dtype),
        )(rows)

    rows = ramp(40, 128)
    for checks in ((), ("init",)):
        with simulate(checks=checks):
            with pytest.warns(KernelWarning, match=r"pl\.cdiv\(n, size\)"):
                call(40 // 16, rows)
            np.testing.assert_array_equal(call(pl.cdiv(40, 16), rows), 2 * rows)


def stores_a_number(x: Any, o: Any) -> None:
    o[...] = 1.0


def stores_a_full_value(x: Any, o: Any) -> None:
    o[...] = jnp.full(o.shape, 1, o.dtype)


def stores_where(x: Any, o: Any) -> None:
    o[x[...] > 8.0] = 1.0


def chooses(x: Any, o: Any) -> None:
    o[...] = x[...]
    o[...] = jnp.where(x[...] > 8.0, 1.0, o[...])


@pytest.mark.parametrize(
    ("wrong", "advice", "right", "expected"),
    [
        (stores_a_number, "jnp.full(ref.shape, number, ref.dtype)", stores_a_full_value, 1 + 0 * X),
        (stores_where, "jnp.where(mask, value, ref[...])", chooses, jnp.where(X > 8, 1, X)),
    ],
)
def test_stores_of_numbers(wrong: Body, advice: str, right: Body, expected: Any) -> None:
    def call(body: Body) -> Any:
        return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype))(X)

    with simulate():
        with pytest.raises(ValueError, match="Invalid shape for `swap`") as caught:
            call(wrong)
        note = told(caught.value)
        assert f":{wrong.__code__.co_firstlineno + 1}:" in note and advice in note
        np.testing.assert_array_equal(call(right), expected)


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"scratch_shapes": pltpu.VMEM((8, 128), jnp.float32)}, "scratch_shapes=[pltpu.VMEM("),
        (
            {"grid": (2,), "in_specs": [pl.BlockSpec((8, 128), lambda i: (slice(i, i + 1), 0))]},
            "write lambda i: (i, 0)",
        ),
    ],
    ids=["scratch", "slice"],
)
def test_what_describes_a_call(options: dict[str, Any], advice: str) -> None:
    result = jax.ShapeDtypeStruct(X.shape, X.dtype)
    with simulate(), pytest.raises(TypeError) as caught:
        pl.pallas_call(lambda *refs: None, out_shape=result, **options)(X)
    note = told(caught.value)
    assert advice in note and "test_first_kernels.py:" in note
