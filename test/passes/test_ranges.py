"""Ranges hold what the operations give, and are as narrow as the cases say."""

from __future__ import annotations

import pytest
from xdsl.parser import Parser

from pallasite.dialects import make_context
from pallasite.passes.ranges import Range, range_of

CASES = {
    "%c5": Range(5, 5),
    "%x": Range(),
    "%i": Range(2, 8),
    "arith.addi %i, %c5 : i32": Range(7, 13),
    "arith.muli %i, %c5 : i32": Range(10, 40),
    "arith.subi %c5, %i : i32": Range(-3, 3),
    "arith.addi %x, %c5 : i32": Range(),
    "arith.muli %i, %big : i32": Range(),
    "arith.minsi %x, %c5 : i32": Range(None, 5),
    "arith.maxsi %x, %c5 : i32": Range(5, None),
    "arith.remsi %x, %c5 : i32": Range(-4, 4),
    "arith.remsi %i, %c5 : i32": Range(0, 4),
    "arith.divsi %i, %c5 : i32": Range(0, 1),
    "arith.divsi %i, %x : i32": Range(),
    "arith.select %b, %i, %c5 : i32": Range(2, 8),
    "arith.select %b, %i, %x : i32": Range(),
    "arith.andi %x, %c5 : i32": Range(0, 5),
    "arith.andi %i, %x : i32": Range(0, 8),
    "arith.andi %i, %c5 : i32": Range(0, 5),
    "arith.andi %x, %x : i32": Range(),
    "arith.index_cast %i : i32 to index": Range(2, 8),
    "tpu.assume_multiple %i, 2 : i32": Range(2, 8),
}


@pytest.mark.parametrize("text", CASES)
def test_range(text: str):
    value = text if text.startswith("%") else "%r"
    made = "" if value == text else f"%r = {text}"
    kind = "index" if "to index" in text else "i32"
    module = Parser(make_context(), f"""
      func.func @f(%x: i32, %b: i1) {{
        %c2 = arith.constant 2 : i32
        %c3 = arith.constant 3 : i32
        %c5 = arith.constant 5 : i32
        %c9 = arith.constant 9 : i32
        %big = arith.constant 2000000000 : i32
        scf.for %i = %c2 to %c9 step %c3 : i32 {{
          {made}
          "test.op"({value}) : ({kind}) -> ()
        }}
        func.return
      }}""").parse_module()  # fmt: skip
    (use,) = [op for op in module.walk() if op.name == "test.op"]
    assert range_of(use.operands[0]) == CASES[text]


def test_a_chosen_end_counts():
    clamped = """
      func.func @f(%x: i32) {
        %c0 = arith.constant 0 : i32
        %c7 = arith.constant 7 : i32
        %a = arith.maxsi %x, %c0 : i32
        %r = arith.minsi %a, %c7 : i32
        func.return
      }"""
    module = Parser(make_context(), clamped).parse_module()
    (least,) = [op for op in module.walk() if op.name == "arith.minsi"]
    assert range_of(least.results[0]) == Range(0, 7)
