"""Each block of an output begins undefined, also where its buffer still holds an earlier one."""

from __future__ import annotations

from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.diagnostics import Diagnostic, KernelWarning  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

pytestmark = pytest.mark.jax

X = jnp.ones((32, 128), jnp.float32)
FORMS = ("pallas", "mosaic", "dma", "tiles", "vreg")
ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))


def by_blocks(body: Any, out: pl.BlockSpec = ROWS) -> Any:
    """`body` for 4 blocks of 8 rows, in buffers for two."""
    shape = jax.ShapeDtypeStruct(X.shape, X.dtype)
    return pl.pallas_call(body, out_shape=shape, grid=(4,), in_specs=[ROWS], out_specs=out)(X)


def by_a_pipeline(body: Any) -> Any:
    def outer(x: Any, o: Any) -> None:
        pltpu.emit_pipeline(body, grid=(4,), in_specs=[ROWS], out_specs=[ROWS])(x, o)

    anywhere, shape = pl.BlockSpec(memory_space=pl.ANY), jax.ShapeDtypeStruct(X.shape, X.dtype)
    return pl.pallas_call(outer, out_shape=shape, in_specs=[anywhere], out_specs=anywhere)(X)


def skips_the_third(x: Any, o: Any) -> None:
    @pl.when(pl.program_id(0) != 2)
    def _copy() -> None:
        o[...] = x[...]


def begins_two(x: Any, o: Any) -> None:
    @pl.when(pl.program_id(0) < 2)
    def _begin() -> None:
        o[...] = jnp.zeros_like(o)

    o[...] += x[...]


PIPELINES = pytest.param(
    by_a_pipeline, marks=pytest.mark.since_jax("0.10.2", "pipelines as one operation")
)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("call", [by_blocks, PIPELINES])
def test_a_block_that_a_step_leaves_out_is_not_written(call: Any, form: str) -> None:
    told = r"1024 of 4096 elements of output 0 .* never written, the first at \[16, 0\]"
    with simulate(form=form, checks=("init",)), pytest.warns(KernelWarning, match=told):
        call(skips_the_third)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("call", [by_blocks, PIPELINES])
def test_what_is_added_to_a_block_that_nobody_began_is_found(call: Any, form: str) -> None:
    with simulate(form=form, checks=("init",)), pytest.raises(Diagnostic) as caught:
        call(begins_two)
    assert caught.value.code == "uninitialised-read"


@pytest.mark.parametrize("form", FORMS)
def test_a_block_of_several_steps_is_one(form: str) -> None:
    """It is written back once, and its buffer is not another one's meanwhile."""
    half = pl.BlockSpec((8, 128), lambda i: (i // 2, 0))

    def adds(x: Any, o: Any) -> None:
        @pl.when(pl.program_id(0) % 2 == 0)
        def _begin() -> None:
            o[...] = jnp.zeros_like(o)

        o[...] += x[...]

    with simulate(form=form, checks=("init",)), pytest.warns(KernelWarning, match="2048 of 4096"):
        assert jnp.all(by_blocks(adds, half)[:16] == 2)
