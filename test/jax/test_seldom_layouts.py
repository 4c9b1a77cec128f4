"""Values that lie in registers as few kernels have them: parts of small tiles, flat rows, one value
everywhere, blocks without their leading dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.jax import simulate  # noqa: E402

pytestmark = pytest.mark.jax

Case = tuple[Callable[..., None], tuple[int, ...], Any, tuple[int, ...], Any]


def summed_columns(x: Any, o: Any) -> None:
    """From one tile of few rows: rows that begin within a register and end with it."""
    o[...] = jnp.zeros_like(o)
    o[0:1, 0:108] = jnp.sum(x[1, 4:12, 0:108].astype(jnp.int32), axis=0, keepdims=True)


def summed_rows(x: Any, o: Any) -> None:
    """Over several blocks of rows, of which the first two have padding, and no other is whole."""
    o[...] = jnp.max(x[3:14, 5:131], axis=0, keepdims=True)


def narrowed_sum(x: Any, o: Any) -> None:
    o[...] = jnp.sum(x[...], axis=0, keepdims=True).astype(o.dtype)


def part_of_a_row_of_tiles(x: Any, o: Any) -> None:
    """Columns that begin in one tile and end in another, with none between them, and with some."""
    o[...] = jnp.zeros_like(o)
    o[:, 3:207] = x[:, 5:209]
    o[:, 260:300] = x[:, 1:41]
    o[:, 310:512] = x[:, 0:202]


def doubled_rows(x: Any, o: Any) -> None:
    part = jnp.concatenate([x[0, 20:24, 5:128]] * 2, 0)
    o[...] = jnp.zeros_like(o)
    o[0:8, 3:249] = jnp.concatenate([part, part], 1).astype(o.dtype)


def widened_part(x: Any, o: Any) -> None:
    """Packed rows from the middle of a tile on, and columns of its second tile only."""
    o[...] = jnp.zeros_like(o)
    o[0:6, 128:200] = x[1, 25:31, 128:200].astype(jnp.float32)


def narrow_column(x: Any, o: Any) -> None:
    least = jnp.min(x[1, 0:7, 0:20].astype(jnp.int32), axis=1, keepdims=True)
    o[...] = jnp.zeros_like(o)
    o[8:15, 0:1] = least.astype(o.dtype)


def narrowed_rows(x: Any, o: Any) -> None:
    o[...] = x[...].astype(o.dtype)


def one_value(x: Any, o: Any) -> None:
    value = jnp.full((16, 256), x[0, 0])
    o[...] = jnp.roll(value.reshape(32, 128).T, 3, 0)[:, 5:21]


def other_shape(x: Any, o: Any) -> None:
    o[...] = x[...].reshape((4, 4, 2, 72)).reshape((9, 256))


def split_columns(x: Any, o: Any) -> None:
    o[...] = pltpu.einshape("a(bc)->bac", x[...], c=o.shape[2])


def largest_thrice(x: Any, o: Any) -> None:
    """Positions of maxima that a loop carries on."""
    place = lax.broadcasted_iota(jnp.int32, x.shape, 1)

    def step(i: Any, rest: Any) -> Any:
        best = jnp.argmax(rest.astype(jnp.float32), axis=1).reshape(-1, 1)
        return jnp.where(place == best, -1000, rest)

    o[...] = lax.fori_loop(0, 3, step, x[...])


def places_compared(x: Any, o: Any) -> None:
    rows = jnp.broadcast_to(jnp.arange(8, dtype=jnp.uint16).reshape(8, 1), (8, 128))
    columns = jnp.broadcast_to(jnp.arange(128, dtype=jnp.uint16).reshape(1, 128), (8, 128))
    o[...] = (columns >= rows).astype(jnp.uint16) + x[...]


CASES: list[Case] = [
    (summed_columns, (2, 24, 200), jnp.int4, (6, 108), jnp.int32),
    (summed_columns, (2, 24, 200), jnp.int8, (6, 108), jnp.int32),
    (summed_rows, (16, 256), jnp.float32, (1, 126), jnp.float32),
    (summed_rows, (16, 256), jnp.int32, (1, 126), jnp.int32),
    (narrowed_sum, (4, 256), jnp.int32, (1, 256), jnp.int16),
    (narrowed_sum, (2, 384), jnp.float32, (1, 384), jnp.bfloat16),
    *[
        (part_of_a_row_of_tiles, (rows, 256), kind, (rows, 512), kind)
        for rows in (1, 2, 3)
        for kind in (jnp.float32, jnp.bfloat16, jnp.int8, jnp.int4)
    ],
    (doubled_rows, (1, 64, 128), jnp.int8, (8, 309), jnp.bfloat16),
    (doubled_rows, (1, 64, 128), jnp.int16, (8, 309), jnp.int32),
    (widened_part, (4, 32, 200), jnp.bfloat16, (11, 260), jnp.float32),
    (narrow_column, (4, 16, 200), jnp.int4, (15, 61), jnp.int4),
    (narrowed_rows, (2, 256), jnp.int32, (2, 256), jnp.int4),
    (narrowed_rows, (4, 384), jnp.int32, (4, 384), jnp.int8),
    (one_value, (16, 256), jnp.float32, (128, 16), jnp.float32),
    (other_shape, (32, 72), jnp.int8, (9, 256), jnp.int8),
    (split_columns, (64, 4), jnp.uint16, (2, 64, 2), jnp.uint16),
    (split_columns, (64, 256), jnp.uint16, (2, 64, 128), jnp.uint16),
    (largest_thrice, (32, 256), jnp.int32, (32, 256), jnp.int32),
    (places_compared, (8, 128), jnp.uint16, (8, 128), jnp.uint16),
]


def numbers(shape: tuple[int, ...], kind: Any) -> Any:
    low = 0 if jnp.dtype(kind).kind == "u" else -7
    return np.random.default_rng(0).integers(low, 8, shape).astype(np.int32).astype(kind)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_every_form_gives_what_jax_interprets(number: int) -> None:
    body, shape, kind, result, element = CASES[number]
    x, target = numbers(shape, kind), ("v4", "v5e", "v7x")[number % 3]

    def call(interpret: bool = False) -> Any:
        out = jax.ShapeDtypeStruct(result, element)
        space = pltpu.VMEM
        return pl.pallas_call(
            body, out_shape=out, interpret=interpret,
            in_specs=[pl.BlockSpec(memory_space=space)],
            out_specs=pl.BlockSpec(memory_space=space),
        )(x)  # fmt: skip

    expected = np.asarray(call(interpret=True))
    for form in ("pallas", "mosaic", "tiles", "vreg"):
        with simulate(target, form, allow_beyond_reference=True):
            assert np.array_equal(np.asarray(call()), expected), form


def test_a_block_without_its_leading_dimension_is_seen_otherwise() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = x.reshape(4, 2, 128)[...].reshape(8, 128) + 1

    def block(i: Any) -> Any:
        return i, 0, 0

    spec = pl.BlockSpec((None, 8, 128), block)
    x = numbers((3, 8, 128), jnp.float32)
    for form in ("pallas", "mosaic", "vreg"):
        with simulate("v5e", form):
            call = pl.pallas_call(body, out_shape=x, grid=(3,), in_specs=[spec], out_specs=spec)
            assert np.array_equal(np.asarray(call(x)), x + 1), form
