"""Two cores of one device: core meshes, pipelines and parallel grids (K24, K25 of
spec/pallas_semantics.md)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite import lower  # noqa: E402
from pallasite.diagnostics import Diagnostic, KernelWarning  # noqa: E402
from pallasite.frontend.aot import compile_ahead_of_time  # noqa: E402
from pallasite.jax import kernels, simulate  # noqa: E402
from pallasite.targets import get_target  # noqa: E402

from .support import ramp  # noqa: E402

pytestmark = pytest.mark.jax

f32 = jnp.float32


@pytest.mark.parametrize("form", ["mosaic", "vreg"])
def test_two_cores_swap(form: Any) -> None:
    """Every core sends its half to the other one, behind a handshake, and doubles what it gets."""

    def body(x: Any, o: Any, mine: Any, other: Any, sent: Any, came: Any, ready: Any) -> None:
        core = jax.lax.axis_index("core")
        peer = {"core": 1 - core}
        pltpu.sync_copy(x.at[pl.ds(core * 8, 8)], mine)
        pl.semaphore_signal(ready, 1, device_id=peer)
        pl.semaphore_wait(ready, 1)
        pltpu.make_async_remote_copy(mine, other, sent, came, device_id=peer).start()
        pltpu.make_async_remote_copy(mine, other, sent, came, device_id=peer).wait()
        other[...] = other[...] * 2.0
        pltpu.sync_copy(other, o.at[pl.ds(core * 8, 8)])

    block, semaphore = pltpu.VMEM((8, 128), f32), pltpu.SemaphoreType
    x = ramp(16, 128)
    with simulate(target="v4", form=form, checks=("race", "init", "sync")):
        swapped = pl.kernel(
            body, out_type=jax.ShapeDtypeStruct(x.shape, f32),
            mesh=pltpu.create_tensorcore_mesh("core"),
            scratch_types=[block, block, semaphore.DMA, semaphore.DMA, semaphore.REGULAR],
        )(x)  # fmt: skip
    np.testing.assert_array_equal(swapped, 2 * jnp.concatenate([x[8:], x[:8]]))


def test_a_pipeline_is_shared_by_the_cores_of_a_mesh() -> None:
    def body(x: Any, o: Any) -> None:
        def step(x_block: Any, o_block: Any) -> None:
            o_block[...] = x_block[...] * 2.0

        block = pl.BlockSpec((8, 128), lambda i: (i, 0))
        pltpu.emit_pipeline(
            step, grid=(5,), in_specs=[block], out_specs=[block], core_axis_name="core",
            dimension_semantics=(pltpu.PARALLEL,),
        )(x, o)  # fmt: skip

    x = ramp(40, 128)
    with simulate(target="v4", form="tiles", checks=("race", "init", "sync")):
        doubled = pl.kernel(
            body, out_type=jax.ShapeDtypeStruct(x.shape, f32),
            mesh=pltpu.create_tensorcore_mesh("core"),
        )(x)  # fmt: skip
    np.testing.assert_array_equal(doubled, 2 * x)


def shared_pipeline(steps: int, blocks: Any = None, **options: Any) -> Any:
    """Doubles an array of so many blocks, on the cores of a mesh."""

    def body(x: Any, o: Any) -> None:
        def step(x_block: Any, o_block: Any) -> None:
            o_block[...] = x_block[...] * 2.0

        block = pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=blocks)
        pltpu.emit_pipeline(
            step, grid=(steps,), in_specs=[block], out_specs=[block], core_axis_name="core",
            dimension_semantics=(pltpu.PARALLEL,), **options,
        )(x, o)  # fmt: skip

    return pl.kernel(
        body, out_type=jax.ShapeDtypeStruct((8 * steps, 128), f32),
        mesh=pltpu.create_tensorcore_mesh("core"),
    )  # fmt: skip


@pytest.mark.parametrize("form", ["pallas", "tiles"])
def test_shares_of_cores_are_lost_without_overlap(form: Any) -> None:
    """`no_pipelining` of JAX copies the blocks of core 0 on every core: both write them."""
    with (
        simulate(target="v4", form=form, checks="race"),
        pytest.warns(KernelWarning, match="core-share-lost"),
        pytest.raises(Diagnostic) as caught,
    ):
        shared_pipeline(2, no_pipelining=True)(ramp(16, 128))
    assert caught.value.code == "data-race"
    assert any("no_pipelining" in note.message for note in caught.value.notes)


@pytest.mark.parametrize("form", ["pallas", "tiles"])
def test_lost_shares_are_warned_of_without_checks(form: Any) -> None:
    with simulate(target="v4", form=form), pytest.warns(KernelWarning) as told:
        doubled = shared_pipeline(5, no_pipelining=True)(ramp(40, 128))
    (found,) = [warning for warning in told if "core-share-lost" in str(warning.message)]
    assert found.filename == __file__ and f"{__file__}:{found.lineno}" in str(found.message)
    assert "each of the 2 cores of core_axis_name='core'" in str(found.message)
    assert np.isnan(doubled[24:]).all()


def test_one_buffer_for_each_block_shares_the_steps() -> None:
    """What the warning advises."""
    x = ramp(40, 128)
    with simulate(target="v4", form="tiles", checks="all"), warnings.catch_warnings():
        warnings.simplefilter("error", KernelWarning)
        doubled = shared_pipeline(5, pl.Buffered(1))(x)
    np.testing.assert_array_equal(doubled, 2 * x)


@pytest.mark.parametrize("target", ["v4", "v5e"])
def test_no_share_is_lost_of_a_pipeline_that_is_one_cores(target: Any) -> None:
    def body(x: Any, o: Any) -> None:
        def step(x_block: Any, o_block: Any) -> None:
            o_block[...] = x_block[...] * 2.0

        block = pl.BlockSpec((8, 128), lambda i: (i, 0))
        axis = {} if target == "v4" else {"core_axis": 0}
        pltpu.emit_pipeline(
            step, grid=(2,), in_specs=[block], out_specs=[block], no_pipelining=True, **axis
        )(x, o)

    whole = pl.BlockSpec(memory_space=pl.ANY)
    call = pl.pallas_call(
        body, out_shape=ramp(16, 128), grid=(1,), in_specs=[whole], out_specs=whole
    )
    with simulate(target=target), warnings.catch_warnings():
        warnings.simplefilter("error", KernelWarning)
        np.testing.assert_array_equal(call(ramp(16, 128)), 2 * ramp(16, 128))


def test_parallel_grids_have_scratch_per_core() -> None:
    """Counts the steps of each core in its scratch: five steps are three and two."""

    def body(o: Any, count: Any) -> None:
        step = pl.program_id(0)

        @pl.when((step == 0) | (step == 3))
        def _() -> None:
            count[0] = 0

        count[0] += 1
        o[...] = jnp.full(o.shape, count[0], jnp.int32)

    with simulate(target="v5p", form="dma", checks=("race", "init", "sync")):
        counts = pl.pallas_call(
            body, out_shape=jax.ShapeDtypeStruct((40, 128), jnp.int32), grid=(5,),
            out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
            scratch_shapes=[pltpu.SMEM((1,), jnp.int32)],
            compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        )()  # fmt: skip
    assert counts[::8, 0].tolist() == [1, 2, 3, 1, 2]


@pytest.mark.parametrize("semantics", ["arbitrary", "parallel"])
def test_a_step_does_not_fetch_for_the_next_core(semantics: str) -> None:
    """Each step starts the copy that the next one waits for, which may be another core's."""

    def body(x: Any, o: Any, blocks: Any, came: Any) -> None:
        step = pl.program_id(0)

        def copy(block: Any) -> Any:
            slot = block % 2
            return pltpu.make_async_copy(x.at[pl.ds(block * 8, 8)], blocks.at[slot], came.at[slot])

        pl.when(step == 0)(lambda: copy(0).start())
        pl.when(step + 1 < pl.num_programs(0))(lambda: copy(step + 1).start())
        copy(step).wait()
        o[...] = blocks[step % 2]

    x = ramp(32, 128)
    call = pl.pallas_call(
        body, out_shape=x, grid=(4,), in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
        scratch_shapes=[pltpu.VMEM((2, 8, 128), f32), pltpu.SemaphoreType.DMA((2,))],
        compiler_params=pltpu.CompilerParams(dimension_semantics=(semantics,)),
    )  # fmt: skip
    with simulate(target="v4"):
        if semantics == "arbitrary":
            np.testing.assert_array_equal(call(x), x)
            return
        with pytest.raises(Diagnostic) as caught:
            jax.block_until_ready(call(x))
    assert "still in flight after the scope of scratch 0 (%blocks)" in caught.value.message
    assert any("of their own" in note.message for note in caught.value.notes)


@pytest.mark.aot
@pytest.mark.parametrize("form", ["dma", "vreg"])
def test_cores_see_whole_tables(compiler: Any, form: Any) -> None:
    """A table in SMEM beside a prefetched one is a window of each core, in the compiler's eyes."""

    def body(first: Any, x: Any, second: Any, o: Any) -> None:
        i, j = pl.program_id(0), pl.program_id(1)
        o[...] = x[...] + first[i] + second[j, i]

    def place(i: Any, j: Any, _: Any) -> Any:
        return 2 * i + j, 0

    block = pl.BlockSpec((8, 128), place)
    call: Any = pl.pallas_call(
        body,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(4, 2),
            in_specs=[block, pl.BlockSpec(memory_space=pltpu.SMEM)],
            out_specs=block,
        ),
        out_shape=jax.ShapeDtypeStruct((64, 128), jnp.int32),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )
    first, second = ramp(4, dtype=jnp.int32), 10 * ramp(2, 4, dtype=jnp.int32)
    x = ramp(64, 128, dtype=jnp.int32)
    with simulate(target="v4", form=form, checks="all"):
        found = call(first, x, second)
    added = np.repeat((np.asarray(first) + np.asarray(second)).T.reshape(-1), 8)
    np.testing.assert_array_equal(found, x + added[:, None])
    (kernel,) = kernels(call, first, x, second, target="v4", form="mosaic")
    lowered = lower(kernel, form, "v4")
    verdict = compile_ahead_of_time(
        lowered, topology=get_target("v4").topology, layout_passes=form == "dma", compiler=compiler
    )
    assert verdict.accepted, verdict.message
