"""Cores and parallel axes (spec/pallas_semantics.md section 8.4)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pallasite.diagnostics import KernelWarning

from .support import DMA, S, call, equal, jax, jnp, numbered, pl, pltpu, ramp, refusal, run

pytestmark = pytest.mark.jax
feature = pytest.mark.feature
ANY = pl.BlockSpec(memory_space=pl.ANY)
TWO_CORES = "v5p"


def semantics(*names: Any) -> Any:
    return pltpu.CompilerParams(dimension_semantics=names)


def add_one(x: Any, o: Any) -> None:
    o[...] = x[...] + 1


@feature("D01")
@pytest.mark.parametrize("name", ["parallel", pltpu.PARALLEL, "arbitrary", pltpu.ARBITRARY])
@pytest.mark.parametrize("target", ["v5e", TWO_CORES])
def test_semantics_of_dimensions(name: Any, target: str) -> None:
    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    x = ramp(32, 128)
    params = semantics(name)
    program = call(
        add_one, S(32, 128), grid=(4,), in_specs=[spec], out_specs=spec, compiler_params=params
    )
    equal(run(program, x, target=target), x + 1)


def cores_of(names: tuple[str, ...], grid: tuple[int, ...], target: str = TWO_CORES) -> Any:
    """How often scratch of each core had been used before each step: 0 where a core begins."""

    def body(o: Any, count: Any) -> None:
        fresh = count[0] == 12345
        before = jnp.where(fresh, count[1], 0)
        o[...] = jnp.full(o.shape, before)
        count[0] = 12345
        count[1] = before + 1

    out = pl.BlockSpec(
        (8, 128), lambda *g: (sum(a * b for a, b in zip(g, strides, strict=True)), 0)
    )
    strides = [int(np.prod(grid[axis + 1 :])) for axis in range(len(grid))]
    shape = S(8 * int(np.prod(grid)), 128, dtype=jnp.int32)
    params = semantics(*names)
    scratch = [pltpu.SMEM((2,), jnp.int32)]
    program = call(
        body, shape, grid=grid, out_specs=out, scratch_shapes=scratch, compiler_params=params
    )
    return run(program, target=target, checks=())[::8, 0]


@feature("D03")
def test_only_parallel_axes_are_split() -> None:
    equal(cores_of(("parallel", "arbitrary"), (4, 2)), [0, 1, 2, 3, 0, 1, 2, 3])
    equal(cores_of(("parallel", "arbitrary"), (4, 2), "v5e"), range(8))


@feature("D05")
def test_an_uneven_split() -> None:
    equal(cores_of(("parallel",), (5,)), [0, 1, 2, 0, 1])


@feature("D07")
def test_without_annotation_one_core_works() -> None:
    equal(cores_of(("arbitrary",), (4,)), range(4))


@feature("D08")
@pytest.mark.parametrize("target", ["v5e", TWO_CORES])
def test_a_parallel_axis_behind_others_is_told(target: str) -> None:
    """The compiler accepts it, and so do we; the steps are in order, on one core."""
    with pytest.warns(KernelWarning, match=r"axis 1 is parallel but comes behind axis 0") as told:
        equal(cores_of(("arbitrary", "parallel"), (4, 2), target), range(8))
    (warning,) = told
    assert isinstance(warning.message, KernelWarning)
    location = warning.message.diagnostic.location
    assert location is not None and location.file.endswith("test_cores.py")


@feature("D10")
def test_a_pipeline_split_over_cores() -> None:
    x = ramp(40, 128)

    def body(x_ref: Any, o_ref: Any) -> None:
        spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
        pltpu.emit_pipeline(
            add_one, grid=(5,), in_specs=[spec], out_specs=[spec],
            core_axis_name="core", dimension_semantics=(pltpu.PARALLEL,),
        )(x_ref, o_ref)  # fmt: skip

    equal(run(numbered(body, S(40, 128)), x, target=TWO_CORES), x + 1)


@feature("D13", "D14", "X20", "V15", "Z07")
def test_cores_swap_what_they_hold() -> None:
    def body(x_ref: Any, o_ref: Any, mine: Any, theirs: Any, send: Any, receive: Any) -> None:
        core, cores = jax.lax.axis_index("core"), jax.lax.axis_size("core")
        rows = pl.ds(core * 8, 8)
        pltpu.sync_copy(x_ref.at[rows], mine)
        barrier = pltpu.get_barrier_semaphore()
        other = {"core": cores - 1 - core}
        pl.semaphore_signal(barrier, 1, device_id=other)
        pl.semaphore_wait(barrier, 1)
        pltpu.async_remote_copy(mine, theirs, send, receive, device_id=other).wait()
        pltpu.sync_copy(theirs, o_ref.at[rows])

    buffer = pltpu.VMEM((8, 128), jnp.float32)
    program = numbered(
        body, S(16, 128), scratch_types=[buffer, buffer, DMA, DMA],
        compiler_params=pltpu.CompilerParams(collective_id=0),
    )  # fmt: skip
    x = ramp(16, 128)
    for seed in range(4):
        equal(run(program, x, target=TWO_CORES, seed=seed), jnp.roll(x, 8, axis=0))


@feature("D17")
def test_two_cores_write_one_block() -> None:
    def body(o_ref: Any, buffer: Any) -> None:
        buffer[...] = jnp.zeros_like(buffer)
        pltpu.sync_copy(buffer, o_ref)

    program = numbered(body, S(8, 128), scratch_types=[pltpu.VMEM((8, 128), jnp.float32)])
    assert "race" in refusal(program, target=TWO_CORES, checks=("race",))


@feature("D19", "Z01")
def test_results_do_not_depend_on_the_order() -> None:
    spec = pl.BlockSpec((8, 128), lambda i, j: (i, j))
    x = ramp(32, 384)
    program = call(
        add_one, S(32, 384), grid=(4, 3), in_specs=[spec], out_specs=spec,
        compiler_params=semantics("parallel", "parallel"),
    )  # fmt: skip
    for seed in range(10):
        equal(run(program, x, target=TWO_CORES, seed=seed), x + 1)
