"""What refusals of gathers, masks, windows, views and semaphores say to write gives the right
numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

from .mistakes import SMEM, X, call, check  # noqa: E402
from .support import equal, told  # noqa: E402
from .test_followed_rewrites import follow  # noqa: E402

pytestmark = pytest.mark.jax

RANDOM = np.random.default_rng(0)


def along(x: Any, indices: Any, axis: int) -> Any:
    return jnp.take_along_axis(x, indices, axis, mode="promise_in_bounds")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("rows, wanted", [(8, 8), (13, 13), (8, 24)])
def test_rows_are_chosen_on_v4(rows: int, wanted: int, dtype: str) -> None:
    x = jnp.asarray(RANDOM.integers(-100, 100, (rows, 128)), dtype)
    indices = RANDOM.integers(0, rows, (wanted, 128)).astype(np.int32)

    def right(x: Any, indices: Any) -> Any:
        found = jnp.zeros(indices.shape, x.dtype)
        for i in range(rows):
            found = jnp.where(indices == i, x[i : i + 1], found)
        return found

    follow(
        lambda x, i: along(x, i, 0),
        f"range({rows}): found = jnp.where(indices == i, x[i : i + 1], found)",
        right, [x, indices], np.take_along_axis(np.asarray(x), indices, 0), "v4",
    )  # fmt: skip


EXTENTS = [(0, 16, 16), (0, 24, 8), (0, 13, 13), (1, 256, 256), (1, 256, 128), (1, 200, 200)]


@pytest.mark.parametrize("axis, size, wanted", EXTENTS)
@pytest.mark.parametrize("target", ["v5e", "v7x"])
def test_large_gathers_in_pieces(axis: int, size: int, wanted: int, target: str) -> None:
    limit = 128 if axis else 8
    shape = (8, size) if axis else (size, 128)
    x = RANDOM.standard_normal(shape).astype(np.float32)
    places = RANDOM.integers(0, size, (8, wanted) if axis else (wanted, 128)).astype(np.int32)

    def padded(x: Any) -> Any:
        more = -x.shape[axis] % limit
        return jnp.pad(x, [(0, more if d == axis else 0) for d in range(2)]) if more else x

    def right(x: Any, indices: Any) -> Any:
        x, indices, pieces = padded(x), padded(indices), []
        for j in range(0, indices.shape[axis], limit):
            p = lax.slice_in_dim(indices, j, j + limit, axis=axis)
            found = jnp.zeros(p.shape, x.dtype)
            for i in range(0, size, limit):
                part = along(lax.slice_in_dim(x, i, i + limit, axis=axis), p % limit, axis)
                found = jnp.where(p // limit == i // limit, part, found)
            pieces.append(found)
        return lax.slice_in_dim(jnp.concatenate(pieces, axis), 0, wanted, axis=axis)

    begin = ":, " * axis
    follow(
        lambda x, i: along(x, i, axis),
        f"for i in range(0, {size}, {limit}): found = jnp.where(p // {limit} == i // {limit}, "
        f"jnp.take_along_axis(x[{begin}i : i + {limit}], p % {limit}, {axis}, ",
        right, [x, places], np.take_along_axis(x, places, axis), target,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_narrow_gathers_of_words(dtype: str) -> None:
    x = jnp.asarray(RANDOM.integers(-100, 100, (8, 128)), dtype)
    indices = RANDOM.integers(0, 8, (8, 128)).astype(np.int32)
    follow(
        lambda x, i: along(x, i.astype(f"int{8 * x.dtype.itemsize}"), 0),
        "cast the operand to a 32-bit type first, of indices of int32, and the result back",
        lambda x, i: along(x.astype(jnp.float32), i, 0).astype(x.dtype),
        [x, indices], np.take_along_axis(np.asarray(x), indices, 0),
    )  # fmt: skip


def numbers(mask: Any) -> Any:
    return jnp.where(mask, 1, 0)


def carried(mask: Any, x: Any, back: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, m: back((m != 0) | (x > i)), mask)


MASKS: dict[str, tuple[str, Any, Any]] = {
    "reshape": (
        "reshape jnp.where(mask, 1, 0) and compare with zero",
        lambda x: (x > 5).reshape(32, 128),
        lambda x: numbers(x > 5).reshape(32, 128) != 0,
    ),
    "rotation": (
        "rotate jnp.where(mask, 1, 0) and compare with zero",
        lambda x: pltpu.roll(x > 5, 1, 1),
        lambda x: pltpu.roll(numbers(x > 5), 1, 1) != 0,
    ),
    "loop": (
        "carry jnp.where(mask, 1, 0) and compare with zero inside",
        lambda x: carried(x > 5, x, lambda m: m),
        lambda x: carried(numbers(x > 5), x, numbers) != 0,
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("name", MASKS)
def test_masks_as_numbers(name: str, dtype: str) -> None:
    advice, wrong, right = MASKS[name]
    x = jnp.asarray(RANDOM.integers(-9, 9, (16, 256)), dtype)
    above = np.asarray(x, np.float32) > (0 if name == "loop" else 5)
    above = above.reshape(32, 128) if name == "reshape" else above
    expected = np.where(np.roll(above, 1, 1) if name == "rotation" else above, 1, 2)
    follow(
        lambda x: jnp.where(wrong(x), 1, 2), advice, lambda x: jnp.where(right(x), 1, 2),
        [x], expected.astype(np.int32),
    )  # fmt: skip


def windows(block: tuple[int, ...], body: Any, start: Any, out: tuple[int, ...], x: Any) -> Any:
    """Two blocks of `out`, made by `body` of blocks of `x` that begin at `start(i)`."""
    whole = (2 * out[0], *out[1:])
    return pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct(whole, x.dtype),
        grid=(2,),
        in_specs=[pl.BlockSpec(tuple(pl.Element(n) for n in block), start)],
        out_specs=pl.BlockSpec(out, lambda i: (i, *[0] * (len(out) - 1))),
    )(x)


WINDOWS: list[tuple[Any, ...]] = [
    ((64, 256), (8, 256), 0, 8, "pltpu.roll(ref[...], -(p % 8) % 16, 0)[:8]"),
    ((64, 640), (8, 256), 1, 128, "pltpu.roll(ref[...], -(p % 128) % 384, 1)[:, :256]"),
    (
        (8192,),
        (1024,),
        0,
        128,
        "pltpu.roll(ref[...].reshape(1, -1), -(p % 128) % 2048, 1)[0, :1024]",
    ),
]


@pytest.mark.parametrize("shape, block, dim, tile, advice", WINDOWS)
def test_windows_from_larger_ones(
    shape: tuple[int, ...], block: tuple[int, ...], dim: int, tile: int, advice: str
) -> None:
    x = jnp.asarray(RANDOM.standard_normal(shape), jnp.float32)
    flat = len(shape) == 1
    step = 1024 if flat else tile
    size = -(-(block[dim] + tile - 1) // step) * step
    larger = tuple(size if d == dim else n for d, n in enumerate(block))

    def at(place: Any) -> tuple[Any, ...]:
        return tuple(place if d == dim else 0 for d in range(len(block)))

    def copied(x: Any, o: Any) -> None:
        o[...] = x[...]

    def turned(x: Any, o: Any) -> None:
        shift = -(3 * pl.program_id(0) % tile) % larger[dim]
        value = pltpu.roll(x[...].reshape(1, -1) if flat else x[...], shift, 1 if flat else dim)
        cut = tuple(slice(n) for n in block)
        o[...] = value[(0, *cut) if flat else cut]

    with simulate(form="vreg"):
        with pytest.raises(Unsupported) as caught:
            windows(block, copied, lambda i: at(3 * i), block, x)
        found = windows(larger, turned, lambda i: at(3 * i // tile * tile), block, x)
    assert advice in told(caught.value)
    parts = [lax.slice_in_dim(x, p, p + block[dim], axis=dim) for p in (0, 3)]
    equal(found, jnp.concatenate([part[:8] if not flat else part for part in parts]))


def drawn(draw: Any) -> Any:
    def body(o: Any) -> None:
        o[...] = draw(jax.random.key(3), o.shape)

    return lambda: call(body)


def first_draw(key: Any) -> Any:
    return jax.random.uniform(key, X.shape)


def by_matrix_unit(shape: tuple[int, int]) -> Any:
    """A product on the matrix unit, whose blocks are padded with zeros to `shape`."""

    def padded(x: Any, rows: int, columns: int) -> Any:
        return jnp.pad(x, ((0, rows - x.shape[0]), (0, columns - x.shape[1])))

    def body(x: Any, o: Any) -> None:
        x = x[...].astype(jnp.bfloat16)
        pltpu.matmul_push_rhs(padded(jnp.tile(x, (8, 1)), *shape), 0, 0)
        pltpu.matmul_acc_lhs(0, padded(x, 16, shape[0]), 0, 0)
        o[...] = pltpu.matmul_pop(0, (16, shape[1]), jnp.float32, 0)[:, :128]

    return call(body, X)


def test_blocks_of_the_matrix_unit() -> None:
    with simulate("v7x", "vreg"), pytest.raises(Unsupported, match="push blocks of that shape"):
        by_matrix_unit((128, 128))
    with simulate("v7x", "vreg"):
        found = by_matrix_unit((256, 256))
    x = np.asarray(X.astype(jnp.bfloat16), np.float32)
    np.testing.assert_allclose(found, x @ np.tile(x, (8, 1)), 1e-5, 1e-4)


def seen(view: Any) -> Any:
    def body(x: Any, o: Any) -> None:
        o[...] = view(x).astype(jnp.float32)[0:1] + jnp.zeros(o.shape)

    return lambda of: lambda: call(body, of)


def by_semaphore(use: Any) -> Any:
    def body(x: Any, o: Any, semaphore: Any) -> None:
        o[...] = x[...] + use(semaphore)

    return lambda: call(body, X, scratch_shapes=[pltpu.SemaphoreType.REGULAR])


def stores(semaphore: Any) -> int:
    semaphore[...] = 1
    return 0


def signals(semaphore: Any) -> Any:
    pl.semaphore_signal(semaphore, 2)
    count = pl.semaphore_read(semaphore)
    pl.semaphore_wait(semaphore, 2)
    return count.astype(jnp.float32)


def at_distance(load: Any) -> Any:
    def body(n: Any, x: Any, o: Any) -> None:
        o[...] = jnp.tile(load(x, n[0]), (4, 1))

    return lambda: call(body, jnp.array([3]), X, in_specs=[SMEM, pl.BlockSpec()])


FLAT = X.reshape(-1)[:1024]
HALVES = X[:7].astype(jnp.bfloat16)
ROW = jnp.full(X.shape, 1.0)
WORDS = np.asarray(FLAT).view(np.int32).astype(np.float32)
PAIRS = np.asarray(HALVES).view(np.uint16).astype(np.uint32)
FIRST = (PAIRS[0] | PAIRS[1] << 16).view(np.int32).astype(np.float32)
LOW = (np.asarray(FLAT).view(np.uint32)[:128] << 16).view(np.float32)

FAULTS: dict[str, Any] = {
    "flat words": (
        seen(lambda x: x.bitcast(jnp.int32)[...].reshape(8, 128))(FLAT),
        "lax.bitcast_convert_type(ref[...], dtype)",
        seen(lambda x: lax.bitcast_convert_type(x[...], jnp.int32).reshape(8, 128))(FLAT),
        np.broadcast_to(WORDS[:128], X.shape),
    ),
    "flat halves": (
        seen(lambda x: x.bitcast(jnp.bfloat16)[...])(FLAT),
        "pltpu.bitcast(ref[...].reshape(-1, 128), dtype)",
        seen(lambda x: pltpu.bitcast(x[...].reshape(-1, 128), jnp.bfloat16))(FLAT),
        np.broadcast_to(LOW, X.shape),
    ),
    "odd rows": (
        seen(lambda x: x.bitcast(jnp.int32)[...])(HALVES),
        "pltpu.bitcast(jnp.pad(ref[...], ((0, n), (0, 0))), dtype)",
        seen(lambda x: pltpu.bitcast(jnp.pad(x[...], ((0, 1), (0, 0))), jnp.int32))(HALVES),
        np.broadcast_to(FIRST, X.shape),
    ),
    "fewer rows": (
        seen(lambda x: x.bitcast(jnp.int32)[...])(HALVES),
        "ref.at[pl.ds(0, rows)].bitcast(dtype)",
        seen(lambda x: x.at[pl.ds(0, 6)].bitcast(jnp.int32)[...])(HALVES),
        np.broadcast_to(FIRST, X.shape),
    ),
    "a semaphore's value": (
        by_semaphore(lambda s: s[...]),
        "write pl.semaphore_read(sem)",
        by_semaphore(signals),
        X + 2,
    ),
    "a stored semaphore": (
        by_semaphore(stores),
        "write pl.semaphore_signal(sem, n)",
        by_semaphore(signals),
        X + 2,
    ),
    "an unknown distance": (
        at_distance(lambda x, n: x[pl.ds(0, 4, n)]),
        "jnp.concatenate([ref[pl.ds(start + i * stride, 1), :] for i in range(n)])",
        at_distance(lambda x, n: jnp.concatenate([x[pl.ds(i * n, 1), :] for i in range(4)])),
        jnp.tile(X[:12:3], (4, 1)),
    ),
    "drawn integers": (
        drawn(lambda key, shape: jax.random.randint(key, shape, 0, 9).astype(jnp.float32)),
        "(n * jax.random.uniform(key, shape)).astype(jnp.int32)",
        drawn(lambda key, shape: (9 * jax.random.uniform(key, shape)).astype(jnp.int32) * 1.0),
        np.floor(9 * first_draw(jax.random.key(3))),
    ),
    "split keys": (
        drawn(lambda key, shape: jax.random.uniform(jax.random.split(key)[1], shape)),
        "jax.random.fold_in(key, i)",
        drawn(lambda key, shape: jax.random.uniform(jax.random.fold_in(key, 1), shape)),
        first_draw(jax.random.fold_in(jax.random.key(3), 1)),
    ),
    "a key in SMEM": (
        lambda: call(
            lambda k, o: o.__setitem__(..., first_draw(k[...])), jax.random.key(3),
            in_specs=[SMEM],
        ),
        "keep it in VMEM, make it of a number there, jax.random.key(seed[0]), or pass "
        "jax.random.key(seed, impl='pallas_tpu')",
        lambda: call(lambda k, o: o.__setitem__(..., first_draw(k[...])), jax.random.key(3)),
        first_draw(jax.random.key(3)),
    ),
    "a key of a number": (
        lambda: call(
            lambda k, o: o.__setitem__(..., first_draw(k[...])), jax.random.key(3),
            in_specs=[SMEM],
        ),
        "jax.random.key(seed[0])",
        lambda: call(
            lambda s, o: o.__setitem__(..., first_draw(jax.random.key(s[0]))), jnp.array([3]),
            in_specs=[SMEM],
        ),
        first_draw(jax.random.key(3)),
    ),
    "a list of numbers": (
        lambda: call(lambda x, o: o.__setitem__(..., 2 * x[...]), np.asarray(X).tolist()),
        "jnp.asarray(x)",
        lambda: call(lambda x, o: o.__setitem__(..., 2 * x[...]), jnp.asarray(X.tolist())),
        2 * X,
    ),
    "a number in VMEM": (
        lambda: call(lambda s, x, o: o.__setitem__(..., x[...] * s[...]), jnp.float32(2), X),
        "in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), ...]",
        lambda: call(
            lambda s, x, o: o.__setitem__(..., x[...] * s[...]), jnp.float32(2), X,
            in_specs=[SMEM, pl.BlockSpec()],
        ),
        2 * X,
    ),
    "or of one element": (
        lambda: call(lambda s, x, o: o.__setitem__(..., x[...] * s[...]), jnp.float32(2), X),
        "jnp.reshape(x, (1, 1))",
        lambda: call(
            lambda s, x, o: o.__setitem__(..., x[...] * s[...]),
            jnp.reshape(jnp.float32(2), (1, 1)), X,
        ),
        2 * X,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_the_advice_of_notes_works(name: str) -> None:
    check(FAULTS[name], __file__.rsplit("/", 1)[-1])


def test_blocks_within_the_array() -> None:
    def copied(steps: int, limit: int) -> Any:
        spec = pl.BlockSpec((8, 128), lambda i: (jnp.minimum(i, limit), 0))
        return lambda: call(
            lambda x, o: o.__setitem__(..., x[...]), X,
            grid=(steps,), in_specs=[spec], out_specs=spec,
        )  # fmt: skip

    with simulate(), pytest.raises(Exception) as caught:
        copied(3, 5)()
    assert "pl.cdiv(n, size) steps for n elements" in str(caught.value)
    assert "jnp.minimum(i, last)" in str(caught.value) and "@pl.when" not in str(caught.value)
    with simulate():
        equal(copied(pl.cdiv(16, 8), 5)(), X)
        equal(copied(3, 1)(), X)
