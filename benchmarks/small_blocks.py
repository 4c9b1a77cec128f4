"""Kernels with many operations on small blocks, of which `run_time.py` measures some steps."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

f32, i32 = jnp.float32, jnp.int32
ROWS = 8
"""Rows of a block."""
COUNT, BINS = 8, 64


def _call(body: Any, x: Any, interpret: Any, rows: int = ROWS, width: int | None = None) -> Any:
    """`body` on each block of so many rows of `x`; the results are `width` wide, else as `x`."""
    width = x.shape[1] if width is None else width
    return pl.pallas_call(
        body, out_shape=jax.ShapeDtypeStruct((x.shape[0], width), x.dtype),
        grid=(x.shape[0] // rows,), in_specs=[pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((rows, width), lambda i: (i, 0)), interpret=interpret,
    )(x)  # fmt: skip


def greatest(x: Any, interpret: Any = False) -> Any:
    """The greatest few elements of each row, one after the other."""

    def body(x_ref: Any, o_ref: Any) -> None:
        lane = jax.lax.broadcasted_iota(i32, x_ref.shape, 1)
        place = jax.lax.broadcasted_iota(i32, o_ref.shape, 1)

        def step(number: Any, carried: Any) -> Any:
            left, found = carried
            top = jnp.max(left, axis=1, keepdims=True)
            first = jnp.min(jnp.where(left == top, lane, 1 << 30), axis=1, keepdims=True)
            found = jnp.where(place == number, top, found)
            return jnp.where(lane == first, -jnp.inf, left), found

        start = x_ref[...], jnp.zeros(o_ref.shape, f32)
        o_ref[...] = jax.lax.fori_loop(0, COUNT, step, start)[1]

    return _call(body, x, interpret, width=128)


def sorted_rows(x: Any, interpret: Any = False) -> Any:
    """Each row sorted, by a bitonic network."""
    width = x.shape[1]

    def body(x_ref: Any, o_ref: Any) -> None:
        x = x_ref[...]
        lane = jax.lax.broadcasted_iota(i32, x.shape, 1)
        size = 2
        while size <= width:
            apart = size // 2
            while apart:
                low, up = (lane & apart) == 0, (lane & size) == 0
                other = jnp.where(low, pltpu.roll(x, width - apart, 1), pltpu.roll(x, apart, 1))
                x = jnp.where(low == up, jnp.minimum(x, other), jnp.maximum(x, other))
                apart //= 2
            size *= 2
        o_ref[...] = x

    return _call(body, x, interpret)


def histogram(x: Any, interpret: Any = False) -> Any:
    """How many elements of each column fall into each bin."""

    def body(x_ref: Any, o_ref: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            o_ref[...] = jnp.zeros_like(o_ref)

        places = jnp.clip((x_ref[...] * 8 + BINS / 2).astype(i32), 0, BINS - 1)
        row = jax.lax.broadcasted_iota(i32, o_ref.shape, 0)

        def step(number: Any, counts: Any) -> Any:
            count = jnp.sum((places == number).astype(i32), axis=0, keepdims=True)
            return jnp.where(row == number, count, counts)

        o_ref[...] += jax.lax.fori_loop(0, BINS, step, jnp.zeros(o_ref.shape, i32))

    return pl.pallas_call(
        body, out_shape=jax.ShapeDtypeStruct((BINS, x.shape[1]), i32), grid=(x.shape[0] // ROWS,),
        in_specs=[pl.BlockSpec((ROWS, x.shape[1]), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((BINS, x.shape[1]), lambda i: (0, 0)), interpret=interpret,
    )(x)  # fmt: skip


def prefix_sums(x: Any, interpret: Any = False) -> Any:
    """Sums along each row up to each element, by doubling distances."""

    def body(x_ref: Any, o_ref: Any) -> None:
        x = x_ref[...]
        lane = jax.lax.broadcasted_iota(i32, x.shape, 1)
        apart = 1
        while apart < x.shape[1]:
            x = x + jnp.where(lane >= apart, pltpu.roll(x, apart, 1), 0.0)
            apart *= 2
        o_ref[...] = x

    return _call(body, x, interpret)


def peaks(x: Any, interpret: Any = False) -> Any:
    """Rows divided by their greatest magnitude, in float32."""

    def body(x_ref: Any, o_ref: Any) -> None:
        x = x_ref[...].astype(f32)
        peak = jnp.max(jnp.abs(x), axis=1, keepdims=True)
        o_ref[...] = (x / jnp.maximum(peak, 1e-6)).astype(o_ref.dtype)

    return _call(body, x, interpret, rows=2 * ROWS)
