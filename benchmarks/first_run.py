"""Processor time of the first call of a kernel: ours, and JAX's two interpreters of Pallas kernels.

    python benchmarks/first_run.py [--only REGEX]

Each case runs once in each of `PROCESSES` new processes, after a small kernel of another shape, so
that what is imported and set up once does not count. Needs the `jax` extra; prints a section that
`run_time.py` takes into docs/run_time.md.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import timed_kernels
from corpus import geometric_mean, table
from jax import lax
from jax._src import config
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc
from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention
from jax.experimental.pallas.ops.tpu.megablox import gmm
from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from pallasite import api
from pallasite.jax import simulate

DEVICES, PROCESSES = 4, 2
XLA, SIMULATION, RUN, SIMULATED = "interpret=True", "InterpretParams()", "run()", "simulate()"
WAYS = (XLA, SIMULATION, RUN, SIMULATED)
PROGRAM = (XLA, SIMULATION, SIMULATED)
"""Of what is more than a kernel."""
OURS = (RUN, SIMULATED)
"""Of what JAX runs on TPUs only."""
f32, half, i32 = jnp.float32, jnp.bfloat16, jnp.int32
Arrays = tuple[Any, ...]


@dataclass(frozen=True)
class Case:
    """A program of JAX's that calls one Pallas kernel."""

    name: str
    call: Callable[..., Any]
    arrays: Callable[[], Arrays]
    target: str = api.DEFAULT_TARGET
    ways: Sequence[str] = WAYS
    """Those that can run it."""


def floats(*shapes: tuple[int, ...], dtype: Any = f32) -> Callable[[], Arrays]:
    """Arrays of such shapes, later on."""
    numbers = np.random.default_rng(0)
    return lambda: tuple(numbers.standard_normal(shape).astype(dtype) for shape in shapes)


def unrolled(x: Any) -> Any:
    """A loop of 64 iterations that is written out."""

    def body(x_ref: Any, o_ref: Any) -> None:
        def step(i: Any, total: Any) -> Any:
            return jnp.maximum(total * 0.5 + x_ref[i], total)

        o_ref[...] = lax.fori_loop(0, 64, step, jnp.zeros(o_ref.shape, f32), unroll=True)

    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape[1:], f32))(x)


def pipelined(x: Any, y: Any) -> Any:
    """A product whose blocks the kernel's own pipeline fetches."""

    def product(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        @pl.when(pl.program_id(2) == 0)
        def _() -> None:
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=f32)

    def body(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        pltpu.emit_pipeline(
            product,
            grid=(2, 2, 4),
            in_specs=[
                pl.BlockSpec((128, 128), lambda i, j, k: (i, k)),
                pl.BlockSpec((128, 128), lambda i, j, k: (k, j)),
            ],
            out_specs=pl.BlockSpec((128, 128), lambda i, j, k: (i, j)),
        )(x_ref, y_ref, o_ref)

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    shape = jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), f32)
    specs = dict(in_specs=[anywhere] * 2, out_specs=anywhere)
    return pl.pallas_call(body, out_shape=shape, **specs)(x, y)


def histogram(x: Any) -> Any:
    """Counts of 32 vector subcores, each in memory of its own."""
    scratch = [pltpu.VMEM((128,), i32), pltpu.VMEM((64,), i32)]

    def body(x: Any, o: Any, values: Any, counts: Any) -> None:
        me = lax.axis_index("c") * 16 + lax.axis_index("s")
        pltpu.sync_copy(x.at[me], values)

        @pl.loop(0, 64, step=16)
        def _(i: Any) -> None:
            counts[pl.ds(i, 16)] = jnp.zeros((16,), i32)

        @pl.loop(0, 128, step=16)
        def _(i: Any) -> None:
            plsc.addupdate_scatter(counts, [values[pl.ds(i, 16)]], jnp.ones((16,), i32))

        pltpu.sync_copy(counts, o.at[me])

    mesh = plsc.VectorSubcoreMesh(
        core_axis_name="c", subcore_axis_name="s", num_cores=2, num_subcores=16
    )
    out = jax.ShapeDtypeStruct((32, 64), i32)
    return pl.kernel(body, out_type=out, mesh=mesh, scratch_types=scratch)(x)


def all_gather(x: Any) -> Any:
    """Shards travel round a ring of devices."""

    def body(x_ref: Any, o_ref: Any, local: Any, send: Any, receive: Any) -> None:
        me = lax.axis_index("x")
        left, right = lax.rem(me + DEVICES - 1, DEVICES), lax.rem(me + 1, DEVICES)
        barrier = pltpu.get_barrier_semaphore()
        for neighbour in (left, right):
            pl.semaphore_signal(barrier, 1, device_id=(neighbour,))
        pl.semaphore_wait(barrier, 2)
        own = pltpu.make_async_copy(x_ref, o_ref.at[me], local)
        own.start()
        own.wait()

        @pl.loop(0, DEVICES - 1)
        def _(step: Any) -> None:
            slot = o_ref.at[lax.rem(me + DEVICES - step, DEVICES)]
            copy = pltpu.make_async_remote_copy(slot, slot, send, receive.at[step], (right,))
            copy.start()
            copy.wait()

    def shard(x: Any) -> Any:
        semaphore = pltpu.SemaphoreType.DMA
        anywhere = pl.BlockSpec(memory_space=pl.ANY)
        return pl.pallas_call(
            body, out_shape=jax.ShapeDtypeStruct((DEVICES, *x.shape), x.dtype),
            in_specs=[anywhere], out_specs=anywhere,
            scratch_shapes=[semaphore, semaphore, semaphore((DEVICES - 1,))],
            compiler_params=pltpu.CompilerParams(collective_id=0),
        )(x)[None]  # fmt: skip

    mesh = Mesh(np.array(jax.devices()[:DEVICES]), ("x",))
    return jax.shard_map(shard, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)(x)


def splash_attention(q: Any, k: Any, v: Any) -> Any:
    """JAX's own, with a causal mask."""
    heads, length, _ = q.shape
    mask = masks.MultiHeadMask([masks.CausalMask((length, length))] * heads)
    return splash.make_splash_mha(mask=mask, head_shards=1, q_seq_shards=1)(q, k, v)


def grouped() -> Arrays:
    """Rows, matrices, and how many rows each of them takes."""
    x, weights = floats((512, 256), (3, 256, 256), dtype=half)()
    return x, weights, np.array([200, 56, 256], np.int32)


def numbers_below_64() -> Arrays:
    """What to count."""
    return (np.arange(32 * 128, dtype=np.int32).reshape(32, 128) % 64,)


def pages() -> Arrays:
    """Queries, pages of keys and values, lengths, and the table of pages."""
    q, k, v = floats((2, 8, 128), (8, 16, 16, 128), (8, 16, 16, 128))()
    return q, k, v, np.array([70, 128], np.int32), np.arange(16, dtype=np.int32).reshape(2, 8)


def of_run_time(name: str) -> Case:
    """A case of `timed_kernels.py`."""
    (case,) = (case for case in timed_kernels.CASES if case.name == name)
    return Case(name, case.call, lambda: tuple(case.arrays()))


CASES = (
    *map(of_run_time, (case.name for case in timed_kernels.CASES if case.tables is None)),
    Case(
        "table, 4096 steps",
        timed_kernels.rows_of_table,
        lambda: (np.arange(4096, dtype=np.int32)[::-1].copy(), *floats((32768, 128))()),
    ),
    Case("loop of 64, unrolled", unrolled, floats((64, 64, 256))),
    Case("emit_pipeline, 16 steps", pipelined, floats((256, 512), (512, 256)), ways=OURS),
    Case("JAX's flash attention", flash_attention, floats(*((1, 2, 512, 128),) * 3), ways=PROGRAM),
    Case("JAX's splash attention", splash_attention, floats(*((2, 512, 128),) * 3), ways=PROGRAM),
    Case("JAX's grouped matmul", partial(gmm, tiling=(128, 128, 128)), grouped, ways=PROGRAM),
    Case(
        "JAX's paged attention",
        partial(paged_attention, pages_per_compute_block=2),
        pages,
        ways=PROGRAM,
    ),
    Case("ring of 4 devices", all_gather, floats((DEVICES * 64, 128)), ways=(SIMULATED,)),
    Case("32 subcores", histogram, numbers_below_64, "v7x", OURS),
)


@contextmanager
def interpreted(how: Any) -> Any:
    """Every kernel is interpreted by JAX, as `interpret=how` says."""
    mode = config.pallas_tpu_interpret_mode_context_manager
    before = mode.swap_local(how)
    try:
        yield
    finally:
        mode.set_local(before)


def first_call(way: str, case: Case) -> float:
    """Seconds of the first call of a case."""
    arrays = case.arrays()
    within: AbstractContextManager[Any] = {
        XLA: lambda: interpreted(True),
        SIMULATION: lambda: interpreted(pltpu.InterpretParams()),
        SIMULATED: lambda: simulate(target=case.target),
    }[way]()  # fmt: skip
    function = jax.jit(lambda *arrays: case.call(*arrays))
    with within:
        began = time.process_time()
        jax.block_until_ready(function(*arrays))
        return time.process_time() - began


def first_run(case: Case) -> float:
    """Seconds from the text of a kernel to its results."""
    arrays = case.arrays()
    with simulate(target=case.target):
        traced = jax.jit(lambda *arrays: case.call(*arrays)).trace(*arrays)
        text = traced.lower(lowering_platforms=("tpu",)).as_text()
    began = time.process_time()
    api.run(api.parse(text), list(arrays), target=case.target)
    return time.process_time() - began


Times = dict[str, dict[str, float]]
"""Seconds by case and by the ways that can run it."""


def measure_here(pattern: str, ways: Sequence[str] = WAYS) -> Times:
    """Times in this process."""
    warm = Case("warm", timed_kernels.small, floats((16, 128), (16, 128)))
    found: Times = {}
    for case in (warm, *(case for case in CASES if re.search(pattern, case.name))):
        found[case.name] = {
            way: first_run(case) if way == RUN else first_call(way, case)
            for way in ways
            if way in case.ways
        }
    del found[warm.name]
    return found


def measure(pattern: str = "") -> Times:
    """The least times of some new processes."""
    command = [sys.executable, __file__, "--here", "--only", pattern]
    runs = [json.loads(subprocess.check_output(command)) for _ in range(PROCESSES)]
    return {
        name: {way: min(run[name][way] for run in runs) for way in times}
        for name, times in runs[0].items()
    }


def section(found: Times) -> str:
    """Milliseconds, and how many times faster a program of JAX's is with us."""
    rows: list[tuple[Any, ...]] = []
    ratios: dict[str, list[float]] = {XLA: [], SIMULATION: []}
    for name, times in found.items():
        row: list[Any] = [name, *(round(times[w] * 1e3, 1) if w in times else "" for w in WAYS)]
        for base, of_base in ratios.items():
            row.append(times[base] / times[SIMULATED] if base in times else "")
            of_base += [times[base] / times[SIMULATED]] if base in times else []
        rows.append(tuple(row))
    means = [geometric_mean(of_base) for of_base in ratios.values()]
    header = ("kernel", *WAYS, *(f"{base} / {SIMULATED}" for base in ratios))
    return f"""## Milliseconds of the first call, in a new process

Measured by `benchmarks/first_run.py`, after a small kernel of another shape. `run()` begins with
the program as text, the others with the JAX program. Where a cell is empty, JAX cannot interpret
the program on this computer, or it is more than one kernel.

{table(header, [*rows, ("geometric mean", *[""] * len(WAYS), *means)])}"""


def main() -> None:
    """Measures, and prints."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--only", default="", help="a pattern of names")
    p.add_argument("--ways", nargs="*", default=WAYS, help="with --here: those to measure")
    p.add_argument("--here", action="store_true", help="once, in this process, as JSON")
    options = p.parse_args()
    if options.here:
        jax.config.update("jax_num_cpu_devices", DEVICES)
        print(json.dumps(measure_here(options.only, options.ways)))
    else:
        print(section(measure(options.only)))


if __name__ == "__main__":
    main()
