"""Calls and values as they are mistaken: what a note says, its line, and that the rewrite works."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
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

X = jnp.asarray(np.random.default_rng(0).standard_normal((16, 128)), jnp.float32)
TABLE = jnp.sort(X[0])
BLOCKS = [1, 0]
NUMBER = jnp.int32(3)
SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)
Function = Callable[[], Any]


def call(body: Any, *operands: Any, **options: Any) -> Any:
    out = jax.ShapeDtypeStruct(X.shape, X.dtype)
    return pl.pallas_call(body, out_shape=out, **options)(*operands)


def of_value(compute: Callable[[Any], Any]) -> Function:
    def body(x: Any, o: Any) -> None:
        o[...] = jnp.broadcast_to(compute(x[...]), o.shape)

    return lambda: call(body, X)


def of_numbers(compute: Callable[[Any, Any], Any], numbers: Any) -> Function:
    def body(s: Any, x: Any, o: Any) -> None:
        o[...] = compute(s, x[...])

    return lambda: call(body, numbers, X, in_specs=[SMEM, pl.BlockSpec()])


def sets_a_row(x: Any) -> Any:
    x[3] = 0.0
    return x


def chooses_a_row(x: Any) -> Any:
    index = lax.broadcasted_iota(jnp.int32, x.shape, 0)
    return jnp.where(index == 3, 0.0, x)


def counts_below(table: Any, x: Any) -> Any:
    count = lax.fori_loop(
        0,
        128,
        lambda i, count: count + (table[i] < x).astype(jnp.int32),
        jnp.zeros(x.shape, jnp.int32),
    )
    return count.astype(jnp.float32)


def sums_by_index(x: Any) -> Any:
    return jax.ops.segment_sum(x, jnp.arange(16) // 2, 16)


def sums_by_product(x: Any) -> Any:
    indices = lax.broadcasted_iota(jnp.int32, (16, 16), 1) // 2
    rows = lax.broadcasted_iota(jnp.int32, (16, 16), 0)
    return jnp.dot((rows == indices).astype(x.dtype), x, precision=lax.Precision.HIGHEST)


def sums_of_shifts(x: Any, o: Any) -> None:
    total = sum(x[0:1, 2 - k : 128 - k] * x[1:2, k : k + 1] for k in range(3))
    o[...] = jnp.broadcast_to(jnp.pad(total, ((0, 0), (0, 2))), o.shape)


def scaled(x: Any, o: Any) -> None:
    o[...] = 2 * x[...]


def closes_over_a_number() -> Any:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...] * number

    number = 2 * jnp.float32(1)
    return call(body, X)


def maps_by_a_number() -> Any:
    def blocks(number: Any) -> Any:
        moved = pl.BlockSpec((8, 128), lambda i: ((i + number) % 2, 0))
        still = pl.BlockSpec((8, 128), lambda i: (i, 0))
        return call(scaled, X, grid=(2,), in_specs=[moved], out_specs=still)

    return jax.jit(blocks)(NUMBER)


def maps_by_what_is_prefetched() -> Any:
    def blocks(number: Any) -> Any:
        spec = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(2,),
            in_specs=[pl.BlockSpec((8, 128), lambda i, n: ((i + n[0]) % 2, 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i, n: (i, 0)),
        )
        body = lambda n, x, o: scaled(x, o)  # noqa: E731
        return call(body, jnp.reshape(number, (1,)), X, grid_spec=spec)

    return jax.jit(blocks)(NUMBER)


def mapped(index_map: Any) -> Any:
    blocks = [pl.BlockSpec((8, 128), index_map)]
    still = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return call(scaled, X, grid=(2,), in_specs=blocks, out_specs=still)


def maps_by_a_table() -> Any:
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(2,),
        in_specs=[pl.BlockSpec((8, 128), lambda i, table: (table[i], 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i, table: (i, 0)),
    )
    return call(lambda table, x, o: scaled(x, o), jnp.asarray(BLOCKS), X, grid_spec=spec)


def in_blocks(size: Any) -> Any:
    block = pl.BlockSpec((size, 128), lambda i: (i, 0))
    return call(scaled, X, grid=(pl.cdiv(16, size),), in_specs=[block], out_specs=block)


def with_scratch(semaphore: Any) -> Any:
    return call(lambda x, o, s: scaled(x, o), X, scratch_shapes=[semaphore])


def with_semantics(words: Any) -> Any:
    params = pltpu.CompilerParams(dimension_semantics=words)
    return call(scaled, X, grid=(1,), compiler_params=params)


def with_spec(spec: Any) -> Any:
    return call(scaled, X, grid=(1,), in_specs=[spec])


BLOCK_MAP: Any = lambda i: (0, 0)  # noqa: E731
SWAPPED: Any = pl.BlockSpec(BLOCK_MAP, (16, 128))
FAULTS: dict[str, tuple[Function, str, Function, Any]] = {
    "items": (
        of_value(sets_a_row),
        "jnp.where(index == i, value, x)",
        of_value(chooses_a_row),
        X.at[3].set(0.0),
    ),
    "places": (
        of_value(lambda x: jnp.nonzero(x)[0][0]),
        "jnp.where(mask, x, 0)",
        of_value(lambda x: jnp.where(x > 0, x, 0)),
        jnp.maximum(X, 0),
    ),
    "item()": (
        of_value(lambda x: x * x[0, 0].item()),
        "as it is",
        of_value(lambda x: x * x[0, 0]),
        X * X[0, 0],
    ),
    "rank 0": (
        of_numbers(lambda s, x: x * s[0], 2.0),
        "read it with ref[...]",
        of_numbers(lambda s, x: x * s[...], 2.0),
        2 * X,
    ),
    "one element": (
        of_numbers(lambda s, x: x * s[0], 2.0),
        "jnp.reshape(x, (1,))",
        of_numbers(lambda s, x: x * s[0], jnp.reshape(2.0, (1,))),
        2 * X,
    ),
    "roll": (
        of_numbers(lambda s, x: jnp.roll(x, s[0], 1), NUMBER[None]),
        "pltpu.roll(x, shift, axis)",
        of_numbers(lambda s, x: pltpu.roll(x, s[0], 1), NUMBER[None]),
        jnp.roll(X, 3, 1),
    ),
    "search": (
        of_numbers(lambda s, x: jnp.searchsorted(x[0], x).astype(x.dtype), NUMBER[None]),
        "count + (table[i] < x)",
        of_numbers(counts_below, TABLE),
        np.searchsorted(TABLE, X),
    ),
    "sums": (
        of_value(sums_by_index),
        "jnp.dot((rows == indices)",
        of_value(sums_by_product),
        np.concatenate([np.asarray(X).reshape(8, 2, 128).sum(1), np.zeros((8, 128))]),
    ),
    "convolution": (
        of_value(lambda x: jnp.convolve(x[0], x[1, :3], mode="same")),
        "each times its weight",
        lambda: call(sums_of_shifts, X),
        np.broadcast_to(np.convolve(X[0], X[1, :3], "valid").tolist() + [0.0] * 2, X.shape),
    ),
    "number": (
        closes_over_a_number,
        "jnp.reshape(n, (1,))",
        of_numbers(lambda s, x: x * s[0], jnp.reshape(2.0, (1,))),
        2 * X,
    ),
    "map": (
        maps_by_a_number,
        "num_scalar_prefetch=1",
        maps_by_what_is_prefetched,
        2 * jnp.roll(X, 8, 0),
    ),
    "size": (
        lambda: jax.jit(in_blocks)(8),
        "static_argnums",
        lambda: jax.jit(in_blocks, static_argnums=0)(8),
        2 * X,
    ),
    "semaphore": (
        lambda: with_scratch(pltpu.SemaphoreType),
        "pltpu.SemaphoreType.DMA((n,))",
        lambda: with_scratch(pltpu.SemaphoreType.DMA),
        2 * X,
    ),
    "semantics": (
        lambda: with_semantics("parallel"),
        '("parallel",)',
        lambda: with_semantics(("parallel",)),
        2 * X,
    ),
    "result": (
        lambda: pl.pallas_call(scaled, out_shape=(16, 128))(X),  # pyright: ignore
        "jax.ShapeDtypeStruct(shape, dtype)",
        lambda: pl.pallas_call(scaled, out_shape=jax.ShapeDtypeStruct((16, 128), X.dtype))(X),
        2 * X,
    ),
    "scratch": (
        lambda: with_scratch(pltpu.VMEM),
        "pltpu.VMEM(shape, dtype)",
        lambda: with_scratch(pltpu.VMEM((8, 128), jnp.float32)),
        2 * X,
    ),
    "map with if": (
        lambda: mapped(lambda i: (1 if i == 0 else 0, 0)),
        "jnp.where(i == 0, 1, 0)",
        lambda: mapped(lambda i: (jnp.where(i == 0, 1, 0), 0)),
        2 * jnp.roll(X, 8, 0),
    ),
    "map by a table": (
        lambda: mapped(lambda i: (BLOCKS[i], 0)),
        "lambda i, table: (table[i], 0)",
        maps_by_a_table,
        2 * jnp.roll(X, 8, 0),
    ),
    "map without a number": (
        lambda: mapped(lambda i: (i, None)),
        "write 0",
        lambda: mapped(lambda i: (i, 0)),
        2 * X,
    ),
    "map that asks": (
        lambda: mapped(lambda i: (pl.program_id(0), 0)),
        "take it as a parameter",
        lambda: mapped(lambda i: (i, 0)),
        2 * X,
    ),
    "spec": (
        lambda: with_spec(SWAPPED),
        "pl.BlockSpec(block_shape, index_map)",
        lambda: with_spec(pl.BlockSpec((16, 128), BLOCK_MAP)),
        2 * X,
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_line_and_what_to_write(name: str) -> None:
    wrong, advice, right, expected = FAULTS[name]
    with simulate(), pytest.raises(Exception) as caught:
        wrong()
    note = "\n".join(caught.value.__notes__)
    assert advice in note and f"{Path(__file__).name}:" in note
    with simulate():
        np.testing.assert_allclose(right(), expected, rtol=1e-5, atol=1e-5)


def test_functions_of_jax_have_advice_of_their_own() -> None:
    """Whatever primitive it is that JAX makes of them first."""
    with simulate(form="pallas"), pytest.raises(Exception, match="'rev'") as caught:
        of_value(lambda x: jnp.convolve(x[0], x[1], mode="same"))()
    assert "each times its weight" in str(caught.value)
    assert "permutation" not in str(caught.value)
    with simulate(form="pallas"), pytest.raises(Exception, match="'rev'") as caught:
        of_value(lambda x: jnp.flip(x, 1))()
    assert "permutation" in str(caught.value)
