"""Loops whose state is all in refs, which JAX lowers without their end."""

from __future__ import annotations

from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.jax import simulate  # noqa: E402

from .support import equal, told  # noqa: E402

pytestmark = pytest.mark.jax

SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)
N = jnp.asarray([3, 4, 5, 6], jnp.int32)


def call(carry: Any, turn: Any) -> Any:
    """How many of the numbers it takes to reach 10, counted in a ref; `turn` of the carry."""

    def body(n: Any, count: Any, total: Any) -> None:
        count[0], total[0] = 0, 0

        def add(carry: Any) -> Any:
            total[0] = total[0] + n[count[0]]
            count[0] = count[0] + 1
            return turn(carry)

        lax.while_loop(lambda _: (count[0] < 4) & (total[0] < 10), add, carry)

    out = jax.ShapeDtypeStruct((1,), jnp.int32)
    scratch = [pltpu.SMEM((1,), jnp.int32)]
    return pl.pallas_call(body, out_shape=out, in_specs=[SMEM], out_specs=SMEM,
                          scratch_shapes=scratch)(N)  # fmt: skip


@pytest.mark.parametrize("carry", [(), 0])
def test_the_line_and_what_to_write(carry: Any) -> None:
    with simulate(), pytest.raises(Exception, match=r"scf\.while") as caught:
        call(carry, lambda carry: carry)
    text = told(caught.value)
    assert f"test_uncarried_loops.py:{call.__code__.co_firstlineno + 11}:" in text
    assert "lax.while_loop(condition, lambda i: i + 1, 0)" in text
    assert "file a bug" not in text


@pytest.mark.parametrize("form", ["pallas", "mosaic", "vreg"])
def test_what_is_advised(form: str) -> None:
    with simulate(form=form):
        equal(call(0, lambda i: i + 1), [3])


def test_form_pallas_takes_it() -> None:
    with simulate(form="pallas"):
        equal(call((), lambda carry: carry), [3])
