"""JAX's pipelines fetch blocks ahead that no step waits for, where they have few steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

import pallasite  # noqa: E402
from pallasite.diagnostics import Diagnostic  # noqa: E402
from pallasite.jax import simulate  # noqa: E402
from pallasite.jax.simulation import kernels  # noqa: E402

pytestmark = pytest.mark.jax
X = np.arange(2048, dtype=np.float32).reshape(16, 128)


def doubled(buffers: int, **options: Any) -> Any:
    """A function of `X` with a pipeline of two steps."""

    def block(x: Any, o: Any) -> None:
        o[...] = x[...] * 2

    def body(x: Any, o: Any) -> None:
        mode = pl.Buffered(buffers, **options)
        given = pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=mode)
        made = pl.BlockSpec((8, 128), lambda i: (i, 0))
        pltpu.emit_pipeline(block, grid=(2,), in_specs=[given], out_specs=[made])(x, o)

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    shape = jax.ShapeDtypeStruct(X.shape, jnp.float32)
    return pl.pallas_call(body, out_shape=shape, in_specs=[anywhere], out_specs=anywhere)


@pytest.mark.parametrize("form", ["mosaic", "dma", "tiles", "vreg"])
def test_a_block_is_fetched_twice(form: str) -> None:
    """The third fetch starts over with the first block; JAX waits for two."""
    with simulate(form=form, checks="sync"), pytest.raises(Diagnostic) as raised:
        doubled(4)(X)
    assert raised.value.code == "unawaited-dma" and raised.value.location is not None
    assert raised.value.location.file == __file__
    assert any("at most one buffer more than steps" in note.message for note in raised.value.notes)


@pytest.mark.parametrize("form", ["mosaic", "dma", "tiles", "vreg"])
@pytest.mark.parametrize(("buffers", "lookahead"), [(3, False), (4, True)])
def test_what_the_note_tells_to_write(form: str, buffers: int, lookahead: bool) -> None:
    with simulate(form=form, checks="all"):
        result = doubled(buffers, use_lookahead=lookahead)(X)
    np.testing.assert_array_equal(np.asarray(result), 2 * X)


@pytest.mark.parametrize("form", ["pallas", "mosaic", "dma", "tiles", "vreg"])
def test_a_pipeline_of_form_pallas_fetches_every_block_once(form: str) -> None:
    """That it fetches too much is JAX's lowering; ours does not."""
    (kernel,) = kernels(doubled(4), X, form="pallas", target="v5e")
    outcome = pallasite.simulate(kernel, [X], form=form, target="v5e", checks="all")
    assert not outcome.findings
    np.testing.assert_array_equal(np.asarray(outcome.outputs[0][0]), 2 * X)
