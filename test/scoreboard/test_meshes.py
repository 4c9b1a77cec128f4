"""Core meshes, and the axis that cores share (spec/pallas_semantics.md section 8.4)."""

from __future__ import annotations

from typing import Any

import pytest

from .support import S, call, equal, jax, jnp, numbered, pl, pltpu, ramp, refusal, run

pytestmark = pytest.mark.jax
feature = pytest.mark.feature
TWO_CORES = "v5p"
BUFFER = pltpu.VMEM((8, 128), jnp.float32)
REGULAR = pltpu.SemaphoreType.REGULAR


@feature("D04")
@pytest.mark.parametrize(
    ("grid", "axis"), [((2, 4), 0), ((3, 4), 1), ((3, 5), 1), ((5, 3), 0), ((1, 3), 1)]
)
def test_choice_of_the_axis(grid: tuple[int, int], axis: int) -> None:
    from pallasite.api import lower
    from pallasite.dialects.core_split import core_split
    from pallasite.dialects.func import FuncOp
    from pallasite.dialects.kernel import describe_kernel, kernel_function
    from pallasite.jax import trace

    spec = pl.BlockSpec((8, 128), lambda i, j: (i, j))
    program = call(
        lambda o: o.__setitem__(..., jnp.zeros_like(o)), S(8 * grid[0], 128 * grid[1]),
        grid=grid, out_specs=spec,
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
    )  # fmt: skip
    module = lower(trace(program), form="mosaic", target=TWO_CORES)
    func = kernel_function(module)
    assert func is not None
    functions = {op.sym_name.data: op for op in module.body.ops if isinstance(op, FuncOp)}
    split = core_split(describe_kernel(func), functions, [0], 2)
    assert split is not None and split.axis == axis


@feature("D09")
@pytest.mark.parametrize("kind", [pltpu.CORE_PARALLEL, pltpu.SUBCORE_PARALLEL])
def test_axes_of_cores(kind: Any) -> None:
    from pallasite.jax import trace

    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    program = call(
        lambda x, o: o.__setitem__(..., x[...]), S(16, 128), grid=(2,), in_specs=[spec],
        out_specs=spec, compiler_params=pltpu.CompilerParams(dimension_semantics=(kind,)),
    )  # fmt: skip
    if kind is pltpu.SUBCORE_PARALLEL:
        assert "a kernel of a TensorCore" in refusal(program, ramp(16, 128), target="v5p")
    else:
        for form in ("pallas", "mosaic"):
            assert kind.value in str(trace(program, ramp(16, 128), target="v5p", form=form))
        equal(run(program, ramp(16, 128), target="v5p", form="dma"), ramp(16, 128))
        assert "2 steps" in refusal(program, ramp(16, 128), target="v5e", form="dma")


@feature("D16", "S07")
def test_a_barrier_of_the_cores() -> None:
    """The second core reads what the first has written before it came to the barrier."""

    def body(x: Any, o: Any, middle: Any, buffer: Any, ready: Any) -> None:
        @pltpu.run_on_first_core("core")
        def _() -> None:
            pl.delay(1000)
            pltpu.sync_copy(x, middle)

        pltpu.core_barrier(ready, core_axis_name="core")
        core = jax.lax.axis_index("core")
        pltpu.sync_copy(middle, buffer)
        buffer[...] += core
        pltpu.sync_copy(buffer, o.at[core])

    outs = (S(2, 8, 128), S(8, 128))
    x = ramp(8, 128)
    for seed in (0, 1):
        result, _ = run(
            numbered(body, outs, scratch_types=[BUFFER, REGULAR]), x, target=TWO_CORES, seed=seed,
            form="dma",
        )  # fmt: skip
        equal(result, jnp.stack([x, x + 1]))


@feature("D18")
@pytest.mark.parametrize("space", [pltpu.VMEM, pltpu.SMEM])
def test_results_in_the_memory_of_a_core(space: Any) -> None:
    program = numbered(lambda x, o: None, space((8, 128), jnp.float32))
    text = refusal(program, ramp(8, 128), target=TWO_CORES)
    assert "test_meshes.py:" in text and "each core has its own" in text


@feature("V14")
def test_lists_of_kernels() -> None:
    mesh = pltpu.create_tensorcore_mesh("core", num_cores=1)

    def body(x: Any, o: Any) -> None:
        pltpu.sync_copy(x, o)

    equal(run(pl.kernel([body], out_type=S(8, 128), mesh=[mesh]), ramp(8, 128), form="dma"),
          ramp(8, 128))  # fmt: skip
    for bodies, meshes in (([body], mesh), (body, [mesh]), ([body, body], [mesh])):
        with pytest.raises(ValueError, match="mesh"):
            pl.kernel(bodies, out_type=S(8, 128), mesh=meshes)
