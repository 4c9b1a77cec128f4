"""Random kernels that move blocks, in the manner of what people write."""

from __future__ import annotations

from typing import Any

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
    i32,
    like,
    made,
    rows,
)


def spaced(draw: Draw) -> Kernel:
    """Rows at a stride along several dimensions, loaded or stored."""
    s, dtype = block(draw), draw.choice([f32, f32, i32, bf16])
    places = [
        (draw.randrange(min(2, n)), draw.choice([1, 1, 2, 3]) if d < len(s) - 1 else 1)
        if d < len(s) - 1 else (0, 1)
        for d, n in enumerate(s)
    ]  # fmt: skip
    sizes = [-(-(n - start) // step) for n, (start, step) in zip(s, places, strict=True)]
    where = tuple(pl.ds(start, n, step) for n, (start, step) in zip(sizes, places, strict=True))
    small, whole = like(tuple(sizes), dtype), like(s, dtype)

    def load(x: Any, o: Any) -> None:
        o[...] = x[where] + x[where]

    def store(x: Any, o: Any) -> None:
        o[...] = jnp.zeros(s, dtype)
        o[where] = x[...] + x[...]

    return (load, [whole], small) if draw.random() < 0.5 else (store, [small], whole)


def permuted(draw: Draw) -> Kernel:
    """A transpose of three or four dimensions, the last two of any size, and a sum after it."""
    s, dtype = block(draw, draw.choice([3, 3, 4])), any_type(draw)
    if draw.random() < 0.3:
        s = (*s[:-1], draw.choice([8, 16, 32, 64]))
    order = draw.sample(range(len(s)), len(s))
    summed = draw.random() < 0.3 and dtype in (f32, bf16)
    twice = lambda x: x + jnp.sum(x, -1, keepdims=True) if summed else x  # noqa: E731
    return made(lambda x: twice(jnp.transpose(x, order)), like(s, dtype))


def heads(draw: Draw) -> Kernel:
    """Columns that become heads, or heads that become columns."""
    n, h, d = rows(draw), draw.choice([1, 2, 3, 4, 8]), draw.choice([32, 64, 64, 96, 128, 128, 256])
    dtype = draw.choice([f32, bf16])
    split = lambda x: x.reshape(n, h, d)  # noqa: E731
    return draw.choice([
        lambda: made(split, like((n, h * d), dtype)),
        lambda: made(lambda x: split(x).transpose(1, 0, 2), like((n, h * d), dtype)),
        lambda: made(lambda x: x.transpose(1, 0, 2).reshape(n, h * d), like((h, n, d), dtype)),
        lambda: made(lambda x: x.reshape(n, h * d), like((n, h, d), dtype)),
        lambda: made(lambda x: x.reshape(h * n, d), like((h, n, d), dtype)),
        lambda: made(lambda x: x.reshape(h, n, d), like((h * n, d), dtype)),
    ])()  # fmt: skip


def halves(draw: Draw) -> Kernel:
    """Parts of equal size along an axis, combined or put together in another order."""
    s, dtype = block(draw), any_type(draw)
    axis, n = draw.randrange(len(s)), draw.choice([2, 2, 3, 4])
    s = tuple(-(-e // n) * n if d == axis else e for d, e in enumerate(s))
    split = lambda x: jnp.split(x, n, axis)  # noqa: E731
    order, new = draw.sample(range(n), n), draw.randrange(len(s) + 1)
    return draw.choice([
        lambda: made(lambda x: jnp.concatenate([split(x)[k] for k in order], axis), like(s, dtype)),
        lambda: made(lambda x: split(x)[0] + split(x)[-1], like(s, dtype)),
        lambda: made(
            lambda x: jnp.concatenate([-split(x)[-1], *split(x)[:-1]], axis) + x, like(s, dtype)),
        lambda: made(lambda x: jnp.stack(split(x), new), like(s, dtype)),
    ])()  # fmt: skip


def joined(draw: Draw) -> Kernel:
    """Three blocks of other sizes along one axis."""
    s, dtype = block(draw), any_type(draw)
    axis = draw.randrange(len(s))
    sizes = [draw.choice([1, e, draw.randint(1, e)]) for e in [s[axis]] * draw.choice([2, 3])]
    blocks = [tuple(n if d == axis else e for d, e in enumerate(s)) for n in sizes]
    return made(lambda *x: jnp.concatenate(x, axis), *[like(b, dtype) for b in blocks])


def grouped(draw: Draw) -> Kernel:
    """Heads that several queries share: repeated along a dimension of their own, or folded."""
    h, n, d, times = few(draw), rows(draw), columns(draw), draw.choice([2, 3, 4, 8])
    dtype = float_type(draw)
    spread = lambda x: jnp.broadcast_to(x[:, None], (h, times, n, d))  # noqa: E731
    return draw.choice([
        lambda: made(lambda x: spread(x).reshape(h * times, n, d), like((h, n, d), dtype)),
        lambda: made(lambda x: jnp.repeat(x, times, 0), like((n, d), dtype)),
        lambda: made(lambda x: jnp.repeat(x, times, 1), like((h, n, d), dtype)),
        lambda: made(
            lambda x, y: x[:, None] * y, like((h, n, d), dtype), like((h, times, n, d), dtype)),
        lambda: made(lambda x, y: x[:, None] + y[None], like((n, d), dtype), like((h, d), dtype)),
    ])()  # fmt: skip


def turned(draw: Draw) -> Kernel:
    """A rotation by an amount that a loop counts, or that grows along an axis."""
    s, dtype = block(draw, draw.choice([2, 2, 3])), draw.choice([f32, f32, i32, bf16])
    axis = draw.randrange(len(s))
    if draw.random() < 0.3:
        amount = draw.randrange(s[axis])
        return made(lambda x: x * pltpu.roll(x, amount, axis), like(s, dtype))

    def loop(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, y: y + pltpu.roll(x, i, axis), x)

    return made(loop, like(s, dtype))


def chosen_rows(draw: Draw) -> Kernel:
    """Rows, columns or blocks at fixed places, put together or added."""
    s, dtype = block(draw), any_type(draw)
    axis = draw.randrange(len(s))
    places = [draw.randrange(s[axis]) for _ in range(draw.choice([2, 3, 4]))]
    take = lambda x, k: lax.index_in_dim(x, k, axis, keepdims=kept)  # noqa: E731
    kept = draw.random() < 0.6
    if draw.random() < 0.5:
        return made(lambda x: sum(take(x, k) for k in places), like(s, dtype))
    join = jnp.concatenate if kept else jnp.stack
    return made(lambda x: join([take(x, k) for k in places], axis), like(s, dtype))
