"""Time to execute a kernel: our compiled driver against JAX's two interpreters of Pallas kernels.

    python benchmarks/run_time.py [--print]

Needs the `jax` extra. Writes docs/run_time.md, with what `first_run.py` measures.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from corpus import geometric_mean, machine, publish, table
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallasite import api
from pallasite.interpreter.machine.spare import Spare
from pallasite.interpreter.replay.repeats import BEFORE
from pallasite.interpreter.run import execute, prepare
from pallasite.jax import simulate
from pallasite.targets import get_target

ROUNDS, ROUND = 6, 0.15
"""A run is repeated for so many seconds in each round."""
FORMS = ("mosaic", "dma", "tiles", "vreg")
SIMULATED = "simulate()"
WAYS = (*FORMS, SIMULATED)
f32 = jnp.float32


@dataclass(frozen=True)
class Case:
    """A function of arrays that calls one Pallas kernel, interpreted as told."""

    name: str
    call: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    table: int = 0
    """The length of a first operand: a permutation of the numbers below."""
    dtype: Any = f32

    def arrays(self) -> list[Any]:
        """Floats that bfloat16 holds, since the TPU's products round to it and JAX's do not."""
        generator = np.random.default_rng(0)
        numbers = [
            generator.integers(-128, 128, s).astype(np.int8)
            if self.dtype is jnp.int8
            else generator.standard_normal(s).astype(jnp.bfloat16).astype(self.dtype)
            for s in self.shapes
        ]
        table = [generator.permutation(self.table).astype(np.int32)] if self.table else []
        return [*table, *numbers]


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
    Case("table, 1024 steps", rows_of_table, ((8192, 256),), table=1024),
    Case("copies, 32 DMAs", copies, ((256, 256),)),
)


def seconds(runs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Seconds of a run each, in the fastest of some rounds.

    They take turns in rounds, so that what else the computer does slows all of them alike.
    """
    rounds = [{name: timed(run, ROUND) for name, run in runs.items()} for _ in range(ROUNDS)]
    return {name: min(took[name] for took in rounds) for name in runs}


def timed(run: Callable[[], Any], least: float = 0.0) -> float:
    """Seconds of processor time that one run takes, on all cores, of some in `least` seconds.

    What a thread of XLA's has used is known only later: of one short run it would be missed.
    """
    count, began, end = 0, time.process_time(), time.perf_counter() + least
    while not count or time.perf_counter() < end:
        run()
        count += 1
    return (time.process_time() - began) / count


def prepared(module: Any, form: str) -> Callable[[list[Any]], Any]:
    """The kernel as a simulation holds it, from the first call to the last."""
    target = get_target(api.DEFAULT_TARGET)
    lowered = api.lower(module, form)
    plan, spare = prepare(lowered, target=target), Spare()

    def call(arrays: list[Any]) -> Any:
        outcome = execute(lowered, [arrays], target=target, prepared=plan, spare=spare)
        return outcome.outputs[0][0]

    return call


def _ended(function: Callable[..., Any], arrays: list[Any]) -> Any:
    return jax.block_until_ready(function(*arrays))


def measure(case: Case) -> tuple[dict[str, tuple[float, float]], float]:
    """First and later seconds by way of execution, and the largest difference of the answers."""
    arrays = case.arrays()
    ways = {"interpret=True": True, "InterpretParams()": pltpu.InterpretParams()}
    runs: dict[str, Callable[[], Any]] = {}
    first: dict[str, float] = {}
    for name, interpret in ways.items():
        function = jax.jit(partial(case.call, interpret=interpret))
        runs[name] = partial(_ended, function, arrays)
        first[name] = timed(runs[name])
    program = jax.jit(case.call).trace(*arrays).lower(lowering_platforms=("tpu",)).as_text()
    module = api.parse(program)
    for form in FORMS:
        began = time.process_time()
        call = prepared(module, form)
        runs[form] = partial(call, arrays)
        runs[form]()
        first[form] = time.process_time() - began
    with simulate():
        function = jax.jit(case.call)
        first[SIMULATED] = timed(partial(_ended, function, arrays))
    for _ in range(BEFORE):
        for form in FORMS:
            runs[form]()
    runs[SIMULATED] = simulate()(partial(_ended, function, arrays))
    answers = [np.asarray(run()).astype(np.float64) for run in runs.values()]
    times = {name: (first[name], later) for name, later in seconds(runs).items()}
    return times, max(float(np.max(np.abs(a - answers[0]))) for a in answers)


def page(found: dict[str, tuple[dict[str, tuple[float, float]], float]], first: str) -> str:
    """The page from all measurements, and the section on `first` calls."""
    ways = ("interpret=True", "InterpretParams()", *WAYS)
    times = {name: result[0] for name, result in found.items()}

    def milliseconds(which: int) -> str:
        numbers = {n: [round(way[w][which] * 1e3, 2) for w in ways] for n, way in times.items()}
        return table(("kernel", *ways), [(name, *row) for name, row in numbers.items()])

    def ratios(base: str) -> str:
        rows = [(name, *(way[base][1] / way[f][1] for f in WAYS)) for name, way in times.items()]
        means = [geometric_mean(way[base][1] / way[f][1] for way in times.values()) for f in WAYS]
        return table((f"{base} /", *WAYS), [*rows, ("geometric mean", *means)])

    largest = max(difference for _, difference in found.values())
    return f"""# Time to execute kernels

Written by `benchmarks/run_time.py` on one computer ({machine()}, JAX {jax.__version__}).
`interpret=True` lets JAX rewrite the kernel as an ordinary XLA program for this computer, with the
grid as a loop: it is compiled code, but knows no memories, DMAs in flight or semaphores.
`InterpretParams()` is JAX's simulation of the TPU's memories and semaphores, by callbacks into
Python. Ours (the compiled driver) simulates those too, in the first {BEFORE + 1} runs of a
kernel; if what it does depends on no operand, and is not too long, later ones of form `tiles`
replay what that did with arrays (docs/internals/running.md), here all but the table. The forms
are those of the lowering, from the kernel as JAX wrote it (`mosaic`) to single registers (`vreg`),
called with NumPy's arrays. In a program of JAX's, under `pallasite.jax.simulate()`, form `tiles`
runs, and JAX adds what it takes to call back into Python. All times are of the processor, summed
over the cores that work: XLA can use all, so one may wait less for it; ours uses one. All answers
agree within {largest:.1g}.

## How many times faster ours is, after the first runs

{ratios("InterpretParams()")}

{ratios("interpret=True")}

## Milliseconds, after the first runs

{milliseconds(1)}

## Milliseconds of the first run, which compiles (ours: lowers and writes the program)

One kernel after another in one process, ways in the order of the columns.

{milliseconds(0)}

{first}
"""


def main() -> None:
    """Measures, and writes the page."""
    p = argparse.ArgumentParser(description="Measures execution.")
    p.add_argument("--corpus", help="not needed: the kernels are written here")
    p.add_argument("--print", action="store_true", help="print instead of writing docs/")
    options = p.parse_args()
    import first_run  # Which measures cases of this module.

    first = first_run.section(first_run.measure())
    publish(options, "run_time.md", page({case.name: measure(case) for case in CASES}, first))


if __name__ == "__main__":
    main()
