"""Branches whose results are registers of what was there before them."""

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

from ...asking import asked  # noqa: E402

pytestmark = [pytest.mark.jax, pytest.mark.aot]
Way = Callable[[Any], Any]


def rolled(rows: int) -> Way:
    return lambda x: jnp.concatenate([x[rows:], x[:rows]], 0)


def turned(amount: int, axis: int) -> Way:
    return lambda x: pltpu.roll(x, amount, axis)


def kept(x: Any) -> Any:
    return x


def repeated(x: Any) -> Any:
    return jnp.broadcast_to(x[:1], x.shape)


def joined(x: Any) -> Any:
    return x.reshape(-1, x.shape[-1])


def bits(x: Any) -> Any:
    return lax.bitcast_convert_type(x, jnp.int32)


def and_back(x: Any) -> Any:
    return lax.bitcast_convert_type(bits(x), x.dtype)


def threes(x: Any) -> Any:
    return jnp.full_like(x, 3)


def below_the_largest(x: Any) -> Any:
    return threes(x) - jnp.max(threes(x), axis=1, keepdims=True)


def swapped(x: Any) -> Any:
    return jnp.concatenate([x[:, 5:], x[:, :5]], 1)


REFUSED: dict[str, tuple[Way, Way, tuple[int, ...], Any]] = {
    "rows": (rolled(8), kept, (64, 128), np.float32),
    "few lanes": (rolled(8), kept, (16, 100), np.float32),
    "planes": (rolled(1), kept, (4, 8, 128), np.int32),
    "bytes": (rolled(32), kept, (64, 128), np.int8),
    "lanes": (lambda x: jnp.concatenate([x[:, 128:], x[:, :128]], 1), kept, (16, 256), np.float32),
    "some": (lambda x: jnp.concatenate([x[8:], x[:8] * 2], 0), kept, (16, 128), np.float32),
    "copies": (lambda x: jnp.concatenate([x[:8]] * 2, 0), kept, (16, 128), np.float32),
    "parts": (lambda x: x[8:16], lambda x: x[:8], (16, 128), np.float32),
    "parts of registers": (lambda x: x[0, 3:8], lambda x: x[1, 3:8], (2, 8, 128), np.float32),
    "lanes of registers": (lambda x: x[0, :, 5:], lambda x: x[1, :, 5:], (2, 8, 100), np.int32),
    "parts of half words": (lambda x: x[4:8], lambda x: x[20:24], (32, 128), jnp.bfloat16),
    "few rows": (lambda x: x[0][None], lambda x: x[1][None], (2, 5, 128), np.float32),
    "few half words": (lambda x: x[0][None], lambda x: x[1][None], (2, 5, 128), jnp.bfloat16),
    "joined rows": (lambda x: joined(x[:2]), lambda x: joined(x[2:]), (4, 4, 128), jnp.bfloat16),
    "cut rows": (lambda x: x[:8].reshape(2, 4, 128), lambda x: x[8:].reshape(2, 4, 128),
                 (16, 128), np.float32),
    "flat": (lambda x: x[0, :1].reshape(100), lambda x: x[1, :1].reshape(100), (2, 8, 100),
             np.float32),
    "columns": (lambda x: x[0].reshape(8), lambda x: x[1].reshape(8), (2, 8, 1), np.float32),
    "flat parts": (lambda x: x[8:136], lambda x: x[1032:1160], (2048,), np.float32),
    "joined flat": (lambda x: jnp.concatenate([x, x], 0), lambda x: jnp.ones(2048, np.float32),
                    (1024,), np.float32),
    "lanes of few half words": (lambda x: jnp.concatenate([x[0], x[1]], 1),
                                lambda x: jnp.concatenate([x[1], x[0]], 1), (2, 8, 128),
                                jnp.bfloat16),
    "planes of half words": (rolled(1), kept, (2, 16, 128), jnp.bfloat16),
    "transposed planes": (lambda x: jnp.swapaxes(x, 0, 1), lambda x: x, (2, 2, 8, 128),
                          np.float32),
    "a row for all": (lambda x: jnp.broadcast_to(x[0], (8, 128)),
                      lambda x: jnp.broadcast_to(x[1], (8, 128)), (2, 1, 128), np.float32),
    "bitcasts and back": (lambda x: and_back(x[:8]), lambda x: and_back(x)[8:], (16, 128),
                          np.float32),
    "rotated planes": (turned(1, 0), kept, (2, 8, 128), np.int8),
    "rotated rows": (turned(8, 0), kept, (64, 128), np.float32),
    "rotated lanes": (turned(128, 1), kept, (8, 256), np.float32),
    "rotated few half words": (turned(1, 0), kept, (2, 5, 128), jnp.bfloat16),
    "nibbles": (rolled(1), kept, (2, 64, 128), jnp.int4),
    "turned and back": (lambda x: x.T.T, rolled(8), (16, 128), np.float32),
    "reshaped and back": (lambda x: x.reshape(10).reshape(2, 1, 5), turned(1, 0), (2, 1, 5),
                          np.float32),
    "or zeros": (lambda x: x[3:8], lambda x: jnp.zeros((5, 128), np.float32), (8, 128),
                 np.float32),
    "late constants": (below_the_largest, jnp.ones_like, (16, 128), np.float32),
    "late or loaded": (below_the_largest, kept, (5, 100), np.int32),
    "smallest rows": (lambda x: jnp.broadcast_to(
        jnp.min(threes(x), axis=0, keepdims=True), x.shape), jnp.ones_like, (16, 128), np.float32),
    "equal parts of constants": (lambda x: swapped(threes(x)), jnp.ones_like, (16, 128), np.int32),
    "late and moved": (lambda x: jnp.exp(below_the_largest(x)), rolled(8), (16, 128), np.float32),
}  # fmt: skip
TAKEN: dict[str, tuple[Way, Way, tuple[int, ...], Any]] = {
    "computed": (lambda x: rolled(8)(x + 1), kept, (16, 128), np.float32),
    "in one way": (rolled(8), lambda x: x * 2, (16, 128), np.float32),
    "equal": (rolled(8), rolled(8), (16, 128), np.float32),
    "rest": (lambda x: jnp.concatenate([x[:8], x[8:] * 2], 0), kept, (16, 128), np.float32),
    "within registers": (rolled(4), kept, (16, 128), np.float32),
    "copies of registers": (lambda x: rolled(8)(repeated(x)), repeated, (16, 128), np.float32),
    "half words": (rolled(16), kept, (32, 128), jnp.bfloat16),
    "joined from elsewhere": (lambda x: jnp.concatenate([x[3:11], x[3:11]], 0), kept, (16, 128),
                              np.float32),
    "from elsewhere": (lambda x: x[3:6], lambda x: x[:3], (8, 128), np.float32),
    "a column for all": (lambda x: jnp.broadcast_to(x[0, :, :1], (8, 128)),
                         lambda x: jnp.broadcast_to(x[1, :, :1], (8, 128)), (2, 8, 128),
                         np.float32),
    "cut half words": (lambda x: x[:16].reshape(4, 4, 128), lambda x: x[16:].reshape(4, 4, 128),
                       (32, 128), jnp.bfloat16),
    "a row of many for all": (lambda x: repeated(x[0]), lambda x: repeated(x[1]), (2, 8, 128),
                              np.float32),
    "equal parts": (lambda x: x[3:8], lambda x: x[3:8], (8, 128), np.float32),
    "bitcasts": (lambda x: bits(x[:8]), lambda x: bits(x)[8:], (16, 128), np.float32),
    "rotated half words": (turned(1, 0), kept, (2, 16, 128), jnp.bfloat16),
    "rotated within registers": (turned(8, 0), kept, (20, 128), np.float32),
    "equal late constants": (below_the_largest, jnp.zeros_like, (16, 128), np.float32),
    "sums of constants": (lambda x: threes(x) - jnp.sum(threes(x), axis=1, keepdims=True),
                          jnp.ones_like, (16, 128), np.float32),
    "rotated constants": (lambda x: turned(3, 1)(threes(x)), jnp.ones_like, (16, 128), np.float32),
    "half words of constants": (lambda x: swapped(threes(x)), jnp.ones_like, (16, 128),
                                jnp.bfloat16),
    "ones or zeros": (jnp.ones_like, jnp.zeros_like, (8, 128), np.float32),
}  # fmt: skip


def module_of(first: Way, second: Way, shape: tuple[int, ...], element: Any) -> tuple[Any, Any]:
    def body(way: Any, x: Any, o: Any) -> None:
        o[...] = lax.cond(way[0] > 0, first, second, x[...])

    x = np.arange(np.prod(shape)).reshape(shape).astype(element)
    call = pl.pallas_call(
        body,
        out_shape=jax.eval_shape(first, x),
        in_specs=[
            pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM),
        ],
    )  # fmt: skip
    return trace(call, jnp.array([1]), jnp.asarray(x), target="v5e"), x


def assert_taken(module: Any, compiler: Any) -> None:
    """Asserts that the compiler takes form `mosaic` of `module`, and our registers."""
    for form in ("mosaic", "vreg"):
        lowered = pallasite.lower(module, form, "v5e")
        assert asked(lowered, "v5e", compiler, layout_passes=form == "mosaic").accepted


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, compiler: Any) -> None:
    module, x = module_of(*REFUSED[case])
    with pytest.raises(Unsupported) as caught:
        pallasite.lower(module, "mosaic", "v5e")
    assert caught.value.code == "renamed-registers"
    beyond = pallasite.lower(module, "vreg", "v5e", allow_beyond_reference=True)
    (result,) = pallasite.run(beyond, [np.array([1], np.int32), x], form="vreg", target="v5e")
    np.testing.assert_array_equal(result, jax.jit(REFUSED[case][0])(jnp.asarray(x)))
    mosaic = pallasite.lower(module, "mosaic", "v5e", allow_beyond_reference=True)
    assert not asked(mosaic, "v5e", compiler, layout_passes=True).accepted


@pytest.mark.parametrize("case", TAKEN)
def test_taken(case: str, compiler: Any) -> None:
    module, _ = module_of(*TAKEN[case])
    assert_taken(module, compiler)


def again(p: Any, x: Any) -> Any:
    w = x + 1
    return lax.cond(p, lambda: x + 1, lambda: x) + w


def both_again(p: Any, x: Any) -> Any:
    v, w = x + 1, x * 3
    return lax.cond(p, lambda: x + 1, lambda: x * 3) + v * w


def again_or_constant(p: Any, x: Any) -> Any:
    w = x + 1
    return lax.cond(p, lambda: x + 1, lambda: jnp.zeros_like(x)) + w


def again_in_a_loop(p: Any, x: Any) -> Any:
    w = jnp.abs(x * 3)
    return lax.fori_loop(0, 3, lambda i, c: c + lax.cond(p, lambda: jnp.abs(x * 3), lambda: x), w)


def one_of_two(p: Any, x: Any) -> Any:
    w = x + 1
    v, u = lax.cond(p, lambda: (x + 1, x * 2), lambda: (x, x * 3))
    return v + u + w


def later(p: Any, x: Any) -> Any:
    return lax.cond(p, lambda: x + 1, lambda: x) + (x + 1)


def the_same(p: Any, x: Any) -> Any:
    w = x + 1
    return lax.cond(p, lambda: x + 1, lambda: w) + w


def computed_on_one_way(p: Any, x: Any) -> Any:
    w = x + 1
    return lax.cond(p, lambda: x + 1, lambda: x * 2) + w


def nested(p: Any, x: Any) -> Any:
    v = lax.cond(p, lambda: x * 2, lambda: x + 3)

    def inner() -> Any:
        return lax.cond(v[0, 0] > 5, lambda: (x + 1, x - v), lambda: (x * 3, v * 5))

    u, w = lax.cond(p, inner, lambda: (x, x))
    return u + v * w


def selected(p: Any, x: Any) -> Any:
    w = x + 1
    return jnp.where(p, x + 1, x) + w


REPEATED = (again, both_again, again_or_constant, again_in_a_loop, one_of_two)
COMPUTED = (later, the_same, computed_on_one_way, nested, selected)


def repeating(function: Any) -> tuple[Any, Any]:
    def body(way: Any, x: Any, o: Any) -> None:
        o[...] = function(way[0] > 0, x[...])

    x = jnp.arange(1024, dtype=jnp.int32).reshape(8, 128)
    smem, vmem = (pl.BlockSpec(memory_space=space) for space in (pltpu.SMEM, pltpu.VMEM))
    call = pl.pallas_call(
        body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[smem, vmem]
    )
    return trace(call, jnp.array([1]), x, target="v5e"), np.asarray(x)


@pytest.mark.parametrize("function", REPEATED)
def test_values_from_before_are_not_computed_again(function: Any, compiler: Any) -> None:
    module, x = repeating(function)
    with pytest.raises(Unsupported) as caught:
        pallasite.lower(module, "mosaic", "v5e")
    assert caught.value.code == "repeated-values"
    for condition in (0, 1):
        inputs = [np.array([condition], np.int32), x]
        lowered = pallasite.lower(module, "vreg", "v5e", allow_beyond_reference=True)
        (result,) = pallasite.run(lowered, inputs, form="vreg", target="v5e")
        np.testing.assert_array_equal(result, function(bool(condition), jnp.asarray(x)))
    mosaic = pallasite.lower(module, "mosaic", "v5e", allow_beyond_reference=True)
    assert not asked(mosaic, "v5e", compiler, layout_passes=True).accepted


@pytest.mark.parametrize("function", COMPUTED)
def test_values_that_are_computed_once(function: Any, compiler: Any) -> None:
    module, _ = repeating(function)
    assert_taken(module, compiler)
