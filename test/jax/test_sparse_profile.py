"""What a profile counts of a kernel of SparseCores: bytes, rows, instructions, waits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from .since import require_jax  # noqa: E402

require_jax("0.10.1", "needs_layout_passes=")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402
from jax.experimental.pallas import tpu_sc as plsc  # noqa: E402

from pallasite.api import simulate  # noqa: E402
from pallasite.jax import kernels  # noqa: E402
from pallasite.targets import TARGETS  # noqa: E402
from pallasite.tools.profile_text import profile_text  # noqa: E402

from .sparse_kernels import typed, vector_kernel  # noqa: E402

pytestmark = [pytest.mark.jax, pytest.mark.feature("Y18")]

f32, i32, VMEM = jnp.float32, jnp.int32, pltpu.VMEM
PARAMS = pltpu.CompilerParams(use_tc_tiling_on_sc=False, needs_layout_passes=False)
ROWS, WIDTH, STEPS = 8, 20, 5


def measured(target: str) -> dict[str, Any]:
    """Two subcores gather rows of 80 bytes, and add up registers in a loop."""
    lanes = TARGETS[target].sparse.lanes

    def body(x: Any, i: Any, o: Any, where: Any, rows: Any, total: Any) -> None:
        pltpu.sync_copy(i, where)
        pltpu.sync_copy(x.at[where], rows)
        total[...] = jnp.zeros((lanes,), f32)

        @pl.loop(0, STEPS)
        def _(n: Any) -> None:
            total[...] = plsc.cumsum(total[...]) + jnp.exp(rows[n, pl.ds(0, lanes)])

        pltpu.sync_copy(total, o.at[jax.lax.axis_index("s")])

    scratch = [VMEM((ROWS,), i32), VMEM((ROWS, WIDTH), f32), VMEM((lanes,), f32)]
    call = vector_kernel(body, typed(2, lanes), scratch, 1, 2, compiler_params=PARAMS)
    inputs = [np.zeros((32, WIDTH), np.float32), np.arange(ROWS, dtype=np.int32)]
    (module,) = kernels(call, *inputs, target=target, form="mosaic")
    outcome = simulate(module, inputs, form="vreg", target=target, profile=True)
    assert outcome.profile is not None
    return outcome.profile


@pytest.mark.parametrize(("target", "granule"), [("v6e", 32), ("v7x", 64)])
def test_bytes_come_in_granules(target: str, granule: int) -> None:
    """A row of 80 bytes is three granules of 32, or two of 64."""
    profile = measured(target)
    assert profile["granule_bytes"] == granule
    row = -(-80 // granule) * granule
    rest = 64 if granule == 64 else 32
    rest += granule  # The indices, and a register of results.
    assert [core["hbm_bytes"] for core in profile["subcores"]] == [ROWS * row + rest] * 2
    assert profile["hbm_bytes"] == 2 * (ROWS * row + rest)
    rate = TARGETS[target].hbm_bytes_per_second
    assert profile["hbm_seconds"] == pytest.approx(profile["hbm_bytes"] / rate)


def test_what_each_subcore_does() -> None:
    for core in measured("v7x")["subcores"]:
        assert (core["transfers"], core["rows"], core["waits"]) == (3, ROWS, 3)
        assert core["bytes"] == 4 * ROWS + 80 * ROWS + 64
        instructions = core["instructions"]
        assert instructions["xlu"] == STEPS and instructions["eup"] == STEPS
        assert instructions["load"] == 2 * STEPS
        assert instructions["store"] == STEPS + 1
        assert instructions["vpu"] >= STEPS and instructions["mxu"] == 0


def test_it_is_told() -> None:
    text = profile_text(measured("v7x"))
    assert "in granules of 64" in text and "of SparseCore 0" in text and "8 indirect rows" in text
