"""Cores that do the same work: what a race says of it, and that what it says works."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402
from jax.experimental.pallas import tpu_sc as plsc  # noqa: E402

from pallasite.diagnostics import Diagnostic  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

pytestmark = pytest.mark.jax
X = np.arange(64 * 128, dtype=np.float32).reshape(64, 128)
ADVICE = "both run this line for the same part"


def copied(x: Any, divided: bool) -> Any:
    @pl.kernel(
        out_type=jax.ShapeDtypeStruct(X.shape, X.dtype),
        mesh=pltpu.create_tensorcore_mesh("core", num_cores=2),
    )
    def kernel(x: Any, o: Any) -> None:
        rows = pl.ds(lax.axis_index("core") * 32, 32) if divided else pl.ds(0, 64)
        pltpu.sync_copy(x.at[rows], o.at[rows])

    return kernel(x)


def piped(x: Any, axes: Any) -> Any:
    rows = pl.BlockSpec((8, 128), lambda i: (i, 0))

    def body(x: Any, o: Any) -> None:
        @pl.loop(0, 8)
        def _(row: Any) -> None:
            for start in range(0, 128, 16):
                o[row, pl.ds(start, 16)] = x[row, pl.ds(start, 16)]

    @pl.kernel(
        out_type=jax.ShapeDtypeStruct(X.shape, X.dtype),
        mesh=plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore"),
    )
    def kernel(x: Any, o: Any) -> None:
        pltpu.emit_pipeline(
            body,
            grid=(8,),
            in_specs=[rows],
            out_specs=[rows],
            core_axis_name=axes,
            dimension_semantics=(pltpu.PARALLEL,),
        )(x, o)

    return kernel(x)


@pytest.mark.parametrize(
    ("work", "target", "alone", "divided"),
    [
        (copied, "v4", False, True),
        (piped, "v7x", "subcore", ("core", "subcore")),
    ],
)
def test_a_race_of_cores_that_do_the_same(work: Any, target: str, alone: Any, divided: Any) -> None:
    x = jnp.asarray(X)
    with simulate(target, "mosaic", "race"):
        with pytest.raises(Diagnostic, match="data-race") as caught:
            work(x, alone)
        assert sum(ADVICE in note.message for note in caught.value.notes) == 1
        np.testing.assert_array_equal(work(x, divided), X)
