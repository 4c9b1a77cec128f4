"""What is known of integers at compile time is what the operations give when they run."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest
from xdsl.dialects.builtin import IntegerAttr, i1, i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.parser import Parser

from pallasite.dialects import arith, make_context
from pallasite.dialects.directives import CMPI_PREDICATES
from pallasite.interpreter.facts import Facts
from pallasite.interpreter.meanings import lookup
from pallasite.passes.divisibility import remainder
from pallasite.passes.ranges import Range, range_of_operation
from pallasite.passes.scalar_folds import FOLDS, fold_numbers
from pallasite.targets import get_target

FACTS = Facts(get_target("v5e"))
EDGES = (0, 1, -1, 2, -3, 7, 1 << 29, 3 << 29, (1 << 31) - 1, -(1 << 31), -(3 << 29))
"""Of which sums and products wrap, some of them into the sign."""


def run(op: Operation, *numbers: int) -> int:
    """What `op` gives in the interpreter."""
    meaning = lookup(op)
    assert meaning is not None
    return int(meaning.factory(op, FACTS)(*numbers))


@pytest.mark.parametrize("kind", FOLDS)
def test_folds_wrap_and_round_as_runs_do(kind: Any) -> None:
    block = Block(arg_types=[i32, i32])
    op = kind(*block.args)
    divides = kind in (arith.DivSIOp, arith.RemSIOp)
    for a, b in product(EDGES, EDGES):
        if not (divides and (b == 0 or (a, b) == (-(1 << 31), -1))):
            assert fold_numbers(op, (a, b)) == run(op, a, b), (a, b)


@pytest.mark.parametrize("kind", FOLDS)
def test_folds_of_bits_are_those_of_runs(kind: Any) -> None:
    """A set bit is the signed number -1: the lesser of two is the set one."""
    op = kind(*Block(arg_types=[i1, i1]).args)
    for a, b in product((0, 1), repeat=2):
        if b or kind not in (arith.DivSIOp, arith.RemSIOp):
            assert fold_numbers(op, (a, b)) in (None, run(op, a, b) & 1), (a, b)


@pytest.mark.parametrize("predicate", CMPI_PREDICATES)
def test_comparisons_are_those_of_runs(predicate: str) -> None:
    block = Block(arg_types=[i32, i32])
    op = arith.CmpiOp(*block.args, predicate)
    for a, b in product(EDGES, EDGES):
        known = None if predicate[0] == "u" else run(op, a, b)
        assert fold_numbers(op, (a, b)) == known, (a, b)


REMAINDERS = {
    "%m": {16: 0, 8: 0, 32: None, 3: None},
    "arith.addi %m, %c5 : i32": {16: 5, 8: 5, 32: None},
    "arith.subi %c5, %m : i32": {16: 5, 32: None},
    "arith.muli %x, %c12 : i32": {4: 0, 2: 0, 8: None},
    "arith.muli %c12, %m : i32": {64: 0, 128: None},
    "arith.muli %m5, %c12 : i32": {64: 60, 128: None},
    "arith.muli %x, %m : i32": {16: 0, 32: None},
    "arith.select %b, %m, %c48 : i32": {16: 0, 32: None},
    "arith.select %b, %m, %c5 : i32": {16: None},
    "arith.minsi %m, %c48 : i32": {16: 0, 32: None},
}


@pytest.mark.parametrize("text", REMAINDERS)
def test_remainders(text: str) -> None:
    module = Parser(make_context(), f"""
    func.func @f(%x: i32, %y: i32, %b: i1) {{
      %c5 = arith.constant 5 : i32
      %c12 = arith.constant 12 : i32
      %c48 = arith.constant 48 : i32
      %m = tpu.assume_multiple %y, 16 : i32
      %m5 = arith.addi %m, %c5 : i32
      %v = {text if " " in text else "arith.addi %m, %m : i32"}
      func.return
    }}""").parse_module()  # fmt: skip
    names = {r.name_hint: r for op in module.walk() for r in op.results}
    value = names["v" if " " in text else text[1:]]
    for divisor, rest in REMAINDERS[text].items():
        assert remainder(value, divisor) == rest


def test_remainders_hold_in_every_run() -> None:
    rng = random.Random(5)
    known = 0
    kinds = (arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.MinSIOp, arith.MaxSIOp)
    for _ in range(300):
        block = Block(arg_types=[i32, i32])
        values: list[SSAValue] = list(block.args)
        for number in (rng.choice((4, 8, 12, 16)), rng.randrange(-9, 9)):
            block.add_op(made := arith.ConstantOp(IntegerAttr(number, i32)))
            values.append(made.result)
        for _ in range(4):
            block.add_op(op := rng.choice(kinds)(rng.choice(values), rng.choice(values)))
            values.append(op.results[0])
        divisor = rng.choice((2, 4, 8, 16))
        rest = remainder(values[-1], divisor)
        if rest is None:
            continue
        known += 1
        for a, b in product((0, 1, 6, -7, 1 << 30), (0, 3, -8, 100)):
            held: dict[SSAValue, int] = dict(zip(block.args, (a, b), strict=True))
            for op in block.ops:
                held[op.results[0]] = run(op, *(held[operand] for operand in op.operands))
            assert held[values[-1]] % divisor == rest
    assert known > 50


ENDS = (None, -(1 << 31), -9, -1, 0, 1, 5, 31, (1 << 31) - 1)
BITS = (Range(0, 0), Range(0, 1), Range(1, 1))
NUMBERS = [
    Range(low, high) for low, high in product(ENDS, ENDS)
    if low is None or high is None or low <= high
]  # fmt: skip
WORDS = (
    arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.MinSIOp, arith.MaxSIOp, arith.AndIOp,
    arith.ShLIOp, arith.ShRSIOp, arith.ShRUIOp, arith.DivSIOp, arith.RemSIOp,
)  # fmt: skip


def members(range: Range) -> list[int]:
    """Both ends, and some numbers between them."""
    low = -(1 << 31) if range.low is None else range.low
    high = (1 << 31) - 1 if range.high is None else range.high
    return sorted({low, high, *(n for n in (-8, -1, 0, 1, 2, 6, 1 << 20) if low <= n <= high)})


def holds(op: Operation, given: tuple[Range, ...]) -> None:
    """Asserts that no run leaves the range that is known of `op` if its operands have `given`."""
    known = range_of_operation(op, given)
    widths = [1 if operand.type == i1 else 32 for operand in op.operands]
    for numbers in product(*(members(range) for range in given)):
        if isinstance(op, arith.DivSIOp | arith.RemSIOp) and numbers[1] in (0, -1):
            continue
        if isinstance(op, arith.ShLIOp | arith.ShRSIOp | arith.ShRUIOp):
            if not 0 <= numbers[1] < 32:
                continue
        taken = [bool(n) if w == 1 else n for n, w in zip(numbers, widths, strict=True)]
        result = run(op, *taken)
        assert known.low is None or known.low <= result, (given, numbers)
        assert known.high is None or result <= known.high, (given, numbers)


@pytest.mark.parametrize("kind", WORDS)
def test_ranges_hold_in_every_run(kind: Any) -> None:
    op = kind(*Block(arg_types=[i32, i32]).args)
    rng = random.Random(3)
    for given in rng.sample(list(product(NUMBERS, NUMBERS)), 400):
        holds(op, given)


def test_ranges_of_bits_hold_in_every_run() -> None:
    kinds: tuple[Any, ...] = (arith.AndIOp, arith.OrIOp, arith.XOrIOp)
    for kind in kinds:
        for given in product(BITS, BITS):
            holds(kind(*Block(arg_types=[i1, i1]).args), given)
    condition, left, right = Block(arg_types=[i1, i1, i1]).args
    for given in product(BITS, BITS, BITS):
        holds(arith.SelectOp(condition, left, right), given)


@pytest.mark.parametrize("predicate", CMPI_PREDICATES)
def test_ranges_of_comparisons_hold_in_every_run(predicate: str) -> None:
    words = arith.CmpiOp(*Block(arg_types=[i32, i32]).args, predicate)
    bits = arith.CmpiOp(*Block(arg_types=[i1, i1]).args, predicate)
    for given in random.Random(4).sample(list(product(NUMBERS, NUMBERS)), 400):
        holds(words, given)
    for given in product(BITS, BITS):
        holds(bits, given)
