"""Values as they are mistaken: what a note says, its line, and that the rewrite works."""

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

from .mistakes import (  # noqa: E402
    NUMBER,
    Fault,
    Function,
    X,
    call,
    check,
    of_numbers,
    of_value,
)

pytestmark = pytest.mark.jax

EXACT = lax.Precision.HIGHEST
TABLE = jnp.sort(X[0])


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


def copies_a_part(part: Callable[[Any], Any]) -> Function:
    def body(x: Any, o: Any) -> None:
        pltpu.sync_copy(part(x), o.at[pl.ds(0, 8)])
        pltpu.sync_copy(x.at[pl.ds(8, 8)], o.at[pl.ds(8, 8)])

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return lambda: call(body, X, in_specs=[anywhere], out_specs=anywhere)


def times_axis(index: Callable[[], Any]) -> Function:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...] * index().astype(jnp.float32)

    return lambda: call(body, X, grid=(1,))


def repeats_rows(where: Any) -> Callable[[Any, Any], None]:
    """A kernel that stores the four rows behind row 12, asking for 16."""

    def body(x: Any, o: Any) -> None:
        o[...] = x[...]
        o[where] = x[12:28]

    return body


def repeated(**options: Any) -> Function:
    def sums(s: Any, x: Any) -> Any:
        return lax.fori_loop(0, s[0], lambda _, total: total + x, jnp.zeros_like(x), **options)

    return of_numbers(sums, NUMBER[None])


def hashed(x: Any) -> Any:
    return (x >> 8).astype(jnp.int32).astype(jnp.float32)


def adds(o: Any) -> None:
    o[...] = o[...] + 1


def turns(repeat: Callable[[Any, int], Any]) -> Function:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...]
        repeat(o, x.shape[0])

    return lambda: call(body, X)


def in_bytes(x: Any) -> Any:
    return (40 * x).astype(jnp.int8)


def unpacked(x: Any) -> Any:
    return pltpu.unpack_elementwise(x, index=0, packed_dtype=jnp.int4, unpacked_dtype=jnp.int32)


def nibbles(x: Any) -> Any:
    return (x.astype(jnp.int32) << 28) >> 28


FAULTS: dict[str, Fault] = {
    "nibbles of bytes": (
        of_value(lambda x: unpacked(in_bytes(x)).astype(jnp.float32)),
        "(x.astype(jnp.int32) << 28) >> 28, and x.astype(jnp.int32) >> 4",
        of_value(lambda x: nibbles(in_bytes(x)).astype(jnp.float32)),
        nibbles(in_bytes(X)).astype(jnp.float32),
    ),
    "nibbles of words": (
        of_value(lambda x: unpacked(in_bytes(x))[:4].astype(jnp.float32)),
        "pltpu.bitcast(x, jnp.uint32), of a quarter of the rows",
        of_value(lambda x: unpacked(pltpu.bitcast(in_bytes(x), jnp.uint32))[:1].astype("float32")),
        jnp.broadcast_to(nibbles(in_bytes(X[:1])), X.shape),
    ),
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
    "an array of NumPy": (
        of_numbers(lambda s, x: x * np.array([2, 3, 4, 5])[s[0]], NUMBER[None]),
        "keep tables in SMEM instead of arrays of NumPy: ref[i]",
        of_numbers(lambda s, x: x * s[0], NUMBER[None]),
        X * 3,
    ),
    "item()": (
        of_value(lambda x: x * x[0, 0].item()),
        "as it is",
        of_value(lambda x: x * x[0, 0]),
        X * X[0, 0],
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
    "part": (
        copies_a_part(lambda x: x.at(pl.ds(0, 8))),
        "ref.at[i]",
        copies_a_part(lambda x: x.at[pl.ds(0, 8)]),
        X,
    ),
    "axis": (
        times_axis(lambda: lax.axis_index("core") + 1),
        "pl.program_id(0)",
        times_axis(lambda: pl.program_id(0) + 1),
        X,
    ),
    "unrolled": (repeated(unroll=4), "leave out unroll", repeated(), 3 * X),
    "half a turn": (
        turns(lambda o, n: lax.fori_loop(0, n / 2, lambda i, _: adds(o), None)),
        "n // 2 instead of n / 2",
        turns(lambda o, n: lax.fori_loop(0, n // 2, lambda i, _: adds(o), None)),
        X + 8,
    ),
    "half a turn of @pl.loop": (
        turns(lambda o, n: pl.loop(0, n / 2)(lambda i: adds(o))),
        "n // 2 instead of n / 2",
        turns(lambda o, n: pl.loop(0, n // 2)(lambda i: adds(o))),
        X + 8,
    ),
    "a hash": (
        of_value(lambda x: hashed(x.astype(jnp.int32) * 0x9E3779B9)),
        "jnp.uint32(n)",
        of_value(lambda x: hashed(x.astype(jnp.int32).astype(jnp.uint32) * jnp.uint32(0x9E3779B9))),
        hashed(X.astype(jnp.int32).astype(jnp.uint32) * jnp.uint32(0x9E3779B9)),
    ),
    "all bits": (
        of_value(lambda x: (x.astype(jnp.int32) & 0xFFFFFFFF).astype(x.dtype)),
        "0xFFFFFFFF, as -1",
        of_value(lambda x: (x.astype(jnp.int32) & -1).astype(x.dtype)),
        X.astype(jnp.int32),
    ),
    "dimensions": (
        of_value(lambda x: lax.dot_general(x, x, ((1,), (1,)))[:, :1]),
        "(((1,), (0,)), ((), ()))",
        of_value(lambda x: lax.dot_general(x, x, (((1,), (1,)), ((), ())), EXACT)[:, :1]),
        np.broadcast_to((np.asarray(X) @ np.asarray(X).T)[:, :1], X.shape),
    ),
    "shapes": (
        of_value(lambda x: x + x.sum(1)),
        "keepdims=True",
        of_value(lambda x: x + x.sum(1, keepdims=True)),
        X + X.sum(1, keepdims=True),
    ),
    "sizes": (
        of_value(lambda x: x + x[:8]),
        "jnp.tile(x, (2, 1))",
        of_value(lambda x: x + jnp.tile(x[:8], (2, 1))),
        X + jnp.tile(X[:8], (2, 1)),
    ),
    "rows behind the end": (
        lambda: call(repeats_rows(slice(None)), X),
        "ref[pl.ds(0, n)] = value",
        lambda: call(repeats_rows(pl.ds(0, 4)), X),
        jnp.concatenate([X[12:], X[4:]]),
    ),
    "counted": (
        of_numbers(lambda s, x: jnp.where(jnp.arange(s[0])[None, :] >= 0, x, 0.0), NUMBER[None]),
        "lax.broadcasted_iota(jnp.int32, x.shape, 1) < n",
        of_numbers(
            lambda s, x: jnp.where(lax.broadcasted_iota(jnp.int32, x.shape, 1) < s[0], x, 0.0),
            NUMBER[None],
        ),
        jnp.where(jnp.arange(128) < 3, X, 0),
    ),
    "columns by columns": (
        of_value(lambda x: jnp.dot(x, x[:8], precision=EXACT)[:, :1]),
        "x @ y.T",
        of_value(lambda x: jnp.dot(x, x[:8].T, precision=EXACT)[:, :1]),
        np.broadcast_to((np.asarray(X) @ np.asarray(X[:8]).T)[:, :1], X.shape),
    ),
    "put together": (
        of_value(lambda x: jnp.concatenate([x[:8, :64], x[:, 64:]], axis=1)),
        "y[: x.shape[0]]",
        of_value(lambda x: jnp.concatenate([x[:8, :64], x[:8, 64:]], axis=1)[:1]),
        np.broadcast_to(X[:1], X.shape),
    ),
    "as many elements": (
        of_value(lambda x: x.reshape(3, -1)),
        "take a part first",
        of_value(lambda x: x[:15].reshape(3, 5, 128)[0, :1]),
        np.broadcast_to(X[:1], X.shape),
    ),
    "inverse of narrow floats": (
        of_value(lambda x: lax.erf_inv(jnp.tanh(x).astype(jnp.bfloat16)).astype(x.dtype)),
        "cast the operands to float32",
        of_value(lambda x: lax.erf_inv(jnp.tanh(x).astype(jnp.bfloat16).astype(x.dtype))),
        lax.erf_inv(jnp.tanh(X).astype(jnp.bfloat16).astype(X.dtype)),
    ),
    "infinities of narrow floats": (
        of_value(lambda x: jax.nn.logsumexp(x.astype(jnp.bfloat16), 0).astype(x.dtype)),
        "convert it first: x.astype(jnp.float32)",
        of_value(lambda x: jax.nn.logsumexp(x.astype(jnp.bfloat16).astype(x.dtype), 0)),
        jnp.broadcast_to(jax.nn.logsumexp(X.astype(jnp.bfloat16).astype(X.dtype), 0), X.shape),
    ),
    "checkpoint": (
        of_value(lambda x: jax.checkpoint(jnp.sin)(x)),
        "leave jax.checkpoint out",
        of_value(jnp.sin),
        jnp.sin(X),
    ),
    "examples backwards": (
        of_value(lambda x: jnp.flip(x.reshape(2, 8, 128), 0).reshape(16, 128)),
        "jnp.stack([x[n - 1 - i] for i in range(n)])",
        of_value(
            lambda x: jnp.stack([x.reshape(2, 8, 128)[1 - i] for i in range(2)]).reshape(16, 128)
        ),
        jnp.concatenate([X[8:], X[:8]]),
    ),
    "select": (
        of_value(lambda x: lax.select(x > 0, x, 0.0)),
        "jnp.where(mask, x, 0.0)",
        of_value(lambda x: jnp.where(x > 0, x, 0.0)),
        jnp.maximum(X, 0),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_line_and_what_to_write(name: str) -> None:
    check(FAULTS[name], Path(__file__).name)


def test_functions_of_jax_have_advice_of_their_own() -> None:
    """Whatever primitive it is that JAX makes of them first."""
    with simulate(form="pallas"), pytest.raises(Exception, match="'rev'") as caught:
        of_value(lambda x: jnp.convolve(x[0], x[1], mode="same"))()
    assert "each times its weight" in str(caught.value)
    assert "permutation" not in str(caught.value)
    with simulate(form="pallas"), pytest.raises(Exception, match="'rev'") as caught:
        of_value(lambda x: jnp.flip(x, 1))()
    assert "permutation" in str(caught.value)
