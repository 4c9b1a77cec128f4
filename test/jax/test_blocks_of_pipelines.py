"""Blocks that only pipelines have: what the notes of a call that asks for them advise runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.jax import simulate  # noqa: E402

from .support import equal, ramp, told  # noqa: E402

pytestmark = pytest.mark.jax

ROWS = np.array([0, 8, 8, 32, 40], np.int32)
"""Where the segments of an array of 40 rows begin; the second has none."""


def added(starts: Any, x: Any, o: Any, segment: Any) -> None:
    row = jax.lax.broadcasted_iota(jnp.int32, x.shape, 0)
    found = jnp.where(row < starts[segment + 1] - starts[segment], x[...], 0)
    o[...] = jnp.sum(found, axis=0, keepdims=True)[None]


def segments(starts: Any) -> Any:
    def rows(i: Any, *_: Any) -> Any:
        start = pl.multiple_of(starts[i], 8)
        return pl.ds(start, pl.multiple_of(starts[i + 1] - start, 8)), 0

    return pl.BlockSpec((pl.BoundedSlice(24), 128), rows)


SUMS = pl.BlockSpec((1, 1, 128), lambda i, *_: (i, 0, 0))
OUT = jax.ShapeDtypeStruct((4, 1, 128), jnp.float32)


@pytest.mark.parametrize("form", ["pallas", "tiles", "vreg"])
def test_bounded_slices(form: str) -> None:
    x = ramp(40, 128)

    def body(starts: Any, x: Any, o: Any) -> None:
        added(starts, x, o, pl.program_id(0))

    bounded = pl.BlockSpec(
        (pl.BoundedSlice(24), 128), lambda i, s: (pl.ds(s[i], s[i + 1] - s[i]), 0)
    )
    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(4,), in_specs=[bounded], out_specs=SUMS
    )
    with simulate(form=form), pytest.raises(Exception, match=r"[Bb]ounded") as refused:
        pl.pallas_call(body, out_shape=OUT, grid_spec=grid)(ROWS, x)
    assert "go through its blocks by pltpu.emit_pipeline" in told(refused.value)

    def through(starts: Any, x: Any, o: Any) -> None:
        def step(x: Any, o: Any) -> None:
            added(starts, x, o, pl.program_id(0))

        pltpu.emit_pipeline(step, grid=(4,), in_specs=[segments(starts)], out_specs=[SUMS])(x, o)

    spaces = [pl.BlockSpec(memory_space=space) for space in (pltpu.SMEM, pl.ANY)]
    with simulate(form=form):
        found = pl.pallas_call(through, out_shape=OUT, in_specs=spaces, out_specs=spaces[1])(
            ROWS, x
        )
    parts = np.split(np.asarray(x), ROWS[1:-1])
    equal(found, np.stack([part.sum(0, keepdims=True) for part in parts]))


@pytest.mark.parametrize("form", ["pallas", "tiles"])
def test_lookahead(form: str) -> None:
    x = ramp(32, 128)
    mode = pl.Buffered(2, use_lookahead=True)
    ahead = pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=mode)
    block, any_space = pl.BlockSpec((8, 128), lambda i: (i, 0)), pl.BlockSpec(memory_space=pl.ANY)
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)

    def body(x: Any, o: Any) -> None:
        o[...] = x[...]

    def through(x: Any, o: Any) -> None:
        pltpu.emit_pipeline(body, grid=(4,), in_specs=[ahead], out_specs=[block])(x, o)

    with simulate(form=form):
        with pytest.raises(Exception, match="lookahead") as refused:
            pl.pallas_call(body, out_shape=out, grid=(4,), in_specs=[ahead], out_specs=block)(x)
        assert "go through its blocks by pltpu.emit_pipeline" in told(refused.value)
        equal(
            pl.pallas_call(through, out_shape=out, in_specs=[any_space], out_specs=any_space)(x), x
        )
