"""Random kernels as authors write them: expressions of JAX functions over blocks of a grid."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

f32, bf16, i32 = jnp.float32, jnp.bfloat16, jnp.int32
Array = Any
Draw = random.Random
Maker = Callable[[Draw, int, int], Callable[..., Array]]
"""Makes a function of blocks of so many rows and columns."""


def _plain(function: Callable[..., Array]) -> Maker:
    return lambda draw, rows, columns: function


def _along(function: Callable[[Array, int], Array]) -> Maker:
    """A function along either axis."""

    def make(draw: Draw, rows: int, columns: int) -> Callable[..., Array]:
        axis = draw.randrange(2)
        return lambda x: function(x, axis)

    return make


def _rotated(draw: Draw, rows: int, columns: int) -> Callable[..., Array]:
    axis = draw.randrange(2)
    amount = draw.randrange(1, (rows, columns)[axis])
    return lambda x: jnp.roll(x, amount, axis)


def _cut(draw: Draw, rows: int, columns: int) -> Callable[..., Array]:
    at = draw.randrange(1, columns)
    return lambda x: jnp.concatenate([x[:, at:], x[:, :at]], axis=1)


def _spliced(draw: Draw, rows: int, columns: int) -> Callable[..., Array]:
    at = draw.randrange(1, rows)
    return lambda x, y: jnp.concatenate([x[:at], y[at:]])


def _line(draw: Draw, rows: int, columns: int) -> Callable[..., Array]:
    row, column = draw.randrange(rows), draw.randrange(columns)
    return lambda x: x[row] * 0.5 + x[:, column][:, None]


def _padded(draw: Draw, rows: int, columns: int) -> Callable[..., Array]:
    before, after = draw.randrange(columns), draw.randrange(columns)
    return lambda x: jnp.pad(x, ((0, 0), (before, after)), constant_values=0.5)[:, -columns:]


def _parted(draw: Draw, rows: int, columns: int) -> Callable[..., Array]:
    axis = draw.randrange(2)
    at = draw.randrange(1, (rows, columns)[axis])

    def function(x: Array) -> Array:
        first, second = lax.split(x, (at, x.shape[axis] - at), axis=axis)
        return jnp.concatenate([second - 1, first], axis=axis)

    return function


def _looped(draw: Draw, rows: int, columns: int) -> Callable[..., Array]:
    turns, axis, unroll = draw.randrange(1, 5), draw.randrange(2), draw.choice([1, 2])
    return lambda x: lax.fori_loop(
        0, turns, lambda i, v: jnp.roll(v, 1, axis) * 0.9 + i.astype(f32), x, unroll=unroll
    )


UNARY: tuple[Maker, ...] = (
    _rotated, _cut, _line, _looped, _padded, _parted,
    _plain(lambda x: jnp.sin(x) + jnp.tanh(x)),
    _plain(lambda x: jax.nn.gelu(x) - jax.nn.silu(x)),
    _plain(lambda x: jnp.sqrt(jnp.abs(x)) * jnp.sign(x)),
    _plain(lambda x: jnp.exp(jnp.clip(x, -3, 2))),
    _plain(lambda x: jnp.floor(x) + jnp.round(x).astype(i32) % 3),
    _plain(lambda x: jnp.where((x > 0) & (x < 1), x, -0.5 * x)),
    _plain(lambda x: x.astype(bf16).astype(f32)),
    _plain(lambda x: jnp.transpose(jnp.transpose(x) + 1)),
    _plain(lambda x: jnp.tril(x) + jnp.triu(x, 3)),
    _plain(lambda x: x.reshape(-1, 8, x.shape[1]).max(1).repeat(8, 0)),
    _plain(lambda x: jax.vmap(lambda row: row - row.mean())(x)),
    _plain(lambda x: x * 0.5 + x.sum() * 1e-3),
    _plain(lambda x: lax.cond(x[0, 0] > 0, lambda v: v + 1, lambda v: -v, x)),
    _plain(lambda x: lax.switch(jnp.abs(x[1, 1]).astype(i32) % 3,
                                [lambda v: v, lambda v: v * 2, lambda v: v - 1], x)),
    _plain(lambda x: lax.while_loop(lambda v: jnp.max(v) > 1, lambda v: v * 0.7, x)),
    _plain(jax.grad(lambda x: (jnp.tanh(x) ** 2).sum())),
    _plain(lambda x: (jnp.abs(x) + 1) ** 0.5 - (jnp.abs(x) + 1) ** -1.0 + x**2.0 * 0.1),
    _plain(lambda x: lax.erf_inv(jnp.clip(x, -0.9, 0.9)) + lax.nextafter(x, 2 * x)),
    _plain(lambda x: jnp.divmod(x, 3.0)[1] + jnp.nan_to_num(x / x, nan=0.5)),
    _plain(lambda x: jax.nn.hard_swish(x) + jax.nn.logsumexp(x, 1, keepdims=True) * 0.1),
    _plain(lambda x: lax.population_count(x.astype(i32)) - 0.5 * lax.clz(x.astype(i32))),
    _plain(lambda x: jnp.stack(jnp.unstack(x.reshape(-1, 8, x.shape[1]))[::-1]).reshape(x.shape)),
    _along(lambda x, axis: jax.nn.softmax(x, axis)),
    _along(lambda x, axis: x - x.max(axis, keepdims=True)),
    _along(lambda x, axis: x + lax.broadcasted_iota(i32, x.shape, axis) * 0.01),
    _along(lambda x, axis: x + jnp.expand_dims(jnp.argmax(x, axis), axis) * 0.01),
    _along(lambda x, axis: jnp.where(jnp.any(x > 2, axis, keepdims=True), x, x + 1)),
)  # fmt: skip
BINARY: tuple[Maker, ...] = (
    _spliced,
    _plain(lambda x, y: x + y),
    _plain(lambda x, y: x * y * 0.3),
    _plain(lambda x, y: jnp.maximum(x, y) - jnp.minimum(x, 0)),
    _plain(lambda x, y: jnp.where(x > y, x, y * 0.5)),
    _plain(lambda x, y: x + y[:1] * y[:, :1]),
    _plain(lambda x, y: jnp.stack([x, y]).sum(0)),
    _plain(lambda x, y: x / (jnp.abs(y) + 1)),
    _plain(lambda x, y: jnp.hypot(x, y) - jnp.copysign(x, y - 0.3)),
    _plain(lambda x, y: jnp.logaddexp(x, y) + jnp.arctan2(x, jnp.abs(y) + 1)),
    _plain(lambda x, y: lax.rem(x, jnp.abs(y) + 1)),
    _plain(lambda x, y: (jnp.abs(x) + 1) ** jnp.clip(y, -2, 2)),
)


@dataclass(frozen=True)
class Program:
    """A call, its arguments, and what JAX makes of the same expression outside of a kernel."""

    call: Callable[..., Array]
    arguments: list[Any]
    expected: Any


def program(seed: int) -> Program:
    """A grid of up to three blocks, which a table may permute; what is written may be summed in
    scratch, and written twice."""
    draw = Draw(seed)
    rows, columns = draw.choice([8, 16, 24, 40]), draw.choice([128, 256, 384])
    steps, inputs = draw.choice([1, 2, 3]), draw.choice([1, 2, 3])
    kinds = [f32] + [draw.choice([f32, bf16, i32, jnp.int8, jnp.bool_]) for _ in range(inputs - 1)]
    result = draw.choice([f32, f32, bf16, i32])
    expression = _expression(draw, rows, columns, inputs)
    summed, permuted, twice = (draw.random() < 0.4 for _ in range(3))
    order = [(2 * i + 1) % steps if permuted else i for i in range(steps)]

    def value(blocks: Sequence[Array]) -> Array:
        made = expression([block.astype(f32) for block in blocks])
        if result == i32:
            return jnp.clip(jnp.round(made * 4), -100, 100).astype(i32)
        return made.astype(result)

    def body(table: Any, *refs: Any) -> None:
        *sources, o, total = refs
        made = value([source[...] for source in sources])
        if summed:
            start = jnp.where(pl.program_id(0) == 0, jnp.zeros((rows, columns), f32), total[...])
            total[...] = start + made.astype(f32)
            made = total[...].astype(result)
        o[...] = made

        @pl.when((pl.program_id(0) == 1) & twice)
        def _() -> None:
            o[...] = made + made

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(steps,),
        in_specs=[pl.BlockSpec((rows, columns), lambda i, table: (table[i], 0))] * inputs,
        out_specs=pl.BlockSpec((rows, columns), lambda i, table: (i, 0)),
        scratch_shapes=[pltpu.VMEM((rows, columns), f32)],
    )
    out = jax.ShapeDtypeStruct((rows * steps, columns), result)
    arrays = [_array(seed + n, (rows * steps, columns), kind) for n, kind in enumerate(kinds)]
    expected: list[Any] = []
    total = jnp.zeros((rows, columns), f32)
    for step, source in enumerate(order):
        made = jax.jit(value)([array[source * rows :][:rows] for array in arrays])
        if summed:
            total = total + made.astype(f32)
            made = total.astype(result)
        expected.append(made + made if twice and step == 1 else made)
    return Program(
        lambda *arguments: pl.pallas_call(body, grid_spec=spec, out_shape=out)(*arguments),
        [np.array(order, np.int32), *arrays],
        np.concatenate(expected),
    )


def _expression(draw: Draw, rows: int, columns: int, inputs: int) -> Callable[[list[Array]], Array]:
    steps: list[tuple[Callable[..., Array], list[int]]] = []
    for known in range(inputs, inputs + draw.randint(4, 10)):
        unary = draw.random() < 0.6
        make = draw.choice(UNARY if unary else BINARY)
        operands = [draw.randrange(max(0, known - 3), known) for _ in range(1 if unary else 2)]
        steps.append((make(draw, rows, columns), operands))

    def evaluate(values: list[Array]) -> Array:
        values = list(values)
        for function, operands in steps:
            values.append(function(*(values[n] for n in operands)).astype(f32))
        return values[-1]

    return evaluate


def _array(seed: int, shape: tuple[int, ...], kind: Any) -> Any:
    random_numbers = np.random.default_rng(seed)
    if kind == jnp.bool_:
        return random_numbers.integers(0, 2, shape).astype(bool)
    if jnp.issubdtype(kind, jnp.integer):
        return random_numbers.integers(-9, 10, shape).astype(kind)
    return (random_numbers.standard_normal(shape) * 2).astype(np.float32).astype(kind)
