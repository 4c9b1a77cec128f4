"""What is known of integers at compile time is what the operations give when they run."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.parser import Parser

from pallasite.dialects import arith, make_context
from pallasite.interpreter.facts import Facts
from pallasite.interpreter.meanings import lookup
from pallasite.passes.divisibility import remainder
from pallasite.passes.scalar_folds import COMPARISONS, FOLDS, fold_numbers
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


@pytest.mark.parametrize("predicate", COMPARISONS)
def test_comparisons_are_those_of_runs(predicate: int) -> None:
    block = Block(arg_types=[i32, i32])
    op = arith.CmpiOp(*block.args, predicate)
    for a, b in product(EDGES, EDGES):
        assert fold_numbers(op, (a, b)) == run(op, a, b), (a, b)


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
