"""Seeded mistakes in sound kernels: what depends on the order of events is found in every run."""

from __future__ import annotations

import random
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import pallasite
from pallasite import api
from pallasite.arguments import CHECKS
from pallasite.diagnostics import Diagnostic, KernelWarning
from pallasite.interpreter.options import Options
from pallasite.interpreter.run import Prepared, execute, prepare
from pallasite.targets import get_target

from ..test_subcores import X as ROWS
from ..test_subcores import ring as subcore_ring
from .kernel_text import module
from .luck import ring
from .mutations import apply, mutants
from .test_blocks import SOUND as PIPELINES

MUTANTS = 16
"""Of each kernel."""
ORDERS = [(0, 0), (0, 1), (1, 0), (2, 1), (3, 0), (4, 1)]
"""Seeds of the order, and patterns of memory that nobody has written."""
CHECKED = (0, 1, 2)
"""Seeds of runs with checks."""
DATA = Path(__file__).parents[2] / "data"

TWO_SLOTS = """
%zero = arith.constant 0 : i32
%one = arith.constant 1 : i32
%two = arith.constant 2 : i32
%four = arith.constant 4 : i32
%eight = arith.constant 8 : i32
slice %x0 = %x[0, 0] 8x128
slice %a0 = %a[0, 0] 8x128
pick %s0 = %sems[0]
dma %x0 -> %a0 on %s0
scf.for %i = %zero to %four step %one : i32 {
%next = arith.addi %i, %one : i32
%more = arith.cmpi slt, %next, %four : i32
%row = arith.muli %i, %eight : i32
%slot = arith.remsi %i, %two : i32
%at = arith.muli %slot, %eight : i32
scf.if %more {
%other = arith.remsi %next, %two : i32
%from = arith.muli %next, %eight : i32
%to = arith.muli %other, %eight : i32
slice %x1 = %x[%from, 0] 8x128
slice %a1 = %a[%to, 0] 8x128
pick %s1 = %sems[%other]
dma %x1 -> %a1 on %s1
}
slice %a2 = %a[%at, 0] 8x128
pick %s2 = %sems[%slot]
wait %s2 for %a2
load %a[%at, 0] 8x128
slice %o2 = %o[%row, 0] 8x128
slice %done = %sink[0, 0] 8x128
dma %done -> %o2 on %t
wait %t for %o2
}
"""
"""Copies 32 rows, 8 at a time."""
PASSED_ON = (
    ring(3)
    + """dma %x -> %b on %u
wait %u for %b
store %a[0, 0] 32x128
signal %r by 1 device %left
signal %r by 1 device %right
await %r by 2
dma %b -> %a on %s send %t device %right
wait %t for %b
wait %s for %a
load %a[0, 0] 32x128
dma %sink -> %o on %u
wait %u for %o
"""
)
"""Everybody sends to the right neighbour once both are there."""


class Changed:
    """A module to be run in many orders."""

    def __init__(self, module: ModuleOp, target: str = "v5e") -> None:
        self.module = module
        self._target = get_target(target)
        self._prepared: dict[int, Prepared] = {}

    def prepared(self, poison: int) -> Prepared:
        if poison not in self._prepared:
            self._prepared[poison] = prepare(
                self.module, Options(poison=poison), target=self._target
            )
        return self._prepared[poison]


@dataclass
class Sound:
    """A kernel without mistakes, with the operands of each device, and how it is run."""

    module: ModuleOp
    """In the form in which mistakes are made."""
    inputs: list[list[Any]]
    target: str = "v5e"
    unordered: bool = False

    def lowered(self, module: ModuleOp, form: str) -> Changed:
        """`module`, which is this one or a mutant, in a later form."""
        return Changed(api.lower(module, form, self.target), self.target)

    def run(self, changed: Changed, order: tuple[int, int], checked: bool) -> tuple[Any, set[str]]:
        """The results, None if there are none, and the codes of all that is said."""
        seed, poison = order
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                options = Options.of(
                    checks=CHECKS if checked else (), seed=seed, poison=poison,
                    max_steps=10**6, unordered=self.unordered,
                )  # fmt: skip
                outcome = execute(
                    changed.module, self.inputs, options, target=get_target(self.target),
                    prepared=changed.prepared(poison),
                )  # fmt: skip
            except Diagnostic as error:
                return None, {error.code}
        codes = {finding.code for finding in outcome.findings}
        for one in told:
            if isinstance(one.message, KernelWarning):
                codes.add(one.message.diagnostic.code)
        return [array.tobytes() for array in outcome.all()], codes


def written(text: str, devices: int, **scratch: str) -> Sound:
    lines = text.strip("\n").split("\n")
    operands = [np.random.default_rng(n).random((32, 128), np.float32) for n in range(devices)]
    named = {f"%{name}": kind for name, kind in scratch.items()}
    parsed = pallasite.parse(module(lines, named), name="kernel.mlir")
    called = api.with_call(parsed, [operands[0]], results=[((32, 128), "float32")])
    return Sound(api.lower(called, "dma", "v5e"), [[x] for x in operands])


def lowered(name: str) -> Sound:
    parsed = pallasite.parse((DATA / name).read_text(), name=name)
    return Sound(api.lower(parsed, "dma", "v5e"), [api.random_inputs(parsed)])


def in_any_order(sound: Sound) -> Sound:
    """`sound`, whose transfers between two devices may overtake each other."""
    return replace(sound, unordered=True)


def pallas(text: str, target: str) -> Sound:
    return Sound(pallasite.parse(text), [[np.ones((16, 128), np.float32)]], target)


KERNELS = {
    "two slots": (lambda: written(TWO_SLOTS, 1, sems="2 dma"), MUTANTS),
    "passed on": (lambda: written(PASSED_ON, 3, u="dma"), MUTANTS),
    "in any order": (lambda: in_any_order(written(PASSED_ON, 3, u="dma")), 8),
    "windows": (lambda: lowered("accum_revisit_squeezed.stablehlo.mlir"), MUTANTS),
    "pipeline": (lambda: pallas(*PIPELINES["a pipeline comes after a copy"]), 12),
    "subcores": (lambda: Sound(pallasite.parse(subcore_ring()), [[ROWS]], "v7x"), 8),
}
"""Kernels, and how many mistakes are made in each."""
CASES = [
    ("two slots", "dma"), ("two slots", "tiles"), ("passed on", "dma"), ("in any order", "dma"),
    ("windows", "dma"), ("windows", "vreg"), ("pipeline", "pallas"), ("pipeline", "mosaic"),
    ("subcores", "mosaic"),
]  # fmt: skip


def tried(sound: Sound, count: int | None, form: str) -> tuple[int, list[str]]:
    """How many mistakes showed in a form, and which of them a checked run did not find."""
    chosen = list(mutants(sound.module))
    random.Random(1).shuffle(chosen)
    shown, missed = 0, list[str]()
    for mistake, number in chosen[:count]:
        changed = sound.module.clone()
        if not apply(changed, mistake, number):
            continue
        try:
            api.verify(changed)
            mutant = sound.lowered(changed, form)
        except Diagnostic:
            continue
        runs = [sound.run(mutant, order, False)[0] for order in ORDERS]
        if runs[0] is None or any(run != runs[0] for run in runs):
            shown += 1
            if not all(sound.run(mutant, (seed, 0), True)[1] for seed in CHECKED):
                missed.append(f"{mistake.name} of operation {number}")
    return shown, missed


@pytest.mark.parametrize(("name", "form"), CASES)
def test_what_depends_on_the_order_is_found(name: str, form: str) -> None:
    make, count = KERNELS[name]
    sound = make()
    unchanged = sound.lowered(sound.module, form)
    right = [sound.run(unchanged, (seed, 0), True) for seed in CHECKED]
    assert all(run == (right[0][0], set()) for run in right)
    shown, missed = tried(sound, count, form)
    assert shown >= 3
    assert not missed
