"""Calls of one kernel, from the first to those that are replayed, on operands that change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.interpreter.replay.repeats import BEFORE  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

pytestmark = pytest.mark.jax
CALLS = BEFORE + 3


def gathered(x: Any, places: Any) -> Any:
    """Lanes of each block of 8 rows of `x`, by places that every step writes anew."""

    def body(x: Any, first: Any, o: Any, places: Any) -> None:
        places[...] = (first[...] + 3 * pl.program_id(0)) & 127
        o[...] = jnp.take_along_axis(x[...], places[...], axis=1, mode="promise_in_bounds")

    block = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return pl.pallas_call(
        body, grid=(x.shape[0] // 8,), in_specs=[block, pl.BlockSpec((8, 128), lambda i: (0, 0))],
        out_specs=block, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_shapes=[pltpu.VMEM((8, 128), jnp.int32)],
    )(x, places)  # fmt: skip


def each_call(f: Callable[..., Any], make: Callable[[np.random.Generator], list[Any]]) -> Any:
    """The operands of calls in turn, and what they give."""
    called = simulate()(jax.jit(f))
    for seed in range(CALLS):
        operands = make(np.random.default_rng(seed))
        yield operands, called(*operands)


def test_places_in_memory_that_changes() -> None:
    def make(numbers: np.random.Generator) -> list[Any]:
        x = numbers.standard_normal((48, 128)).astype(np.float32)
        return [x, numbers.integers(0, 128, (8, 128)).astype(np.int32)]

    for (x, places), found in each_call(gathered, make):
        steps = [(places + 3 * step) & 127 for step in range(6)]
        wanted = np.take_along_axis(x, np.concatenate(steps), 1)
        np.testing.assert_array_equal(np.asarray(found), wanted)
