"""Random kernels of several operations, in the manner of what people write.

Drawn by `old_passes_child.py`, beside its kernels of one operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from old_passes_blocks import (
    Draw,
    Kernel,
    any_type,
    bf16,
    block,
    columns,
    f32,
    few,
    float_type,
    i8,
    i32,
    like,
    made,
    numbered,
    rows,
)
from old_passes_moved import (
    chosen_rows,
    grouped,
    halves,
    heads,
    joined,
    permuted,
    spaced,
    turned,
)


def statistics(draw: Draw) -> Kernel:
    """A layer norm along any axis, with or without weights."""
    s, dtype = block(draw), float_type(draw)
    axis, weighted = draw.choice([len(s) - 1, len(s) - 1, len(s) - 2, 0]), draw.random() < 0.5

    def norm(x: Any, *weights: Any) -> Any:
        x = x.astype(f32)
        mean = jnp.mean(x, axis, keepdims=True)
        y = (x - mean) * lax.rsqrt(jnp.mean((x - mean) ** 2, axis, keepdims=True) + 1e-3)
        return (y * weights[0] + weights[1] if weights else y).astype(dtype)

    weights = like(draw.choice([(1, s[-1]), (s[-1],)]), f32)
    return made(norm, like(s, dtype), *[weights] * 2 * weighted)


def masked(draw: Draw) -> Kernel:
    """A mask from positions: up to a row or column, a triangle, or a band."""
    s, dtype = block(draw), any_type(draw)
    r, c, k, w = len(s) - 2, len(s) - 1, draw.randrange(64), draw.randint(1, 64)
    mask = draw.choice([
        lambda: numbered(s, r) < k, lambda: numbered(s, c) >= k,
        lambda: numbered(s, r) >= numbered(s, c), lambda: numbered(s, r) + k >= numbered(s, c),
        lambda: (numbered(s, c) >= k) & (numbered(s, c) < k + w),
        lambda: abs(numbered(s, r) - numbered(s, c)) < w, lambda: numbered(s, 0) != 1,
    ])  # fmt: skip
    other = draw.choice([0, -30])
    return made(lambda x: jnp.where(mask(), x, jnp.full_like(x, other)), like(s, dtype))


def running(draw: Draw) -> Kernel:
    """A step of a softmax over blocks, with its maxima and sums as columns or whole registers."""
    r, c, d = rows(draw), columns(draw), columns(draw)
    wide = draw.choice([1, 1, 128])

    def step(x: Any, v: Any, m: Any, old: Any) -> Any:
        top = jnp.maximum(m, jnp.max(x, -1, keepdims=True))
        p = jnp.exp(x - top[:, :1])
        new = jnp.dot(p.astype(v.dtype), v, preferred_element_type=f32)
        return old * jnp.exp(m - top)[:, :1] + new / jnp.sum(p, -1, keepdims=True)

    dtype = float_type(draw)
    old = like((r, d), f32)
    return made(step, like((r, c), f32), like((c, d), dtype), like((r, wide), f32), old)


def scaled(draw: Draw) -> Kernel:
    """Packed numbers and their scales, one per row, column or element of a leading dimension."""
    s, packed = block(draw), draw.choice([i8, i8, bf16, jnp.int16])
    dims = tuple(n if draw.random() < 0.5 else 1 for n in s)
    wide = draw.choice([f32, bf16])
    return made(lambda x, y: (x.astype(f32) * y).astype(wide), like(s, packed), like(dims, f32))


def quantized(draw: Draw) -> Kernel:
    """Numbers that are scaled by the largest of their row or column, and packed."""
    s, axis = block(draw), draw.choice([-1, -1, -2])
    packed, dtype = draw.choice([i8, i8, bf16]), float_type(draw)

    def pack(x: Any) -> Any:
        scale = jnp.max(jnp.abs(x.astype(f32)), axis, keepdims=True) + 1
        y = x.astype(f32) / scale * 100
        return jnp.clip(jnp.round(y), -100, 100).astype(packed)

    return made(pack, like(s, dtype))


def in_turns(draw: Draw) -> Kernel:
    """A loop over rows, blocks of rows or a leading dimension."""
    s, dtype = block(draw), any_type(draw)
    axis = draw.randrange(len(s) - 1)
    sizes = [n for n in (1, 2, 4, 8, 16) if s[axis] % n == 0]
    size = draw.choice(sizes)
    before, kind = (slice(None),) * axis, draw.choice(["whole", "reduced", "index"])

    def body(x: Any, o: Any) -> None:
        @pl.loop(0, s[axis] // size)
        def _(i: Any) -> None:
            where = (*before, i if kind == "index" and size == 1 else pl.ds(i * size, size))
            value = x[where]
            if kind == "reduced":
                value = value + jnp.sum(value.astype(f32), -1, keepdims=True).astype(dtype)
            o[where] = value + value

    return body, [like(s, dtype)], like(s, dtype)


def folded(draw: Draw) -> Kernel:
    """A reduction over any axes, kept or not, and often combined with the block again."""
    s, dtype = block(draw, draw.choice([2, 3, 3, 4])), draw.choice([f32, f32, bf16, i32])
    axes = tuple(sorted(draw.sample(range(len(s)), draw.randint(1, len(s) - 1))))
    fold = draw.choice([jnp.sum, jnp.max, jnp.min])
    if draw.random() < 0.5:
        return made(lambda x: x - fold(x, axis=axes, keepdims=True), like(s, dtype))
    return made(lambda x: fold(x + x, axis=axes), like(s, dtype))


def batched(draw: Draw) -> Kernel:
    """Products of matrices in one leading dimension, contracted along any axis."""
    b, m, k, n = few(draw), rows(draw), columns(draw), draw.choice([rows(draw), columns(draw)])
    dtype = draw.choice([f32, bf16, bf16, i8])
    first, second = draw.choice([((b, m, k), 2), ((b, m, k), 2), ((b, k, m), 1)]), draw.choice(
        [((b, n, k), 2), ((b, k, n), 1)])  # fmt: skip
    numbers = (((first[1],), (second[1],)), ((0,), (0,)))
    wide = i32 if dtype == i8 else f32
    return made(
        lambda x, y: lax.dot_general(x, y, numbers, preferred_element_type=wide),
        like(first[0], dtype), like(second[0], dtype),
    )  # fmt: skip


def chain(draw: Draw) -> Kernel:
    """Choices behind one another, between blocks, rows, columns and numbers."""
    s, dtype = block(draw), any_type(draw)
    part = lambda: like(tuple(n if draw.random() < 0.6 else 1 for n in s), dtype)  # noqa: E731
    k = draw.randint(-4, 4)
    return draw.choice([
        lambda: made(
            lambda x, y: jnp.where(x > y, x, jnp.where(x < k, y, k)), like(s, dtype), part()),
        lambda: made(
            lambda x, y, z: jnp.where((x > y) & (y != z), x, jnp.where(x == z, y, z)),
            like(s, dtype), part(), part()),
        lambda: made(lambda x: jnp.clip(jnp.where(x < 0, x + x, x), -20, 20), like(s, dtype)),
        lambda: made(lambda x, y: jnp.maximum(jnp.minimum(x, y), -x), like(s, dtype), part()),
    ])()  # fmt: skip


def cumulative(draw: Draw) -> Kernel:
    """Sums up to every place: by a loop over an axis, or by shifts of doubling lengths."""
    s, dtype = block(draw, draw.choice([2, 2, 3])), draw.choice([f32, f32, bf16, i32])
    axis = draw.randrange(len(s))
    if draw.random() < 0.5 and axis < len(s) - 1:

        def body(x: Any, o: Any) -> None:
            def turn(i: Any, total: Any) -> Any:
                where = (*[slice(None)] * axis, pl.ds(i, 1))
                o[where] = (total + x[where]).astype(dtype)
                return total + x[where]

            start = jnp.zeros(tuple(1 if d == axis else n for d, n in enumerate(s)), dtype)
            lax.fori_loop(0, s[axis], turn, start)

        return body, [like(s, dtype)], like(s, dtype)
    places = range(min(3, s[axis].bit_length() - 1))

    def doubling(x: Any) -> Any:
        for k in places:
            x = x + jnp.where(numbered(s, axis) >= 1 << k, jnp.roll(x, 1 << k, axis), 0)
        return x

    return made(doubling, like(s, dtype))


def gated(draw: Draw) -> Kernel:
    """The halves of the columns, one of them the gate of the other."""
    r, c, dtype = rows(draw), columns(draw), float_type(draw)

    def gate(x: Any) -> Any:
        a, b = x[:, :c].astype(f32), x[:, c:].astype(f32)
        return (a * jax.nn.sigmoid(a) * b).astype(dtype)

    return made(gate, like((r, 2 * c), dtype))


def one_hot(draw: Draw) -> Kernel:
    """Numbers that name a column or a row, as a mask or a matrix that selects."""
    r, c, dtype = rows(draw), columns(draw), draw.choice([f32, bf16])
    along = draw.choice([(r, 1), (1, c), (r,), (c,)])
    if len(along) == 1:
        place = lambda x: x[:, None] if along == (r,) else x[None, :]  # noqa: E731
    else:
        place = lambda x: x  # noqa: E731
    axis = 1 if along[0] == r else 0
    return made(lambda x: (numbered((r, c), axis) == place(x)).astype(dtype), like(along, i32))


def shifted_sum(draw: Draw) -> Kernel:
    """A convolution along an axis: shifted parts times weights."""
    s, dtype = block(draw, draw.choice([2, 2, 3])), float_type(draw)
    axis, n = draw.randrange(len(s)), draw.choice([2, 3, 4])
    s = tuple(e + n if d == axis else e for d, e in enumerate(s))
    part = lambda x, k: lax.slice_in_dim(x, k, k + s[axis] - n, axis=axis)  # noqa: E731
    return made(lambda x: sum(part(x, k) * (k + 1) for k in range(n)), like(s, dtype))


def pooled(draw: Draw) -> Kernel:
    """Rows or whole groups of columns that are folded in equal numbers."""
    r, c, n = rows(draw), columns(draw), draw.choice([2, 4, 8])
    dtype, fold = draw.choice([f32, f32, bf16]), draw.choice([jnp.max, jnp.sum])
    return draw.choice([
        lambda: made(lambda x: fold(x.reshape(r, n, c), 1), like((r * n, c), dtype)),
        lambda: made(lambda x: fold(x.reshape(n, r, c), 0), like((r * n, c), dtype)),
        lambda: made(lambda x: fold(x.reshape(r, n, 128), 1), like((r, n * 128), dtype)),
        lambda: made(lambda x: fold(x.reshape(r, n, 128), 2), like((r, n * 128), dtype)),
    ])()  # fmt: skip


def diagonal(draw: Draw) -> Kernel:
    """The diagonal of a matrix as a row or a column, or a row that becomes a column."""
    n = draw.choice([8, 16, 64, 128, 128, draw.randint(2, 128)])
    dtype = draw.choice([f32, f32, i32])
    axis, kept = draw.randrange(2), draw.random() < 0.7
    same = lambda: numbered((n, n), 0) == numbered((n, n), 1)  # noqa: E731
    return made(
        lambda x: jnp.sum(jnp.where(same(), x, 0), axis, keepdims=kept),
        like(draw.choice([(n, n), (1, n), (n, 1)]), dtype),
    )  # fmt: skip


def outer(draw: Draw) -> Kernel:
    """A column against a row, from matrices or from flat vectors."""
    r, c, dtype = rows(draw), columns(draw), any_type(draw)
    if draw.random() < 0.5:
        return made(lambda x, y: x[:, :1] + y[:1], like((r, c), dtype), like((r, c), dtype))
    return made(lambda x, y: x[:, None] + y[None, :], like((r,), f32), like((c,), f32))


def flat(draw: Draw) -> Kernel:
    """Flat vectors: of part of a matrix, into one, in pieces, or folded."""
    r, c, dtype = rows(draw), columns(draw), draw.choice([f32, f32, bf16, i32])
    b, n = draw.randrange(c), c
    return draw.choice([
        lambda: made(lambda x: x[b:] + x[b:], like((n,), dtype)),
        lambda: made(lambda x: jnp.concatenate([x[b:], x[:b]]) if b else x, like((n,), dtype)),
        lambda: made(lambda x: x[r // 2] + x[0], like((r, c), dtype)),
        lambda: made(lambda x: jnp.broadcast_to(x, (r, c)) + x, like((c,), dtype)),
        lambda: made(lambda x: jnp.max(x, 1), like((r, c), dtype)),
        lambda: made(lambda x: jnp.max(x, 0)[b:], like((r, c), dtype)),
        lambda: made(lambda x: x.reshape(1, n) + 1, like((n,), dtype)),
        lambda: made(lambda x: x[:, 0] + x[:, c // 2], like((r, c), dtype)),
    ])()  # fmt: skip


def nibbles(draw: Draw) -> Kernel:
    """Bits taken out of integers, or put together, and read as another type."""
    s = block(draw, 2)
    dtype = draw.choice([i32, i32, i8, jnp.int16])
    return draw.choice([
        lambda: made(lambda x: (x >> 4) & 15, like(s, dtype)),
        lambda: made(lambda x: ((x << 4) >> 4).astype(f32), like(s, i32)),
        lambda: made(
            lambda x: jnp.concatenate([(x & 15), (x >> 4) & 15], 0).astype(bf16), like(s, i32)),
        lambda: made(lambda x: (x.astype(i32) >> 1).astype(i8), like(s, i8)),
        lambda: made(
            lambda x: pltpu.bitcast(x, i32) + 1, like((s[0] * 4, s[1]), draw.choice([i8, f32]))),
    ])()  # fmt: skip


WRITTEN: dict[str, Callable[[Draw], Kernel]] = {
    f.__name__: f
    for f in (
        statistics, masked, running, scaled, quantized, in_turns, spaced, permuted, heads, halves,
        joined, grouped, folded, turned, batched, chain, cumulative, gated, one_hot, shifted_sum,
        pooled, diagonal, outer, flat, nibbles, chosen_rows,
    )
}  # fmt: skip
