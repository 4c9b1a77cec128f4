"""Loops answer the same when `fold-kernel` has dropped what they carry for nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from pallasite import api
from pallasite.dialects import scf
from pallasite.interpreter import run
from pallasite.passes.fold_kernel import fold_kernel
from pallasite.targets import get_target

from .checking import SMEM, kernel, memref

GIVEN, STORED = 4, 40
LOOPS = 8


def a_while(n: int, rng: random.Random) -> list[str]:
    """A `while` loop over a counter and words, of which each region passes on any, in any order."""
    carried, passed = rng.randrange(1, 5), rng.randrange(1, 5)
    outside = [f"%g{k}" for k in range(GIVEN)]
    before = [f"%b{n}_{k}" for k in range(carried + 1)]
    after = [f"%a{n}_{k}" for k in range(passed + 1)]
    first = ["%zero", *rng.choices(outside, k=carried)]
    on = [before[0], *(rng.choice(before[1:]) for _ in range(passed))]
    back = [f"%next{n}"]
    for k in range(carried):
        # Often what was there at the same place, or at first.
        back.append(rng.choice([*after[1:], *after[1:], first[k + 1], outside[0], f"%sum{n}"]))
    ins, outs = (", ".join(["i32"] * (k + 1)) for k in (carried, passed))
    bound = rng.choice(["%three", "%three", "%zero", *before[1:2]])
    pairs = ", ".join(f"{b} = {f}" for b, f in zip(before, first, strict=True))
    return [
        f"%r{n}:{passed + 1} = scf.while ({pairs}) : ({ins}) -> ({outs}) {{",
        f"%more{n} = arith.cmpi slt, {before[0]}, {bound} : i32",
        f"scf.condition(%more{n}) {', '.join(on)} : {outs}",
        "} do {",
        f"^bb0({', '.join(f'{a}: i32' for a in after)}):",
        f"%next{n} = arith.addi {after[0]}, %one : i32",
        f"%sum{n} = arith.addi {rng.choice(after)}, {rng.choice(after)} : i32",
        f"scf.yield {', '.join(back)} : {ins}",
        "}",
        *stored(n, passed + 1, rng),
    ]


def a_for(n: int, rng: random.Random) -> list[str]:
    """A `for` loop that carries words in any order."""
    carried = rng.randrange(1, 5)
    outside = [f"%g{k}" for k in range(GIVEN)]
    inside = [f"%a{n}_{k}" for k in range(carried)]
    first = rng.choices(outside, k=carried)
    back = [rng.choice([*inside, inside[k], first[k], f"%sum{n}"]) for k in range(carried)]
    low, high = rng.choice(["%zero", "%one", "%g0"]), rng.choice(["%three", "%zero", "%g1"])
    pairs = ", ".join(f"{b} = {f}" for b, f in zip(inside, first, strict=True))
    types = ", ".join(["i32"] * carried)
    return [
        f"%r{n}:{carried} = scf.for %i{n} = {low} to {high} step %one iter_args({pairs}) "
        f"-> ({types}) : i32 {{",
        f"%sum{n} = arith.addi {rng.choice(inside)}, %i{n} : i32",
        f"scf.yield {', '.join(back)} : {types}",
        "}",
        *stored(n, carried, rng),
    ]


def stored(n: int, results: int, rng: random.Random) -> list[str]:
    """Stores of some results: what nobody reads may be dropped."""
    lines: list[str] = []
    for k in range(results):
        if rng.random() < 0.6:
            place = f"%p{n}_{k}"
            lines.append(f"{place} = arith.constant {n * 5 + k} : index")
            lines.append(f"memref.store %r{n}#{k}, %o[{place}] : {memref(f'{STORED}xi32', SMEM)}")
    return lines


def program(make: Callable[[int, random.Random], list[str]], seed: int) -> str:
    """A kernel of loops, each of which stores some results."""
    rng = random.Random(seed)
    ref = memref(f"{GIVEN}xi32", SMEM)
    lines = [f"%{name} = arith.constant {n} : i32"
             for name, n in (("zero", 0), ("one", 1), ("three", 3))]  # fmt: skip
    for k in range(GIVEN):
        lines.append(f"%at{k} = arith.constant {k} : index")
        lines.append(f"%g{k} = memref.load %x[%at{k}] : {ref}")
    for n in range(LOOPS):
        lines += make(n, rng)
    return kernel(f"%x: {ref}, %o: {memref(f'{STORED}xi32', SMEM)}", "\n".join(lines))


def carried(module: ModuleOp) -> int:
    """How many values the loops of a module carry."""
    loops = [op for op in module.walk() if isinstance(op, scf.ForOp | scf.WhileOp)]
    return sum(len(op.operands) + len(op.results) for op in loops)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("make", [a_while, a_for])
def test_any_loop(make: Callable[[int, random.Random], list[str]], seed: int) -> None:
    text = program(make, seed)
    for given in ([2, 5, -3, 7], [0, -1, 100, 1]):
        values = np.array(given, np.int32)
        answers: list[Any] = []
        loads: list[int] = []
        for fold in (False, True):
            module = api.with_call(api.parse(text), [values], [((STORED,), "int32")])
            if fold:
                fold_kernel(module)
                api.verify(module)
            loads.append(carried(module))
            done = run.execute(module, [[values]], target=get_target("v5e"))
            answers.append(done.outputs[0][0])
        np.testing.assert_array_equal(*answers)
        assert loads[1] < loads[0]
