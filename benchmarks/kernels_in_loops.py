"""Time of kernels that a program calls in a loop, by our simulation and JAX's interpreters.

`run_time.py` writes its section into docs/run_time.md; alone, it prints it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from corpus import geometric_mean, table
from jax.experimental.pallas import tpu as pltpu
from timed_kernels import CASES, Case

from pallasite.interpreter.replay.repeats import BEFORE
from pallasite.jax import simulate

CALLS = 32
"""Of the kernel, in one run of a program."""
NAMES = ("small, 1 step", "add, 16 steps", "softmax, 8 steps", "matmul, 64 steps")
"""Of kernels whose result looks like their first operand."""


def looped(case: Case, interpret: Any = False) -> Callable[..., Any]:
    """A program that hands the result of each call to the next."""

    def program(x: Any, *rest: Any) -> Any:
        step = partial(case.call, interpret=interpret)
        return jax.lax.fori_loop(0, CALLS, lambda _, x: step(x, *rest), x)

    return jax.jit(program)


def measure(
    seconds: Callable[[dict[str, Callable[[], Any]]], dict[str, float]],
) -> dict[str, dict[str, float]]:
    """Seconds of one call by kernel and way, as `seconds` finds them for runs of programs."""
    found: dict[str, dict[str, float]] = {}
    for case in CASES:
        if case.name not in NAMES:
            continue
        arrays = case.arrays()
        runs: dict[str, Callable[[], Any]] = {}
        for name, interpret in (
            ("interpret=True", True), ("InterpretParams()", pltpu.InterpretParams()),
        ):  # fmt: skip
            runs[name] = partial(_ended, looped(case, interpret), arrays)
            runs[name]()
        runs["simulate()"] = simulate()(partial(_ended, looped(case), arrays))
        for _ in range(BEFORE):
            runs["simulate()"]()
        found[case.name] = {name: took / CALLS for name, took in seconds(runs).items()}
    return found


def _ended(function: Callable[..., Any], arrays: list[Any]) -> Any:
    return jax.block_until_ready(function(*arrays))


def section(found: dict[str, dict[str, float]]) -> str:
    """The section of docs/run_time.md."""
    ways = list(next(iter(found.values())))
    ours = ways[-1]
    heads = ("kernel", *ways, *(f"{way} / {ours}" for way in ways[:-1]))
    rows = [
        (
            name,
            *(round(took[way] * 1e3, 3) for way in ways),
            *(took[way] / took[ours] for way in ways[:-1]),
        )
        for name, took in found.items()
    ]
    means = [geometric_mean(took[way] / took[ours] for took in found.values()) for way in ways[:-1]]
    return f"""## Milliseconds of one of {CALLS} calls in a loop of a program

`jax.lax.fori_loop` hands the result of each call to the next, after the first runs.

{table(heads, [*rows, ("geometric mean", *[""] * len(ways), *means)])}"""


if __name__ == "__main__":
    from run_time import seconds

    argparse.ArgumentParser(description=__doc__).parse_args()
    print(section(measure(seconds)))
