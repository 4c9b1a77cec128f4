"""What refusals of reshapes, accesses, products, sums and functions say to write gives the right
numbers."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax._src.pallas.mosaic.error_handling import VerificationError  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

from .support import told  # noqa: E402

pytestmark = pytest.mark.jax

RANDOM = np.random.default_rng(0)
FLOATS = RANDOM.standard_normal((16, 256)).astype(np.float32)
WORDS = RANDOM.integers(0, 1 << 30, (16, 256)).astype(np.int32)
Value = Callable[..., Any]


def follow(
    wrong: Value, advice: str, right: Value, operands: list[Any], expected: Any,
    target: str = "v5e", tolerance: float = 1e-6,
) -> None:  # fmt: skip
    """Asserts that `wrong` is refused with `advice`, and that `right` gives `expected`."""

    def run(compute: Value) -> Any:
        def body(*refs: Any) -> None:
            *inputs, out = refs
            out[...] = compute(*(ref[...] for ref in inputs))

        shape = jax.ShapeDtypeStruct(expected.shape, expected.dtype)
        with simulate(target, "vreg"):
            return pl.pallas_call(body, out_shape=shape)(*operands)

    with pytest.raises((Unsupported, NotImplementedError, VerificationError)) as caught:
        run(wrong)
    assert advice in told(caught.value)
    found = np.asarray(run(right), np.float64)
    np.testing.assert_allclose(found, np.asarray(expected, np.float64), tolerance, 0)


def joined(x: Any, held: int) -> Any:
    rows = x.reshape(-1, held, x.shape[-1])
    return jnp.concatenate([rows[:, i] for i in range(held)], 1)


def cut(x: Any, lanes: int) -> Any:
    rows = x.reshape(-1, x.shape[-1])
    return jnp.stack([rows[:, i : i + lanes] for i in range(0, x.shape[-1], lanes)], 1)


def through_one_row(x: Any, lanes: int) -> Any:
    rows = x.reshape(-1, x.shape[-1])
    row = jnp.concatenate([rows[i : i + 1] for i in range(rows.shape[0])], 1)
    return jnp.concatenate([row[:, i : i + lanes] for i in range(0, x.size, lanes)])


RESHAPES: dict[str, tuple[list[int], list[int], str, Value]] = {
    "rows": (
        [5, 7, 96], [7, 480],
        "jnp.concatenate([x.reshape(-1, 5, 96)[:, i] for i in range(5)], 1).reshape([7, 480])",
        lambda x: joined(x, 5).reshape(7, 480),
    ),
    "one row": (
        [16, 96], [1536],
        "jnp.concatenate([x.reshape(-1, 16, 96)[:, i] for i in range(16)], 1).reshape([1536])",
        lambda x: joined(x, 16).reshape(1536),
    ),
    "lanes": (
        [3, 160], [2, 6, 40],
        "jnp.stack([x.reshape(-1, 160)[:, i : i + 40] for i in range(0, 160, 40)], 1)",
        lambda x: cut(x, 40).reshape(2, 6, 40),
    ),
    "a flat vector": (
        [1536], [16, 96],
        "jnp.stack([x.reshape(-1, 1536)[:, i : i + 96] for i in range(0, 1536, 96)], 1)",
        lambda x: cut(x, 96).reshape(16, 96),
    ),
    "neither": (
        [12, 96], [9, 128],
        "jnp.concatenate([row[:, i : i + 128] for i in range(0, 1152, 128)]).reshape([9, 128]) with"
        " row = jnp.concatenate([x.reshape(-1, 96)[i : i + 1] for i in range(12)], 1)",
        lambda x: through_one_row(x, 128).reshape(9, 128),
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("case", RESHAPES)
def test_reshapes_by_slices(case: str, dtype: str) -> None:
    old, new, advice, right = RESHAPES[case]
    x = jnp.asarray(RANDOM.integers(-100, 100, old), dtype)
    follow(lambda x: x.reshape(new), advice, right, [x], np.asarray(x).reshape(new))


PLACE = np.array([5], np.int32)
ACCESSED = [((16, 256), 0, 8), ((20, 256), 0, 8), ((16, 200), 1, 64), ((1024,), 0, 256)]


@pytest.mark.parametrize("shape, axis, count", ACCESSED)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("storing", [False, True])
def test_accesses_by_rotation(
    shape: tuple[int, ...], axis: int, count: int, dtype: str, storing: bool
) -> None:
    x = jnp.asarray(RANDOM.integers(-100, 100, shape), dtype)
    flat, size = len(shape) == 1, shape[axis]
    part = (*[slice(None)] * axis, slice(5, 5 + count))
    first = (*[slice(None)] * axis, slice(count))
    expected = np.array(x) if storing else np.asarray(x)[part]
    if storing:
        expected[part] = np.asarray(x)[first]

    def two(value: Any) -> Any:
        return value.reshape(1, -1) if flat else value

    def wrong(place: Any, x: Any, out: Any) -> None:
        there = (*[slice(None)] * axis, pl.ds(place[0], count))
        if storing:
            out[...] = x[...]
            out[there] = x[first]
        else:
            out[...] = x[there]

    def right(place: Any, x: Any, out: Any) -> None:
        index, along = place[0], axis + flat
        if not storing:
            found = pltpu.roll(two(x[...]), -index % size, along)
            out[...] = found[(0, *first) if flat else first]
            return
        pads = [(0, size - count if d == along else 0) for d in range(2)]
        k = lax.broadcasted_iota(jnp.int32, (1, size) if flat else shape, along)
        inside = (k >= index) & (k < index + count)
        rotated = pltpu.roll(jnp.pad(two(x[first]), pads), index, along)
        chosen = jnp.where(inside, rotated, two(x[...]))
        out[...] = chosen[0] if flat else chosen

    def run(body: Any) -> Any:
        out = jax.ShapeDtypeStruct(expected.shape, x.dtype)
        specs = [pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec()]
        with simulate("v5e", "vreg"):
            return pl.pallas_call(body, out_shape=out, in_specs=specs)(PLACE, x)

    with pytest.raises(Unsupported, match="cannot prove") as caught:
        run(wrong)
    row = ".reshape(1, -1)" if flat else ""
    if storing:
        assert f"pltpu.roll(jnp.pad(value{row}, " in told(caught.value)
    else:
        assert f"pltpu.roll(ref[...]{row}, -index % {size}, " in told(caught.value)
    np.testing.assert_array_equal(np.asarray(run(right)), expected)


@pytest.mark.parametrize("target", ["v4", "v5e", "v7x"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_products_of_unsigned_integers(dtype: str, target: str) -> None:
    greatest = np.iinfo(dtype).max
    x = RANDOM.integers(0, greatest, (16, 128), endpoint=True).astype(dtype)
    y = RANDOM.integers(0, 2, (128, 128)).astype(dtype)

    def by_bfloat16(x: Any, y: Any) -> Any:
        x, y = x.astype(jnp.bfloat16), y.astype(jnp.bfloat16)
        return jnp.dot(x, y, preferred_element_type=jnp.float32).astype(jnp.int32)

    def by_float32(x: Any, y: Any) -> Any:
        x, y = x.astype(jnp.float32), y.astype(jnp.float32)
        return jnp.dot(x, y, precision=lax.Precision.HIGHEST).astype(jnp.int32)

    says, right = {
        "uint8": ("bfloat16, with preferred_element_type=jnp.float32", by_bfloat16),
        "uint16": ("float32, with precision=lax.Precision.HIGHEST", by_float32),
    }[dtype]
    follow(
        lambda x, y: jnp.dot(x, y, preferred_element_type=jnp.int32),
        f"cast both operands to {says}",
        right, [x, y], x.astype(np.int32) @ y.astype(np.int32), target,
    )  # fmt: skip


COMBINED = {
    "mul": (lambda x: jnp.prod(x, 1, keepdims=True), np.multiply, np.exp2(np.sign(FLOATS))),
    "xor": (lambda x: lax.reduce_xor(x, (1,))[:, None], np.bitwise_xor, WORDS),
    "or_": (lambda x: lax.reduce_or(x, (1,))[:, None], np.bitwise_or, WORDS & 0x10101),
    "and_": (lambda x: lax.reduce_and(x, (1,))[:, None], np.bitwise_and, WORDS | 0x10101),
}


@pytest.mark.parametrize("halved", [False, True])
@pytest.mark.parametrize("name", COMBINED)
def test_reductions_by_slices(name: str, halved: bool) -> None:
    wrong, reference, x = COMBINED[name]
    combine = getattr(operator, name)
    x = x[:, :128]

    def right(x: Any) -> Any:
        while halved and x.shape[1] > 4:
            n = x.shape[1]
            x = combine(x[:, : n // 2], x[:, n // 2 :])
        return functools.reduce(combine, [x[:, i : i + 1] for i in range(x.shape[1])])

    advice = f"functools.reduce(operator.{name}, [x[:, i : i + 1] for i in range(x.shape[1])])"
    follow(wrong, advice, right, [x], reference.reduce(x, 1, keepdims=True, dtype=x.dtype))


SMALL = np.concatenate([FLOATS[:8] * 1e-4, FLOATS[8:] * 4])
LARGE = np.concatenate([FLOATS[:1] * 1e25, SMALL[1:]])
NEAR_ONE = np.clip(FLOATS / 4, -1, 1)
NEAR_ONE[0] = 1 - np.abs(FLOATS[0]) * 1e-6


def half(x: Any) -> Any:
    return jnp.tanh(x / 2)


def asinh(x: Any) -> Any:
    a = jnp.abs(x)
    near = jnp.log1p(a + a * a / (1 + jnp.sqrt(a * a + 1)))
    return jnp.sign(x) * jnp.where(a < 1e18, near, jnp.log(a) + jnp.log(2.0))


def acosh(x: Any) -> Any:
    t = x - 1
    near = jnp.log1p(t + jnp.sqrt(t * (t + 2)))
    return jnp.where(x < 1e18, near, jnp.log(x) + jnp.log(2.0))


FUNCTIONS: dict[str, tuple[str, Value, Any]] = {
    "expm1": (
        "where jnp.abs(x) < 0.5 choose 2 * t / (1 - t) with t = jnp.tanh(x / 2)",
        lambda x: jnp.where(jnp.abs(x) < 0.5, 2 * half(x) / (1 - half(x)), jnp.exp(x) - 1),
        SMALL,
    ),
    "sinh": (
        "where jnp.abs(x) < 0.5 choose 2 * t / (1 - t * t) with t = jnp.tanh(x / 2)",
        lambda x: jnp.where(
            jnp.abs(x) < 0.5, 2 * half(x) / (1 - half(x) ** 2), (jnp.exp(x) - jnp.exp(-x)) / 2
        ),
        SMALL,
    ),
    "arcsinh": ("jnp.log1p(a + a * a / (1 + jnp.sqrt(a * a + 1)))", asinh, LARGE),
    "arccosh": ("jnp.log1p(t + jnp.sqrt(t * (t + 2)))", acosh, 1 + np.abs(LARGE)),
    "arcsin": (
        "jnp.arctan2(x, jnp.sqrt((1 - x) * (1 + x)))",
        lambda x: jnp.arctan2(x, jnp.sqrt((1 - x) * (1 + x))),
        NEAR_ONE,
    ),
    "arccos": (
        "jnp.arctan2(jnp.sqrt((1 - x) * (1 + x)), x)",
        lambda x: jnp.arctan2(jnp.sqrt((1 - x) * (1 + x)), x),
        NEAR_ONE,
    ),
    "cbrt": (
        "jnp.sign(x) * jnp.abs(x) ** (1 / 3)",
        lambda x: jnp.sign(x) * jnp.abs(x) ** (1 / 3),
        SMALL,
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_keep_their_digits(name: str) -> None:
    advice, right, x = FUNCTIONS[name]
    wrong, expected = getattr(jnp, name), getattr(np, name)(x)
    follow(wrong, advice, right, [x], expected, tolerance=3e-6)


@pytest.mark.parametrize("axis", [0, 1])
def test_interior_padding_by_repetition(axis: int) -> None:
    shape = [31 if axis == 0 else 16, 511 if axis == 1 else 256]
    whole = [size + (size % 2) for size in shape]
    expected = np.zeros(shape, np.float32)
    expected[tuple(slice(None, None, 2 if d == axis else 1) for d in range(2))] = FLOATS

    def right(x: Any) -> Any:
        kept = lax.broadcasted_iota(jnp.int32, whole, axis) % 2 == 0
        return jnp.where(kept, jnp.repeat(x, 2, axis), 0.0)[: shape[0], : shape[1]]

    follow(
        lambda x: lax.pad(x, 0.0, [(0, 0, int(d == axis)) for d in range(2)]),
        f"{axis}) % 2 == 0, jnp.repeat(x, 2, {axis}), value), without the last 1",
        right, [FLOATS], expected,
    )  # fmt: skip


@pytest.mark.parametrize("axis, shape", [(0, (3, 8, 128)), (1, (2, 3, 8, 128))])
def test_gathers_along_leading_dimensions_by_choice(axis: int, shape: tuple[int, ...]) -> None:
    x = RANDOM.standard_normal(shape).astype(np.float32)
    indices = RANDOM.integers(0, 3, shape).astype(np.int32)

    def right(x: Any, indices: Any) -> Any:
        found = jnp.zeros(indices.shape, x.dtype)
        for i in range(3):
            part = x[i : i + 1] if axis == 0 else x[:, i : i + 1]
            found = jnp.where(indices == i, part, found)
        return found

    follow(
        lambda x, i: jnp.take_along_axis(x, i, axis, mode="promise_in_bounds"),
        f"range(3): found = jnp.where(indices == i, x[{':, ' * axis}i : i + 1], found)",
        right, [x, indices], np.take_along_axis(x, indices, axis),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["int8", "int4"])
def test_products_of_bytes_on_v4(dtype: str) -> None:
    """Bytes are numbers of bfloat16, so one pass of the matrix unit is exact."""
    end = 1 << (jnp.iinfo(dtype).bits - 1)
    x, y = (jnp.asarray(RANDOM.integers(-end, end, shape), dtype) for shape in [(32, 128)] * 2)

    def product(x: Any, y: Any, kind: Any) -> Any:
        return lax.dot_general(x, y, (((1,), (1,)), ((), ())), preferred_element_type=kind)

    def right(x: Any, y: Any) -> Any:
        x, y = x.astype(jnp.bfloat16), y.astype(jnp.bfloat16)
        return product(x, y, jnp.float32).astype(jnp.int32)

    follow(
        lambda x, y: product(x, y, jnp.int32),
        "cast the operands to bfloat16, with preferred_element_type=jnp.float32, and the result "
        f"back: exact up to {1 << 24}",
        right, [x, y], np.asarray(x, np.int32) @ np.asarray(y, np.int32).T, "v4", 0,
    )  # fmt: skip
