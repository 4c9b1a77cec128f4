"""Random kernels drawn from what models, optimizers and image programs do.

`old_passes_child.py` draws them with `models`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from old_passes_blocks import (
    Draw,
    Kernel,
    Shape,
    bf16,
    f32,
    float_type,
    i8,
    i32,
    like,
    made,
    numbered,
    times,
    times_by_last,
)

BLOCKS = (
    (5, 77), (3, 200), (24, 130), (17, 129), (40, 96), (9, 256), (12, 384), (16, 64), (7, 300),
    (33, 40), (1, 130), (20, 257), (8, 128), (16, 128), (32, 256), (64, 128), (16, 512), (32, 384),
    (8, 1024),
)  # fmt: skip


def block(draw: Draw, leading: int | None = None) -> Shape:
    """Rows and columns, odd and even ones, below a few leading dimensions."""
    count = draw.choice([0, 0, 1, 2]) if leading is None else leading
    return (*[draw.choice([1, 2, 3, 5]) for _ in range(count)], *draw.choice(BLOCKS))


def attention(draw: Draw) -> Kernel:
    """Attention of several heads, with one of the usual biases."""
    h, q, k = (
        draw.choice([1, 2, 4]),
        draw.choice([8, 16, 24, 64, 5]),
        draw.choice([32, 64, 77, 130]),
    )
    d, dtype = draw.choice([32, 64, 128, 80]), float_type(draw)
    bias = draw.choice(["none", "causal", "alibi", "softcap", "sink", "mask"])

    def whole(qs: Any, ks: Any, vs: Any, *mask: Any) -> Any:
        s = jnp.einsum("hqd,hkd->hqk", qs, ks, preferred_element_type=f32) * 0.125
        if bias == "causal":
            s = jnp.where(numbered(s.shape, 1) + (k - q) >= numbered(s.shape, 2), s, -1e30)
        elif bias == "alibi":
            s = s - jnp.abs(numbered(s.shape, 1) - numbered(s.shape, 2)).astype(f32) * 0.1
        elif bias == "softcap":
            s = 30 * jnp.tanh(s / 30)
        elif bias == "mask":
            s = jnp.where(mask[0] != 0, s, -1e30)
        top = jnp.max(s, -1, keepdims=True)
        p = jnp.exp(s - top)
        total = jnp.sum(p, -1, keepdims=True)
        if bias == "sink":
            total = total + jnp.exp(-top)
        o = jnp.einsum("hqk,hkd->hqd", p.astype(dtype), vs, preferred_element_type=f32)
        return (o / total).astype(dtype)

    shape = draw.choice([(h, q, k), (1, q, k), (1, 1, k)])
    mask = [like(shape, draw.choice([i32, i8]))] if bias == "mask" else []
    keys = like((h, k, d), dtype)
    return made(whole, like((h, q, d), dtype), keys, keys, *mask)


def in_blocks(draw: Draw) -> Kernel:
    """Attention that goes over blocks of keys in a loop."""
    q, n, b = draw.choice([8, 16, 64, 12]), draw.choice([2, 3]), draw.choice([64, 128, 32])
    d, dtype = draw.choice([64, 128]), float_type(draw)

    def body(qs: Any, ks: Any, vs: Any, o: Any) -> None:
        query = qs[...]

        def step(i: Any, carried: Any) -> Any:
            top, total, o = carried
            rows = pl.ds(i * b, b)
            s = times_by_last(query, ks[rows, :])
            new = jnp.maximum(top, jnp.max(s, -1, keepdims=True))
            p, a = jnp.exp(s - new), jnp.exp(top - new)
            total = a * total + jnp.sum(p, -1, keepdims=True)
            return new, total, o * a + times(p.astype(dtype), vs[rows, :])

        first = jnp.full((q, 1), -1e30, f32), jnp.zeros((q, 1), f32), jnp.zeros((q, d), f32)
        _, total, found = lax.fori_loop(0, n, step, first)
        o[...] = (found / total).astype(dtype)

    keys = like((n * b, d), dtype)
    return body, [like((q, d), dtype), keys, keys], like((q, d), dtype)


def decoding(draw: Draw) -> Kernel:
    """Attention of single queries: grouped, or by products of elements and sums."""
    g, h, k = draw.choice([1, 2, 4, 8]), draw.choice([1, 2]), draw.choice([64, 128, 40])
    d, dtype = draw.choice([64, 128]), float_type(draw)

    def grouped(q: Any, ks: Any, vs: Any) -> Any:
        s = jnp.einsum("hgd,hkd->hgk", q, ks, preferred_element_type=f32)
        p = jax.nn.softmax(jnp.where(numbered(s.shape, 2) < 40, s, -1e30), -1)
        o = jnp.einsum("hgk,hkd->hgd", p.astype(dtype), vs, preferred_element_type=f32)
        return o.reshape(h * g, d)

    def single(q: Any, ks: Any, vs: Any) -> Any:
        s = jnp.sum(q.astype(f32) * ks.astype(f32), -1, keepdims=True)
        p = jnp.exp(s - jnp.max(s, 0, keepdims=True))
        p = p / jnp.sum(p, 0, keepdims=True)
        return jnp.sum(p * vs.astype(f32), 0, keepdims=True).astype(dtype)

    keys = like((h, k, d), dtype)
    return draw.choice([
        lambda: made(grouped, like((h, g, d), dtype), keys, keys),
        lambda: made(single, like((1, d), dtype), like((k, d), dtype), like((k, d), dtype)),
    ])()  # fmt: skip


def norms(draw: Draw) -> Kernel:
    """Norms along any of the last dimensions, with a scale."""
    s, dtype = block(draw), float_type(draw)
    kind = draw.choice(["rms", "mean", "mean", "sum"])
    axis = draw.choice([0, len(s) - 2, len(s) - 1]) if kind == "mean" else len(s) - 1
    scale = like(draw.choice([(1,) * (len(s) - 1) + (s[-1],), (s[-1],)]), draw.choice([f32, dtype]))

    def norm(x: Any, w: Any, *rest: Any) -> Any:
        y = x.astype(f32) + (rest[0].astype(f32) if rest else 0)
        if kind == "mean":
            mean = jnp.mean(y, axis, keepdims=True)
            y, wide = y - mean, jnp.mean(y * y, axis, keepdims=True) - mean * mean
            return (y * lax.rsqrt(wide + 1) * w.astype(f32)).astype(dtype)
        y = y * lax.rsqrt(jnp.mean(y * y, axis, keepdims=True) + 1e-2)
        return y.astype(dtype) * w.astype(dtype)

    return made(norm, like(s, dtype), scale, *[like(s, dtype)] * (kind == "sum"))


def quantized_norm(draw: Draw) -> Kernel:
    """A norm whose result is scaled to bytes."""
    r, c = draw.choice(BLOCKS)

    def norm(x: Any, w: Any) -> Any:
        y = x.astype(f32)
        y = y * lax.rsqrt(jnp.mean(y * y, -1, keepdims=True) + 1) * w
        scale = jnp.max(jnp.abs(y), -1, keepdims=True) / 127 + 1e-6
        return jnp.clip(jnp.round(y / scale), -127, 127).astype(i8)

    return made(norm, like((r, c), float_type(draw)), like((1, c), f32))


def bytes_by_floats(draw: Draw) -> Kernel:
    """Products with weights of few bits, scaled by column, group or row."""
    m, k, n, g = (
        draw.choice([8, 16, 32, 5]), draw.choice([128, 256, 64]), draw.choice([128, 256]),
        draw.choice([32, 64]),
    )  # fmt: skip

    def grouped(x: Any, w: Any, s: Any) -> Any:
        wide = w.astype(f32).reshape(k // g, g, n) * s[:, None]
        return times(x, wide.reshape(k, n).astype(bf16))

    def halves(x: Any, w: Any, s: Any) -> Any:
        w = w.astype(i32)
        wide = jnp.concatenate([(w << 28) >> 28, w >> 4], 0).astype(f32)
        return times(x, wide.astype(bf16)) * s

    def turned(x: Any, w: Any, s: Any) -> Any:
        y = times_by_last(x, w.astype(bf16))
        return y * s.reshape(1, n)

    def by_row(x: Any, w: Any, s: Any) -> Any:
        y = x.astype(f32)
        scale = jnp.max(jnp.abs(y), -1, keepdims=True) / 127 + 1e-3
        q = jnp.round(y / scale).astype(i8)
        return jnp.dot(q, w, preferred_element_type=i32).astype(f32) * scale * s

    x, scale = like((m, k), bf16), like((1, n), f32)
    return draw.choice([
        lambda: made(lambda x, w, s: times(x, w.astype(bf16)) * s, x, like((k, n), i8), scale),
        lambda: made(
            lambda x, w, s: times(x, w.astype(f32).astype(bf16)) * s, x, like((k, n), jnp.int4),
            scale),
        lambda: made(grouped, x, like((k, n), i8), like((k // g, n), f32)),
        lambda: made(halves, x, like((k // 2, n), i8), scale),
        lambda: made(turned, x, like((n, k), i8), like(draw.choice([(n, 1), (n,), (1, n)]), f32)),
        lambda: made(by_row, x, like((k, n), i8), scale),
    ])()  # fmt: skip


def layers(draw: Draw) -> Kernel:
    """Products behind one another: of low rank beside a whole one, or with an activation."""
    m, k, h = draw.choice([8, 16, 12, 5]), draw.choice([64, 128, 200]), draw.choice([128, 200])
    n, r, dtype = draw.choice([128, 10]), draw.choice([8, 16, 4]), float_type(draw)

    def low(x: Any, w: Any, a: Any, b: Any) -> Any:
        return (times(x, w) + times(times(x, a).astype(dtype), b) * 0.5).astype(dtype)

    def two(x: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
        return (times(jax.nn.relu(times(x, a) + b).astype(dtype), c) + d).astype(dtype)

    x = like((m, k), dtype)
    return draw.choice([
        lambda: made(low, x, like((k, n), dtype), like((k, r), dtype), like((r, n), dtype)),
        lambda: made(two, x, like((k, h), dtype), like((1, h), f32), like((h, n), dtype),
                     like(draw.choice([(1, n), (n,)]), f32)),
    ])()  # fmt: skip


def optimizers(draw: Draw) -> Kernel:
    """Steps of optimizers, which look at elements, at all, or at rows and columns."""
    s, dtype, held = block(draw), float_type(draw), draw.choice([f32, f32, bf16])

    def adam(p: Any, g: Any, m: Any, v: Any) -> Any:
        p, g, m, v = (a.astype(f32) for a in (p, g, m, v))
        m, v = 0.9 * m + 0.1 * g, jnp.abs(0.99 * v) + 0.01 * g * g
        return (p - 0.1 * (m / (jnp.sqrt(v) + 1e-1) + 0.01 * p)).astype(dtype)

    def signs(p: Any, g: Any, m: Any, v: Any) -> Any:
        return (p.astype(f32) - 0.1 * jnp.sign(m.astype(f32) + g.astype(f32))).astype(dtype)

    def clipped(p: Any, g: Any, m: Any, v: Any) -> Any:
        y = g.astype(f32)
        norm = jnp.sqrt(jnp.sum(y * y))
        return (p.astype(f32) - y * jnp.where(norm > 1, 1 / norm, 1)).astype(dtype)

    def factored(p: Any, g: Any, m: Any, v: Any) -> Any:
        y = g.astype(f32) ** 2 + 1e-3
        r, c = jnp.mean(y, -1, keepdims=True), jnp.mean(y, -2, keepdims=True)
        scale = lax.rsqrt(r * c / jnp.mean(r, -2, keepdims=True))
        return (p.astype(f32) - g.astype(f32) * scale).astype(dtype)

    step = draw.choice([adam, signs, clipped, factored])
    gradient = like(s, draw.choice([dtype, bf16]))
    return made(step, like(s, dtype), gradient, like(s, held), like(s, held))


def losses(draw: Draw) -> Kernel:
    """Losses of two matrices, by element or by row, or of one."""
    r, c = draw.choice(BLOCKS)
    dtype = float_type(draw)

    def divergence(x: Any, y: Any) -> Any:
        p, q = (jax.nn.log_softmax(z.astype(f32), -1) for z in (x, y))
        return jnp.sum(jnp.exp(p) * (p - q), -1, keepdims=True)

    def huber(x: Any, y: Any) -> Any:
        e = x.astype(f32) - y.astype(f32)
        return jnp.where(jnp.abs(e) < 1, 0.5 * e * e, jnp.abs(e) - 0.5).astype(dtype)

    def binary(x: Any, y: Any) -> Any:
        x = x.astype(f32)
        rest = jnp.log1p(jnp.exp(-jnp.abs(x)))
        return (jnp.maximum(x, 0) - x * y.astype(f32) + rest).astype(dtype)

    def flat(x: Any, y: Any) -> Any:
        x = x.astype(f32)
        top = jnp.max(x, -1)
        return top + jnp.log(jnp.sum(jnp.exp(x - top[:, None]), -1))

    where = draw.choice([divergence, huber, binary, flat])
    return made(where, like((r, c), dtype), like((r, c), dtype))


def images(draw: Draw) -> Kernel:
    """What is done to images whose channels are lanes."""
    h, w, c = draw.choice([8, 10, 6]), draw.choice([8, 16, 12]), draw.choice([128, 64, 3, 32])
    wide = lambda x: x.astype(f32)  # noqa: E731
    function = draw.choice([
        lambda x: (wide(x)[:-2] + 2 * wide(x)[1:-1] + wide(x)[2:]) * 0.25,
        lambda x: (wide(x)[:, :-2] + 2 * wide(x)[:, 1:-1] + wide(x)[:, 2:]) * 0.25,
        lambda x: jnp.concatenate([x[i : i + 1] for i in range(h)][::-1], 0),
        lambda x: x.reshape(h // 2, 2, w, c).transpose(0, 2, 1, 3),
        lambda x: x.transpose(2, 0, 1), lambda x: x.transpose(1, 2, 0),
        lambda x: jnp.pad(x, ((1, 1), (1, 1), (0, 0))), lambda x: jnp.sum(wide(x), -1),
        lambda x: jnp.repeat(x, 2, 0), lambda x: (wide(x) / 255 - 0.5) * 2,
        lambda x: jnp.broadcast_to(x[:, :, None], (h, w, 2, c)).reshape(h, 2 * w, c),
        lambda x: jnp.where(wide(x) > 3, 1.0, 0.0).astype(bf16),
    ])  # fmt: skip
    return made(function, like((h, w, c), draw.choice([f32, bf16, i8])))


def states(draw: Draw) -> Kernel:
    """A state that goes through the rows, or a chunk of a linear attention."""
    n, d, c = draw.choice([8, 16]), draw.choice([128, 64, 256]), draw.choice([16, 32, 64, 24])
    dtype = float_type(draw)

    def scanned(a: Any, x: Any, w: Any, o: Any) -> None:
        def step(t: Any, h: Any) -> Any:
            h = h * a[...] * 0.1 + x[pl.ds(t, 1), :]
            o[pl.ds(t, 1), :] = jnp.sum(h * w[...], 0, keepdims=True)
            return h

        lax.fori_loop(0, c, step, jnp.zeros((n, d), f32))

    def chunk(q: Any, k: Any, v: Any, g: Any) -> Any:
        decay = jnp.exp(-jnp.abs(g) * 0.01)
        s = times_by_last(q, k)
        s = jnp.where(numbered((c, c), 0) >= numbered((c, c), 1), s, 0)
        return times((s * (decay / decay.reshape(1, c))).astype(dtype), v)

    state, rows = like((n, d), f32), like((c, d), dtype)
    return draw.choice([
        lambda: (scanned, [state, like((c, d), f32), state], like((c, d), f32)),
        lambda: made(chunk, rows, rows, rows, like((c, 1), f32)),
    ])()  # fmt: skip


def carried(draw: Draw) -> Kernel:
    """What loops carry: blocks, sums of rows or columns, two that change places."""
    r, c = draw.choice(BLOCKS)
    n, dtype = draw.choice([2, 3, 5]), draw.choice([f32, f32, bf16])

    def turns(step: Any, first: Any) -> Any:
        return lax.fori_loop(0, n, lambda _, y: step(y), first)

    function = draw.choice([
        lambda x: turns(lambda y: y + x * y, x),
        lambda x: turns(lambda y: (y + jnp.abs(x.astype(f32)) / y) * 0.5, jnp.ones((r, c), f32)),
        lambda x: turns(
            lambda y: y + jnp.sum(x.astype(f32) * y, -1, keepdims=True) * 1e-3,
            jnp.ones((r, 1), f32)),
        lambda x: turns(
            lambda y: jnp.maximum(y, jnp.max(x.astype(f32) - y, 0, keepdims=True)),
            jnp.ones((1, c), f32)),
        lambda x: sum(turns(lambda t: (t[1], t[0] + x), (x, x))),
        lambda x: lax.fori_loop(
            0, n, lambda i, y: jnp.where(numbered((r, c), 1) < i * 20, y + x, y), x),
    ])  # fmt: skip
    return made(function, like((r, c), dtype))


def folded_dims(draw: Draw) -> Kernel:
    """Sums, means and extrema along any dimension, or what belongs to four of them."""
    s, dtype = block(draw, draw.choice([1, 2])), draw.choice([f32, bf16])
    axis = draw.randrange(len(s))
    wide = lambda x: x.astype(f32)  # noqa: E731
    kept = {"axis": axis, "keepdims": True}
    function = draw.choice([
        lambda x: jnp.sum(wide(x), (len(s) - 2, len(s) - 1), keepdims=True),
        lambda x: jnp.sum(wide(x), 0), lambda x: jnp.max(wide(x), axis),
        lambda x: jnp.mean((wide(x) - jnp.mean(wide(x), **kept)) ** 2, **kept),
        lambda x: jnp.max((x > 10).astype(f32), **kept),
        lambda x: jnp.max(x, **kept) - jnp.min(x, **kept),
        lambda x: jnp.log(jnp.sum(jnp.exp(wide(x) * 0.1), axis)),
        lambda x: x * jnp.max(x, (0, len(s) - 1), keepdims=True),
    ])  # fmt: skip
    return made(function, like(s, dtype))


def narrow_masks(draw: Draw) -> Kernel:
    """Choices between packed numbers, by masks that are numbers or comparisons."""
    s, dtype = block(draw), draw.choice([i8, jnp.int16, bf16])
    other = like(s, draw.choice([i8, i32, jnp.int16]))
    row = like((*(1,) * (len(s) - 1), s[-1]), dtype)
    return draw.choice([
        lambda: made(lambda x, y: jnp.where(x == y, x, y), like(s, dtype), like(s, dtype)),
        lambda: made(lambda x, m: jnp.where(m != 0, x, 0), like(s, dtype), other),
        lambda: made(lambda x, m: jnp.where(m > 0, x.astype(f32), 0), like(s, dtype), like(s, i8)),
        lambda: made(lambda x: (x.astype(f32) > 0).astype(i8), like(s, dtype)),
        lambda: made(lambda x, m: x * (m != 0).astype(f32), like(s, f32), row),
        lambda: made(
            lambda x: jnp.where(numbered(s, len(s) - 1) < s[-1] // 2, x, 0), like(s, dtype)),
    ])()  # fmt: skip


MODELS: dict[str, Callable[[Draw], Kernel]] = {
    f.__name__: f
    for f in (
        attention, in_blocks, decoding, norms, quantized_norm, bytes_by_floats, layers, optimizers,
        losses, images, states, carried, folded_dims, narrow_masks,
    )
}  # fmt: skip
