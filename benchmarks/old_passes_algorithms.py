"""Random steps of sorting, coding, signal processing and simulation as kernels.

`old_passes_child.py` draws them with `algorithms`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from old_passes_blocks import (
    Draw,
    Kernel,
    bf16,
    columns,
    f32,
    float_type,
    i8,
    i32,
    like,
    made,
    numbered,
    rows,
)


def bits_put_together(draw: Draw) -> Kernel:
    """Small numbers put into words, rows below rows or masks into bits, and taken apart."""
    r, c, bits = draw.choice([1, 2, 8, 8, 16, 5]), columns(draw), draw.choice([1, 2, 4, 8])
    n = 8 // bits if bits < 8 else 4
    source = draw.choice([i32, i32, i8])
    low = (1 << bits) - 1

    def together(x: Any) -> Any:
        parts = [(x[i * r : (i + 1) * r].astype(i32) & low) << bits * i for i in range(n)]
        return sum(parts[1:], parts[0])

    def between(x: Any) -> Any:
        y = x.astype(i32).reshape(r, n, c) & low
        return jnp.sum(y << (numbered((r, n, c), 1) * bits), 1)

    def apart(x: Any) -> Any:
        y = x.astype(i32)
        return jnp.concatenate([(y >> bits * i) & low for i in range(n)], 0).astype(source)

    def ballot(x: Any) -> Any:
        y = jnp.where(x.astype(i32) > 0, 1, 0).reshape(r, n, c)
        return jnp.sum(y << numbered((r, n, c), 1), 1)

    return draw.choice([
        lambda: made(together, like((n * r, c), source)),
        lambda: made(between, like((n * r, c), source)),
        lambda: made(apart, like((r, c), source)),
        lambda: made(ballot, like((n * r, c), source)),
    ])()  # fmt: skip


def sorted_by_pairs(draw: Draw) -> Kernel:
    """A few stages of a bitonic network along rows or lanes, in words or in the leading rows."""
    r, c = draw.choice([8, 16, 32]), draw.choice([128, 256])
    dtype, axis = draw.choice([f32, f32, i32, bf16]), draw.randrange(2)

    def stage(x: Any, k: int, j: int) -> Any:
        at = numbered((r, c), axis)
        low, n = (at & j) == 0, x.shape[axis]
        other = jnp.where(low, pltpu.roll(x, n - j, axis), pltpu.roll(x, j, axis))
        up = ((at & k) == 0) == low
        return jnp.where(up, jnp.minimum(x, other), jnp.maximum(x, other))

    def network(x: Any) -> Any:
        y = x.astype(f32) if dtype == bf16 else x
        for k, j in ((2, 1), (4, 2), (4, 1)):
            y = stage(y, k, j)
        return y

    def leading(x: Any) -> Any:
        parts = [x[i] for i in range(4)]
        for a, b in ((0, 1), (2, 3), (0, 2), (1, 3), (1, 2)):
            parts[a], parts[b] = jnp.minimum(parts[a], parts[b]), jnp.maximum(parts[a], parts[b])
        return jnp.stack(parts)

    return draw.choice([
        lambda: made(network, like((r, c), dtype)),
        lambda: made(leading, like((4, r, c), dtype)),
        lambda: made(leading, like((4, rows(draw), columns(draw)), dtype)),
    ])()  # fmt: skip


def segments(draw: Draw) -> Kernel:
    """Sums of runs that begin where a flag is set, or what is new against the element before."""
    r, c, dtype = rows(draw), columns(draw), draw.choice([f32, i32, f32])

    def scanned(x: Any, begins: Any) -> Any:
        total, flags = x, begins
        for k in (1, 2, 4):
            here = numbered((r, c), 0) >= k
            before = jnp.where(here & (flags == 0), jnp.roll(total, k, 0), 0)
            flags = flags | jnp.where(here, jnp.roll(flags, k, 0), 1)
            total = total + before
        return total

    def summed(x: Any, ids: Any) -> Any:
        return jnp.concatenate(
            [jnp.sum(jnp.where(ids == i, x, 0), 0, keepdims=True) for i in range(5)], 0
        )

    def changes(x: Any) -> Any:
        return jnp.where(x[1:] != x[:-1], 1, 0)

    return draw.choice([
        lambda: made(scanned, like((r, c), dtype), like((r, c), i32)),
        lambda: made(summed, like((r, c), dtype), like((r, 1), i32)),
        lambda: made(changes, like((r + 1, c), dtype)),
    ])()  # fmt: skip


def transformed(draw: Draw) -> Kernel:
    """Stages of a Fourier transform: of planes of rows or lanes, or as products."""
    r, c, dtype = draw.choice([8, 16, 32, 4, 6]), columns(draw), f32
    n = r // 2

    def stage(x: Any, y: Any, u: Any, v: Any) -> Any:
        a, b, p, q = x[:n], x[n:], y[:n], y[n:]
        re, im = b * u - q * v, b * v + q * u
        return jnp.concatenate([a + re, a - re, p + im, p - im], 0)

    def between(x: Any, u: Any) -> Any:
        y = x.reshape(n, 2, c)
        a, b = y[:, 0], y[:, 1] * u
        return jnp.stack([a + b, a - b], 1).reshape(r, c)

    def product(x: Any, y: Any, u: Any, v: Any) -> Any:
        times = lambda s, t: jnp.dot(s, t, preferred_element_type=f32)  # noqa: E731
        return jnp.concatenate([times(x, u) - times(y, v), times(x, v) + times(y, u)], 0)

    s, w = like((r, c), dtype), like((n, 1), f32)
    return draw.choice([
        lambda: made(stage, s, s, w, w),
        lambda: made(stage, s, s, like((n, c), f32), like((n, c), f32)),
        lambda: made(between, s, w),
        lambda: made(product, s, s, like((c, c), dtype), like((c, c), dtype)),
    ])()  # fmt: skip


def small_matrices(draw: Draw) -> Kernel:
    """Many small matrices times each other, element by element or added up along a dimension."""
    k, r, c, dtype = draw.choice([2, 3, 4]), rows(draw), columns(draw), float_type(draw)

    def planes(x: Any, y: Any) -> Any:
        at = lambda z, i, j: z[k * i + j].astype(f32)  # noqa: E731
        entries = [
            sum(at(x, i, m) * at(y, m, j) for m in range(k)) for i in range(k) for j in range(k)
        ]
        return jnp.stack(entries)

    def spread(x: Any, y: Any) -> Any:
        return jnp.sum(x[:, :, None].astype(f32) * y[:, None].astype(f32), 0)

    def determinant(x: Any) -> Any:
        a, b, c, d = (x[i].astype(f32) for i in range(4))
        return a * d - b * c

    few_rows = r if k * k * r * c < 40_000 else 8
    return draw.choice([
        lambda: made(planes, *[like((k * k, few_rows, c), dtype)] * 2),
        lambda: made(spread, like((k, 8), dtype), like((k, c), dtype)),
        lambda: made(determinant, like((4, r, c), dtype)),
        lambda: made(
            lambda x, y: jnp.einsum("bij,bjk->bik", x, y, preferred_element_type=f32),
            like((k, 8, 8), dtype), like((k, 8, c), dtype)),
    ])()  # fmt: skip


def neighbours(draw: Draw) -> Kernel:
    """What elements make of those around them on a torus, once or in a loop."""
    s = (draw.choice([8, 16, 32, 40]), draw.choice([128, 256, 384]))
    dtype, turns = draw.choice([f32, f32, i32, bf16]), draw.choice([1, 2])
    roll = draw.choice([pltpu.roll, jnp.roll])

    def around(x: Any) -> Any:
        return [roll(x, k % s[a], a) for a in (0, 1) for k in (1, s[a] - 1)]

    def relaxed(x: Any) -> Any:
        return lax.fori_loop(0, turns, lambda _, y: sum(around(y), y) * 2, x)

    def lives(x: Any) -> Any:
        alive = jnp.where(x > 0, 1, 0)
        across = alive + roll(alive, 1, 1) + roll(alive, s[1] - 1, 1)
        total = across + roll(across, 1, 0) + roll(across, s[0] - 1, 0)
        return jnp.where((total == 3) | ((alive == 1) & (total == 4)), 1, 0)

    def slope(x: Any) -> Any:
        up, down, left, right = (y.astype(f32) for y in around(x))
        return jnp.sqrt((up - down) ** 2 + (left - right) ** 2)

    return made(draw.choice([relaxed, lives, slope]), like(s, dtype))


def pairs_of_points(draw: Draw) -> Kernel:
    """Columns against rows: overlaps of boxes, forces between points, the best of sums."""
    n, m = rows(draw), columns(draw)

    def overlaps(a: Any, b: Any) -> Any:
        low = lambda i: jnp.maximum(a[:, i : i + 1], b[i : i + 1])  # noqa: E731
        high = lambda i: jnp.minimum(a[:, i : i + 1], b[i : i + 1])  # noqa: E731
        both = jnp.maximum(high(2) - low(0), 0) * jnp.maximum(high(3) - low(1), 0)
        area = (a[:, 2:3] - a[:, 0:1]) * (a[:, 3:4] - a[:, 1:2])
        other = (b[2:3] - b[0:1]) * (b[3:4] - b[1:2])
        return both / jnp.maximum(jnp.abs(area + other - both), 1)

    def forces(a: Any, b: Any) -> Any:
        d = [b[i : i + 1] - a[:, i : i + 1] for i in range(3)]
        w = lax.rsqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + 1)
        return jnp.concatenate([jnp.sum(x * w * w * w, 1, keepdims=True) for x in d], 1)

    def best(a: Any, b: Any) -> Any:
        return jnp.max(a[:, :, None] + b[None], 1)

    return draw.choice([
        lambda: made(overlaps, like((n, 4), f32), like((4, m), f32)),
        lambda: made(forces, like((n, 3), f32), like((3, m), f32)),
        lambda: made(best, like((n, 4), f32), like((4, m), f32)),
        lambda: made(best, like((8, 16), f32), like((16, m), f32)),
    ])()  # fmt: skip


def pixels(draw: Draw) -> Kernel:
    """Pixels put into channels and back, enlarged, made grey, or cut into patches."""
    h, w, c, dtype = draw.choice([4, 8, 6]), draw.choice([8, 16, 10]), draw.choice([32, 64, 128]), (
        draw.choice([f32, bf16, i8]))  # fmt: skip
    number = f32 if dtype == i8 else dtype

    def deep(x: Any) -> Any:
        y = x.reshape(h // 2, 2, w // 2, 2, c).transpose(0, 2, 1, 3, 4)
        return y.reshape(h // 2, w // 2, 4 * c)

    def shuffled(x: Any) -> Any:
        y = x.reshape(h, w, 2, 2, c).transpose(0, 2, 1, 3, 4)
        return y.reshape(2 * h, 2 * w, c)

    def larger(x: Any) -> Any:
        y = x.astype(number)
        return jnp.repeat(jnp.repeat(y, 2, 0), 2, 1)

    def grey(x: Any) -> Any:
        y = x.astype(f32)
        return y[0] * 0.25 + y[1] * 0.5 + y[2] * 0.25

    def patches(x: Any) -> Any:
        y = x.reshape(h // 2, 2, w // 2, 2 * c)
        return y.transpose(0, 2, 1, 3).reshape(h * w // 4, 4 * c)

    return draw.choice([
        lambda: made(deep, like((h, w, c), dtype)),
        lambda: made(shuffled, like((h, w, 4 * c), dtype)),
        lambda: made(larger, like((h, w, c), dtype)),
        lambda: made(grey, like((3, h * 4, w * 16), dtype)),
        lambda: made(patches, like((h, w, c), dtype)),
        lambda: made(lambda x: x.reshape(h * w, c).T, like((h, w, c), number)),
    ])()  # fmt: skip


def eliminated(draw: Draw) -> Kernel:
    """Steps of solving equations: rows and columns of a matrix taken out of the rest."""
    r, c, at = draw.choice([8, 16, 24]), columns(draw), draw.randrange(8)
    dtype = draw.choice([f32, f32, bf16])

    def one(x: Any) -> Any:
        y = x.astype(f32)
        row = y[at : at + 1]
        column = jnp.where(numbered((r, 1), 0) > at, y[:, at : at + 1], 0)
        return (y - column * row).astype(dtype)

    def masked(x: Any) -> Any:
        y = x.astype(f32)
        row = jnp.sum(jnp.where(numbered((r, c), 0) == at, y, 0), 0, keepdims=True)
        column = jnp.sum(jnp.where(numbered((r, c), 1) == at, y, 0), 1, keepdims=True)
        return y - column * row

    def swept(x: Any, o: Any) -> None:
        o[...] = x[...].astype(f32)

        def step(i: Any, _: Any) -> None:
            row = o[pl.ds(i, 1)]
            o[...] = o[...] - jnp.where(numbered((r, c), 0) > i, row, 0) * 0.5

        lax.fori_loop(0, 3, step, None)

    s = like((r, max(c, 8)), dtype)
    c = s.shape[1]
    if draw.random() < 0.3:
        return swept, [s], like(s.shape, f32)
    return made(draw.choice([one, masked]), s)


def iterated(draw: Draw) -> Kernel:
    """Values that a loop carries: a fractal's steps, moving means, the last maximum."""
    r, c, n = rows(draw), columns(draw), draw.choice([2, 4])

    def fractal(x: Any, y: Any) -> Any:
        def step(_: Any, z: Any) -> Any:
            a, b, count = z
            inside = a * a + b * b < 4
            a, b = jnp.where(inside, a * a - b * b + x, a), jnp.where(inside, 2 * a * b + y, b)
            return a, b, count + jnp.where(inside, 1, 0)

        return lax.fori_loop(0, n, step, (x, y, jnp.zeros((r, c), i32)))[2]

    def averaged(x: Any, o: Any) -> None:
        def step(i: Any, mean: Any) -> Any:
            mean = mean * 0.5 + x[pl.ds(i * 8, 8)].astype(f32) * 0.5
            o[pl.ds(i * 8, 8)] = mean
            return mean

        lax.fori_loop(0, n, step, jnp.zeros((8, c), f32))

    def powers(x: Any) -> Any:
        def step(_: Any, v: Any) -> Any:
            w = jnp.sum(x * v, 1, keepdims=True)
            return jnp.sum(x * w, 0, keepdims=True) * 1e-4

        return lax.fori_loop(0, n, step, jnp.ones((1, c), f32))

    s = like((r, c), f32)
    rows_of_eight = like((8 * n, c), draw.choice([f32, bf16]))
    return draw.choice([
        lambda: made(fractal, s, s),
        lambda: (averaged, [rows_of_eight], like((8 * n, c), f32)),
        lambda: made(powers, s),
    ])()  # fmt: skip


def counted_bits(draw: Draw) -> Kernel:
    """Distances in bits between rows, histograms, and ranks by comparing with all others."""
    n, m, k = draw.choice([8, 16, 5]), columns(draw), draw.choice([2, 4])

    def hamming(a: Any, b: Any) -> Any:
        return sum(lax.population_count(a[:, i : i + 1] ^ b[i : i + 1]) for i in range(k))

    def histogram(x: Any) -> Any:
        return jnp.concatenate(
            [jnp.sum((x >> 3 == i - 4).astype(i32), 1, keepdims=True) for i in range(8)], 1
        )

    def ranks(x: Any) -> Any:
        return jnp.sum((x[:, None, :] > x[:, :, None]).astype(i32), 1)

    return draw.choice([
        lambda: made(hamming, like((n, k), i32), like((k, m), i32)),
        lambda: made(histogram, like((n, m), i32)),
        lambda: made(ranks, like((n, 64), f32)),
    ])()  # fmt: skip


ALGORITHMS: dict[str, Callable[[Draw], Kernel]] = {
    f.__name__: f
    for f in (
        bits_put_together, sorted_by_pairs, segments, transformed, small_matrices, neighbours,
        pairs_of_points, pixels, eliminated, iterated, counted_bits,
    )
}  # fmt: skip
