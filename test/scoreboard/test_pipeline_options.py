"""Options of `emit_pipeline` (spec/pallas_semantics.md sections 2.6 and 8.3)."""

from __future__ import annotations

from typing import Any

import pytest

from .support import S, call, equal, jnp, pl, pltpu, ramp, refusal, run

pytestmark = pytest.mark.jax
feature = pytest.mark.feature
ANY = pl.BlockSpec(memory_space=pl.ANY)
ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))
SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)


def add_one(x: Any, o: Any) -> None:
    o[...] = x[...] + 1


def pipelined(step: Any = add_one, spec: Any = ROWS, out: Any = ROWS, grid: Any = (4,),
              shape: Any = (32, 128), **options: Any) -> Any:  # fmt: skip
    def body(x: Any, o: Any) -> None:
        pltpu.emit_pipeline(step, grid=grid, in_specs=[spec], out_specs=[out], **options)(x, o)

    return call(body, S(*shape), in_specs=[ANY], out_specs=ANY)


@feature("L05")
@pytest.mark.parametrize("buffers", [1, 2, 3])
def test_buffers_of_an_output(buffers: int) -> None:
    out = pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(buffers))
    program = pipelined(out=out)
    if buffers < 3:
        equal(run(program, ramp(32, 128), form="dma"), ramp(32, 128) + 1)
    else:
        assert "uffer" in refusal(program, ramp(32, 128))


@feature("L19")
def test_blocks_by_element() -> None:
    spec = pl.BlockSpec((pl.Element(8), pl.Element(128)), lambda i: (8 * i + 8, 0))
    x = ramp(40, 128)
    equal(run(pipelined(spec=spec), x, form="dma"), x[8:] + 1)


@feature("L21")
def test_a_grid_known_at_run_time() -> None:
    def body(steps: Any, x: Any, o: Any) -> None:
        pltpu.emit_pipeline(add_one, grid=(steps[0],), in_specs=[ROWS], out_specs=[ROWS])(x, o)

    def program(steps: Any, x: Any, old: Any) -> Any:
        return call(
            lambda steps, x, _, o: body(steps, x, o), S(32, 128), in_specs=[SMEM, ANY, ANY],
            out_specs=ANY, input_output_aliases={2: 0},
        )(steps, x, old)  # fmt: skip

    x = ramp(32, 128)
    result = run(program, jnp.array([3]), x, -x, form="dma")
    equal(result, jnp.concatenate([x[:24] + 1, -x[24:]]))


@feature("L22")
def test_a_grid_of_no_steps() -> None:
    assert "grid" in refusal(pipelined(grid=(0,)), ramp(32, 128))


@feature("L23")
def test_without_overlap() -> None:
    x = ramp(32, 128)
    equal(run(pipelined(no_pipelining=True), x, form="dma"), x + 1)


@feature("L24", "L27")
def test_buffers_and_scratch_of_the_caller() -> None:
    """One allocation for two runs, scratch, a prologue of every step."""

    def body(x: Any, o: Any) -> None:
        def step(x_block: Any, o_block: Any, count: Any) -> None:
            o_block[...] = x_block[...] + count[0]

        pipeline, make = pltpu.emit_pipeline_with_allocations(
            step, grid=(2,), in_specs=[ROWS], out_specs=[ROWS]
        )

        def scoped(allocations: Any, count: Any) -> None:
            for half in range(2):
                count[0] = half * 10

                def prologue() -> None:
                    count[0] += 1

                rows = pl.ds(16 * half, 16)
                pipeline(x.at[rows], o.at[rows], scratches=[count], allocations=allocations,
                         body_prologue=prologue)  # fmt: skip

        pl.run_scoped(scoped, make(x, o), pltpu.SMEM((1,), jnp.int32))

    x = ramp(32, 128)
    result = run(call(body, S(32, 128), in_specs=[ANY], out_specs=ANY), x, form="dma")
    added = [1, 2, 11, 12]
    equal(result, x + jnp.repeat(jnp.array(added), 8)[:, None])


@feature("L29")
def test_an_input_block_is_written() -> None:
    def step(x: Any, o: Any) -> None:
        x[...] = jnp.zeros_like(x)
        o[...] = x[...]

    assert "WriteEffect" in refusal(pipelined(step), ramp(32, 128), form="pallas")


@feature("L30")
def test_blocks_in_smem() -> None:
    def step(x: Any, o: Any) -> None:
        o[...] = jnp.full(o.shape, x[0, 1])

    spec = pl.BlockSpec((8, 128), lambda i: (i, 0), memory_space=pltpu.SMEM)
    x = ramp(32, 128)
    result = run(pipelined(step, spec=spec), x, form="dma")
    equal(result[:, 0], jnp.repeat(x[::8, 1], 8))


@feature("D06")
def test_cores_need_a_parallel_axis() -> None:
    def body(x: Any, o: Any) -> None:
        pltpu.emit_pipeline(
            add_one, grid=(4,), in_specs=[ROWS], out_specs=[ROWS], core_axis_name="core",
            dimension_semantics=(pltpu.ARBITRARY,),
        )(x, o)  # fmt: skip

    mesh = pltpu.create_tensorcore_mesh("core", num_cores=2)
    program = pl.kernel(body, out_type=S(32, 128), mesh=mesh)
    assert "parallel" in refusal(program, ramp(32, 128), target="v5p").lower()


@feature("D11")
def test_two_ways_to_name_the_cores() -> None:
    program = pipelined(core_axis=0, core_axis_name="core")
    assert "core_axis" in refusal(program, ramp(32, 128))


@feature("L25")
def test_an_output_that_is_an_input() -> None:
    def step(x: Any, o: Any) -> None:
        o[...] += x[...]

    def body(x: Any, _: Any, o: Any) -> None:
        def scoped(*allocations: Any) -> None:
            pltpu.emit_pipeline(step, grid=(2, 3), in_specs=[spec], out_specs=[out])(
                x, o, allocations=allocations
            )

        pl.run_scoped(
            scoped,
            pltpu.BufferedRef.input(spec, x),
            pltpu.BufferedRef.input_output(out, o),
        )

    spec = pl.BlockSpec((8, 128), lambda i, k: (i, k))
    out = pl.BlockSpec((8, 128), lambda i, k: (i, 0))
    x, old = ramp(16, 384), ramp(16, 128)
    program = call(
        body, S(16, 128), in_specs=[ANY, ANY], out_specs=ANY, input_output_aliases={1: 0}
    )
    equal(run(program, x, old, form="dma"), old + x.reshape(16, 3, 128).sum(axis=1))


@feature("L28")
def test_phases_are_scopes() -> None:
    from pallasite.jax import trace

    text = str(trace(pipelined(), ramp(32, 128), form="mosaic"))
    for name in ("ep_initialize_0", "ep_copy_in", "ep_wait_in", "ep_run_kernel", "ep_copy_out"):
        assert name in text


@feature("L20")
def test_indirect_blocks_are_of_another_core() -> None:
    spec = pl.BlockSpec((pl.Indirect(8), 128), lambda i: (jnp.zeros(8, jnp.int32), 0))
    for form in ("pallas", "tiles"):
        assert refusal(pipelined(spec=spec), ramp(32, 128), form=form)
