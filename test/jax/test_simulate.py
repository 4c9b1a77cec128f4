"""One device: calls, dtypes, pytrees, grids, memory spaces under `pallasite.jax.simulate`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.diagnostics import ExecutionError, KernelWarning  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

from .support import equal, ramp  # noqa: E402

pytestmark = pytest.mark.jax


def add_body(x: Any, y: Any, o: Any) -> None:
    o[...] = x[...] + y[...]


def add(x: Any, y: Any, **options: Any) -> Any:
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(add_body, out_shape=shape, **options)(x, y)


def test_plain_call_and_jit() -> None:
    x = ramp(8, 128)
    with simulate():
        equal(add(x, x), 2 * x)
        equal(jax.jit(add)(x, x), 2 * x)


@pytest.mark.parametrize("form", ["mosaic", "dma", "tiles", "vreg", "pallas"])
@pytest.mark.parametrize("target", ["v4", "v5e", "v5p", "v6e", "v7x"])
def test_targets_and_forms(target: str, form: str) -> None:
    x = ramp(16, 256)
    with simulate(target=target, form=form):
        equal(add(x, x), 2 * x)


def test_decorator_inside_and_outside_of_jit() -> None:
    x = ramp(8, 128)
    equal(simulate()(jax.jit(add))(x, x), 2 * x)
    equal(jax.jit(simulate()(add))(x, x), 2 * x)


def test_outside_jax_is_as_it_was() -> None:
    x = ramp(8, 128)
    f = jax.jit(add)
    with simulate():
        f(x, x)
    with pytest.raises(ValueError, match="Only interpret mode is supported on CPU backend"):
        f(x, x)
    with pytest.raises(ValueError, match="Unsupported TPU device kind: cpu"):
        pltpu.get_tpu_info()
    equal(add(x, x, interpret=True), 2 * x)
    equal(jax.jit(lambda x: x + x)(x), 2 * x)


def test_reentrant() -> None:
    x = ramp(8, 128)
    outer = simulate()
    with outer:
        with outer, simulate(target="v6e"):
            assert pltpu.get_tpu_info().generation == 6
            equal(add(x, x), 2 * x)
        assert pltpu.get_tpu_info().generation == 5
        equal(add(x, x), 2 * x)


def test_interpreted_calls_stay_interpreted() -> None:
    x = ramp(8, 128)

    def in_hbm(x: Any, o: Any) -> None:
        o[...] = x[...] + 1.0  # legal in JAX's interpreter only

    with pytest.warns(KernelWarning, match="interpreted"), simulate():
        out = pl.pallas_call(
            in_hbm,
            out_shape=x,
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            interpret=True,
        )(x)
        equal(out, x + 1)
        equal(add(x, x, interpret=pltpu.InterpretParams()), 2 * x)


@pytest.mark.parametrize(
    "dtype",
    ["float32", "bfloat16", "int32", "uint32", "int16", "bool"],
)
def test_dtypes_by_arithmetic(dtype: str) -> None:
    x = ramp(32, 256).astype(dtype)

    def body(x: Any, o: Any) -> None:
        o[...] = jnp.where(x[...] == x[...], x[...], x[...])

    with simulate(target="v6e"):
        out = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
    assert out.dtype == x.dtype
    equal(out, x)


@pytest.mark.parametrize(
    "dtype",
    ["int8", "uint8", "uint16", "int4", "uint4", "float8_e5m2", "float8_e4m3fn"],
)
def test_narrow_dtypes_move(dtype: str) -> None:
    x = (ramp(64, 256) % 7).astype(dtype)

    def body(x: Any, o: Any) -> None:
        pltpu.sync_copy(x, o)

    whole = pl.BlockSpec(memory_space=pl.ANY)
    with simulate(target="v6e"):
        out = pl.pallas_call(
            body,
            out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
            in_specs=[whole],
            out_specs=whole,
        )(x)
    assert out.dtype == x.dtype
    equal(out.astype(jnp.float32), x.astype(jnp.float32))


def test_pytrees_and_several_outputs() -> None:
    def body(tree: Any, o: Any) -> None:
        o["sum"][...] = tree["a"][...] + tree["b"][0][...]
        o["pair"][0][...] = tree["a"][...] > 5
        o["pair"][1][...] = tree["a"][...].astype(jnp.int32)

    x = ramp(8, 128)
    out_shape = {
        "sum": jax.ShapeDtypeStruct((8, 128), jnp.float32),
        "pair": (
            jax.ShapeDtypeStruct((8, 128), jnp.bool_),
            jax.ShapeDtypeStruct((8, 128), jnp.int32),
        ),
    }
    with simulate():
        out = pl.pallas_call(body, out_shape=out_shape)({"a": x, "b": [x]})
    equal(out["sum"], 2 * x)
    equal(out["pair"][0], x > 5)
    equal(out["pair"][1], x.astype(jnp.int32))


def test_aliases_and_donation() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...] + 1.0

    block = pl.BlockSpec((8, 128), lambda i: (2 * i, 0))

    def bump(x: Any) -> Any:  # writes every other block in place
        return pl.pallas_call(
            body, out_shape=x, grid=(2,), in_specs=[block], out_specs=block,
            input_output_aliases={0: 0},
        )(x)  # fmt: skip

    x = ramp(32, 128)
    expected = np.array(x)
    expected[:8] += 1
    expected[16:24] += 1
    with simulate():
        equal(bump(x), expected)
        equal(jax.jit(bump, donate_argnums=0)(x + 0), expected)


def test_scalar_prefetch_scratch_and_accumulation() -> None:
    def body(order: Any, x: Any, o: Any, acc: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            acc[...] = jnp.zeros_like(acc)

        acc[...] += x[...] * (order[pl.program_id(0)] + 1).astype(jnp.float32)
        o[...] = acc[...]

    order = jnp.array([2, 0, 1], jnp.int32)
    x = ramp(24, 128)
    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(3,),
        in_specs=[pl.BlockSpec((8, 128), lambda i, order: (order[i], 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i, order: (0, 0)),
        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)],
    )
    with simulate():
        out = pl.pallas_call(
            body, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32), grid_spec=grid
        )(order, x)
    blocks = np.asarray(x).reshape(3, 8, 128)
    equal(out, 3 * blocks[2] + blocks[0] + 2 * blocks[1])


def test_dynamic_grid_is_lowered_once() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...] + 1.0

    block = pl.BlockSpec((8, 128), lambda i: (i, 0))

    @jax.jit
    def f(steps: Any, x: Any) -> Any:
        return pl.pallas_call(
            body, out_shape=x, grid=(steps,), in_specs=[block], out_specs=block,
            input_output_aliases={0: 0},
        )(x)  # fmt: skip

    x = ramp(32, 128)
    with simulate():
        for steps in (4, 1, 0):
            expected = np.array(x)
            expected[: 8 * steps] += 1
            equal(f(jnp.int32(steps), x), expected)


def test_zero_size_grid() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...] + 1.0

    block = pl.BlockSpec((8, 128), lambda i: (i, 0))
    x = ramp(8, 128)
    with simulate():
        out = pl.pallas_call(
            body, out_shape=x, grid=(0,), in_specs=[block], out_specs=block,
            input_output_aliases={0: 0},
        )(x)  # fmt: skip
    equal(out, x)


def matmul_pipelined(x: Any, y: Any, o: Any) -> None:
    def body(x: Any, y: Any, o: Any) -> None:
        @pl.when(pl.program_id(2) == 0)
        def _() -> None:
            o[...] = jnp.zeros_like(o)

        o[...] += jnp.dot(x[...], y[...], preferred_element_type=jnp.float32)

    pltpu.emit_pipeline(
        body,
        grid=(2, 1, 2),
        in_specs=[
            pl.BlockSpec((128, 128), lambda i, j, k: (i, k)),
            pl.BlockSpec((128, 128), lambda i, j, k: (k, j)),
        ],
        out_specs=[pl.BlockSpec((128, 128), lambda i, j, k: (i, j))],
    )(x, y, o)


def test_emit_pipeline() -> None:
    x, y = ramp(256, 256) % 5, ramp(256, 128) % 3
    x, y = x.astype(jnp.bfloat16), y.astype(jnp.bfloat16)
    whole = pl.BlockSpec(memory_space=pl.ANY)
    expected = np.asarray(x, np.float32) @ np.asarray(y, np.float32)
    with simulate():
        out = pl.pallas_call(
            matmul_pipelined,
            out_shape=jax.ShapeDtypeStruct((256, 128), jnp.float32),
            in_specs=[whole, whole],
            out_specs=whole,
        )(x, y)
        equal(out, expected)
        by_mesh = pl.kernel(
            matmul_pipelined,
            out_type=jax.ShapeDtypeStruct((256, 128), jnp.float32),
            mesh=pltpu.create_tensorcore_mesh("core"),
        )(x, y)
        equal(by_mesh, expected)
        interpreted = pl.kernel(
            matmul_pipelined,
            out_type=jax.ShapeDtypeStruct((256, 128), jnp.float32),
            mesh=pltpu.create_tensorcore_mesh("core"),
            interpret=pltpu.InterpretParams(),
        )(x, y)
        equal(interpreted, expected)


def test_core_map() -> None:
    def f(x: Any) -> Any:
        def inner(refs: Any) -> None:
            x_ref, y_ref = refs

            @pl.core_map(pltpu.create_tensorcore_mesh("core"))
            def _() -> None:
                def scoped(buffer: Any) -> None:
                    pltpu.sync_copy(x_ref, buffer)
                    buffer[...] = buffer[...] * 2.0
                    pltpu.sync_copy(buffer, y_ref)

                pl.run_scoped(scoped, pltpu.VMEM(x.shape, x.dtype))

        from jax._src.state.discharge import run_state  # as JAX's documentation does

        return run_state(inner)((x, jnp.zeros_like(x)))[1]

    x = ramp(16, 128)
    with simulate():
        equal(jax.jit(f)(x), 2 * x)


def test_target_answers() -> None:
    with simulate(target="v6e"):
        assert pltpu.is_tpu_device()
        info = pltpu.get_tpu_info()
        assert (info.generation, info.mxu_column_size) == (6, 256)
    assert not pltpu.is_tpu_device()


def test_printing_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    def body(o: Any) -> None:
        pl.debug_print("step {}", pl.program_id(0))
        o[...] = jnp.zeros_like(o)

    with simulate():
        pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32), grid=(2,))()
    assert capsys.readouterr().err == "step 0\nstep 1\n"


def test_what_is_printed_before_a_deadlock_is_seen(capsys: pytest.CaptureFixture[str]) -> None:
    def body(o: Any, signals: Any) -> None:
        pl.debug_print("waits {}", 7)
        pl.semaphore_wait(signals, 1)
        o[...] = jnp.zeros_like(o)

    out = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    call = pl.pallas_call(body, out_shape=out, scratch_shapes=[pltpu.SemaphoreType.REGULAR])
    with simulate(), pytest.raises(ExecutionError, match="deadlock") as caught:
        call()
    assert capsys.readouterr().err == "waits 7\n"
    assert caught.value.log == ["waits 7"]


@pytest.mark.parametrize("form", ["mosaic", "dma", "tiles"])
@pytest.mark.parametrize("space", [pltpu.VMEM, pltpu.SMEM])
def test_index_maps_of_whole_arrays_print(
    form: str, space: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def index_map(i: Any) -> Any:
        pl.debug_print("mapped ", i)
        return (i, 0)

    def body(x: Any, o: Any) -> None:
        pltpu.sync_copy(x, o)

    spec = pl.BlockSpec((8, 128), index_map, memory_space=space)
    with simulate(form=form):
        kernel = pl.pallas_call(
            body, out_shape=jax.ShapeDtypeStruct((8, 128), "int32"), grid=(1,), in_specs=[spec]
        )
        equal(kernel(jnp.zeros((8, 128), "int32")), np.zeros((8, 128)))
    assert capsys.readouterr().err == "mapped s32[] 0\n"


def test_threads_are_apart() -> None:
    import threading

    x = ramp(8, 128)
    results: dict[str, Any] = {}

    def work(target: str | None) -> None:
        try:
            if target is None:
                results["none"] = pltpu.is_tpu_device()
                return
            with simulate(target=target):
                results[target] = pltpu.get_tpu_info().generation, np.asarray(add(x, x))
        except Exception as error:  # shown by the assertions below
            results[str(target)] = error

    with simulate():
        threads = [threading.Thread(target=work, args=(t,)) for t in (None, "v4", "v6e", "v7x")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results["none"] is False
    assert [results[t][0] for t in ("v4", "v6e", "v7x")] == [4, 6, 7]
    for target in ("v4", "v6e", "v7x"):
        equal(results[target][1], 2 * x)
