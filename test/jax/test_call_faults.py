"""Calls as they are mistaken: what a note says, its line, and that the rewrite works."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402
from jax.experimental.pallas import triton  # noqa: E402

from pallasite.diagnostics import KernelWarning  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

from .mistakes import (  # noqa: E402
    NUMBER,
    Fault,
    Function,
    X,
    call,
    check,
    of_numbers,
    scaled,
)

pytestmark = pytest.mark.jax

BLOCKS = [1, 0]


def closes_over_a_number() -> Any:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...] * number

    number = 2 * jnp.float32(1)
    return call(body, X)


def maps_by_a_number() -> Any:
    def blocks(number: Any) -> Any:
        moved = pl.BlockSpec((8, 128), lambda i: ((i + number) % 2, 0))
        still = pl.BlockSpec((8, 128), lambda i: (i, 0))
        return call(scaled, X, grid=(2,), in_specs=[moved], out_specs=still)

    return jax.jit(blocks)(NUMBER)


def maps_by_what_is_prefetched() -> Any:
    def blocks(number: Any) -> Any:
        spec = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(2,),
            in_specs=[pl.BlockSpec((8, 128), lambda i, n: ((i + n[0]) % 2, 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i, n: (i, 0)),
        )
        body = lambda n, x, o: scaled(x, o)  # noqa: E731
        return call(body, jnp.reshape(number, (1,)), X, grid_spec=spec)

    return jax.jit(blocks)(NUMBER)


def mapped(index_map: Any) -> Any:
    blocks = [pl.BlockSpec((8, 128), index_map)]
    still = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return call(scaled, X, grid=(2,), in_specs=blocks, out_specs=still)


def example_by_example(first: int | None) -> Any:
    examples = X.reshape(2, 8, 128)
    block = pl.BlockSpec((None, 8, 128), lambda i: (i, 0, 0))
    out = pl.BlockSpec((first, 8, 128), lambda i: (i, 0, 0))
    shape = jax.ShapeDtypeStruct(examples.shape, examples.dtype)
    call = pl.pallas_call(scaled, out_shape=shape, grid=(2,), in_specs=[block], out_specs=out)
    return call(examples).reshape(X.shape)


def in_elements(index_map: Any) -> Any:
    blocks = [pl.BlockSpec((pl.Element(8), pl.Element(128)), index_map)]
    still = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return call(scaled, X, grid=(2,), in_specs=blocks, out_specs=still)


def maps_by_a_table() -> Any:
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(2,),
        in_specs=[pl.BlockSpec((8, 128), lambda i, table: (table[i], 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i, table: (i, 0)),
    )
    return call(lambda table, x, o: scaled(x, o), jnp.asarray(BLOCKS), X, grid_spec=spec)


def pipelined(body: Any, grid: Any = (2,), buffers: int = 2) -> Any:
    def kernel(x: Any, o: Any) -> None:
        block = pl.BlockSpec((8, 128), lambda i: (i, 0))
        out = pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(buffers))
        pltpu.emit_pipeline(body, grid=grid, in_specs=[block], out_specs=[out])(x, o)

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return call(kernel, X, in_specs=[anywhere], out_specs=anywhere)


def reads(x: Any, o: Any) -> None:
    pl.debug_print("{}", x[...].astype(jnp.int32)[0, 0])


def scopes(scope: Callable[[Any, Any], Any]) -> Function:
    def body(x: Any, o: Any) -> None:
        def through(s: Any) -> None:
            s[...] = x[...]
            o[...] = s[...]

        scope(through, pltpu.VMEM((16, 128), jnp.float32))

    return lambda: call(body, X)


def times(x: Any, o: Any, *, scale: float) -> None:
    o[...] = scale * x[...]


def in_blocks(size: Any) -> Any:
    block = pl.BlockSpec((size, 128), lambda i: (i, 0))
    return call(scaled, X, grid=(pl.cdiv(16, size),), in_specs=[block], out_specs=block)


def with_scratch(semaphore: Any) -> Any:
    return call(lambda x, o, s: scaled(x, o), X, scratch_shapes=[semaphore])


def over_blocks(grid: Any) -> Any:
    block = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return call(scaled, X, grid=grid, in_specs=[block], out_specs=block)


def meets(x: Any, o: Any) -> None:
    barrier = pltpu.get_barrier_semaphore()  # the barrier
    pl.semaphore_signal(barrier, 1)
    pl.semaphore_wait(barrier, 1)
    scaled(x, o)


def with_collective_id(body: Any, number: int | None) -> Any:
    return call(body, X, compiler_params=pltpu.CompilerParams(collective_id=number))


def with_semantics(words: Any) -> Any:
    params = pltpu.CompilerParams(dimension_semantics=words)
    return call(scaled, X, grid=(1,), compiler_params=params)


def in_place(aliases: dict[int, int], dtype: Any = jnp.float32) -> Function:
    def body(x: Any, o: Any) -> None:
        o[...] = (2 * x[...]).astype(o.dtype)

    out = jax.ShapeDtypeStruct(X.shape, dtype)
    return lambda: pl.pallas_call(body, out_shape=out, input_output_aliases=aliases)(X)


def with_spec(spec: Any) -> Any:
    return call(scaled, X, grid=(1,), in_specs=[spec])


BLOCK_MAP: Any = lambda i: (0, 0)  # noqa: E731
SWAPPED: Any = pl.BlockSpec(BLOCK_MAP, (16, 128))


FAULTS: dict[str, Fault] = {
    "rank 0": (
        of_numbers(lambda s, x: x * s[0], 2.0),
        "read it with ref[...]",
        of_numbers(lambda s, x: x * s[...], 2.0),
        2 * X,
    ),
    "one element": (
        of_numbers(lambda s, x: x * s[0], 2.0),
        "jnp.reshape(x, (1,))",
        of_numbers(lambda s, x: x * s[0], jnp.reshape(2.0, (1,))),
        2 * X,
    ),
    "number": (
        closes_over_a_number,
        "jnp.reshape(n, (1,))",
        of_numbers(lambda s, x: x * s[0], jnp.reshape(2.0, (1,))),
        2 * X,
    ),
    "map": (
        maps_by_a_number,
        "num_scalar_prefetch=1",
        maps_by_what_is_prefetched,
        2 * jnp.roll(X, 8, 0),
    ),
    "size": (
        lambda: jax.jit(in_blocks)(8),
        "static_argnums",
        lambda: jax.jit(in_blocks, static_argnums=0)(8),
        2 * X,
    ),
    "semaphore": (
        lambda: with_scratch(pltpu.SemaphoreType),
        "pltpu.SemaphoreType.DMA((n,))",
        lambda: with_scratch(pltpu.SemaphoreType.DMA),
        2 * X,
    ),
    "semantics": (
        lambda: with_semantics("parallel"),
        '("parallel",)',
        lambda: with_semantics(("parallel",)),
        2 * X,
    ),
    "result": (
        lambda: pl.pallas_call(scaled, out_shape=(16, 128))(X),
        "jax.ShapeDtypeStruct(shape, dtype)",
        lambda: pl.pallas_call(scaled, out_shape=jax.ShapeDtypeStruct((16, 128), X.dtype))(X),
        2 * X,
    ),
    "scratch": (
        lambda: with_scratch(pltpu.VMEM),
        "pltpu.VMEM(shape, dtype)",
        lambda: with_scratch(pltpu.VMEM((8, 128), jnp.float32)),
        2 * X,
    ),
    "map with if": (
        lambda: mapped(lambda i: (1 if i == 0 else 0, 0)),
        "jnp.where(i == 0, 1, 0)",
        lambda: mapped(lambda i: (jnp.where(i == 0, 1, 0), 0)),
        2 * jnp.roll(X, 8, 0),
    ),
    "map by a table": (
        lambda: mapped(lambda i: (BLOCKS[i], 0)),
        "lambda i, table: (table[i], 0)",
        maps_by_a_table,
        2 * jnp.roll(X, 8, 0),
    ),
    "map by an array of NumPy": (
        lambda: mapped(lambda i: (np.array(BLOCKS)[i], 0)),
        "lambda i, table: (table[i], 0)",
        maps_by_a_table,
        2 * jnp.roll(X, 8, 0),
    ),
    "map without a number": (
        lambda: mapped(lambda i: (i, None)),
        "write 0",
        lambda: mapped(lambda i: (i, 0)),
        2 * X,
    ),
    "parameters of a GPU": (
        lambda: call(scaled, X, compiler_params=triton.CompilerParams(num_warps=4)),
        "compiler_params=pltpu.CompilerParams(...)",
        lambda: call(scaled, X, compiler_params=pltpu.CompilerParams()),
        2 * X,
    ),
    "dimension of the grid": (
        lambda: example_by_example(1),
        "pl.BlockSpec((None, 8, 128), ...)",
        lambda: example_by_example(None),
        2 * X,
    ),
    "map of slices": (
        lambda: mapped(lambda i: (pl.ds(8 * i, 8), 0)),
        "pl.BlockSpec((pl.Element(8), pl.Element(128)), lambda i: (8 * i, 0))",
        lambda: in_elements(lambda i: (8 * i, 0)),
        2 * X,
    ),
    "map that asks": (
        lambda: mapped(lambda i: (pl.program_id(0), 0)),
        "take it as a parameter",
        lambda: mapped(lambda i: (i, 0)),
        2 * X,
    ),
    "pipeline's grid": (
        lambda: pipelined(scaled, 2),
        "grid=(n,)",
        lambda: pipelined(scaled, (2,)),
        2 * X,
    ),
    "pipeline's buffers": (
        lambda: pipelined(scaled, buffers=3),
        "pl.Buffered(2)",
        lambda: pipelined(scaled, buffers=2),
        2 * X,
    ),
    "scope": (
        scopes(lambda f, space: pl.run_scoped(f(space))),
        "pl.run_scoped(f, pltpu.VMEM(shape, dtype))",
        scopes(pl.run_scoped),
        X,
    ),
    "scope by name": (
        scopes(lambda f, space: pl.run_scoped(f, buffer=space)),
        "one ref per allocation",
        scopes(lambda f, space: pl.run_scoped(f, s=space)),
        X,
    ),
    "memory": (
        lambda: call(scaled, X, in_specs=[pl.BlockSpec(memory_space="vmem")]),
        "pl.BlockSpec(memory_space=pltpu.VMEM)",
        lambda: call(scaled, X, in_specs=[pl.BlockSpec(memory_space=pltpu.VMEM)]),
        2 * X,
    ),
    "by name": (
        lambda: call(times, X),
        "functools.partial(kernel, name=value)",
        lambda: call(functools.partial(times, scale=2.0), X),
        2 * X,
    ),
    "spec": (
        lambda: with_spec(SWAPPED),
        "pl.BlockSpec(block_shape, index_map)",
        lambda: with_spec(pl.BlockSpec((16, 128), BLOCK_MAP)),
        2 * X,
    ),
    "alias of another type": (
        in_place({0: 0}, jnp.bfloat16),
        "jax.ShapeDtypeStruct(x.shape, x.dtype)",
        in_place({0: 0}, X.dtype),
        2 * X,
    ),
    "alias of nothing": (in_place({1: 0}), "={0: 0}", in_place({0: 0}), 2 * X),
    "grid of floats": (
        lambda: over_blocks((X.shape[0] / 8,)),
        "n // size instead of n / size",
        lambda: over_blocks((X.shape[0] // 8,)),
        2 * X,
    ),
    "float for a grid": (
        lambda: over_blocks(X.shape[0] / 8),
        "pl.cdiv(n, size)",
        lambda: over_blocks(pl.cdiv(X.shape[0], 8)),
        2 * X,
    ),
    "barrier without a number": (
        lambda: with_collective_id(meets, None),
        "pltpu.CompilerParams(collective_id=0)",
        lambda: with_collective_id(meets, 0),
        2 * X,
    ),
    "number without a barrier": (
        lambda: with_collective_id(scaled, 0),
        "leave out collective_id",
        lambda: with_collective_id(scaled, None),
        2 * X,
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_line_and_what_to_write(name: str) -> None:
    check(FAULTS[name], Path(__file__).name)


def test_a_barrier_without_a_number_has_the_line_of_the_barrier() -> None:
    with simulate(), pytest.raises(ValueError, match="collective_id") as caught:
        with_collective_id(meets, None)
    line = meets.__code__.co_firstlineno + 1
    assert f"{Path(__file__).name}:{line}:" in "\n".join(caught.value.__notes__)


def test_a_map_that_returns_floats_has_its_own_line() -> None:
    halves = lambda i: (i / 1, 0)  # noqa: E731
    with simulate(), pytest.raises(ValueError, match="integer scalars") as caught:
        mapped(halves)
    line = halves.__code__.co_firstlineno
    assert f"{Path(__file__).name}:{line}:" in "\n".join(caught.value.__notes__)


PIPELINES = pytest.mark.since_jax("0.10.2", "pipelines as one operation")


@pytest.mark.parametrize("form", [pytest.param("pallas", marks=PIPELINES), "tiles"])
def test_what_a_pipeline_repeats_returns_nothing(form: str) -> None:
    """JAX takes it where it expands the pipeline; what nobody wrote is then a warning."""
    told = r"must return None|never written"
    with simulate(form=form, checks=("init",)), pytest.raises(Exception, match=told) as caught:
        pipelined(lambda x, o: 2 * x[...])
    assert form == "tiles" or "out[...] = value" in "\n".join(caught.value.__notes__)


@pytest.mark.since_jax("0.10.1", "pipelines as whole kernels")
@pytest.mark.parametrize("form", ["pallas", "tiles"])
def test_kernels_that_jax_makes_are_at_the_users_line(form: str) -> None:
    block = pl.BlockSpec((8, 128), lambda i: (i, 0))
    pipeline = pltpu.emit_pipeline(reads, grid=(2,), in_specs=[block], out_specs=[block])
    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    with simulate(form=form, checks=("init",)), pytest.warns(KernelWarning) as warned:
        call(pipeline, X, in_specs=[anywhere], out_specs=anywhere)
    assert Path(warned[0].filename).name == "mistakes.py"  # where `call` calls it
    assert f"{Path(__file__).name}:{reads.__code__.co_firstlineno + 1}:" in str(warned[0].message)
