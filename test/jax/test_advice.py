"""What the notes of refused operations advise is accepted and right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

from .support import told  # noqa: E402

pytestmark = pytest.mark.jax

RANDOM = np.random.default_rng(0)
HALVES = [RANDOM.integers(-30000, 30000, (24, 130)).astype(np.int16) for _ in range(2)]
BYTES = [RANDOM.integers(-8, 8, (64, 64)).astype(np.int8) for _ in range(2)]
FLOATS = RANDOM.standard_normal((130, 40)).astype(np.float32)
PLACES = RANDOM.integers(0, 512, (8, 128)).astype(np.int32)
Value = Callable[..., Any]
Advice = tuple[str, str, Value, Value, list[Any], Any]
"""Target, a part of the note, what is refused, what is written instead, operands, result."""


def in_row(x: Any, indices: Any) -> Any:
    return jnp.take_along_axis(x, indices, 1, mode="promise_in_bounds")


def divide(index: Any) -> tuple[Any, Any]:
    return index // 128, index % 128


def from_rows(x: Any, i: Any, j: Any) -> Any:
    found = jnp.zeros(j.shape, x.dtype)
    for r in range(x.shape[0]):
        found = jnp.where(i == r, in_row(jnp.broadcast_to(x[r : r + 1], j.shape), j), found)
    return found


ADVICE: dict[str, Advice] = {
    "gather from a flat vector": (
        "v5e",
        "jnp.take_along_axis(jnp.broadcast_to(x, (8, 100)), jnp.broadcast_to(indices, (8, 100)), 1",
        lambda x, i: jnp.take_along_axis(x, i, 0),
        lambda x, i: in_row(jnp.broadcast_to(x, (8, 100)), jnp.broadcast_to(i, (8, 100)))[0],
        [FLOATS[:100, 0], PLACES.ravel()[:100] % 100],
        FLOATS[PLACES.ravel()[:100] % 100, 0],
    ),
    "gather from a long flat vector": (
        "v6e",
        "gather from each row r of x",
        lambda x, i: jnp.take_along_axis(x, i, 0),
        lambda x, i: from_rows(x.reshape(4, 128), *divide(i.reshape(4, 128))).ravel(),
        [FLOATS.ravel()[:512], PLACES.ravel()[:512]],
        FLOATS.ravel()[PLACES.ravel()[:512]],
    ),
    "gather from one row": (
        "v5e",
        "repeat them first",
        lambda x, i: jnp.take_along_axis(x, i, 1),
        lambda x, i: in_row(jnp.broadcast_to(x, (8, 40)), jnp.broadcast_to(i, (8, 40)))[:1],
        [FLOATS[:1], PLACES[:1, :40] % 40],
        np.take_along_axis(FLOATS[:1], PLACES[:1, :40] % 40, 1),
    ),
    "gather by row and column": (
        "v5e",
        "x[i, j] of few rows",
        lambda x, k: x[k // 128, k % 128],
        lambda x, k: from_rows(x, *divide(k)),
        [FLOATS.ravel()[:512].reshape(4, 128), PLACES],
        FLOATS.ravel()[PLACES],
    ),
    "larger of narrow integers": (
        "v6e",
        "compare as float32",
        jnp.maximum,
        lambda a, b: jnp.maximum(a.astype("float32"), b.astype("float32")).astype("int16"),
        HALVES,
        np.maximum(*HALVES),
    ),
    "larger of narrow integers as int32": (
        "v5e",
        "compare as float32",
        lambda a, b: jnp.maximum(a.astype("int32"), b.astype("int32")).astype("int16"),
        lambda a, b: jnp.maximum(a.astype("float32"), b.astype("float32")).astype("int16"),
        HALVES,
        np.maximum(*HALVES),
    ),
    "product of integers of two widths": (
        "v5e",
        "cast the operands to int8",
        lambda a, b: jnp.dot(a.astype("int4"), b, preferred_element_type="int32"),
        lambda a, b: jnp.dot(a.astype("int4").astype("int8"), b, preferred_element_type="int32"),
        BYTES,
        BYTES[0].astype(np.int32) @ BYTES[1].astype(np.int32),
    ),
    "product of unsigned bytes": (
        "v4",
        "cast both operands to bfloat16, with preferred_element_type=jnp.float32",
        lambda a, b: jnp.dot(a, b, preferred_element_type="int32"),
        lambda a, b: jnp.dot(
            a.astype("bfloat16"), b.astype("bfloat16"), preferred_element_type="float32"
        ).astype("int32"),
        [b.astype(np.uint8) for b in BYTES],
        BYTES[0].astype(np.uint8).astype(np.int32) @ BYTES[1].astype(np.uint8).astype(np.int32),
    ),
    "row of sums without a gather along sublanes": (
        "v4",
        "jnp.sum(x, 1, keepdims=True).T",
        lambda x: jnp.sum(x, 1)[None],
        lambda x: jnp.sum(x, 1, keepdims=True).T,
        [FLOATS],
        FLOATS.sum(1)[None],
    ),
}


@pytest.mark.parametrize("case", ADVICE)
def test_advice(case: str) -> None:
    target, advice, wrong, right, operands, expected = ADVICE[case]

    def run(compute: Value, form: str) -> Any:
        def body(*refs: Any) -> None:
            *inputs, out = refs
            out[...] = compute(*(ref[...] for ref in inputs))

        shape = jax.ShapeDtypeStruct(expected.shape, expected.dtype)
        with simulate(target, form):
            return pl.pallas_call(body, out_shape=shape)(*operands)

    for form in ("pallas", "vreg"):
        with pytest.raises((Unsupported, NotImplementedError)) as caught:
            run(wrong, form)
        assert advice in told(caught.value)
        np.testing.assert_allclose(run(right, form), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", ["v5e", "v6e"])
def test_a_row_is_chosen_where_it_cannot_be_stored(target: str) -> None:
    """A packed row at a place known at run time, as the refusal of its store says to write."""
    row, x = FLOATS[:1].astype("bfloat16"), FLOATS[:32].astype("bfloat16")
    smem = pl.BlockSpec(memory_space=pltpu.SMEM)

    def run(store: Callable[[Any, Any, Any], None]) -> Any:
        def body(place: Any, row: Any, x: Any, out: Any) -> None:
            out[...] = x[...]
            store(out, place[0], row[...])

        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        with simulate(target, "vreg"):
            call = pl.pallas_call(
                body, out_shape=shape, in_specs=[smem, pl.BlockSpec(), pl.BlockSpec()]
            )
            return call(np.array([5], np.int32), row, x)

    def stored(ref: Any, index: Any, value: Any) -> None:
        ref[pl.ds(index, 1), :] = value

    def chosen(ref: Any, index: Any, value: Any) -> None:
        place = jax.lax.broadcasted_iota(jnp.int32, ref.shape, 0)
        ref[...] = jnp.where(place == index, value, ref[...])

    with pytest.raises(Unsupported, match="cannot prove") as caught:
        run(stored)
    assert "jnp.where(lax.broadcasted_iota(jnp.int32, ref.shape, 0) == index" in told(caught.value)
    np.testing.assert_array_equal(run(chosen), np.concatenate([x[:5], row, x[6:]]))
