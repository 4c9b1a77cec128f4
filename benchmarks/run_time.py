"""Time to execute a kernel: our compiled driver against JAX's two interpreters of Pallas kernels.

    python benchmarks/run_time.py [--print]

Needs the `jax` extra. Writes docs/run_time.md, with what `first_run.py` measures.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Any

import jax
import kernels_in_loops
import numpy as np
from corpus import geometric_mean, machine, publish, table
from jax.experimental.pallas import tpu as pltpu
from timed_kernels import CASES, Case

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


def _turning(call: Callable[[list[Any]], Any], turns: list[list[Any]]) -> Callable[[], Any]:
    """`call` with one after the other of some operands."""
    following = cycle(turns)
    return lambda: call(next(following))


def measure(case: Case) -> tuple[dict[str, tuple[float, float]], float]:
    """First and later seconds by way of execution, and the largest difference of the answers."""
    turns = case.turns()
    arrays = turns[0]
    ways = {"interpret=True": True, "InterpretParams()": pltpu.InterpretParams()}
    calls: dict[str, Callable[[list[Any]], Any]] = {}
    first: dict[str, float] = {}
    for name, interpret in ways.items():
        function = jax.jit(partial(case.call, interpret=interpret))
        calls[name] = partial(_ended, function)
        first[name] = timed(partial(calls[name], arrays))
    program = jax.jit(case.call).trace(*arrays).lower(lowering_platforms=("tpu",)).as_text()
    module = api.parse(program)
    for form in FORMS:
        began = time.process_time()
        calls[form] = prepared(module, form)
        calls[form](arrays)
        first[form] = time.process_time() - began
    with simulate():
        function = jax.jit(case.call)
        first[SIMULATED] = timed(partial(_ended, function, arrays))
    calls[SIMULATED] = simulate()(partial(_ended, function))
    runs = {name: _turning(call, turns) for name, call in calls.items()}
    for _ in range(BEFORE):
        for way in WAYS:
            runs[way]()
    answers = [np.asarray(call(arrays)).astype(np.float64) for call in calls.values()]
    times = {name: (first[name], later) for name, later in seconds(runs).items()}
    return times, max(float(np.max(np.abs(a - answers[0]))) for a in answers)


def page(found: dict[str, tuple[dict[str, tuple[float, float]], float]], rest: str) -> str:
    """The page from all measurements, and sections on the `rest`."""
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
grid as a loop. This is compiled code, without memories, DMAs in flight or semaphores.
`InterpretParams()` is JAX's simulation of the TPU's memories and semaphores, by callbacks into
Python. Ours (the compiled driver) simulates those too, in the first {BEFORE + 1} runs of a
kernel. If its steps depend only on the sizes of the grid and on scalars that are set before it
begins, and are not too many, later runs in form `tiles` with the same scalars replay its operations
on arrays (docs/internals/running.md). Here all later runs do, except those with new tables. The
forms are those of the lowering, from the kernel as JAX serialises it (`mosaic`) to single registers
(`vreg`), called with NumPy arrays. In a JAX program, under `pallasite.jax.simulate()`, form `tiles`
runs, and JAX adds the time of the callback into Python. All times are processor times, summed over
the cores that work: XLA can use all cores, so that it may take less elapsed time; ours uses one.
All results agree within {largest:.1g}.

## How many times faster ours is, after the first runs

{ratios("InterpretParams()")}

{ratios("interpret=True")}

## Milliseconds, after the first runs

{milliseconds(1)}

## Milliseconds of the first run, which compiles (ours: lowers and writes the program)

The kernels run one after another in one process, each in the order of the columns.

{milliseconds(0)}

{rest}
"""


def main() -> None:
    """Measures, and writes the page."""
    p = argparse.ArgumentParser(description="Measures execution.")
    p.add_argument("--corpus", help="not needed: the kernels are written here")
    p.add_argument("--print", action="store_true", help="print instead of writing docs/")
    options = p.parse_args()
    import first_run  # Which measures cases of this module.

    rest = kernels_in_loops.section(kernels_in_loops.measure(seconds))
    rest += "\n\n" + first_run.section(first_run.measure())
    publish(options, "run_time.md", page({case.name: measure(case) for case in CASES}, rest))


if __name__ == "__main__":
    main()
