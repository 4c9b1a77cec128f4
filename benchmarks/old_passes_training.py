"""Random steps of training and decoding as kernels.

`old_passes_child.py` draws them with `training`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.pallas import tpu as pltpu
from old_passes_blocks import (
    Draw,
    Kernel,
    bf16,
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
    times,
    times_by_last,
)


def layer_norm_backward(draw: Draw) -> Kernel:
    """What a layer norm sends back to its operand, or to its scale."""
    r, c, dtype = rows(draw), columns(draw), float_type(draw)

    def normed(x: Any) -> tuple[Any, Any]:
        y = x.astype(f32)
        y = y - jnp.mean(y, 1, keepdims=True)
        scale = lax.rsqrt(jnp.mean(y * y, 1, keepdims=True) + 1)
        return y * scale, scale

    def operand(x: Any, dy: Any, w: Any) -> Any:
        n, scale = normed(x)
        g = dy.astype(f32) * w
        inner = g - jnp.mean(g, 1, keepdims=True) - n * jnp.mean(g * n, 1, keepdims=True)
        return (scale * inner).astype(dtype)

    def weights(x: Any, dy: Any, w: Any) -> Any:
        return jnp.sum(dy.astype(f32) * normed(x)[0], 0, keepdims=True) + w

    s, w = like((r, c), dtype), like((1, c), f32)
    return made(draw.choice([operand, operand, weights]), s, s, w)


def residual_norm(draw: Draw) -> Kernel:
    """A root mean square norm of a sum, with a flat or flattened scale, per row or head."""
    r, h, d, dtype = rows(draw), few(draw), draw.choice([64, 128, 96, 256]), float_type(draw)

    def norm(x: Any, w: Any) -> Any:
        y = x.astype(f32)
        return (y * lax.rsqrt(jnp.mean(y * y, -1, keepdims=True) + 1) * w.astype(f32)).astype(dtype)

    s, flat = like((r, h, d), dtype), like((d,), dtype)
    wide = like((r, h * d), dtype)
    return draw.choice([
        lambda: made(lambda x, y, w: norm(x + y, w), s, s, flat),
        lambda: made(lambda x, w: norm(x.reshape(r, h, d), w).reshape(r, h * d), wide, flat),
        lambda: made(lambda x, y, w: norm(x + y, w), wide, wide, like((1, h * d), f32)),
        lambda: made(
            lambda x, w: jnp.concatenate(
                [norm(x[:, i * d : (i + 1) * d], w) for i in range(h)], 1), wide, flat),
    ])()  # fmt: skip


def labels(draw: Draw) -> Kernel:
    """Losses against the numbers of classes, smoothed or not, or their gradients."""
    r, c, dtype = rows(draw), columns(draw), float_type(draw)

    def loss(x: Any, t: Any) -> Any:
        y = jax.nn.log_softmax(x.astype(f32), -1)
        return -jnp.sum(jnp.where(numbered((r, c), 1) == t, y, 0), -1, keepdims=True)

    def smooth(x: Any, t: Any) -> Any:
        y = jax.nn.log_softmax(x.astype(f32), -1)
        return -jnp.sum(jnp.where(numbered((r, c), 1) == t, 0.9, 0.1 / c) * y, -1)

    def back(x: Any, t: Any) -> Any:
        y = jax.nn.softmax(x.astype(f32), -1)
        valid = (t >= 0).astype(f32)
        return ((y - (numbered((r, c), 1) == t).astype(f32)) * valid).astype(dtype)

    def right(x: Any, t: Any) -> Any:
        return (jnp.argmax(x.astype(f32), 1).reshape(r, 1) == t).astype(i32)

    return made(draw.choice([loss, smooth, back, right]), like((r, c), dtype), like((r, 1), i32))


def turned_pairs(draw: Draw) -> Kernel:
    """Rotary embedding of neighbouring lanes: by rolls, by a product, or of planes."""
    h, n, d, dtype = few(draw), rows(draw), draw.choice([64, 128, 128, 256]), float_type(draw)

    def rolls(x: Any, c: Any, s: Any) -> Any:
        y, last = x.astype(f32), x.ndim - 1
        even = numbered(x.shape, last) % 2 == 0
        turned = jnp.where(even, -pltpu.roll(y, d - 1, last), pltpu.roll(y, 1, last))
        return (y * c + turned * s).astype(dtype)

    def product(x: Any, c: Any, s: Any) -> Any:
        i, j = numbered((d, d), 0), numbered((d, d), 1)
        sign = jnp.where(j % 2 == 0, -1, 1)
        turn = jnp.where((i ^ 1) == j, sign, 0).astype(f32).astype(dtype)
        return (x.astype(f32) * c + times(x, turn) * s).astype(dtype)

    angles = like((n, d), f32)
    return draw.choice([
        lambda: made(rolls, like((h, n, d), dtype), angles, angles),
        lambda: made(rolls, like((n, d), dtype), angles, angles),
        lambda: made(product, like((n, d), dtype), angles, angles),
    ])()  # fmt: skip


def windows_by_rolls(draw: Draw) -> Kernel:
    """Sums or maxima of the last few elements, causal or around, along rows or lanes."""
    s = (draw.choice([8, 16, 32, 24]), draw.choice([128, 256]))
    dtype = draw.choice([f32, f32, bf16, i32])
    axis, k, step = draw.randrange(2), draw.choice([2, 3, 4]), draw.choice([1, 1, 2])
    causal, roll = draw.random() < 0.6, draw.choice([pltpu.roll, jnp.roll])

    def fold(x: Any) -> Any:
        total = x
        for i in range(1, k):
            moved = roll(x, i * step, axis)
            if causal:
                moved = jnp.where(numbered(s, axis) >= i * step, moved, jnp.zeros_like(moved))
            total = total + moved
        return total

    return made(fold, like(s, dtype))


def largest_by_place(draw: Draw) -> Kernel:
    """The largest few of each row or column by argmax and masking, or how experts are chosen."""
    r, c, k, dtype = rows(draw), columns(draw), draw.choice([2, 3]), draw.choice([f32, bf16])
    places, axis = draw.random() < 0.5, draw.choice([1, 1, 0])

    def search(x: Any) -> Any:
        y, found = x.astype(f32), []
        for _ in range(k):
            place = jnp.expand_dims(jnp.argmax(y, axis), axis)
            found.append(place if places else jnp.max(y, axis, keepdims=True))
            y = jnp.where(numbered((r, c), axis) == place, -1e30, y)
        return jnp.concatenate(found, axis)

    def gates(x: Any) -> Any:
        p = jax.nn.softmax(x.astype(f32), axis)
        first = jnp.argmax(p, axis, keepdims=True)
        here = numbered((r, c), axis) == first
        second = jnp.max(jnp.where(here, 0, p), axis, keepdims=True)
        return jnp.where(here | (p == second), p, 0)

    return made(draw.choice([search, search, gates]), like((r, c), dtype))


def cumulative_by_products(draw: Draw) -> Kernel:
    """Sums up to every place by a product with a triangle, whole, in blocks or backwards."""
    r, c, dtype = rows(draw), draw.choice([128, 128, 256, 64, 100]), float_type(draw)
    back = draw.random() < 0.3

    def triangle(n: int) -> Any:
        i, j = numbered((n, n), 0), numbered((n, n), 1)
        return (i >= j if back else i <= j).astype(f32).astype(dtype)

    def last(x: Any) -> Any:
        return times(x, triangle(c))

    def first(x: Any) -> Any:
        return lax.dot_general(
            triangle(r), x, (((0,), (0,)), ((), ())), preferred_element_type=f32)  # fmt: skip

    def blocks(x: Any) -> Any:
        total, parts = jnp.zeros((r, 1), f32), []
        for i in range(3):
            part = times(x[:, i * c : (i + 1) * c], triangle(c))
            parts.append(part + total)
            total = total + jnp.sum(x[:, i * c : (i + 1) * c].astype(f32), 1, keepdims=True)
        return jnp.concatenate(parts, 1)

    where = draw.choice([last, first, blocks])
    return made(where, like((r, 3 * c if where is blocks else c), dtype))


def embedded(draw: Draw) -> Kernel:
    """Rows of a table chosen by a product with comparisons, or what goes back to it."""
    n, v, d, dtype = (
        rows(draw),
        draw.choice([16, 64, 100, 128, 200]),
        columns(draw),
        float_type(draw),
    )
    rows_of = lambda t: (numbered((n, v), 1) == t).astype(dtype)  # noqa: E731
    columns_of = lambda t: (numbered((v, n), 0) == t).T.astype(dtype)  # noqa: E731
    down, across, table = like((n, 1), i32), like((1, n), i32), like((v, d), dtype)
    return draw.choice([
        lambda: made(lambda t, x: times(rows_of(t), x).astype(dtype), down, table),
        lambda: made(
            lambda t, g: lax.dot_general(
                rows_of(t), g, (((0,), (0,)), ((), ())), preferred_element_type=f32),
            down, like((n, d), dtype)),
        lambda: made(lambda t, x: times(columns_of(t), x), across, table),
        lambda: made(
            lambda t, x: sum(jnp.where(t == i, x[i : i + 1].astype(f32), 0) for i in range(4)),
            down, like((16, d), dtype)),
    ])()  # fmt: skip


def quantised(draw: Draw) -> Kernel:
    """Numbers scaled to bytes by row, column or group, and back."""
    r, g, c = rows(draw), draw.choice([2, 4, 3]), draw.choice([32, 64, 128, 128])
    dtype, most = draw.choice([f32, bf16]), draw.choice([127, 7])

    def scale(y: Any, axis: int) -> Any:
        return jnp.max(jnp.abs(y), axis, keepdims=True) * (1 / most) + 1e-3

    def bytes_of(x: Any, axis: int) -> Any:
        y = x.astype(f32)
        return jnp.clip(jnp.round(y / scale(y, axis)), -most, most).astype(i8)

    def again(x: Any, axis: int) -> Any:
        y = x.astype(f32)
        s = scale(y, axis)
        return (jnp.round(y / s) * s).astype(dtype)

    wide = (r, g * c)
    return draw.choice([
        lambda: made(lambda x: bytes_of(x, 1), like(wide, dtype)),
        lambda: made(lambda x: bytes_of(x, 0), like(wide, dtype)),
        lambda: made(lambda x: again(x.reshape(r, g, c), 2).reshape(wide), like(wide, dtype)),
        lambda: made(lambda x: bytes_of(x.reshape(r, g, c), 2), like(wide, dtype)),
        lambda: made(lambda x: again(x, 1), like((g * 8, r, c), dtype)),
        lambda: made(
            lambda x, s: (x.astype(f32).reshape(r, g, c) * s[:, :, None]).reshape(wide).astype(
                dtype), like(wide, i8), like((r, g), f32)),
        lambda: made(
            lambda x, s, z: ((x.astype(f32) - z) * s).astype(dtype), like((r * g, c), i8),
            like(draw.choice([(r * g, 1), (1, c)]), f32),
            like(draw.choice([(r * g, 1), (1, c)]), f32)),
    ])()  # fmt: skip


def gated_products(draw: Draw) -> Kernel:
    """Two products and an activation between them, from one matrix or two, with a bias or not."""
    m, k, n, dtype = rows(draw), columns(draw), columns(draw), float_type(draw)
    f = draw.choice([jax.nn.silu, jax.nn.sigmoid, jax.nn.relu])

    def one(x: Any, w: Any) -> Any:
        y = times(x, w)
        return (f(y[:, :n]) * y[:, n:]).astype(dtype)

    x = like((m, k), dtype)
    return draw.choice([
        lambda: made(one, x, like((k, 2 * n), dtype)),
        lambda: made(
            lambda x, a, b, u, v: (f(times(x, a) + u) * (times(x, b) + v)).astype(dtype),
            x, like((k, n), dtype), like((k, n), dtype), like((1, n), f32), like((n,), f32)),
        lambda: made(
            lambda x, a, b: times((f(times(x, a)) * x.astype(f32)).astype(dtype), b),
            x, like((k, k), dtype), like((k, n), dtype)),
    ])()  # fmt: skip


def masks_of_lengths(draw: Draw) -> Kernel:
    """Masks and means up to lengths that are operands, per row of a batch or per pair."""
    b, n, c, dtype = few(draw), rows(draw), columns(draw), float_type(draw)
    number = draw.choice([f32, i32])

    def mean(x: Any, t: Any) -> Any:
        here = numbered((b, n, c), 1) < t
        total = jnp.sum(jnp.where(here, x.astype(f32), 0), 1)
        return total / jnp.maximum(t.reshape(b, 1), 1).astype(f32)

    return draw.choice([
        lambda: made(
            lambda t: jnp.where(numbered((n, c), 1) < t, 0, -1e30).astype(dtype),
            like((n, 1), i32)),
        lambda: made(
            lambda x, t: jnp.where(numbered((b, n, c), 2) < t, x, 0), like((b, n, c), dtype),
            like((b, 1, 1), i32)),
        lambda: made(mean, like((b, n, c), dtype), like((b, 1, 1), i32)),
        lambda: made(
            lambda q, k: jnp.where((q == k) & (k >= 0), 0, -1e30).astype(dtype),
            like((n, 1), i32), like((1, c), i32)),
        lambda: made(
            lambda t: ((numbered((n, c), 1) <= numbered((n, c), 0)) & (numbered((n, c), 1) < t))
            .astype(number), like((n, 1), i32)),
    ])()  # fmt: skip


def dropped(draw: Draw) -> Kernel:
    """Numbers left out by a hash of where they are, or rounded by random bits."""
    r, c, dtype = rows(draw), columns(draw), float_type(draw)
    rounds = draw.choice([1, 2])

    def hashed() -> Any:
        h = numbered((r, c), 0) * 40503 + numbered((r, c), 1)
        for _ in range(rounds):
            h = (h ^ lax.shift_right_logical(h, 15)) * 668265263
        return h ^ lax.shift_right_logical(h, 13)

    def rounded(x: Any) -> Any:
        bits = lax.bitcast_convert_type(x.astype(f32), i32) + (hashed() & 0xFFFF)
        return lax.bitcast_convert_type(bits & ~0xFFFF, f32).astype(bf16)

    return draw.choice([
        lambda: made(lambda x: jnp.where(hashed() > 0, x * 2, 0), like((r, c), dtype)),
        lambda: made(lambda x: x.astype(f32) * (hashed() > 0).astype(f32), like((r, c), dtype)),
        lambda: made(rounded, like((r, c), f32)),
    ])()  # fmt: skip


def heads_of_attention(draw: Draw) -> Kernel:
    """Attention whose heads lie beside one another in lanes, or whose keys are bytes."""
    h, n, m = draw.choice([2, 3, 4]), rows(draw), draw.choice([32, 64, 77, 128])
    d, dtype = draw.choice([32, 64, 80, 96, 128]), float_type(draw)

    def one(q: Any, k: Any, v: Any) -> Any:
        s = times_by_last(q, k)
        p = jnp.exp(s - jnp.max(s, 1, keepdims=True))
        o = times(p.astype(v.dtype), v)
        return (o / jnp.sum(p, 1, keepdims=True)).astype(dtype)

    def beside(q: Any, k: Any, v: Any) -> Any:
        part = lambda x, i: x[:, i * d : (i + 1) * d]  # noqa: E731
        return jnp.concatenate([one(part(q, i), part(k, i), part(v, i)) for i in range(h)], 1)

    def shared(q: Any, k: Any, v: Any) -> Any:
        return one(q.reshape(h * n, d), k, v).reshape(h, n, d)

    def scaled(q: Any, k: Any, v: Any, a: Any) -> Any:
        s = jnp.sum(q.astype(f32) * k.astype(f32), 1, keepdims=True) * a
        p = jnp.exp(s - jnp.max(s, 0, keepdims=True))
        return jnp.sum(p * v.astype(f32), 0, keepdims=True) / jnp.sum(p, 0, keepdims=True)

    wide, keys = like((m, h * d), dtype), like((m, d), dtype)
    return draw.choice([
        lambda: made(beside, like((n, h * d), dtype), wide, wide),
        lambda: made(shared, like((h, n, d), dtype), keys, keys),
        lambda: made(scaled, like((1, d), dtype), like((m, d), i8), like((m, d), i8),
                     like((m, 1), f32)),
    ])()  # fmt: skip


def experts(draw: Draw) -> Kernel:
    """Products of each expert added up as a router weighs them."""
    n, k, c, e = rows(draw), draw.choice([64, 128]), draw.choice([128, 200]), draw.choice([2, 3, 4])
    dtype = float_type(draw)

    all_of_them = draw.random() < 0.5

    def mix(x: Any, w: Any, g: Any) -> Any:
        best = numbered((n, e), 1) == jnp.argmax(g, 1).reshape(n, 1)
        p = jax.nn.softmax(g, -1) if all_of_them else best.astype(f32)
        return sum((p[:, i : i + 1] * times(x, w[i]) for i in range(e)), start=0.0).astype(dtype)

    return made(mix, like((n, k), dtype), like((e, k, c), dtype), like((n, e), f32))


def contrasted(draw: Draw) -> Kernel:
    """Similarities of rows: of unit length, as distances, or as a loss of pairs."""
    n, m, d, dtype = rows(draw), draw.choice([8, 16, 100, 128]), columns(draw), float_type(draw)

    def unit(x: Any) -> Any:
        y = x.astype(f32)
        return (y * lax.rsqrt(jnp.sum(y * y, 1, keepdims=True) + 1)).astype(dtype)

    def distances(x: Any, y: Any) -> Any:
        a, b = (jnp.sum(z.astype(f32) ** 2, 1) for z in (x, y))
        return a[:, None] + b[None, :] - 2 * times_by_last(x, y)

    def nearest(x: Any, y: Any) -> Any:
        return jnp.argmin(distances(x, y), 1).reshape(n, 1)

    def loss(x: Any, y: Any) -> Any:
        s = times_by_last(unit(x), unit(y))
        same = jnp.where(numbered((n, m), 0) == numbered((n, m), 1), s, 0)
        return jnp.log(jnp.sum(jnp.exp(s), 1, keepdims=True)) - jnp.sum(same, 1, keepdims=True)

    where = draw.choice([distances, nearest, loss])
    return made(where, like((n, d), dtype), like((m, d), dtype))


TRAINING: dict[str, Callable[[Draw], Kernel]] = {
    f.__name__: f
    for f in (
        layer_norm_backward, residual_norm, labels, turned_pairs, windows_by_rolls,
        largest_by_place, cumulative_by_products, embedded, quantised, gated_products,
        masks_of_lengths, dropped, heads_of_attention, experts, contrasted,
    )
}  # fmt: skip
