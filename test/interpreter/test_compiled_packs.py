"""What the compiled driver does to many registers at once is what the reference does to each."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np
import pytest

from pallasite.diagnostics import ExecutionError
from pallasite.interpreter import compiled, reference

from . import driving
from .driving import SUBLANES, leave, leave_same, parse

MEMREF = "memref<32x256xf32, #tpu.memory_space<vmem>>"
REGISTER, MASK, PACKED = "vector<8x128xf32>", "vector<8x128xi1>", "vector<8x128x2xbf16>"
PLACES = [(row, lane) for row in (0, 8, 16, 24) for lane in (0, 128)]


class Text(driving.Text):
    """With what loads, stores and sums single registers."""

    def __init__(self) -> None:
        numbers = (0, 3, 8, 16, 24, 32, 128)
        super().__init__(MEMREF, [f"%c{n} = arith.constant {n} : index" for n in numbers])
        self.lines.append(f"%half = arith.constant dense<0.5> : {REGISTER}")

    def load(self, place: tuple[int, int], ref: str = "%a") -> str:
        row, lane = place
        return self.value(f"tpu.load {ref}[%c{row}, %c{lane}] {SUBLANES} : {MEMREF}, {REGISTER}")

    def store(self, place: tuple[int, int], value: str, ref: str = "%b") -> None:
        row, lane = place
        self.lines.append(
            f"tpu.store {ref}[%c{row}, %c{lane}], {value} {SUBLANES} : {MEMREF}, {REGISTER},"
        )

    def binary(self, name: str, a: str, b: str) -> str:
        return self.value(f"arith.{name} {a}, {b} : {REGISTER}")

    def summed(self, x: str, dim: int) -> str:
        attributes = f"{{dim = {dim} : i64, kind = #tpu.reduction_kind<sum>}}"
        return self.value(f"tpu.all_reduce {x} {attributes} : {REGISTER} -> {REGISTER}")


@cache
def arrays() -> list[Any]:
    """With NaNs of both signs."""
    generator = np.random.default_rng(5)
    found: list[Any] = []
    for _ in range(2):
        array = generator.standard_normal((32, 256)).astype(np.float32)
        signs = generator.choice(np.array([0x7FC00000, 0xFFC00000], np.uint32), (32, 256))
        found.append(np.where(generator.random((32, 256)) < 0.1, signs.view(np.float32), array))
    return found


def same(text: Text, checks: tuple[str, ...] = ()) -> str:
    """Asserts that both drivers leave the same bits; gives the generated source."""
    source = leave_same(parse(str(text)), arrays(), checks)
    # NumPy may add to an operand without a name in place, the other way round: NaNs show it.
    lines = source.splitlines()
    assert not any("fn_main(" in line and (".take(" in line or "joined(" in line) for line in lines)
    return source


def shuffled(items: list[Any], seed: int) -> list[Any]:
    return random.Random(seed).sample(items, len(items))


@pytest.mark.parametrize("checks", [(), ("init", "race")])
def test_loads_sums_and_stores_of_a_grid_are_one_line_each(checks: tuple[str, ...]) -> None:
    text = Text()
    loaded = [text.load(place) for place in PLACES]
    doubled = [text.binary("addf", x, x) for x in loaded]
    for place, x in zip(PLACES, doubled, strict=True):
        text.store(place, x)
    source = same(text, checks)
    assert sum("fn_main(" in line for line in source.splitlines()) == 1 + 3


@pytest.mark.parametrize("seed", range(24))
def test_any_order_of_registers_gives_the_same_bits(seed: int) -> None:
    text, choose = Text(), random.Random(seed)
    values = [text.load(place) for place in shuffled(PLACES, seed) if choose.random() < 0.9]
    values += [text.load(place, "%b") for place in PLACES]
    for step in range(6):
        kind = choose.choice(["addf", "mulf", "maximumf", "exp", "sum", "select", "load", "pack"])
        some = choose.choices(values, k=choose.randint(3, 12))
        if kind == "exp":
            made = [text.value(f"math.exp {x} : {REGISTER}") for x in some]
        elif kind == "sum":
            made = [text.summed(x, step % 2) for x in some]
        elif kind == "load":
            for place, x in zip(shuffled(PLACES, step), some, strict=False):
                text.store(place, x)
            made = [text.load(place, "%b") for place in PLACES]
        elif kind == "select":
            masks = [
                text.value(f"arith.cmpf ogt, {x}, {choose.choice(values)} : {REGISTER}")
                for x in some
            ]
            made = [
                text.value(f"arith.select {m}, {x}, %half : {MASK}, {REGISTER}")
                for m, x in zip(masks, some, strict=True)
            ]
        elif kind == "pack":
            wide = "positions = array<i32: 0, 1>, pack_format = #tpu.pack_format<compressed>"
            packed = [
                text.value(
                    f"tpu.pack_subelements {x}, {x} {{{wide}}} : {REGISTER}, {REGISTER} -> {PACKED}"
                )
                for x in some
            ]
            made = [
                text.value(
                    f"tpu.unpack_subelements {x}, 1 {{pack_format = #tpu.pack_format<compressed>}}"
                    f" : {PACKED} -> {REGISTER}"
                )
                for x in packed
            ]
        else:
            chained = choose.random() < 0.5
            made = []
            for x in some:
                other = made[-1] if chained and made else choose.choice([*values, "%half"])
                made.append(text.binary(kind, x, other))
        values += made
    for place, x in zip(shuffled(PLACES, seed), reversed(values), strict=False):
        text.store(place, x)
    same(text)


def test_stores_to_one_place_keep_their_order() -> None:
    text = Text()
    loaded = [text.load(place) for place in PLACES]
    for place, x in zip([*PLACES[:4], *PLACES[:4]], loaded, strict=True):
        text.store(place, x)
    same(text)


def test_what_is_outside_is_named_by_its_own_operation() -> None:
    messages: list[str] = []
    for driver in (compiled, reference):
        text = Text()
        loaded = [text.load((row, 0)) for row in (0, 8, 16, 24)]
        for row, x in zip((8, 16, 24, 32), loaded, strict=True):
            text.store((row, 0), x)
        with pytest.raises(ExecutionError) as caught:
            leave(driver, parse(str(text)), arrays())
        messages.append(str(caught.value))
    assert messages[0] == messages[1] and "[32, 0]" in messages[0]


@pytest.mark.parametrize("what", ["unsaid", "boxes", "one-box", "moving", "uneven"])
@pytest.mark.parametrize("checks", [(), ("init", "race")])
def test_registers_that_are_no_grid(what: str, checks: tuple[str, ...]) -> None:
    """Places that a loop counts, that the text does not say itself, or that are not as far from one
    another; boxes that differ."""
    text = Text()
    places = {n: f"%c{n}" for n in (0, 8, 16, 24)}
    if what == "unsaid":
        text.lines.append("%sum = arith.addi %c8, %c16 : index")
        places[24] = "%sum"
    elif what == "moving":
        text.lines.append("scf.for %i = %c0 to %c8 step %c8 {")
        text.lines += [f"%m{n} = arith.addi %i, %c{n} : index" for n in places]
        places = {n: f"%m{n}" for n in places}
    elif what == "uneven":
        places[24] = "%c0"
    for lane in (0, 128):
        boxes = dict.fromkeys(places, "")
        for n in places if "box" in what else ():
            # Of the whole array, or of its first rows with those of the register.
            rows = 32 if what == "one-box" else n + 8
            boxes[n] = f" {{tpu.box = array<i64: {-n}, {-lane}, {rows}, 256, 32, 256>}}"
        loaded = [
            text.value(f"tpu.load %a[{row}, %c{lane}] {SUBLANES}{boxes[n]} : {MEMREF}, {REGISTER}")
            for n, row in places.items()
        ]
        for (n, row), x in zip(places.items(), reversed(loaded), strict=True):
            text.lines.append(
                f"tpu.store %b[{row}, %c{lane}], {x} {SUBLANES}{boxes[n]} : {MEMREF}, {REGISTER},"
            )
    if what == "moving":
        text.lines.append("}")
    leave_same(parse(str(text)), arrays(), checks)


@pytest.mark.parametrize("what", ["load", "box"])
def test_a_load_outside_is_named_by_its_own_operation(what: str) -> None:
    """The last register of a pack lies outside, or what the kernel has loaded with all of them."""
    messages: list[str] = []
    for driver in (compiled, reference):
        text, box = Text(), ""
        if what == "box":
            box = " {tpu.box = array<i64: 0, 0, 8, 128, 20, 256>}"
        for row in (0, 8, 16, 24 if what == "box" else 32):
            text.value(f"tpu.load %a[%c{row}, %c0] {SUBLANES}{box} : {MEMREF}, {REGISTER}")
        for row, x in zip((0, 8, 16, 24), range(len(text.lines) - 4, len(text.lines)), strict=True):
            text.store((row, 0), f"%v{x}")
        with pytest.raises(ExecutionError) as caught:
            leave(driver, parse(str(text)), arrays())
        messages.append(str(caught.value))
    assert messages[0] == messages[1] and f"[{16 if what == 'box' else 32}, 0]" in messages[0]
