"""Branches that hand masks to branches by the same condition, or by the opposite one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

import pallasite  # noqa: E402
from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.frontend import read  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

from ...asking import asked  # noqa: E402

pytestmark = [pytest.mark.jax, pytest.mark.aot]
SHAPE = (8, 128)
Kernel = Callable[[Any, Any, Any], None]


def masked(x: Any, first: Any, second: Any) -> Any:
    """A choice by a mask which `first` decides on, written in another branch, by `second`."""
    mask = jax.lax.cond(first, lambda: x[...] > 0, lambda: x[...] < 1)
    return jax.lax.cond(
        second,
        lambda: jnp.where(mask, x[...], 0.0),
        lambda: jnp.where(mask, x[...] * 2, 1.0),
    )


def opposite(x: Any, n: Any, o: Any) -> None:
    condition = n[0] > 0
    o[...] = masked(x, condition, ~condition)


def opposite_first(x: Any, n: Any, o: Any) -> None:
    condition = n[0] > 0
    o[...] = masked(x, ~condition, condition)


def opposite_of_floats(x: Any, n: Any, o: Any) -> None:
    condition = n[0].astype(jnp.float32) > 0
    o[...] = masked(x, condition, ~condition)


def twice_opposite(x: Any, n: Any, o: Any) -> None:
    condition = n[0] > 0
    o[...] = masked(x, condition, ~~condition)


def loaded_again(x: Any, n: Any, o: Any) -> None:
    mask = jax.lax.cond(n[0] > 0, lambda: x[...] > 0, lambda: x[...] < 1)
    o[...] = jax.lax.cond(
        n[0] > 0, lambda: jnp.where(mask, x[...], 0.0), lambda: jnp.where(mask, x[...] * 2, 1.0)
    )


def computed_again(x: Any, n: Any, o: Any) -> None:
    condition, v = n[0] > 0, x[...] * 2
    mask = jax.lax.cond(condition, lambda: v > 0, lambda: v < 1)
    w = x[...] * 2
    o[...] = jax.lax.cond(
        condition, lambda: jnp.where(mask, w, 0.0), lambda: jnp.where(mask, w, 1.0)
    )


def compared_otherwise(x: Any, n: Any, o: Any) -> None:
    number = n[0]
    o[...] = masked(x, number > 0, number <= 0)


def computed_between(x: Any, n: Any, o: Any) -> None:
    condition = n[0] > 0
    mask = jax.lax.cond(condition, lambda: x[...] > 0, lambda: x[...] < 1)
    y = x[...] * 3
    o[...] = jax.lax.cond(
        condition, lambda: jnp.where(mask, y, 0.0), lambda: jnp.where(mask, x[...], 1.0)
    )


def stored_between(x: Any, n: Any, o: Any) -> None:
    condition = n[0] > 0
    mask = jax.lax.cond(condition, lambda: x[...] > 0, lambda: x[...] < 1)
    o[...] = x[...]
    o[...] = jax.lax.cond(
        n[0] > 0, lambda: jnp.where(mask, x[...], 0.0), lambda: jnp.where(mask, x[...], 1.0)
    )


def one_side(x: Any, n: Any, o: Any) -> None:
    condition = n[0] > 0
    mask = jax.lax.cond(condition, lambda: x[...] > 0, lambda: x[...] < 1)

    @pl.when(~condition)
    def _() -> None:
        o[...] = jnp.where(mask, x[...], 0.0)


TAKEN: list[Kernel] = [
    opposite, opposite_first, opposite_of_floats, twice_opposite, loaded_again, computed_again,
]  # fmt: skip
REFUSED: list[Kernel] = [compared_otherwise, computed_between, stored_between, one_side]


def module_of(kernel: Kernel) -> Any:
    call = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(SHAPE, jnp.float32),
        in_specs=[pl.BlockSpec(), pl.BlockSpec(memory_space=pltpu.SMEM)],
    )
    given = jax.ShapeDtypeStruct(SHAPE, jnp.float32), jax.ShapeDtypeStruct((2,), jnp.int32)
    with simulate(target="v5e"):
        lowered = jax.jit(call).trace(*given).lower(lowering_platforms=("tpu",))
    return read(lowered.as_text(debug_info=True), "kernel")


@pytest.mark.parametrize("kernel", TAKEN)
def test_branches_that_become_one(kernel: Kernel, compiler: Any) -> None:
    """Both sides of each get the mask of that side; the result is as if masks were carried."""
    module = module_of(kernel)
    assert asked(module, "v5e", compiler, layout_passes=True).accepted
    assert asked(
        pallasite.lower(module, "vreg", "v5e"), "v5e", compiler, layout_passes=False
    ).accepted
    x = np.random.default_rng(5).normal(0, 2, SHAPE).astype(np.float32)
    for number in (-3, 2):
        given = [x, np.array([number, 4], np.int32)]
        expected = np.zeros(SHAPE, np.float32)
        kernel(x, jnp.asarray(given[1]), _Stored(expected))
        for form in ("mosaic", "tiles", "vreg"):
            (found,) = pallasite.run(
                module, given, form=form, target="v5e", results=[(SHAPE, "float32")]
            )
            np.testing.assert_array_equal(found, expected)


class _Stored:
    """The array that a kernel stores to, out of any call."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __setitem__(self, index: Any, value: Any) -> None:
        self.array[index] = np.asarray(value)


@pytest.mark.parametrize("kernel", REFUSED)
def test_branches_that_stay_two(kernel: Kernel, compiler: Any) -> None:
    module = module_of(kernel)
    assert not asked(module, "v5e", compiler, layout_passes=True).accepted
    with pytest.raises(Unsupported, match="carries a vector of booleans"):
        pallasite.lower(module, "tiles", "v5e")
