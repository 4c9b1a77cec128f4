"""What a traced kernel says: grids, blocks, index maps, lines; and what is refused, where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402
from jax.sharding import Mesh  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402
from xdsl.ir import Operation  # noqa: E402

import pallasite  # noqa: E402
from pallasite.diagnostics import Diagnostic, Unsupported  # noqa: E402
from pallasite.dialects import arith, pallas  # noqa: E402
from pallasite.dialects.kernel import DYNAMIC  # noqa: E402
from pallasite.dialects.kernel_call import call_of  # noqa: E402
from pallasite.dialects.locations import source_location  # noqa: E402
from pallasite.jax import simulate, trace  # noqa: E402

pytestmark = pytest.mark.jax

f32 = jnp.float32
S = jax.ShapeDtypeStruct
X = S((16, 128), f32)
BLOCK = pl.BlockSpec((8, 128), lambda i: (i, 0))


def double(x: Any, o: Any) -> None:
    o[...] = x[...] * 2  # the line that every operation of the body comes from


def blocked(**options: Any) -> Callable[..., Any]:
    def f(x: Any) -> Any:
        shape = x if "out_shape" not in options else options.pop("out_shape")
        return pl.pallas_call(double, **{"out_shape": shape, **options})(x)

    return f


def kernel_of(f: Callable[..., Any], *args: Any, **options: Any) -> pallas.KernelOp:
    kernel = trace(f, *args, **options).body.block.first_op
    assert isinstance(kernel, pallas.KernelOp)
    return kernel


def maps(kernel: pallas.KernelOp) -> list[str]:
    return [str(spec.window.map) if spec.window else "" for spec in kernel.operand_specs]


def refused(f: Callable[..., Any], *args: Any) -> Diagnostic:
    with pytest.raises(Diagnostic) as error:
        trace(f, *args)
    assert error.value.location is not None and error.value.location.file == __file__
    assert error.value.notes
    return error.value


def test_every_operation_has_its_line() -> None:
    kernel = kernel_of(blocked(grid=(2,), in_specs=[BLOCK], out_specs=BLOCK), X)
    line = double.__code__.co_firstlineno + 1
    operations: list[Operation] = [op for op in kernel.body.block.ops if op.name != "pallas.yield"]
    places = [source_location(op) for op in operations]
    assert {(place.file, place.line) for place in places if place} == {(__file__, line)}
    assert [a.name_hint for a in kernel.body.block.args] == ["x", "o"]


def test_functions_of_jax_have_the_line_of_their_call() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = jnp.where(x[...] > 0, x[...], 0.0)
        o[...] = jnp.where(o[...] > 1, o[...], 0.0)

    kernel = kernel_of(lambda x: pl.pallas_call(body, out_shape=x)(x), X)
    places = [source_location(op) for op in kernel.walk() if isinstance(op, arith.SelectOp)]
    first = body.__code__.co_firstlineno
    assert [place.line for place in places if place] == [first + 1, first + 2]


def test_index_maps() -> None:
    def with_map(index_map: Callable[..., Any]) -> str:
        spec, out = (pl.BlockSpec((8, 128), m) for m in (index_map, lambda i, j: (i, j)))
        kernel = kernel_of(blocked(grid=(4, 2), in_specs=[spec], out_specs=out), S((64, 256), f32))
        return maps(kernel)[0]

    assert with_map(lambda i, j: (i, j)) == "(d0, d1) -> (d0, d1)"
    assert with_map(lambda i, j: (3 - i, 0)) == "(d0, d1) -> (((d0 * -1) + 3), 0)"
    assert with_map(lambda i, j: (i * 2 + j, 1)) == "(d0, d1) -> (((d0 * 2) + d1), 1)"
    assert with_map(lambda i, j: (i // 2, j % 2)) == "(d0, d1) -> ((d0 floordiv 2), (d1 mod 2))"
    assert with_map(lambda i, j: (lax.div(i, 2), lax.rem(j, 2))).count("floordiv") == 1
    assert with_map(lambda i, j: (lax.div(i - 1, 2), 0)) == "0"  # truncates below zero: a region
    assert with_map(lambda i, j: (i * j, 0)) == "0"
    assert with_map(lambda i, j: (jnp.maximum(i, j), 0)) == "0"


def test_blocks() -> None:
    def body(i: Any, x: Any, y: Any, o: Any, scratch: Any) -> None:
        o[...] = x[...] + y[...]

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(2, 3),
        in_specs=[
            pl.BlockSpec((None, 8, 128), lambda i, j, t: (t[i], j, 0)),
            pl.BlockSpec((pl.Element(8, (1, 2)), pl.Element(128)), lambda i, j, t: (j * 8, 0)),
        ],
        out_specs=pl.BlockSpec((8, 128), lambda i, j, t: (j, 0), pipeline_mode=pl.Buffered(1)),
        scratch_shapes=[pltpu.VMEM((8, 128), f32)],
    )
    params = pltpu.CompilerParams(
        dimension_semantics=("parallel", pltpu.ARBITRARY), vmem_limit_bytes=1 << 20
    )

    def f(t: Any, x: Any, y: Any) -> Any:
        call = pl.pallas_call(
            body,
            out_shape=S((24, 128), f32),
            grid_spec=spec,
            compiler_params=params,
            input_output_aliases={2: 0},
        )
        return call(t, x, y)

    kernel = kernel_of(f, S((2,), jnp.int32), S((5, 24, 128), f32), S((24, 128), f32))
    prefetch, x, y, o = kernel.operand_specs
    assert [spec.role.value for spec in kernel.operand_specs] == [
        "prefetch", "input", "input", "output",
    ]  # fmt: skip
    assert prefetch.window is None and x.window is not None and y.window is not None
    assert [dim.inline() for dim in x.window.dims] == ["squeezed", "8", "128"]
    assert [dim.inline() for dim in y.window.dims] == ["element(8, 1, 2)", "element(128)"]
    assert x.window.map == 0 and len(kernel.maps) == 1
    assert o.window is not None and o.window.buffers == 1
    assert kernel.axis_semantics == ("parallel", "arbitrary")
    assert kernel.alias_pairs == ((2, 0),)
    assert len(kernel.scratch) == 1
    assert "1048576" in str(kernel.param("vmem_limit_bytes"))


def test_nested_vmap_adds_axes() -> None:
    f = blocked(grid=(2,), in_specs=[BLOCK], out_specs=BLOCK)
    kernel = kernel_of(jax.jit(jax.vmap(jax.vmap(f))), S((3, 4, 16, 128), f32))
    assert kernel.grid_shape == (3, 4, 2) and kernel.user_axes == (2,)
    assert kernel.axis_semantics == ("parallel", "parallel", "arbitrary")
    assert maps(kernel)[0] == "(d0, d1, d2) -> (d0, d1, d2, 0)"


def test_dynamic_and_named_grids() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...] + lax.axis_index("rows").astype(f32) * pl.num_programs(0)

    def f(n: Any, x: Any) -> Any:
        grid = pl.GridSpec(grid=(("rows", n),), in_specs=[BLOCK], out_specs=BLOCK)
        return pl.pallas_call(body, out_shape=x, grid_spec=grid)(x)

    x = np.arange(16 * 128, dtype=np.float32).reshape(16, 128)
    kernel = kernel_of(f, 2, x)
    assert kernel.grid_shape == (DYNAMIC,) and kernel.axis_names == ("rows",)
    module = kernel.parent_op()
    call = call_of(module)
    assert call is not None and str(call.operands[0]) == "tensor<i32>"
    (out,) = pallasite.run(module, [np.int32(2), x], form="mosaic")
    np.testing.assert_array_equal(out[8:], x[8:] + 2)


def test_mesh_kernels() -> None:
    mesh = pltpu.create_tensorcore_mesh("core", num_cores=2)

    def body(x: Any, o: Any) -> None:
        core = lax.axis_index("core")
        pltpu.sync_copy(x.at[pl.ds(core * 8, 8)], o.at[pl.ds((1 - core) * 8, 8)])

    f = pl.kernel(body, out_type=X, mesh=mesh)
    kernel = kernel_of(f, X, target="v5p")
    assert kernel.mesh is not None and kernel.grid_shape == (2,) and kernel.axis_names == ("core",)
    assert [spec.role.value for spec in kernel.operand_specs] == ["input", "output"]
    assert "pallas.axis_index" in str(kernel)


def test_core_map_over_refs() -> None:
    mesh = pltpu.create_tensorcore_mesh("core", num_cores=1)

    def f(x: Any) -> Any:
        x_ref, o_ref = jax.new_ref(x), jax.new_ref(jnp.zeros_like(x))

        @pl.core_map(mesh)
        def _() -> None:
            pltpu.sync_copy(x_ref, o_ref)

        return o_ref[...]

    kernel = kernel_of(jax.jit(f), X)
    roles = [spec.role.value for spec in kernel.operand_specs]
    assert roles[-1] == "output" and kernel.alias_pairs


@pytest.mark.since_jax("0.10.2", "pipelines as one operation")
def test_pipelines_stay_whole() -> None:
    def inner(x: Any, o: Any) -> None:
        o[...] = x[...] + pl.program_id(0).astype(f32)

    def outer(x: Any, o: Any) -> None:
        pltpu.emit_pipeline(inner, grid=(2,), in_specs=[BLOCK], out_specs=[BLOCK])(x, o)

    def returned(x: Any, o: Any) -> None:  # what a pipeline gives is nothing
        return pltpu.emit_pipeline(inner, grid=(2,), in_specs=[BLOCK], out_specs=[BLOCK])(x, o)

    def scratched(x: Any, o: Any) -> None:
        def body(x: Any, o: Any, scratch: Any) -> None:
            scratch[...] = x[...]
            o[...] = scratch[...] + pl.program_id(0).astype(f32)

        def run(scratch: Any) -> None:
            pipeline = pltpu.emit_pipeline(body, grid=(2,), in_specs=[BLOCK], out_specs=[BLOCK])
            pipeline(x, o, scratches=[scratch])

        pl.run_scoped(run, pltpu.VMEM((8, 128), f32))

    whole = pl.BlockSpec(memory_space=pl.ANY)
    x = np.ones((16, 128), np.float32)
    for body, kept in ((outer, 1), (scratched, 0), (returned, 1)):
        f = pl.pallas_call(body, out_shape=X, in_specs=[whole], out_specs=whole)
        module = trace(f, X)
        found = [op for op in module.walk() if isinstance(op, pallas.EmitPipelineOp)]
        assert len(found) == kept
        for form in ("pallas", "mosaic"):
            (out,) = pallasite.run(module, [x], form=form, checks=("race", "init"))
            np.testing.assert_array_equal(out[:, 0], [1] * 8 + [2] * 8)


def test_pipelines_without_overlap_keep_their_outputs() -> None:
    def inner(x: Any, o: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            o[...] = jnp.zeros_like(o)

        o[...] += x[...]

    def outer(x: Any, o: Any) -> None:
        out = pl.BlockSpec((8, 128), lambda i: (0, 0))
        pltpu.emit_pipeline(
            inner, grid=(2,), in_specs=[BLOCK], out_specs=[out], no_pipelining=True
        )(x, o)

    whole = pl.BlockSpec(memory_space=pl.ANY)
    f = pl.pallas_call(outer, out_shape=S((8, 128), f32), in_specs=[whole], out_specs=whole)
    x = np.arange(16 * 128, dtype=np.float32).reshape(16, 128)
    for form in ("pallas", "mosaic"):
        (out,) = pallasite.run(trace(f, X), [x], form=form, checks=("race", "init"))
        np.testing.assert_array_equal(out, x[:8] + x[8:])


def test_shard_map_and_remote_copies() -> None:
    mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("a", "b"))

    def body(x: Any, o: Any, sent: Any, received: Any) -> None:
        other = {"b": 1 - lax.axis_index("b")}
        copy = pltpu.make_async_remote_copy(x, o, sent, received, device_id=other)
        copy.start()
        copy.wait()

    whole = pl.BlockSpec(memory_space=pl.ANY)

    def swap(x: Any) -> Any:
        return pl.pallas_call(
            body,
            out_shape=x,
            in_specs=[whole],
            out_specs=whole,
            scratch_shapes=[pltpu.SemaphoreType.DMA] * 2,
        )(x)

    f = jax.shard_map(swap, mesh=mesh, in_specs=P("a", "b"), out_specs=P("a", "b"), check_vma=False)
    x = jnp.arange(16 * 256, dtype=f32).reshape(16, 256)
    call = call_of(trace(f, x))
    assert call is not None and call.settings["custom_call_config"]["has_communication"]
    with simulate(form="pallas"):
        np.testing.assert_array_equal(jax.jit(f)(x), np.roll(x, 128, axis=1))


def test_custom_derivatives() -> None:
    @jax.custom_vjp
    def cube(x: Any) -> Any:
        return x * x * x

    cube.defvjp(lambda x: (cube(x), x), lambda x, g: (3 * x * x * g,))

    def body(x: Any, o: Any) -> None:
        o[...] = cube(x[...])

    kernel = kernel_of(lambda x: pl.pallas_call(body, out_shape=x)(x), X)
    assert sum(isinstance(op, arith.MulfOp) for op in kernel.walk()) == 2


def test_booleans_stay_booleans() -> None:
    def body(x: Any, m: Any, o: Any) -> None:
        o[...] = (x[...] > 0) & m[...]

    x = np.linspace(-1, 1, 16 * 128, dtype=np.float32).reshape(16, 128)
    out = S(x.shape, jnp.bool_)
    module = trace(lambda x, m: pl.pallas_call(body, out_shape=out)(x, m), x, x > 0.5)
    assert "memref<16x128xi1" in str(module)
    (result,) = pallasite.run(module, [x, x > 0.5], form="tiles")
    np.testing.assert_array_equal(result.astype(bool), x > 0.5)


@pytest.mark.parametrize(
    ("primitive", "body"),
    [
        ("cumsum", lambda x: jnp.cumsum(x, axis=1)),
        ("sort", lambda x: jnp.sort(x, axis=1)),
        ("rev", lambda x: x[:, ::-1]),
        ("dynamic_slice", lambda x: lax.dynamic_slice(x, (jnp.int32(x[0, 0]), 0), (16, 128))),
        ("reduce_prod", lambda x: jnp.prod(x, axis=0, keepdims=True) + x),
    ],
)
def test_primitives_without_meaning(primitive: str, body: Any) -> None:
    def kernel(x: Any, o: Any) -> None:
        o[...] = body(x[...])

    error = refused(lambda x: pl.pallas_call(kernel, out_shape=x)(x), X)
    assert isinstance(error, Unsupported) and f"'{primitive}'" in error.message


def test_products_of_everything() -> None:
    def kernel(x: Any, o: Any) -> None:
        o[0] = jnp.vdot(x[...], x[...])

    smem = pl.BlockSpec(memory_space=pltpu.SMEM)
    call = pl.pallas_call(kernel, out_shape=S((1,), f32), out_specs=smem)
    assert any("jnp.sum(x * y)" in note.message for note in refused(call, X).notes)


def test_positions_in_every_row() -> None:
    def kernel(x: Any, o: Any) -> None:
        o[...] = jax.vmap(jnp.argmax)(x[...])[:, None] + jnp.zeros((16, 128), jnp.int32)

    x = np.random.default_rng(0).standard_normal((16, 128), np.float32)
    module = trace(lambda x: pl.pallas_call(kernel, out_shape=S((16, 128), jnp.int32))(x), x)
    (out,) = pallasite.run(module, [x])
    np.testing.assert_array_equal(out[:, 0], x.argmax(1))


def test_types_without_meaning() -> None:
    def next_number(x: Any, o: Any) -> None:
        o[...] = lax.nextafter(x[...], x[...])

    narrow = S((16, 128), jnp.bfloat16)
    error = refused(lambda x: pl.pallas_call(next_number, out_shape=narrow)(x), narrow)
    assert "'nextafter' of bfloat16" in error.message
    assert "complex64" in refused(blocked(), S((16, 128), jnp.complex64)).message
    with jax.enable_x64(True):
        error = refused(blocked(), S((16, 128), jnp.float64))
        assert "float64" in error.message and "float32" in error.notes[0].message


def test_memories_without_access() -> None:
    specs = {"in_specs": [pl.BlockSpec(memory_space=pl.ANY)]}
    error = refused(blocked(**specs), X)
    assert error.code == "load-from-hbm" and "copy it to VMEM first" in error.notes[0].message
    error = refused(blocked(out_specs=pl.BlockSpec(memory_space=pl.ANY)), X)
    assert error.code == "load-from-hbm" and "store to a buffer" in error.notes[0].message
    specs = {"in_specs": [pl.BlockSpec(memory_space=pltpu.SMEM)]}
    assert refused(blocked(**specs), X).code == "vector-in-smem"


def test_refs_are_not_counted_from_their_end() -> None:
    def body(x: Any, o: Any) -> None:
        o[0] = x[-1]

    error = refused(lambda x: pl.pallas_call(body, out_shape=x)(x), X)
    assert error.code == "out-of-bounds" and "write 15" in error.notes[0].message


def test_blocks_without_a_grid() -> None:
    spec = pl.BlockSpec((8, 128), lambda: (0, 0))
    f = blocked(in_specs=[spec], out_specs=spec, out_shape=S((8, 128), f32))
    assert refused(f, X).code == "unsupported-block"
    space = pl.BlockSpec((8, 128), lambda i: (i, 0), memory_space=pl.ANY)
    f = blocked(grid=(2,), in_specs=[space], out_specs=BLOCK)
    assert refused(f, X).code == "unsupported-block"
