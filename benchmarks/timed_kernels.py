"""The kernels that `run_time.py` measures, and what they are called with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import small_blocks
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallasite.interpreter.replay.repeats import MOST_COUNTS

f32 = jnp.float32


@dataclass(frozen=True)
class Case:
    """A function of arrays that calls one Pallas kernel, interpreted as told."""

    name: str
    call: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    tables: Callable[[np.random.Generator], list[Any]] | None = None
    """Makes the first operands, of integers."""
    are_new: bool = False
    """Whether these are others in each call."""
    dtype: Any = f32

    def arrays(self, turn: int = 0) -> list[Any]:
        """Floats that bfloat16 holds, since the TPU's products round to it and JAX's do not."""
        generator = np.random.default_rng(0)
        numbers = [
            generator.integers(-128, 128, s).astype(np.int8)
            if self.dtype is jnp.int8
            else generator.standard_normal(s).astype(jnp.bfloat16).astype(self.dtype)
            for s in self.shapes
        ]
        tables = [] if self.tables is None else self.tables(np.random.default_rng(turn))
        return [*tables, *numbers]

    def turns(self) -> list[list[Any]]:
        """The operands of some calls, before the first ones come again."""
        return [self.arrays(turn) for turn in range(2 * MOST_COUNTS if self.are_new else 1)]


def add(x: Any, y: Any, interpret: Any = False) -> Any:
    """The sum of two arrays, block by block."""

    def body(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] + y_ref[...]

    block = pl.BlockSpec((128, 256), lambda i, j: (i, j))
    return pl.pallas_call(
        body, out_shape=jax.ShapeDtypeStruct(x.shape, f32), grid=(x.shape[0] // 128, 2),
        in_specs=[block, block], out_specs=block, interpret=interpret,
    )(x, y)  # fmt: skip


def small(x: Any, y: Any, interpret: Any = False) -> Any:
    """The sum of two arrays at once."""

    def body(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] + y_ref[...]

    shape = jax.ShapeDtypeStruct(x.shape, f32)
    return pl.pallas_call(body, out_shape=shape, interpret=interpret)(x, y)


def softmax(x: Any, interpret: Any = False) -> Any:
    """Softmax along whole rows."""

    def body(x_ref: Any, o_ref: Any) -> None:
        x = x_ref[...]
        e = jnp.exp(x - jnp.max(x, axis=1, keepdims=True))
        o_ref[...] = e / jnp.sum(e, axis=1, keepdims=True)

    block = pl.BlockSpec((64, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        body, out_shape=jax.ShapeDtypeStruct(x.shape, f32), grid=(x.shape[0] // 64,),
        in_specs=[block], out_specs=block, interpret=interpret,
    )(x)  # fmt: skip


def matmul(x: Any, y: Any, interpret: Any = False) -> Any:
    """A product in blocks of 128, accumulated in the output block."""
    wide = jnp.int32 if x.dtype == jnp.int8 else f32

    def body(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        @pl.when(pl.program_id(2) == 0)
        def _() -> None:
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=wide)

    side = 128
    return pl.pallas_call(
        body, out_shape=jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), wide),
        grid=(x.shape[0] // side, y.shape[1] // side, x.shape[1] // side),
        in_specs=[
            pl.BlockSpec((side, side), lambda i, j, k: (i, k)),
            pl.BlockSpec((side, side), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((side, side), lambda i, j, k: (i, j)), interpret=interpret,
    )(x, y)  # fmt: skip


def layer_norm(x: Any, interpret: Any = False) -> Any:
    """Rows less their mean, divided by their deviation."""

    def body(x_ref: Any, o_ref: Any) -> None:
        x = x_ref[...]
        centred = x - jnp.mean(x, axis=1, keepdims=True)
        variance = jnp.mean(centred * centred, axis=1, keepdims=True)
        o_ref[...] = centred * jax.lax.rsqrt(variance + 1e-6)

    block = pl.BlockSpec((128, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        body, out_shape=jax.ShapeDtypeStruct(x.shape, f32), grid=(x.shape[0] // 128,),
        in_specs=[block], out_specs=block, interpret=interpret,
    )(x)  # fmt: skip


def attention(q: Any, k: Any, v: Any, interpret: Any = False) -> Any:
    """Softmax over blocks of keys, rescaled as larger scores turn up."""
    half = jnp.bfloat16

    def body(q_ref: Any, k_ref: Any, v_ref: Any, o_ref: Any, top: Any, total: Any) -> None:
        @pl.when(pl.program_id(2) == 0)
        def _() -> None:
            top[...] = jnp.full_like(top, -1e30)
            total[...] = jnp.zeros_like(total)
            o_ref[...] = jnp.zeros_like(o_ref)

        scores = jnp.dot(
            q_ref[...].astype(half), k_ref[...].astype(half).T, preferred_element_type=f32
        )
        higher = jnp.maximum(top[...], jnp.max(scores, axis=1, keepdims=True))
        weights = jnp.exp(scores - higher)
        shrunk = jnp.exp(top[...] - higher)
        top[...] = higher
        total[...] = total[...] * shrunk + jnp.sum(weights, axis=1, keepdims=True)
        o_ref[...] = o_ref[...] * shrunk + jnp.dot(
            weights.astype(half), v_ref[...].astype(half), preferred_element_type=f32
        )

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _() -> None:
            o_ref[...] /= total[...]

    side = 256
    rows = pl.BlockSpec((None, side, q.shape[2]), lambda h, i, j: (h, i, 0))
    keys = pl.BlockSpec((None, side, q.shape[2]), lambda h, i, j: (h, j, 0))
    column = pltpu.VMEM((side, 1), f32)
    return pl.pallas_call(
        body, out_shape=jax.ShapeDtypeStruct(q.shape, f32),
        grid=(q.shape[0], q.shape[1] // side, k.shape[1] // side),
        in_specs=[rows, keys, keys], out_specs=rows, scratch_shapes=[column, column],
        interpret=interpret,
    )(q, k, v)  # fmt: skip


def rows_of_table(places: Any, x: Any, interpret: Any = False) -> Any:
    """Blocks of 8 rows in the order of a table, through the pipeline."""

    def body(_: Any, x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2.0

    return pl.pallas_call(
        body, out_shape=jax.ShapeDtypeStruct(x.shape, f32),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1, grid=(x.shape[0] // 8,),
            in_specs=[pl.BlockSpec((8, x.shape[1]), lambda i, places: (places[i], 0))],
            out_specs=pl.BlockSpec((8, x.shape[1]), lambda i, places: (i, 0)),
        ), interpret=interpret,
    )(places, x)  # fmt: skip


def gates(x: Any, interpret: Any = False) -> Any:
    """Elementwise functions, each of them transcendental."""

    def body(x_ref: Any, o_ref: Any) -> None:
        x = x_ref[...]
        o_ref[...] = jax.nn.gelu(x) + jax.nn.silu(x)

    block = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        body, out_shape=jax.ShapeDtypeStruct(x.shape, f32), grid=(x.shape[0] // 256,),
        in_specs=[block], out_specs=block, interpret=interpret,
    )(x)  # fmt: skip


def chain(x: Any, y: Any, interpret: Any = False) -> Any:
    """Element-wise arithmetic of bfloat16."""

    def body(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        x, y = x_ref[...], y_ref[...]
        o_ref[...] = jnp.maximum(x * y + x, y - x) * x

    block = pl.BlockSpec((128, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(x.shape[0] // 128,),
        in_specs=[block, block], out_specs=block, interpret=interpret,
    )(x, y)  # fmt: skip


def copies(x: Any, interpret: Any = False) -> Any:
    """Rows copied by the kernel's own DMAs, two in flight."""

    def body(x_ref: Any, o_ref: Any, buffer: Any, sems: Any) -> None:
        steps = x_ref.shape[0] // 8

        def fetch(step: Any) -> Any:
            slot = step % 2
            rows = x_ref.at[pl.ds(step * 8, 8)]
            return pltpu.make_async_copy(rows, buffer.at[slot], sems.at[slot])

        fetch(0).start()

        @pl.loop(0, steps)
        def _(step: Any) -> None:
            @pl.when(step + 1 < steps)
            def _() -> None:
                fetch(step + 1).start()

            fetch(step).wait()
            o_ref[pl.ds(step * 8, 8)] = buffer[step % 2] * 2.0

    return pl.pallas_call(
        body, out_shape=jax.ShapeDtypeStruct(x.shape, f32),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[pltpu.VMEM((2, 8, x.shape[1]), f32), pltpu.SemaphoreType.DMA((2,))],
        interpret=interpret,
    )(x)  # fmt: skip


def gathered(places: Any, x: Any, interpret: Any = False, flying: int = 1) -> Any:
    """Single rows of a table, copied by the kernel's own DMAs, of which so many fly at once."""

    def body(places: Any, x_ref: Any, o_ref: Any, sem: Any) -> None:
        @pl.loop(0, places.shape[0] // flying)
        def _(step: Any) -> None:
            rows = [step * flying + n for n in range(flying)]
            copies = [
                pltpu.make_async_copy(x_ref.at[places[row]], o_ref.at[row], sem) for row in rows
            ]
            for copy in copies:
                copy.start()
            for copy in copies:
                copy.wait()

    return pl.pallas_call(
        body, out_shape=jax.ShapeDtypeStruct((places.shape[0], x.shape[1]), f32),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1, grid=(1,), in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            out_specs=pl.BlockSpec(memory_space=pl.ANY), scratch_shapes=[pltpu.SemaphoreType.DMA],
        ), interpret=interpret,
    )(places, x)  # fmt: skip


def pages(lengths: Any, places: Any, q: Any, k: Any, v: Any, interpret: Any = False) -> Any:
    """Attention of single rows to as many keys as each has, which are pages of a table."""
    size, count = k.shape[1], places.shape[1]

    def body(
        lengths: Any, _: Any, q_ref: Any, k_ref: Any, v_ref: Any, o_ref: Any, top: Any, total: Any
    ) -> None:
        row, page = pl.program_id(0), pl.program_id(1)

        @pl.when(page == 0)
        def _() -> None:
            top[...] = jnp.full_like(top, -1e30)
            total[...] = jnp.zeros_like(total)
            o_ref[...] = jnp.zeros_like(o_ref)

        @pl.when(page * size < lengths[row])
        def _() -> None:
            scores = jnp.dot(q_ref[...], k_ref[...].T, preferred_element_type=f32)
            places = page * size + jax.lax.broadcasted_iota(jnp.int32, scores.shape, 1)
            scores = jnp.where(places < lengths[row], scores, -1e30)
            higher = jnp.maximum(top[...], jnp.max(scores, axis=1, keepdims=True))
            weights, shrunk = jnp.exp(scores - higher), jnp.exp(top[...] - higher)
            top[...] = higher
            total[...] = total[...] * shrunk + jnp.sum(weights, axis=1, keepdims=True)
            # What the TPU rounds to bfloat16 and JAX does not would differ.
            o_ref[...] = o_ref[...] * shrunk + jnp.dot(
                weights, v_ref[...], preferred_element_type=f32, precision="highest"
            )

        @pl.when(page == count - 1)
        def _() -> None:
            o_ref[...] /= total[...]

    heads = pl.BlockSpec((None, *q.shape[1:]), lambda i, j, *_: (i, 0, 0))
    keys = pl.BlockSpec((None, *k.shape[1:]), lambda i, j, _, places: (places[i, j], 0, 0))
    column = pltpu.VMEM((q.shape[1], 1), f32)
    return pl.pallas_call(
        body, out_shape=jax.ShapeDtypeStruct(q.shape, f32),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2, grid=places.shape, in_specs=[heads, keys, keys],
            out_specs=heads, scratch_shapes=[column, column],
        ), interpret=interpret,
    )(lengths, places, q, k, v)  # fmt: skip


def permutation(length: int) -> Callable[[np.random.Generator], list[Any]]:
    """What makes a table of the numbers below `length`."""
    return lambda generator: [generator.permutation(length).astype(np.int32)]


def page_table(generator: np.random.Generator) -> list[Any]:
    """The lengths of 8 rows, and which of 64 pages of 32 keys each has."""
    lengths = generator.integers(1, 8 * 32, 8).astype(np.int32)
    return [lengths, generator.permutation(64).reshape(8, 8).astype(np.int32)]


def choice(length: int, count: int) -> Callable[[np.random.Generator], list[Any]]:
    """What makes a table of `count` of the numbers below `length`."""
    return lambda generator: [generator.integers(0, length, count).astype(np.int32)]


PAGES = ((8, 8, 128), (64, 32, 128), (64, 32, 128))
CASES = (
    Case("small, 1 step", small, ((8, 128), (8, 128))),
    Case("add, 16 steps", add, ((1024, 512), (1024, 512))),
    Case("softmax, 8 steps", softmax, ((512, 512),)),
    Case("matmul, 64 steps", matmul, ((512, 512), (512, 512))),
    Case("matmul of int8", matmul, ((512, 512), (512, 512)), dtype=jnp.int8),
    Case("layer norm, 16 steps", layer_norm, ((2048, 1024),)),
    Case("attention, 32 steps", attention, ((2, 1024, 128),) * 3),
    Case("gates, 8 steps", gates, ((2048, 1024),)),
    Case("bfloat16, 8 steps", chain, ((1024, 512), (1024, 512)), dtype=jnp.bfloat16),
    Case("table, 1024 steps", rows_of_table, ((8192, 256),), permutation(1024)),
    Case("table, 64 steps", rows_of_table, ((512, 256),), permutation(64)),
    Case("new tables, 64 steps", rows_of_table, ((512, 256),), permutation(64), are_new=True),
    Case("pages, 64 steps", pages, PAGES, page_table),
    Case("new pages, 64 steps", pages, PAGES, page_table, are_new=True),
    Case("copies, 32 DMAs", copies, ((256, 256),)),
    Case("new rows, 512 DMAs", gathered, ((4096, 256),), choice(4096, 512), are_new=True),
    Case(
        "new rows, 8 flying",
        partial(gathered, flying=8),
        ((4096, 256),),
        choice(4096, 512),
        are_new=True,
    ),
    Case("top-8, 8 steps", small_blocks.greatest, ((64, 256),)),
    Case("bitonic sort, 8 steps", small_blocks.sorted_rows, ((64, 128),)),
    Case("histogram, 8 steps", small_blocks.histogram, ((64, 128),)),
    Case("prefix sums, 8 steps", small_blocks.prefix_sums, ((64, 512),)),
    Case("peaks, bf16, 8 steps", small_blocks.peaks, ((128, 256),), dtype=jnp.bfloat16),
)
