"""What only a simulator can promise (spec/pallas_semantics.md section 8.8)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pallasite.api import lower
from pallasite.interpreter.run import execute
from pallasite.jax import trace
from pallasite.targets import TARGETS

from .counting import outcome
from .support import S, call, equal, jnp, noise, pl, pltpu, ramp, refusal, run

pytestmark = pytest.mark.jax
feature = pytest.mark.feature


def doubled(x: Any, o: Any) -> None:
    o[...] = x[...] * 2


@feature("Z01")
@pytest.mark.parametrize("seed", range(6))
def test_the_order_of_transfers_changes_nothing(seed: int) -> None:
    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    x = noise(48, 128)
    program = call(doubled, S(48, 128), grid=(6,), in_specs=[spec], out_specs=spec)
    equal(run(program, x, seed=seed), x * 2)


@feature("Z04")
@pytest.mark.parametrize("pattern", [0, 1])
def test_what_unwritten_memory_holds(pattern: int) -> None:
    def body(o: Any, scratch: Any) -> None:
        o[...] = scratch[...]

    program = call(
        body, S(8, 128, dtype=jnp.int32), scratch_shapes=[pltpu.VMEM((8, 128), jnp.int32)]
    )
    module = lower(trace(program), form="tiles")
    ran = execute(module, [[]], target=TARGETS["v5e"], poison=pattern)
    held = np.unique(ran.outputs[0][0])
    assert len(held) == 1
    other = execute(module, [[]], target=TARGETS["v5e"], poison=1 - pattern).outputs[0][0]
    assert held[0] != other[0, 0]


@feature("Z09")
def test_an_array_ends_before_its_last_tile_does() -> None:
    """20 rows: forms above registers know no more of them, registers hold the 24 of whole tiles."""

    def body(block: Any, x: Any, o: Any) -> None:
        o[...] = x[pl.ds(block[0] * 8, 8)]

    smem, x = pl.BlockSpec(memory_space=pltpu.SMEM), noise(20, 128)
    program = call(body, S(8, 128), in_specs=[smem, pl.BlockSpec()])
    last, beyond = jnp.array([2]), jnp.array([3])
    for form in ("pallas", "mosaic", "dma"):
        assert "out-of-bounds" in refusal(program, last, x, form=form)
    for form in ("tiles", "vreg"):
        result = run(program, last, x, form=form, checks=("bounds",))
        equal(result[:4], x[16:])
        assert np.isnan(result[4:]).all()
        assert "out-of-bounds" in refusal(program, beyond, x, form=form)


@feature("Z12")
def test_peaks_of_memory() -> None:
    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    program = call(doubled, S(32, 128), grid=(4,), in_specs=[spec], out_specs=spec)
    ran = outcome(program, ramp(32, 128))
    assert ran.memory["vmem_peak_bytes"] == 4 * 4096
    assert set(ran.memory) >= {"vmem_peak_bytes", "smem_peak_bytes"}
    assert ran.transfers == {"count": 8, "bytes": 2 * 32 * 128 * 4}
