"""The rules of `frontend/jaxprs`: kernels traced from jaxprs compute the bits of JAX's lowering."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

import pallasite  # noqa: E402
from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.jax import trace  # noqa: E402

pytestmark = pytest.mark.jax

f32, bf16, i32, u32 = jnp.float32, jnp.bfloat16, jnp.int32, jnp.uint32
SHAPE = (16, 128)
Body = Callable[..., None]


def values(*shape: int, dtype: Any = f32, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    if jnp.issubdtype(dtype, jnp.integer):
        return jnp.asarray(rng.integers(0 if dtype == u32 else -50, 50, shape), dtype)
    return jnp.asarray(rng.standard_normal(shape) * 3, dtype)


def check(f: Callable[..., Any], *inputs: Any) -> Any:
    """The module traced from the jaxpr gives the bits of JAX's lowering, lowered and as it is."""
    traced = trace(f, *inputs)
    arrays = [np.asarray(x) for x in inputs]
    theirs = pallasite.run(trace(f, *inputs, form="mosaic"), arrays, form="mosaic")
    as_text = pallasite.parse(str(traced))
    lowered = pallasite.run(as_text, arrays, form="mosaic")
    direct = pallasite.run(traced, arrays, form="pallas", checks=("race", "init", "sync"))
    for ours in (lowered, direct):
        for one, other in zip(ours, theirs, strict=True):
            assert one.dtype == other.dtype and one.tobytes() == other.tobytes()
    return traced


def elementwise(body: Callable[..., Any], *inputs: Any) -> None:
    def kernel(*refs: Any) -> None:
        *ins, out = refs
        out[...] = body(*(ref[...] for ref in ins)).astype(out.dtype)

    out = jax.eval_shape(body, *inputs)
    check(lambda *xs: pl.pallas_call(kernel, out_shape=out)(*xs), *inputs)


FLOATS: list[Callable[..., Any]] = [
    lambda x, y: (x + y) * (x - y) / (jnp.abs(y) + 1.0),
    lambda x, y: jnp.maximum(x, y) + jnp.minimum(x, 2.0) - lax.rem(x, y) + lax.neg(x),
    lambda x, y: jnp.exp(x) + jnp.exp2(y) + jnp.log(jnp.abs(x)) + jnp.log1p(jnp.abs(y)),
    lambda x, y: jnp.tanh(x) + lax.erf(y) + lax.logistic(x) + jnp.sqrt(jnp.abs(x)) + lax.rsqrt(y),
    lambda x, y: jnp.sin(x) + jnp.cos(y) + jnp.tan(x) + jnp.arctan2(x, y),
    lambda x, y: jnp.floor(x) + jnp.ceil(y) + jnp.round(x) + lax.round(y) + jnp.sign(x),
    lambda x, y: x**3 + x**-2 + jnp.abs(y) ** 1.5 + 2.0**x + jnp.square(y) + x**0,
    lambda x, y: jnp.clip(x, -1.0, y) + jnp.where(jnp.isnan(x / x), 1.0, lax.nextafter(x, y)),
    lambda x, y: lax.erf_inv(x / 20) + jnp.where(jnp.isfinite(1 / y), x, y) + lax.stop_gradient(x),
    lambda x, y: jax.nn.gelu(x) + jax.nn.relu(y) + jax.nn.silu(x) + pl.reciprocal(y, approx=True),
    lambda x, y: lax.bitcast_convert_type(lax.bitcast_convert_type(x, u32) | u32(1), f32) + y,
    lambda x, y: jnp.where((x > y) ^ (x <= 0.5) | ~(y != x), x, y) + jnp.where(x == y, 1.0, 0.0),
    lambda x, y: jnp.where((x > 0) < (y >= 0), x, y) + jnp.where((x > 0) == (y > 0), 1.0, x),
    lambda x, y: x.astype(i32).astype(f32) + (y * 5).astype(jnp.int8).astype(f32),
    lambda x, y: (x > 0).astype(f32) + (y != 0).astype(i32) + x.astype(bool).astype(f32),
    lambda x, y: x.astype(bf16).astype(f32) + x.astype(jnp.float8_e5m2).astype(f32),
]


@pytest.mark.parametrize("body", FLOATS)
def test_floats(body: Any) -> None:
    elementwise(body, values(*SHAPE), values(*SHAPE, seed=1))


@pytest.mark.parametrize("dtype", [i32, u32])
def test_integers(dtype: Any) -> None:
    x, y = values(*SHAPE, dtype=dtype), values(*SHAPE, dtype=dtype, seed=1)
    elementwise(lambda x, y: (x + y) * 3 - (x & y) + (x | 7) - (x ^ y) + ~x, x, y)
    elementwise(
        lambda x, y: x // (y | 1) + x % (y | 1) + lax.div(x, y | 1) + lax.rem(x, y | 1), x, y
    )
    elementwise(lambda x, y: (x << 2) + (y >> 1) + lax.shift_right_logical(x, dtype(3)), x, y)
    elementwise(lambda x, y: jnp.minimum(x, y) - jnp.maximum(x, y) + jnp.sign(x) + abs(y), x, y)
    elementwise(lambda x, y: jnp.where(x < y, lax.clz(x), lax.population_count(y)), x, y)
    elementwise(lambda x, y: x.astype(f32) + (y > 9).astype(dtype) + x.astype(jnp.int16), x, y)


def test_bfloat16() -> None:
    x, y = values(*SHAPE, dtype=bf16), values(*SHAPE, dtype=bf16, seed=1)
    elementwise(lambda x, y: x * y + jnp.sign(x) - jnp.where(x > y, x, bf16(2)), x, y)


def test_shapes() -> None:
    def kernel(x: Any, o: Any) -> None:
        v = x[...]
        row, column = v[0], v[:, 0]
        total = jnp.concatenate([v[:, 64:], v[:, :64]], axis=1) + row[None, :] + column[:, None]
        total += jnp.stack([row] * 16) + jnp.broadcast_to(row, v.shape)
        total += jnp.transpose(jnp.transpose(v)) + v.reshape(2, 8, 128).reshape(16, 128)
        total += jnp.tile(v[:, :64], (1, 2)) + jnp.pad(v[:8], ((4, 4), (0, 0)), constant_values=2)
        low, high = jnp.split(v, 2, axis=0)
        total += jnp.concatenate([high, low]) + pltpu.roll(v, 5, 1) + jnp.roll(v, 3, 0)
        total += pltpu.roll(v, 1, 1, stride=2, stride_axis=0) + jnp.squeeze(v[None], 0)
        total += jnp.arange(128).astype(f32) + lax.broadcasted_iota(i32, v.shape, 0).astype(f32)
        index = lax.broadcasted_iota(i32, v.shape, 1) % 7
        o[...] = total + jnp.take_along_axis(v, index, 1, mode="promise_in_bounds")

    x = values(*SHAPE)
    check(lambda x: pl.pallas_call(kernel, out_shape=x)(x), x)


def test_reductions() -> None:
    def kernel(x: Any, o: Any) -> None:
        v = x[...]
        o[...] = jnp.sum(v, axis=1, keepdims=True) + jnp.max(v, axis=0) - jnp.min(v)
        o[...] += jnp.argmax(v, axis=1)[:, None].astype(f32) + jnp.argmin(v, axis=0)[None]
        o[...] += jnp.where(jnp.any(v > 5, axis=0), 1.0, 2.0)
        o[...] += jnp.where(jnp.all(v > -5, axis=0), 1.0, 2.0) + jnp.mean(v, axis=(0, 1))

    x = values(*SHAPE)
    check(lambda x: pl.pallas_call(kernel, out_shape=x)(x), x)


@pytest.mark.parametrize("precision", [None, lax.Precision.HIGHEST])
def test_products(precision: Any) -> None:
    def kernel(x: Any, y: Any, o: Any, b: Any) -> None:
        numbers = (((1,), (1,)), ((), ()))
        o[...] = lax.dot_general(x[...], y[...], numbers, precision=precision)
        o[...] += jnp.dot(x[...], y[...].T, precision=precision)
        halves = x[...].reshape(2, 8, 128)
        b[...] = jnp.einsum("bij,bkj->bik", halves, halves, precision=precision)

    shapes = ((16, 32), f32), ((2, 8, 8), f32)
    out = [jax.ShapeDtypeStruct(*shape) for shape in shapes]
    x, y = values(16, 128), values(32, 128, seed=1)
    check(lambda x, y: pl.pallas_call(kernel, out_shape=out)(x, y), x, y)


def test_product_with_a_row() -> None:
    """JAX's own lowering fails to verify where the matrix has several rows."""

    def kernel(x: Any, y: Any, o: Any) -> None:
        numbers = (((1,), (1,)), ((), ()))
        o[...] = lax.dot_general(x[...], y[...], numbers, preferred_element_type=f32)

    x, y = values(16, 128, dtype=bf16), values(1, 128, dtype=bf16, seed=1)
    out = jax.ShapeDtypeStruct((16, 1), f32)
    module = trace(lambda x, y: pl.pallas_call(kernel, out_shape=out)(x, y), x, y)
    (result,) = pallasite.run(module, [np.asarray(x), np.asarray(y)], form="mosaic")
    expected = np.asarray(x, np.float32) @ np.asarray(y, np.float32).T
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-4)


def test_refs() -> None:
    def kernel(i: Any, x: Any, o: Any, s: Any, scratch: Any) -> None:
        at = i[0]
        scratch[...] = x[...] * 2
        o[...] = jnp.zeros_like(o)
        o[pl.ds(at, 4), :] = scratch[pl.ds(pl.multiple_of(at * 4, 4), 4), :]
        o[8:12, 10:50] = x[1, 0:40][None] + x[pl.ds(0, 4, stride=2), 0:40]
        o[15, :] = x.at[pl.ds(4, 8)].at[pl.ds(1, 2)][1, :]
        old = pltpu.bitcast(x[...], i32)[0, 0]
        s[0] = old + i[1]
        s[1] = jnp.int32(0) + at
        s[2], s[3] = s[1], s[0]
        pltpu.store(o.at[12:14], x[0:2], mask=lax.broadcasted_iota(i32, (2, 128), 1) < 7)
        view = scratch.reshape(2, 8, 128)
        o[14, :] += view[1, 3, :] + scratch.bitcast(i32)[2, :].astype(f32)

    smem = pl.BlockSpec(memory_space=pltpu.SMEM)
    vmem = pl.BlockSpec(memory_space=pltpu.VMEM)
    x = values(*SHAPE)

    def f(i: Any, x: Any) -> Any:
        return pl.pallas_call(
            kernel,
            out_shape=[jax.ShapeDtypeStruct(SHAPE, f32), jax.ShapeDtypeStruct((4,), i32)],
            in_specs=[smem, vmem],
            out_specs=[vmem, smem],
            scratch_shapes=[pltpu.VMEM(SHAPE, f32)],
        )(i, x)

    check(f, jnp.array([1, 5], i32), x)


def test_control_flow() -> None:
    def kernel(i: Any, x: Any, o: Any) -> None:
        n, v = i[0], x[...]
        o[...] = lax.cond(n > 2, lambda v: v * 2, lambda v: v - 1, v)
        o[...] += lax.switch(n, [lambda v: v, jnp.exp, lambda v: v * 3, lambda v: -v], v)
        o[...] += lax.fori_loop(0, n, lambda k, c: c * 0.5 + k.astype(f32), v)
        o[...] += lax.fori_loop(1, 7, lambda k, c: c + x[pl.ds(k, 1), :], v, unroll=4)
        o[...] += lax.fori_loop(n, 9, lambda k, c: c + k.astype(f32), v)
        o[...] += lax.while_loop(lambda c: c[0] < n * 10, lambda c: (c[0] * 2, c[1] + 1), (n, v))[1]

        @pl.when(n == 3)
        def _() -> None:
            o[0, :] = x[1, :]

        @pl.loop(0, 4, step=2)
        def _(k: Any) -> None:
            o[pl.ds(k, 1), :] = x[pl.ds(k + 1, 1), :] + jnp.sin(x[0:1, :])

        final = lax.fori_loop(5, n, lambda k, c: c + 1, 0)
        o[15, :] = jnp.full((128,), final, f32)

    smem = pl.BlockSpec(memory_space=pltpu.SMEM)
    x = values(*SHAPE)

    def f(i: Any, x: Any) -> Any:
        specs = [smem, pl.BlockSpec(memory_space=pltpu.VMEM)]
        return pl.pallas_call(kernel, out_shape=x, in_specs=specs)(i, x)

    check(f, jnp.array([3], i32), x)


def test_transfers_and_semaphores() -> None:
    def kernel(i: Any, x: Any, y: Any, o: Any, sems: Any, done: Any) -> None:
        def scoped(buffer: Any, sem: Any) -> None:
            first = pltpu.make_async_copy(x.at[pl.ds(8, 8)], buffer.at[0], sems.at[i[0]])
            first.start(priority=1)
            chosen = pl.select_ref(i[0], x, y) if hasattr(pl, "select_ref") else y
            second = pltpu.make_async_copy(chosen.at[0:8], buffer.at[1], sem)
            second.start()
            first.wait()
            second.wait()
            buffer[0] = buffer[0] + buffer[1]
            pltpu.sync_copy(buffer.at[0], o.at[pl.ds(i[0] * 8, 8)])
            pltpu.sync_copy(x.at[0:8], o.at[pl.ds(0, 8)])

        pl.run_scoped(scoped, pltpu.VMEM((2, 8, 128), f32), pltpu.SemaphoreType.DMA)
        pl.semaphore_signal(done, 2)
        pl.semaphore_wait(done, pl.semaphore_read(done))
        pl.delay(10)

    anywhere = pl.BlockSpec(memory_space=pl.ANY)

    def f(i: Any, x: Any, y: Any) -> Any:
        return pl.pallas_call(
            kernel,
            out_shape=x,
            in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), anywhere, anywhere],
            out_specs=anywhere,
            scratch_shapes=[pltpu.SemaphoreType.DMA((2,)), pltpu.SemaphoreType.REGULAR],
        )(i, x, y)

    check(f, jnp.array([1], i32), values(*SHAPE), values(*SHAPE, seed=1))


def test_random_and_packing() -> None:
    def kernel(s: Any, x: Any, o: Any, p: Any, w: Any) -> None:
        pltpu.prng_seed(s[0], 7)
        o[...] = pltpu.stateful_uniform((8, 128), f32) + x[...]
        key = jax.random.fold_in(jax.random.wrap_key_data(w[...][0, :2]), 3)
        o[...] += jax.random.uniform(key, (8, 128), f32)
        packed = pltpu.pack_elementwise([x[...], o[...]], packed_dtype=bf16)
        p[...] = packed
        wide = pltpu.unpack_elementwise(packed, index=1, packed_dtype=bf16, unpacked_dtype=f32)
        bits = pltpu.bitcast(pltpu.prng_random_bits((8, 128)), u32)
        o[...] += wide + pltpu.stochastic_round(x[...], bits, target_dtype=bf16).astype(f32)

    smem = pl.BlockSpec(memory_space=pltpu.SMEM)
    vmem = pl.BlockSpec(memory_space=pltpu.VMEM)

    def f(s: Any, x: Any, w: Any) -> Any:
        return pl.pallas_call(
            lambda s, x, w, o, p: kernel(s, x, o, p, w),
            out_shape=[x, jax.ShapeDtypeStruct((8, 128), u32)],
            in_specs=[smem, vmem, vmem],
        )(s, x, w)

    check(f, jnp.array([5], i32), values(8, 128), values(8, 128, dtype=u32))


EINSHAPES: list[tuple[str, tuple[int, ...], dict[str, int]]] = [
    ("ab->ba", (128, 256), {}),
    ("(ab)c->b(ac)", (32, 128), {"a": 2}),
    ("ab(cd)->(ac)bd", (4, 8, 256), {"c": 2}),
    ("a(bc)->b(ac)", (8, 512), {"b": 4}),
    ("(ab)(cd)->(ac)(bd)", (16, 256), {"a": 2, "c": 2}),
]


@pytest.mark.parametrize(("equation", "shape", "sizes"), EINSHAPES)
@pytest.mark.parametrize("dtype", [f32, bf16])
def test_einshape(equation: str, shape: tuple[int, ...], sizes: Any, dtype: Any) -> None:
    elementwise(lambda x: pltpu.einshape(equation, x, **sizes), values(*shape, dtype=dtype))


def test_einshape_of_whole_tiles() -> None:
    def kernel(x: Any, o: Any) -> None:
        o[...] = pltpu.einshape("a(bc)->b(ac)", x[...], assert_is_tile_preserving=True, b=4)

    x, out = values(8, 512), jax.ShapeDtypeStruct((4, 1024), f32)
    with pytest.raises(Unsupported, match="within tiles") as caught:
        trace(lambda x: pl.pallas_call(kernel, out_shape=out)(x), x)
    (note,) = caught.value.notes
    assert "leave out assert_is_tile_preserving" in note.message
