"""Features of Pallas beyond the conformance kernels: traced, lowered, and JAX's own module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.dialects import make_context  # noqa: E402
from pallasite.frontend.aot import kernel_bytecode  # noqa: E402
from pallasite.jax import trace  # noqa: E402
from pallasite.jax.simulation import kernels  # noqa: E402
from pallasite.lowering.pallas_to_mosaic import LowerToMosaicPass  # noqa: E402

from .same_module import canonical, described  # noqa: E402

pytestmark = pytest.mark.jax

S, f32, i32 = jax.ShapeDtypeStruct, jnp.float32, jnp.int32
SQUARE = S((256, 256), f32)
SCALARS = pl.BlockSpec(memory_space=pltpu.SMEM)
Program = Callable[..., Any]
PROGRAMS: dict[str, tuple[Program, tuple[Any, ...]]] = {}


def program(*arguments: Any) -> Callable[[Program], Program]:
    def register(function: Program) -> Program:
        PROGRAMS[function.__name__] = (function, arguments)
        return function

    return register


@program(S((2, 3, 256, 256), f32), S((3, 256, 256), f32))
def nested_vmap(x: Any, y: Any) -> Any:
    def body(x: Any, y: Any, o: Any) -> None:
        o[...] = x[...] + y[...] * pl.program_id(1).astype(f32)

    spec = pl.BlockSpec((64, 128), lambda i, j: (i, j))
    call = pl.pallas_call(body, out_shape=SQUARE, grid=(4, 2), in_specs=[spec] * 2, out_specs=spec)
    return jax.vmap(jax.vmap(call), in_axes=(0, None))(x, y)


@program(S((), i32), S((4,), i32), SQUARE)
def dynamic_grid_and_prefetch(n: Any, table: Any, x: Any) -> Any:
    def body(table: Any, x: Any, o: Any) -> None:
        o[...] = x[...] * pl.num_programs(0).astype(f32) + table[pl.program_id(0)].astype(f32)

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(n,),
        in_specs=[pl.BlockSpec((64, 256), lambda i, t: ((t[i] + i) % 4, 0))],
        out_specs=pl.BlockSpec((64, 256), lambda i, t: (i // 1, 0)),
    )
    return pl.pallas_call(body, out_shape=SQUARE, grid_spec=spec)(table, x)


@program(SQUARE)
def scratch_and_buffers(x: Any) -> Any:
    def body(x: Any, o: Any, total: Any, count: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            total[...] = jnp.zeros_like(total)
            count[0] = 0

        total[...] += x[...]
        count[0] += 1
        o[...] = total[...] * count[0].astype(f32)

    return pl.pallas_call(
        body,
        out_shape=S((64, 256), f32),
        grid=(4,),
        in_specs=[pl.BlockSpec((64, 256), lambda i: (i, 0), pipeline_mode=pl.Buffered(1))],
        out_specs=pl.BlockSpec((64, 256), lambda i: (0, 0)),
        scratch_shapes=[pltpu.VMEM((64, 256), f32), pltpu.SMEM((1,), i32)],
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=1 << 22),
    )(x)


@program(S((4,), jnp.bool_), SQUARE, S((256, 256), jnp.bool_))
def booleans(flags: Any, x: Any, mask: Any) -> Any:
    def body(flags: Any, x: Any, mask: Any, o: Any, seen: Any) -> None:
        seen[0] = jnp.logical_not(flags[1])
        o[...] = jnp.logical_and(jnp.where(seen[0], x[...], -x[...]) > 0, mask[...])

    specs = [SCALARS, pl.BlockSpec(), pl.BlockSpec()]
    out = S((256, 256), jnp.bool_)
    scratch = [pltpu.SMEM((1,), jnp.bool_)]
    call = pl.pallas_call(body, out_shape=out, in_specs=specs, scratch_shapes=scratch)
    return call(flags, x, mask)


@program(S((4, 8, 128), f32))
def squeezed_blocks(x: Any) -> Any:
    def body(x: Any, o: Any) -> None:
        o[0] = x[0, :]
        o[pl.ds(1, 1), :] = x[pl.ds(3, 1), :]
        o[2, :] = x[pl.program_id(0), :]

    spec = pl.BlockSpec((None, 8, 128), lambda i: (i, 0, 0))
    out = S((4, 8, 128), f32)
    return pl.pallas_call(body, out_shape=out, grid=(4,), in_specs=[spec], out_specs=spec)(x)


@program(S((1,), i32), SQUARE)
def control_flow(n: Any, x: Any) -> Any:
    def body(n: Any, x: Any, o: Any) -> None:
        _, v = lax.while_loop(lambda s: s[0] < n[0], lambda s: (s[0] + 1, s[1] * 2.0), (0, x[...]))
        v = lax.fori_loop(
            0, n[0], lambda i, v: v + lax.cond(i % 2 == 0, lambda: 1.0, lambda: 2.0), v
        )
        o[...] = lax.switch(n[0], [lambda v: v, lambda v: v + 1, lambda v: v * 3], v)

    return pl.pallas_call(body, out_shape=SQUARE, in_specs=[SCALARS, pl.BlockSpec()])(n, x)


@program(SQUARE, SQUARE, S((4, 16, 128), f32))
def values(a: Any, b: Any, c: Any) -> Any:
    def body(a: Any, b: Any, c: Any, o: Any, p: Any, s: Any) -> None:
        o[...] = jnp.dot(a[...], b[...], precision=lax.Precision.HIGHEST)
        o[...] += lax.dot_general(a[...], a[...], (((0,), (0,)), ((), ())))
        o[...] += a[...].max(1, keepdims=True) + jnp.argmin(a[...], axis=0)[None].astype(f32)
        p[...] = jnp.einsum("bij,bkj->bik", c[...], c[...])
        s[0, 0] = a[...].sum()
        s[0, 1] = jnp.where(jnp.any(a[...] > 3), 1.0, jnp.where(jnp.all(b[...] > 3), 2.0, 3.0))

    outs = (SQUARE, S((4, 16, 16), f32), S((1, 2), f32))
    return pl.pallas_call(
        body,
        out_shape=outs,
        out_specs=(pl.BlockSpec(), pl.BlockSpec(), SCALARS),
        compiler_params=pltpu.CompilerParams(fuse_transposed_lhs_in_matmul=True),
    )(a, b, c)


@program(S((4, 32, 128), f32))
def copies(x: Any) -> Any:
    def body(x: Any, o: Any, buffers: Any, arrived: Any) -> None:
        @pl.loop(0, 4)
        def _(i: Any) -> None:
            slot = i % 2
            part = x.at[i, pl.ds(i * 8, 8)]
            copy = pltpu.make_async_copy(part, buffers.at[slot], arrived.at[slot])
            copy.start()
            copy.wait()
            o[i] = buffers[slot]

    scratch = [pltpu.VMEM((2, 8, 128), f32), pltpu.SemaphoreType.DMA((2,))]
    specs = [pl.BlockSpec(memory_space=pl.ANY)]
    out = S((4, 8, 128), f32)
    return pl.pallas_call(body, out_shape=out, in_specs=specs, scratch_shapes=scratch)(x)


@program(SQUARE)
def core_mesh(x: Any) -> Any:
    def body(x: Any, o: Any, buffer: Any) -> None:
        pltpu.sync_copy(x.at[pl.ds(lax.axis_index("core") * 8, 8)], buffer)
        buffer[...] = buffer[...] * 2.0
        pltpu.sync_copy(buffer, o)

    mesh = pltpu.create_tensorcore_mesh("core", num_cores=1)
    scratch = [pltpu.VMEM((8, 256), f32)]
    return pl.kernel(body, out_type=S((8, 256), f32), mesh=mesh, scratch_types=scratch)(x)


@pytest.mark.since_jax("0.10.2", "the version of Mosaic that we write")
@pytest.mark.parametrize("name", PROGRAMS)
def test_same_module(name: str, jaxlib: Any) -> None:
    function, arguments = PROGRAMS[name]
    ours = trace(function, *arguments)
    LowerToMosaicPass().apply(make_context(), ours)
    (theirs,) = kernels(function, *arguments, form="mosaic")
    a, b = (
        described(canonical(jaxlib, jaxlib.deserialize(kernel_bytecode(module))))
        for module in (ours, theirs)
    )
    assert a == b
