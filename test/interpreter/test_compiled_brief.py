"""Loads that look at memory itself mean what loads that copy it mean."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from pallasite.dialects.tpu import LoadOp
from pallasite.interpreter.compiled.brief import Memory

from .driving import SUBLANES, Text, leave_same, parse

MEMREF = "memref<96x128xf32, #tpu.memory_space<vmem>>"
STEPS = "{grid.steps = array<i64: 8, 128>}"


def load(name: str, row: int, ref: str = "%a") -> str:
    return f"%{name} = tpu.load {ref}[%c{row}, %c0] {SUBLANES} {STEPS} : {MEMREF}, {FULL}"


def store(value: str, row: int, ref: str = "%a") -> str:
    return f"tpu.store {ref}[%c{row}, %c0], %{value} {SUBLANES} {STEPS} : {MEMREF}, {FULL},"


FULL = "vector<8x1x8x128xf32>"
DOUBLE = f"%y = arith.addf %x, %x : {FULL}"
RENAMED = f"%y = grid.reshape %x : {FULL} -> vector<1x8x8x128xf32>"
BACK = f"%z = grid.reshape %y : vector<1x8x8x128xf32> -> {FULL}"
OTHER = f"%other = arith.constant dense<7.0> : {FULL}"

CASES: dict[str, tuple[bool, list[str]]] = {
    "used_before_a_store": (True, [load("x", 0), DOUBLE, store("y", 0)]),
    "stored_itself": (True, [load("x", 0), store("x", 0, "%b")]),
    "stored_onto_part_of_itself_above": (True, [load("x", 0), store("x", 8)]),
    "stored_onto_part_of_itself_below": (True, [load("x", 8), store("x", 0)]),
    "a_load_in_between": (
        True,
        [load("x", 0), load("w", 8), f"%y = arith.addf %x, %w : {FULL}", store("y", 8)],
    ),
    "used_after_a_store": (False, [OTHER, load("x", 0), store("other", 0), DOUBLE, store("y", 8)]),
    "stored_twice": (False, [load("x", 0), store("x", 8), store("x", 24)]),
    "a_view_stored_after_a_store": (
        False,
        [OTHER, load("x", 0), RENAMED, store("other", 0), BACK, store("z", 8)],
    ),
    "a_view_stored": (True, [load("x", 0), RENAMED, BACK, store("z", 8)]),
    "used_in_a_region": (
        False,
        [load("x", 0), "scf.for %i = %c0 to %c2 step %c1 {", DOUBLE, store("y", 0), "}"],
    ),
    "carried_by_a_loop": (
        False,
        [
            load("x", 0),
            f"%r = scf.for %i = %c0 to %c2 step %c1 iter_args(%k = %x) -> ({FULL}) {{",
            load("w", 8),
            f"%s = arith.addf %k, %w : {FULL}",
            store("s", 8),
            f"scf.yield %s : {FULL}",
            "}",
            store("r", 0),
        ],
    ),
    "yielded": (
        False,
        [
            OTHER,
            f"%r = scf.if %yes -> ({FULL}) {{",
            load("x", 0),
            f"scf.yield %x : {FULL}",
            f"}} else {{ scf.yield %other : {FULL} }}",
            store("other", 0),
            store("r", 16),
        ],
    ),
    "unused": (True, [load("x", 0)]),
}  # fmt: skip


def parsed(lines: list[str]) -> Any:
    constants = [f"%c{n} = arith.constant {n} : index" for n in (0, 1, 2, 8, 16, 24)]
    return parse(str(Text(MEMREF, [*constants, "%yes = arith.constant true", *lines])))


@cache
def arrays() -> list[Any]:
    generator = np.random.default_rng(5)
    return [generator.standard_normal((96, 128)).astype(np.float32) for _ in range(2)]


@pytest.mark.parametrize("name", CASES)
def test_memory_is_what_the_reference_leaves(name: str) -> None:
    brief, lines = CASES[name]
    module = parsed(lines)
    loads = [op for op in module.walk() if isinstance(op, LoadOp)]
    assert Memory().is_brief(loads[0]) == brief
    leave_same(module, arrays())


@pytest.mark.parametrize("row", [0, 8])
def test_packs_of_registers(row: int) -> None:
    """Registers that are stored onto each other, so that a view would see what was written."""
    register = "vector<8x128xf32>"
    rows = range(0, 64, 8)
    text = [f"%r{n} = arith.constant {n} : index" for n in range(0, 80, 8)]
    text += [f"%x{n} = tpu.load %a[%r{n}, %c0] {SUBLANES} : {MEMREF}, {register}" for n in rows]
    text += [
        f"tpu.store %a[%r{n + row}, %c0], %x{56 - n} {SUBLANES} : {MEMREF}, {register},"
        for n in rows
    ]
    leave_same(parsed(text), arrays())
