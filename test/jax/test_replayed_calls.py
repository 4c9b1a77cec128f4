"""Calls of one kernel, from the first to those that are replayed, on operands that change."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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


def scaled(x: Any, y: Any) -> Any:
    """Each block of `x`, and a sum that goes on from block to block."""

    def body(x: Any, y: Any, o: Any, sums: Any, total: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            total[...] = y[...]

        total[...] += x[...]
        o[...] = x[...] * 2
        sums[...] = total[...]

    block, whole = (
        pl.BlockSpec((8, 128), lambda i: (i, 0)),
        pl.BlockSpec((8, 128), lambda i: (0, 0)),
    )
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(
        body, grid=(x.shape[0] // 8,), in_specs=[block, whole], out_specs=[block, block],
        out_shape=[shape, shape], scratch_shapes=[pltpu.VMEM((8, 128), x.dtype)],
    )(x, y)  # fmt: skip


def of_scaled(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    sums = y + np.add.accumulate(x.reshape(-1, 8, 128), 0)
    return 2 * x, sums.reshape(x.shape)


def integers(numbers: np.random.Generator) -> list[Any]:
    x, y = (numbers.integers(-99, 99, (rows, 128)).astype(np.float32) for rows in (32, 8))
    return [x, y]


def test_results_stay_what_they_are() -> None:
    earlier: list[tuple[Any, ...]] = []
    for operands, found in each_call(scaled, integers):
        earlier.append((of_scaled(*operands), found))
        for array in operands:
            array[...] = 7
        for wanted, known in earlier:
            np.testing.assert_array_equal(np.asarray(known), np.asarray(wanted))


def test_operands_of_any_layout() -> None:
    def make(numbers: np.random.Generator) -> list[Any]:
        x, y = integers(numbers)
        odd = np.repeat(x, 2, 1)[:, ::2], np.asfortranarray(x), x[::-1], x
        x = odd[int(numbers.integers(4))]
        x.flags.writeable = bool(numbers.integers(2))
        return [x, x[:8] if numbers.integers(2) else y]

    for operands, found in each_call(scaled, make):
        np.testing.assert_array_equal(np.asarray(found), np.asarray(of_scaled(*operands)))


def test_threads_and_programs_share_a_kernel() -> None:
    programs = [jax.jit(scaled), jax.jit(lambda x, y: scaled(x, y)), jax.jit(jax.vmap(scaled))]

    def calls(first: int) -> None:
        with simulate():
            for seed in range(first, first + CALLS):
                operands = integers(np.random.default_rng(seed))
                wanted = np.asarray(of_scaled(*operands))
                for program in programs[:2]:
                    np.testing.assert_array_equal(np.asarray(program(*operands)), wanted)
                both = programs[2](*(np.stack([array, array]) for array in operands))
                for number in (0, 1):
                    np.testing.assert_array_equal(
                        np.asarray([found[number] for found in both]), wanted
                    )

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(calls, (0, 100, 200)))


def greatest(x: Any) -> Any:
    """The four greatest elements of each row, in the first lanes of a result."""

    def body(x: Any, o: Any) -> None:
        left = x[...]
        lanes = jax.lax.broadcasted_iota(jnp.int32, left.shape, 1)
        o[...] = -left
        for lane in range(4):
            best = jnp.max(left, axis=1, keepdims=True)
            o[:, lane : lane + 1] = best
            first = jnp.min(jnp.where(left == best, lanes, 256), axis=1, keepdims=True)
            left = jnp.where(lanes == first, -jnp.inf, left)
        o[:, 4:5] += 1

    block = pl.BlockSpec((8, 256), lambda i: (i, 0))
    return pl.pallas_call(
        body, grid=(x.shape[0] // 8,), in_specs=[block], out_specs=block,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x)  # fmt: skip


def test_columns_are_stored_in_parts_of_registers() -> None:
    def make(numbers: np.random.Generator) -> list[Any]:
        return [numbers.permuted(np.arange(32 * 256.0, dtype=np.float32).reshape(32, 256), axis=1)]

    for (x,), found in each_call(greatest, make):
        wanted = -x
        wanted[:, :4] = np.sort(x, axis=1)[:, :-5:-1]
        wanted[:, 4] += 1
        np.testing.assert_array_equal(np.asarray(found), wanted)
