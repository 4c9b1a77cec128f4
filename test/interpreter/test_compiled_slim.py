"""What repeats is computed once by the compiled driver, with the bits of the reference."""

from __future__ import annotations

import random
import re
from functools import cache
from typing import Any

import numpy as np
import pytest

from . import driving
from .driving import SUBLANES, leave_same, parse

MEMREF = "memref<64x256xf32, #tpu.memory_space<vmem>>"
WHOLE, COLUMN = "vector<4x2x8x128xf32>", "vector<4x1x8x128xf32>"
MASK = "vector<4x2x8x128xi1>"
STEPS = "{grid.steps = array<i64: 8, 128>}"


class Text(driving.Text):
    """With what loads and stores whole arrays, and makes columns of them."""

    def __init__(self) -> None:
        super().__init__(MEMREF, [f"%c{n} = arith.constant {n} : index" for n in (0, 1, 2, 32)])
        self.lines.append(f"%half = arith.constant dense<0.5> : {WHOLE}")
        self.lines.append("%yes = arith.constant true")

    def load(self, row: int = 0) -> str:
        return self.value(f"tpu.load %a[%c{row}, %c0] {SUBLANES} {STEPS} : {MEMREF}, {WHOLE}")

    def store(self, value: str, row: int = 0) -> None:
        self.lines.append(
            f"tpu.store %b[%c{row}, %c0], {value} {SUBLANES} {STEPS} : {MEMREF}, {WHOLE},"
        )

    def binary(self, name: str, a: str, b: str, type: str = WHOLE) -> str:
        return self.value(f"arith.{name} {a}, {b} : {type}")

    def column(self, x: str, kind: str, dim: int = 3) -> str:
        """The sums, or the like, of rows (dim 3) or of sublanes (dim 2), over a grid of columns."""
        one = "addf" if kind == "sum" else "maximumf"
        folded = self.value(f'grid.reduce {x} dim 1 kind "arith.{one}" : {WHOLE} -> {COLUMN}')
        attributes = f"{{dim = {dim} : i64, kind = #tpu.reduction_kind<{kind}>}}"
        return self.value(f"tpu.all_reduce {folded} {attributes} : {COLUMN} -> {COLUMN}")

    def spread(self, x: str) -> str:
        return self.value(f"grid.broadcast {x} : {COLUMN} -> {WHOLE}")


@cache
def arrays() -> list[Any]:
    generator = np.random.default_rng(5)
    found: list[Any] = []
    for _ in range(2):
        array = generator.standard_normal((64, 256)).astype(np.float32)
        array[generator.random(64) < 0.2, 7] = np.nan
        found.append(array)
    return found


def same(text: Text) -> str:
    """Asserts that both drivers leave the same bits; gives the generated source."""
    return leave_same(parse(str(text)), arrays())


def calls(source: str) -> int:
    return len(re.findall(r"\b[ef]\d+_fn_main\(", source))


def test_softmax_repeats_nothing() -> None:
    text = Text()
    x = text.load()
    top = text.spread(text.column(x, "max"))
    shifted = text.binary("subf", x, top)
    e = text.value(f"math.exp {shifted} : {WHOLE}")
    total = text.spread(text.column(e, "sum"))
    text.store(text.binary("divf", e, total))
    # A load, four reductions, a difference, the exponential, a quotient that is stored.
    assert calls(same(text)) == 8


def test_columns_meet_constants_and_each_other() -> None:
    text = Text()
    x = text.load()
    total, top = text.column(x, "sum"), text.column(x, "max")
    spread = text.binary("mulf", text.spread(total), "%half")
    both = text.binary("addf", spread, text.spread(top))
    text.store(text.binary("maximumf", x, both))
    assert calls(same(text)) == 1 + 4 + 3


def test_what_needs_whole_arrays_gets_them() -> None:
    text = Text()
    x = text.load()
    column = text.spread(text.column(x, "max"))
    mask = text.value(f"arith.cmpf ogt, {x}, {column} : {WHOLE}")
    chosen = text.value(f"arith.select {mask}, {x}, {column} : {MASK}, {WHOLE}")
    text.store(chosen)
    text.store(column, 32)
    same(text)


def test_registers_are_spread_over_grids_of_more_dimensions() -> None:
    text = Text()
    x = text.load()
    register = "vector<8x128xf32>"
    corner = text.value(f"grid.slice {x} [0, 0] [1, 1] [1, 1] : {WHOLE} -> vector<1x1x8x128xf32>")
    folded = text.value(f"grid.reshape {corner} : vector<1x1x8x128xf32> -> {register}")
    spread = text.value(f"grid.broadcast {folded} : {register} -> {COLUMN}")
    rows = text.value(f'grid.reduce {x} dim 1 kind "arith.addf" : {WHOLE} -> {COLUMN}')
    text.store(text.spread(text.binary("addf", rows, spread, COLUMN)))
    text.store(text.spread(text.binary("mulf", spread, spread, COLUMN)), 32)
    same(text)


@pytest.mark.parametrize("used_before", [False, True])
def test_branches_and_what_follows_them(used_before: bool) -> None:
    text = Text()
    x = text.load()
    column = text.spread(text.column(x, "max"))
    if used_before:
        text.store(text.binary("subf", x, column))
    text.lines.append("scf.if %yes {")
    inner = text.binary("addf", column, "%half")
    text.store(inner)
    text.lines.append("}")
    text.lines.append("%no = arith.constant false\nscf.if %no {")
    text.store(column)
    text.lines.append("}")
    text.store(text.binary("subf", x, column), 32)
    same(text)


def test_columns_carried_by_loops() -> None:
    text = Text()
    x = text.load()
    column = text.spread(text.column(x, "sum"))
    head = f"scf.for %i = %c0 to %c2 step %c1 iter_args(%k = {column}) -> ({WHOLE}) {{"
    text.lines.append(f"%carried = {head}")
    text.lines.append(f"%next = arith.addf %k, {column} : {WHOLE}")
    text.lines.append(f"%scaled = arith.mulf %next, %half : {WHOLE}")
    text.lines.append(f"scf.yield %scaled : {WHOLE}\n}}")
    text.store("%carried")
    text.store(column, 32)
    same(text)


def test_one_lane_of_each_row() -> None:
    text = Text()
    x = text.load()
    text.lines.append("%lane = arith.constant dense<7> : vector<4x2x8x128xi32>")
    wide = "vector<4x2x8x128xi32>"
    taken = text.value(f"tpu.dynamic_gather {x}[%lane] in [3] : {WHOLE}, {wide} -> {WHOLE}")
    e = text.value(f"math.exp {taken} : {WHOLE}")
    text.store(text.binary("mulf", e, taken))
    text.store(text.binary("subf", x, taken), 32)
    same(text)


@pytest.mark.parametrize("seed", range(24))
def test_any_mixture_has_the_bits_of_the_reference(seed: int) -> None:
    choose = random.Random(seed)
    text = Text()
    known = [text.load(), text.load(32), "%half"]
    for _ in range(12):
        kind = choose.choice(["column", "binary", "binary", "unary", "store"])
        x, y = choose.choice(known), choose.choice(known)
        if kind == "column":
            dim, fold = choose.choice([2, 3]), choose.choice(["sum", "max"])
            known.append(text.spread(text.column(x, fold, dim)))
        elif kind == "binary":
            name = choose.choice(["subf", "divf", "maximumf", "minimumf", "addf", "mulf"])
            known.append(text.binary(name, x, y))
        elif kind == "unary":
            name = choose.choice(["exp", "tanh", "rsqrt", "absf", "floor"])
            known.append(text.value(f"math.{name} {x} : {WHOLE}"))
        else:
            text.store(x, choose.choice([0, 32]))
    text.store(known[-1])
    text.store(known[-2], 32)
    same(text)


def test_bounds_of_one_number_are_registers() -> None:
    text = Text()
    x = text.load()
    low = text.binary("maximumf", x, "%half")
    high = text.binary("minimumf", "%half", text.binary("mulf", x, x))
    column = text.spread(text.column(x, "max"))
    bounded = text.binary("maximumf", column, "%half")
    text.store(text.binary("addf", text.binary("addf", low, high), bounded))
    text.store(text.binary("minimumf", x, "%half"), 32)
    same(text)
