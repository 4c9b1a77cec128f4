"""Random kernels that are parts of models and of algorithms.

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


def rotary(draw: Draw) -> Kernel:
    """Neighbouring lanes, or halves of the lanes, turned by angles."""
    s, dtype = (*block(draw)[:-1], draw.choice([64, 128, 128, 256])), float_type(draw)
    axis, d = len(s) - 1, s[-1]
    angles = like((*[1] * (len(s) - 2), s[-2], d), f32)

    def neighbours(x: Any) -> Any:
        even = numbered(s, axis) % 2 == 0
        return jnp.where(even, -jnp.roll(x, -1, axis), jnp.roll(x, 1, axis))

    def halves(x: Any) -> Any:
        return jnp.concatenate([-x[..., d // 2 :], x[..., : d // 2]], axis)

    turn = draw.choice([neighbours, halves])
    return made(
        lambda x, c, z: (x.astype(f32) * c + turn(x.astype(f32)) * z).astype(dtype),
        like(s, dtype), angles, angles,
    )  # fmt: skip


def group_norm(draw: Draw) -> Kernel:
    """Numbers normalised over groups of channels, or over all but a leading dimension."""
    g, r, c = few(draw), rows(draw), draw.choice([32, 64, 128, 128, 256])
    dtype = float_type(draw)

    def norm(x: Any, axes: tuple[int, ...]) -> Any:
        y = x.astype(f32)
        mean = jnp.mean(y, axes, keepdims=True)
        return ((y - mean) * lax.rsqrt(jnp.mean(y * y, axes, keepdims=True) + 1)).astype(dtype)

    return draw.choice([
        lambda: made(lambda x: norm(x, (1, 2)), like((g, r, c), dtype)),
        lambda: made(lambda x: norm(x, (0, 2)), like((r, g, c), dtype)),
        lambda: made(
            lambda x: norm(x.reshape(r, g, c), (0, 2)).reshape(r, g * c), like((r, g * c), dtype)),
        lambda: made(
            lambda x: norm(x.reshape(r, g, c), (2,)).reshape(r, g * c), like((r, g * c), dtype)),
    ])()  # fmt: skip


def window(draw: Draw) -> Kernel:
    """Windows over two dimensions: maxima, or sums with weights for each channel."""
    h, w, c, dtype = rows(draw) + 2, rows(draw) + 2, columns(draw), float_type(draw)
    h = min(h, 12)
    k = draw.choice([2, 3])
    places = [(i, j) for i in range(k) for j in range(k)]
    part = lambda x, i, j: x[i : i + h - 2, j : j + w - 2]  # noqa: E731

    def largest(x: Any) -> Any:
        found = part(x, 0, 0)
        for i, j in places[1:]:
            found = jnp.maximum(found, part(x, i, j))
        return found

    def weighed(x: Any, y: Any) -> Any:
        return sum(part(x, i, j) * y[n] for n, (i, j) in enumerate(places))

    even = (2 * max(1, h // 2), 2 * max(1, w // 2), c)
    return draw.choice([
        lambda: made(largest, like((h, w, c), dtype)),
        lambda: made(weighed, like((h, w, c), dtype), like((k * k, c), dtype)),
        lambda: made(
            lambda x: jnp.max(x.reshape(even[0] // 2, 2, even[1] // 2, 2, c), (1, 3)),
            like(even, dtype)),
        lambda: made(
            lambda x: jnp.max(x.reshape(even[0] // 2, 2, even[1], c), 1), like(even, dtype)),
    ])()  # fmt: skip


def columns_of_windows(draw: Draw) -> Kernel:
    """Shifted rows put beside one another, and a product with weights."""
    r, c, n, k = rows(draw) + 8, draw.choice([32, 64, 128, 200]), columns(draw), draw.choice([2, 3])
    dtype = float_type(draw)
    beside = lambda x: jnp.concatenate([x[i : i + r - 4] for i in range(k)], 1)  # noqa: E731
    if draw.random() < 0.4:
        return made(beside, like((r, c), dtype))
    return made(
        lambda x, y: jnp.dot(beside(x), y, preferred_element_type=f32).astype(dtype),
        like((r, c), dtype), like((k * c, n), dtype),
    )  # fmt: skip


def turned_out(draw: Draw) -> Kernel:
    """Results that are stored transposed."""
    m, k, n = rows(draw), columns(draw), columns(draw)
    dtype = float_type(draw)
    return draw.choice([
        lambda: made(
            lambda x, y: jnp.dot(x, y, preferred_element_type=f32).T, like((m, k), dtype),
            like((k, n), dtype)),
        lambda: made(lambda x: jax.nn.softmax(x.astype(f32), -1).T, like((m, k), dtype)),
        lambda: made(lambda x: jnp.sum(x.astype(f32), 1, keepdims=True).T, like((m, k), dtype)),
        lambda: made(lambda x: (x + x).T, like((m, k), dtype)),
    ])()  # fmt: skip


def cache(draw: Draw) -> Kernel:
    """Rows of a cache set at places that a loop counts."""
    h, r, c, dtype = few(draw), rows(draw), columns(draw), any_type(draw)
    middle = draw.random() < 0.5
    whole, row = ((h, r, c), (h, 1, c)) if middle else ((r, c), (1, c))

    def body(x: Any, new: Any, o: Any) -> None:
        o[...] = x[...]

        def step(i: Any, _: Any) -> None:
            where = (slice(None), pl.ds(i, 1)) if middle else (pl.ds(i, 1),)
            o[where] = new[...] if dtype in (i8, jnp.int16) else new[...] + o[where]

        lax.fori_loop(0, min(3, r), step, None)

    return body, [like(whole, dtype), like(row, dtype)], like(whole, dtype)


def packed_pairs(draw: Draw) -> Kernel:
    """Bytes that hold two numbers each, taken apart into rows, lanes or halves."""
    r, c = rows(draw), columns(draw)
    wide, packed = draw.choice([f32, bf16, i8]), draw.choice([i8, i8, i32])

    def parts(x: Any) -> list[Any]:
        low = x & 15 if packed == i32 else (x << 4) >> 4
        return [p.astype(wide) for p in (low, (x >> 4) & 15 if packed == i32 else x >> 4)]

    return draw.choice([
        lambda: made(lambda x: jnp.stack(parts(x), 1).reshape(2 * r, c), like((r, c), packed)),
        lambda: made(lambda x: jnp.concatenate(parts(x), 0), like((r, c), packed)),
        lambda: made(lambda x: jnp.concatenate(parts(x), 1), like((r, c), packed)),
        lambda: made(lambda x: jnp.stack(parts(x), 0), like((r, c), packed)),
    ])()  # fmt: skip


def sparse(draw: Draw) -> Kernel:
    """Masks or scales of blocks, spread over the elements of each."""
    r, c, n, dtype = draw.choice([2, 4, 8]), draw.choice([1, 2, 3]), draw.choice([4, 8, 16]), (
        draw.choice([f32, f32, bf16, i32]))  # fmt: skip
    s = (r * n, c * 128)

    def spread(m: Any) -> Any:
        return jnp.broadcast_to(m[:, None, :], (r, n, m.shape[1])).reshape(r * n, -1)

    return draw.choice([
        lambda: made(
            lambda x, m: jnp.where(spread(m) > 0, x, 0), like(s, dtype), like((r, s[1]), i32)),
        lambda: made(lambda x, m: x * spread(m), like(s, dtype), like((r, s[1]), dtype)),
        lambda: made(
            lambda x, m: jnp.where(jnp.repeat(m, n, 0) != 0, x, 0), like(s, dtype),
            like((r, 1), i32)),
        lambda: made(
            lambda x, m: (x.reshape(r, n, s[1]) * m[:, None, :]).reshape(s), like(s, dtype),
            like((r, s[1]), dtype)),
    ])()  # fmt: skip


def largest_few(draw: Draw) -> Kernel:
    """The largest numbers of rows, one after the other, or where they are."""
    r, c, k = rows(draw), columns(draw), draw.choice([2, 3])
    dtype, places = draw.choice([f32, f32, bf16, i32]), draw.random() < 0.5

    def search(x: Any) -> Any:
        found: list[Any] = []
        for _ in range(k):
            top = jnp.max(x, -1, keepdims=True)
            where = jnp.min(jnp.where(x == top, numbered(x.shape, 1), c), -1, keepdims=True)
            found.append(where if places else top)
            x = jnp.where(numbered(x.shape, 1) == where, -100, x)
        return jnp.concatenate(found, 1)

    return made(search, like((r, c), dtype))


def doubled(draw: Draw) -> Kernel:
    """Sums up to every place, by blocks that are shifted by zeros in front."""
    s, dtype = block(draw, draw.choice([2, 2, 3])), draw.choice([f32, bf16, i32])
    axis = draw.randrange(len(s))
    n = s[axis]

    def shift(x: Any, k: int) -> Any:
        none = jnp.zeros(tuple(k if d == axis else e for d, e in enumerate(s)), dtype)
        return jnp.concatenate([none, lax.slice_in_dim(x, 0, n - k, axis=axis)], axis)

    def total(x: Any) -> Any:
        for k in [1 << b for b in range(4) if 1 << b < n]:
            x = x + shift(x, k)
        return x

    return made(total, like(s, dtype))


def counted(draw: Draw) -> Kernel:
    """How often numbers occur, or sums over the rows of each segment."""
    r, c, n = rows(draw), columns(draw), draw.choice([8, 16, 128, 100])
    dtype = float_type(draw)
    return draw.choice([
        lambda: made(
            lambda x: jnp.sum((x == numbered((r, n), 1)).astype(f32), 0, keepdims=True),
            like((r, 1), i32)),
        lambda: made(
            lambda x: jnp.sum((x == numbered((n, c), 0)).astype(i32), 1, keepdims=True),
            like((1, c), i32)),
        lambda: made(
            lambda x, y: jnp.dot((x == numbered((n, r), 0)).astype(dtype), y,
                                 preferred_element_type=f32),
            like((1, r), i32), like((r, c), dtype)),
        lambda: made(
            lambda x, y: jnp.sum(jnp.where(x == 3, y, 0), 0), like((r, 1), i32), like((r, c), f32)),
    ])()  # fmt: skip


def softmaxes(draw: Draw) -> Kernel:
    """Softmax over rows, lanes, both, or a leading dimension; with a mask or a bias."""
    s, dtype = block(draw, draw.choice([2, 3])), float_type(draw)
    axis = draw.choice([0, len(s) - 1, len(s) - 2, (len(s) - 2, len(s) - 1)])
    some = draw.randint(1, s[-1])
    function = draw.choice([
        lambda x: x, lambda x: jnp.where(numbered(s, len(s) - 1) < some, x, -1e9),
        lambda x: jnp.where(numbered(s, len(s) - 2) >= numbered(s, len(s) - 1), x, -1e9),
    ])  # fmt: skip
    return made(
        lambda x: jax.nn.softmax(function(x.astype(f32)), axis).astype(dtype), like(s, dtype)
    )


def odd_widths(draw: Draw) -> Kernel:
    """Blocks of odd widths that are padded, cut or put together, and added up."""
    s, dtype = block(draw, draw.choice([2, 3])), any_type(draw)
    before, behind, axis = draw.randrange(5), draw.randrange(1, 40), len(s) - 1
    widths = [*[(0, 0)] * axis, (before, behind)]
    padded = lambda x: jnp.pad(x, widths)  # noqa: E731
    zeros = like((*s[:-1], behind), dtype)
    return draw.choice([
        lambda: made(padded, like(s, dtype)),
        lambda: made(lambda x: jnp.roll(padded(x), 1, axis), like(s, dtype)),
        lambda: made(lambda x, y: jnp.concatenate([y, x, y], axis), like(s, dtype), zeros),
        lambda: made(
            lambda x, y: jnp.sum(jnp.concatenate([x.astype(f32), y.astype(f32)], axis), -1),
            like(s, dtype), zeros),
    ])()  # fmt: skip


def few_rows(draw: Draw) -> Kernel:
    """Blocks of two or four rows: with a row or column of their own, folded or turned."""
    s = (draw.choice([2, 3, 4, 8, 16]), draw.choice([2, 4]), draw.choice([128, 256, 384, 512]))
    dtype = any_type(draw)
    number = f32 if dtype in (i8, jnp.int16) else dtype
    return draw.choice([
        lambda: made(lambda x, y: x.astype(number) * y, like(s, dtype), like((1, 1, s[2]), number)),
        lambda: made(lambda x, y: x.astype(number) * y, like(s, dtype), like((*s[:2], 1), number)),
        lambda: made(lambda x: jnp.sum(x.astype(f32), 1), like(s, dtype)),
        lambda: made(lambda x: jnp.max(x.astype(f32), -1), like(s, dtype)),
        lambda: made(lambda x: x.transpose(1, 0, 2), like(s, dtype)),
        lambda: made(lambda x: x[:, 0] * x[:, 1] if number == dtype else x[:, 1], like(s, dtype)),
    ])()  # fmt: skip


def in_four(draw: Draw) -> Kernel:
    """Sequences of heads: their dimensions change places, before or after work on them."""
    b, n, h = few(draw), draw.choice([8, 16, 32, 5]), draw.choice([1, 2, 4, 8])
    s, dtype = (b, n, h, draw.choice([32, 64, 128, 128])), draw.choice([f32, bf16, i8])
    order = draw.choice([(0, 2, 1, 3), (2, 0, 1, 3), (0, 2, 3, 1), (0, 1, 3, 2), (1, 0, 2, 3)])
    return draw.choice([
        lambda: made(lambda x: x.transpose(order), like(s, dtype)),
        lambda: made(lambda x: x.transpose(0, 2, 1, 3).reshape(b * h, n, s[3]), like(s, dtype)),
        lambda: made(lambda x: x.reshape(b, n, h * s[3]), like(s, dtype)),
        lambda: made(lambda x: jnp.sum(x.transpose(order).astype(f32), -1), like(s, dtype)),
    ])()  # fmt: skip


def single_rows(draw: Draw) -> Kernel:
    """Blocks of one row."""
    n, r, dtype = draw.choice([128, 256, 512, 1024, 200]), rows(draw), any_type(draw)
    number = f32 if dtype in (i8, jnp.int16) else dtype
    k, one = draw.randrange(n), like((1, n), dtype)
    return draw.choice([
        lambda: made(lambda x: jax.nn.softmax(x.astype(f32), -1), one),
        lambda: made(lambda x: jnp.roll(x, k, 1), one),
        lambda: made(lambda x: jnp.broadcast_to(x.astype(number) * 2, (r, n)), one),
        lambda: made(lambda x, y: jnp.concatenate([x, y], 0), one, like((r, n), dtype)),
        lambda: made(lambda x, y: jnp.concatenate([x, y], 1), one, one),
        lambda: made(lambda x: jnp.sum(x.astype(f32), 0, keepdims=True), like((r, n), dtype)),
    ])()  # fmt: skip


def causal(draw: Draw) -> Kernel:
    """A convolution along the rows with the last rows of the block before, or a new state."""
    k, r, c, dtype = draw.choice([2, 3, 4]), rows(draw), columns(draw), float_type(draw)
    state, x, w = like((k, c), dtype), like((r, c), dtype), like((k + 1, c), dtype)
    join = lambda a, b: jnp.concatenate([a, b], 0)  # noqa: E731
    if draw.random() < 0.3:
        return made(lambda a, b: join(a, b)[-k:], state, x)
    return made(
        lambda a, b, y: sum(join(a, b)[i : i + r] * y[i : i + 1] for i in range(k + 1)), state, x, w
    )


def complex_pairs(draw: Draw) -> Kernel:
    """Products of complex numbers, whose parts lie in a dimension of two, or in halves."""
    r, c, dtype = rows(draw), columns(draw), float_type(draw)

    def times(a: Any, b: Any, axis: int) -> Any:
        (p, q), (u, v) = (jnp.split(x, 2, axis) for x in (a, b))
        return jnp.concatenate([p * u - q * v, p * v + q * u], axis)

    s, axis = draw.choice([((r, 2, c), 1), ((2, r, c), 0), ((r, 2 * c), 1), ((2 * r, c), 0)])
    return made(lambda a, b: times(a, b, axis), like(s, dtype), like(s, dtype))


def scaled_products(draw: Draw) -> Kernel:
    """Products with packed numbers whose scales belong to blocks of rows."""
    m, n, b = rows(draw), draw.choice([128, 256]), draw.choice([2, 4])
    k, packed = 32 * b, draw.choice([i8, bf16])

    def product(x: Any, y: Any, scale: Any) -> Any:
        wide = y.astype(f32).reshape(b, 32, n) * scale[:, None, :]
        return jnp.dot(x, wide.reshape(k, n).astype(bf16), preferred_element_type=f32)

    return made(product, like((m, k), bf16), like((k, n), packed), like((b, n), f32))


def exchanged(draw: Draw) -> Kernel:
    """A step of a sorting network: numbers at a distance are compared and exchanged."""
    s, dtype = (draw.choice([8, 16, 32]), draw.choice([128, 256])), draw.choice([f32, i32, bf16])
    axis = draw.randrange(2)
    k = draw.choice([n for n in (1, 2, 4, 8, 64) if n < s[axis]])

    def step(x: Any) -> Any:
        first = (numbered(s, axis) // k) % 2 == 0
        other = jnp.where(first, pltpu.roll(x, s[axis] - k, axis), pltpu.roll(x, k, axis))
        return jnp.where(first, jnp.minimum(x, other), jnp.maximum(x, other))

    return made(step, like(s, dtype))


def activated(draw: Draw) -> Kernel:
    """Activations that choose by the sign or the size of numbers."""
    s, dtype = block(draw), draw.choice([f32, bf16, bf16])
    k = draw.choice([0, 0, 1, -2])
    function = draw.choice([
        lambda x: jnp.where(x > k, x, 0), lambda x: jnp.where(x >= 0, x, x * 0.5),
        lambda x: jnp.where(x != k, x, 7), lambda x: jnp.where(x == 0, 1, x),
        lambda x: x * jnp.clip(x + 3, 0, 6), lambda x: jnp.where(jnp.abs(x) < 2, 0, x),
        lambda x: jnp.sign(x) * x,
    ])  # fmt: skip
    return made(function, like(s, dtype))


PARTS: dict[str, Callable[[Draw], Kernel]] = {
    f.__name__: f
    for f in (
        rotary, group_norm, window, columns_of_windows, turned_out, cache, packed_pairs, sparse,
        largest_few, doubled, counted, softmaxes, odd_widths, few_rows, in_four, single_rows,
        causal, complex_pairs, scaled_products, exchanged, activated,
    )
}  # fmt: skip
