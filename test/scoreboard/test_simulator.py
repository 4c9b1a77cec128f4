"""What only a simulator can promise (spec/pallas_semantics.md section 8.8)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pallasite.api import lower
from pallasite.diagnostics import Diagnostic
from pallasite.interpreter.machine.grid_walk import GridWalk
from pallasite.interpreter.options import Options
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
@pytest.mark.filterwarnings("ignore::pallasite.diagnostics.KernelWarning")
@pytest.mark.parametrize("pattern", [0, 1])
def test_what_unwritten_memory_holds(pattern: int) -> None:
    def body(o: Any, scratch: Any) -> None:
        o[...] = scratch[...]

    program = call(
        body, S(8, 128, dtype=jnp.int32), scratch_shapes=[pltpu.VMEM((8, 128), jnp.int32)]
    )
    module = lower(trace(program), form="tiles")
    ran = execute(module, [[]], Options(poison=pattern), target=TARGETS["v5e"])
    held = np.unique(ran.outputs[0][0])
    assert len(held) == 1
    other = execute(module, [[]], Options(poison=1 - pattern), target=TARGETS["v5e"]).outputs[0][0]
    assert held[0] != other[0, 0]


def numbered(x: Any, o: Any) -> None:
    o[...] = x[...] + pl.program_id(0) * 10 + pl.program_id(1)


GRID: dict[str, Any] = {
    "grid": (4, 3),
    "in_specs": [pl.BlockSpec((8, 128), lambda i, j: (i, j))],
    "out_specs": pl.BlockSpec((8, 128), lambda i, j: (i, j)),
    "compiler_params": pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
}


@feature("Z06", "Z10")
@pytest.mark.parametrize("form", ["pallas", "mosaic"])
def test_order_of_parallel_axes(form: str) -> None:
    """Every seed takes the points of a parallel axis in another order, to the same result."""
    program, x = call(numbered, S(32, 384), **GRID), noise(32, 384)
    expected = outcome(program, x, form="dma").outputs[0][0]
    orders: set[tuple[tuple[int, ...], ...]] = set()
    for seed in range(4):
        points: list[tuple[int, ...]] = []
        walk = GridWalk(seed, lambda point, device, core, points=points: points.append(point))
        equal(outcome(program, x, form=form, grid_walk=walk).outputs[0][0], expected)
        assert [j for _, j in points] == [0, 1, 2] * 4
        assert sorted(points) == [(i, j) for i in range(4) for j in range(3)]
        assert seed or points == sorted(points)
        orders.add(tuple(points))
    assert len(orders) > 2


@feature("Z10")
def test_who_visits_which_point() -> None:
    program = call(numbered, S(32, 384), **GRID)
    visits: list[tuple[tuple[int, ...], int, int]] = []
    walk = GridWalk(visit=lambda *visit: visits.append(visit))
    outcome(program, noise(32, 384), form="mosaic", target="v5p", grid_walk=walk)
    assert sorted(visits) == [((i, j), 0, i // 2) for i in range(4) for j in range(3)]
    with pytest.raises(Diagnostic, match="forms pallas and mosaic"):
        outcome(program, noise(32, 384), form="tiles", grid_walk=walk)


@feature("Z09")
@pytest.mark.parametrize("form", ["mosaic", "dma", "tiles", "vreg"])
def test_neighbours_in_memory_are_outside(form: str) -> None:
    """What a place outside of a dimension would hit are rows of the same buffer."""

    def body(at: Any, x: Any, o: Any) -> None:
        o[...] = x[at[0], pl.ds(pl.multiple_of(at[1], 8), 8)]

    smem, x = pl.BlockSpec(memory_space=pltpu.SMEM), noise(6, 16, 128)
    block = pl.BlockSpec((2, 16, 128), lambda i: (i, 0, 0))
    out = pl.BlockSpec((8, 128), lambda i: (i, 0))
    program = call(body, S(24, 128), grid=(3,), in_specs=[smem, block], out_specs=out)
    inside = run(program, jnp.array([1, 8]), x, form=form)
    equal(inside, x[1::2, 8:].reshape(24, 128))
    for row, start in ((-1, 0), (2, 0), (0, 16), (1, -8)):
        assert "out-of-bounds" in refusal(program, jnp.array([row, start]), x, form=form)


@feature("Z09")
@pytest.mark.parametrize("form", ["pallas", "mosaic", "dma", "tiles", "vreg"])
def test_an_array_ends_before_its_last_tile_does(form: str) -> None:
    """Of 20 rows registers hold the 24 of whole tiles."""

    def body(block: Any, x: Any, o: Any) -> None:
        o[...] = x[pl.ds(block[0] * 8, 8)]

    smem, x = pl.BlockSpec(memory_space=pltpu.SMEM), noise(20, 128)
    program = call(body, S(8, 128), in_specs=[smem, pl.BlockSpec()])
    equal(run(program, jnp.array([1]), x, form=form), x[8:16])
    for block in (2, 3):
        assert "out-of-bounds" in refusal(program, jnp.array([block]), x, form=form)


@feature("Z12")
def test_peaks_of_memory() -> None:
    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    program = call(doubled, S(32, 128), grid=(4,), in_specs=[spec], out_specs=spec)
    ran = outcome(program, ramp(32, 128))
    assert ran.memory["vmem_peak_bytes"] == 4 * 4096
    assert set(ran.memory) >= {"vmem_peak_bytes", "smem_peak_bytes"}
    assert ran.transfers == {"count": 8, "bytes": 2 * 32 * 128 * 4}
