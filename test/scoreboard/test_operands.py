"""Where operands and results live, and their types (spec/pallas_semantics.md sections 8.1, 8.2)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .counting import outcome
from .support import DMA, S, call, equal, jax, jnp, pl, pltpu, ramp, refusal, run

pytestmark = pytest.mark.jax
feature = pytest.mark.feature
ANY = pl.BlockSpec(memory_space=pl.ANY)
SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)
ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))
INT = jnp.int32


def copy(x: Any, o: Any) -> None:
    o[...] = x[...]


@feature("C33")
def test_whole_arrays_in_smem_have_no_rule() -> None:
    def body(x: Any, o: Any) -> None:
        o[0] = x[2, 1]

    program = call(body, S(1, dtype=INT), in_specs=[SMEM], out_specs=SMEM)
    equal(run(program, ramp(3, 5, dtype=INT), form="dma"), [11])


@feature("C41", "S03")
def test_arrays_of_semaphores() -> None:
    def body(o: Any, numbers: Any, ready: Any, copied: Any, x: Any) -> None:
        def step(i: Any, _: Any) -> None:
            pl.semaphore_signal(ready.at[i], i + 1)
            numbers[i] = pl.semaphore_read(ready.at[i])
            pl.semaphore_wait(ready.at[i], i + 1)

        jax.lax.fori_loop(0, 3, step, None)
        pltpu.make_async_copy(o.at[0], x, copied.at[1]).start()
        pltpu.make_async_copy(o.at[0], x, copied.at[1]).wait()
        x[...] = jnp.full(x.shape, numbers[0] * 100 + numbers[1] * 10 + numbers[2])
        pltpu.sync_copy(x, o.at[0])

    semaphores = [pltpu.SemaphoreType.REGULAR((3,)), DMA((2,))]
    scratch = [pltpu.SMEM((3,), INT), *semaphores, pltpu.VMEM((8, 128), INT)]
    program = call(
        lambda _, *refs: body(*refs), S(1, 8, 128, dtype=INT), in_specs=[ANY], out_specs=ANY,
        scratch_shapes=scratch, input_output_aliases={0: 0},
    )  # fmt: skip
    equal(run(program, jnp.zeros((1, 8, 128), INT)), np.full((1, 8, 128), 123))


@feature("C46")
def test_blocks_that_come_again() -> None:
    """The block of an output is loaded again when its steps do not follow each other."""

    def body(o: Any) -> None:
        @pl.when(pl.program_id(0) < 2)
        def _() -> None:
            o[...] = jnp.zeros_like(o)

        o[...] += pl.program_id(0) + 1

    mode = pl.Buffered(1, revisit=pl.RevisitMode.ANY)
    spec = pl.BlockSpec((8, 128), lambda i: (i % 2, 0), pipeline_mode=mode)
    program = call(body, S(16, 128, dtype=INT), grid=(4,), out_specs=spec)
    equal(run(program)[::8, 0], [1 + 3, 2 + 4])


@feature("C49", "M03")
@pytest.mark.parametrize("space", [pltpu.HBM, pltpu.VMEM, pltpu.SMEM])
def test_results_in_a_memory(space: Any) -> None:
    def body(x: Any, o: Any) -> None:
        pltpu.sync_copy(x, o)

    spec = pl.BlockSpec(memory_space=pltpu.HBM)
    program = call(body, space((8, 128), INT), in_specs=[spec],
                   out_specs=pl.BlockSpec(memory_space=space))  # fmt: skip
    equal(run(program, ramp(8, 128, dtype=INT), form="dma"), ramp(8, 128))


@feature("C50")
def test_booleans_are_words_in_memory() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = ~x[...]

    x = ramp(8, 128) % 3 == 0
    result = run(call(body, S(8, 128, dtype=jnp.bool_)), x)
    assert result.dtype == bool
    equal(result, ~x)


@feature("C53")
def test_name_and_metadata() -> None:
    from pallasite.jax import trace

    program = call(copy, S(8, 128), name="my_kernel", metadata={"purpose": "a test"})
    for form in ("pallas", "mosaic"):
        text = str(trace(program, ramp(8, 128), form=form))
        assert "my_kernel" in text and "purpose" in text


@feature("M08")
def test_operands_of_the_host() -> None:
    def body(x: Any, o: Any) -> None:
        pltpu.sync_copy(x, o)

    program = call(body, S(8, 128), in_specs=[pl.BlockSpec(memory_space=pl.HOST)])
    equal(run(program, ramp(8, 128), form="dma"), ramp(8, 128))


@feature("M11", "L11", "L14")
def test_buffers_count_as_they_are() -> None:
    """Blocks have two buffers, whole arrays one, and what is in VMEM already none."""
    x = ramp(32, 128)
    program = call(copy, S(32, 128), grid=(4,), in_specs=[ROWS], out_specs=ROWS)
    assert outcome(program, x).memory["vmem_peak_bytes"] == 2 * 2 * 4096
    whole = pl.BlockSpec((32, 128), lambda i: (0, 0), pipeline_mode=pl.Buffered(2))
    program = call(copy, S(32, 128), grid=(1,), in_specs=[whole], out_specs=whole)
    assert outcome(program, x).memory["vmem_peak_bytes"] == 2 * 4 * 4096


@feature("M13")
def test_smem_is_exhausted() -> None:
    def body(o: Any, scratch: Any) -> None:
        scratch[0] = 1
        o[0] = scratch[0]

    scratch = [pltpu.SMEM((1 << 19,), INT)]
    program = call(body, S(1, dtype=INT), out_specs=SMEM, scratch_shapes=scratch)
    assert "SMEM" in refusal(program).upper()


@feature("P04", "P07")
def test_prefetched_trees_of_other_types() -> None:
    def body(tree: Any, x: Any, o: Any) -> None:
        o[...] = x[...] * tree["scale"][pl.program_id(0)]

    spec = pl.BlockSpec((8, 128), lambda i, tree: (tree["table"][i].astype(INT), 0))
    out = pl.BlockSpec((8, 128), lambda i, tree: (i, 0))
    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(2,), in_specs=[spec], out_specs=out
    )
    tree = {"table": jnp.array([2, 0], jnp.int32), "scale": jnp.array([0.5, 3.0])}
    x = ramp(24, 128)
    result = run(call(body, S(16, 128), grid_spec=grid), tree, x)
    equal(result, jnp.concatenate([x[16:] * 0.5, x[:8] * 3]))


@feature("P08", "V14", "D15")
def test_scalars_that_a_mesh_kernel_closes_over() -> None:
    @jax.jit
    def program(factor: Any, x: Any) -> Any:
        mesh = pltpu.create_tensorcore_mesh("core", num_cores=1)

        @pl.kernel(out_type=x, mesh=mesh, scratch_types=[pltpu.VMEM((8, 128), jnp.float32)])
        def kernel(x: Any, o: Any, buffer: Any) -> None:
            pltpu.sync_copy(x, buffer)
            buffer[...] *= factor
            pltpu.sync_copy(buffer, o)

        return kernel(x)

    equal(run(program, jnp.float32(3), ramp(8, 128), form="dma"), ramp(8, 128) * 3)
