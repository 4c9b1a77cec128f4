"""Ranges hold what the operations give, and are as narrow as the cases say."""

from __future__ import annotations

import pytest
from xdsl.parser import Parser

from pallasite.dialects import make_context
from pallasite.passes.ranges import Range, Ranges, range_of

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
    "arith.remsi %above, %c5 : i32": Range(0, 4),
    "arith.remsi %below, %c5 : i32": Range(-4, 3),
    "arith.extui %b : i1 to i32": Range(0, 1),
    "arith.extsi %b : i1 to i32": Range(-1, 0),
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
    "arith.index_cast %above : i32 to index": Range(5, None),
    # Extended with its sign, a set bit is -1; a large index loses its upper bits.
    "arith.index_cast %b : i1 to index": Range(),
    "arith.index_cast %huge : index to i32": Range(705032704, 705032704),
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
        %above = arith.maxsi %x, %c5 : i32
        %below = arith.minsi %x, %c3 : i32
        %huge = arith.constant 5000000000 : index
        %big = arith.constant 2000000000 : i32
        scf.for %i = %c2 to %c9 step %c3 : i32 {{
          {made}
          "test.op"({value}) : ({kind}) -> ()
        }}
        func.return
      }}""").parse_module()  # fmt: skip
    (use,) = [op for op in module.walk() if op.name == "test.op"]
    assert range_of(use.operands[0]) == CASES[text]


VECTORS = {
    "arith.addi %rows, %five": Range(5, 28),
    "arith.muli %rows, %lanes": Range(0, 23 * 255),
    "arith.subi %rows, %lanes": Range(-255, 23),
    "arith.shrui %lanes, %five": Range(0, 7),
    "arith.shrsi %negative, %five": Range(-8, 0),
    "arith.shrui %negative, %five": Range(),
    "arith.shli %rows, %five": Range(0, 23 * 32),
    "arith.andi %lanes, %five": Range(0, 5),
    "arith.divsi %lanes, %five": Range(0, 51),
    "arith.addi %x, %five": Range(),
    "arith.extui %bytes : vector<24x256xi8> to": Range(0, 255),
    "arith.extsi %bytes : vector<24x256xi8> to": Range(-128, 127),
    "arith.extui %mask : vector<24x256xi1> to": Range(0, 1),
    "arith.extsi %mask : vector<24x256xi1> to": Range(-1, 0),
    "arith.cmpi sgt, %rows, %five": Range(0, 1),
    "arith.cmpi slt, %rows, %thirty": Range(1, 1),
    "arith.cmpi slt, %rows, %last": Range(0, 1),
    "arith.cmpi sle, %rows, %last": Range(1, 1),
    "arith.cmpi sge, %rows, %thirty": Range(0, 0),
    "arith.cmpi eq, %rows, %thirty": Range(0, 0),
    "arith.cmpi ne, %rows, %thirty": Range(1, 1),
    "arith.cmpi eq, %five, %five": Range(1, 1),
    "arith.cmpi ult, %rows, %thirty": Range(1, 1),
    "arith.cmpi ult, %negative, %thirty": Range(0, 1),
    "arith.cmpi slt, %bytes, %bytes : vector<24x256xi8>": Range(0, 1),
    "arith.cmpi slt, %mask, %set : vector<24x256xi1>": Range(0, 1),
    "arith.andi %mask, %set : vector<24x256xi1>": Range(0, 1),
    "arith.ori %mask, %set : vector<24x256xi1>": Range(1, 1),
    "arith.xori %set, %set : vector<24x256xi1>": Range(0, 0),
    "arith.select %set, %rows, %x : vector<24x256xi1>,": Range(0, 23),
    "arith.select %mask, %rows, %five : vector<24x256xi1>,": Range(0, 23),
}


@pytest.mark.parametrize("text", VECTORS)
def test_range_of_every_element(text: str):
    words = "vector<24x256xi32>"
    full = text if text.endswith("xi8>") or text.endswith("xi1>") else f"{text} {words}"
    if ":" not in text:
        full = f"{text} : {words}"
    kernel = f"""
      func.func @f(%x: {words}, %mask: vector<24x256xi1>, %bytes: vector<24x256xi8>) {{
        %rows = tpu.iota {{dimensions = array<i32: 0>}} : {words}
        %lanes = tpu.iota {{dimensions = array<i32: 1>}} : {words}
        %five = arith.constant dense<5> : {words}
        %last = arith.constant dense<23> : {words}
        %zero = arith.constant dense<0> : {words}
        %c30 = arith.constant 30 : i32
        %thirty = vector.broadcast %c30 : i32 to {words}
        %negative = arith.subi %zero, %lanes : {words}
        %set = arith.constant dense<true> : vector<24x256xi1>
        %r = {full}
        func.return
      }}"""
    module = Parser(make_context(), kernel).parse_module()
    *_, made, _ = [op for op in module.walk() if op.results or op.name == "func.return"]
    assert range_of(made.results[0]) == VECTORS[text]


def test_what_is_assumed_narrows_what_follows():
    kernel = """
      func.func @f(%x: i32) {
        %c0 = arith.constant 0 : i32
        %r = arith.cmpi sgt, %x, %c0 : i32
        func.return
      }"""
    module = Parser(make_context(), kernel).parse_module()
    (compared,) = [op for op in module.walk() if op.name == "arith.cmpi"]
    assert range_of(compared.results[0]) == Range(0, 1)
    assert Ranges({compared.operands[0]: Range(1)}).of(compared.results[0]) == Range(1, 1)


def test_what_is_assumed_of_one_place_is_not_of_others():
    kernel = """
      func.func @f() {
        %i = tpu.iota {dimensions = array<i32: 1>} : vector<8x128xi32>
        %s = arith.constant 1 : i32
        %zero = arith.constant dense<0> : vector<8x128xi32>
        %t = tpu.dynamic_rotate %i by %s dim 1 : vector<8x128xi32>, i32 -> vector<8x128xi32>
        %m = arith.cmpi eq, %t, %zero : vector<8x128xi32>
        func.return
      }"""
    module = Parser(make_context(), kernel).parse_module()
    (counted,) = [op for op in module.walk() if op.name == "tpu.iota"]
    (compared,) = [op for op in module.walk() if op.name == "arith.cmpi"]
    above = Ranges({counted.results[0]: Range(1, 127)}, elsewhere=Ranges())
    assert above.of(compared.results[0]) == Range(0, 1)


def test_a_long_chain_is_not_followed_to_its_end():
    sums = "\n".join(f"%{n + 1} = arith.addi %{n}, %{n} : i32" for n in range(2000))
    text = f"func.func @f() {{ %0 = arith.constant 0 : i32\n{sums}\nfunc.return }}"
    module = Parser(make_context(), text).parse_module()
    *_, last, _ = [op for op in module.walk() if op.results or op.name == "func.return"]
    assert range_of(last.results[0]) in (Range(), Range(0, 0))


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
