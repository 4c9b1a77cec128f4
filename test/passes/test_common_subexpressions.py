"""What goes and what stays is what upstream's `cse` decides."""

from __future__ import annotations

import pytest
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.traits import get_effects
from xdsl.transforms.common_subexpression_elimination import cse

from pallasite.dialects import make_context
from pallasite.passes import common_subexpressions
from pallasite.passes.common_subexpressions import remove_common_subexpressions

BODIES = {
    "chains": """
      %a = arith.addi %i, %i : index
      %b = arith.addi %i, %i : index
      %c = arith.muli %a, %b : index
      %d = arith.muli %b, %a : index
      "test.op"(%c, %d) : (index, index) -> ()""",
    "types and properties": """
      %a = vector.broadcast %x : f32 to vector<8x128xf32>
      %b = vector.broadcast %x : f32 to vector<8x128xf32>
      %c = vector.broadcast %x : f32 to vector<16x128xf32>
      %d = arith.addf %a, %b : vector<8x128xf32>
      %e = arith.addf %a, %b fastmath<fast> : vector<8x128xf32>
      "test.op"(%c, %d, %e) : (vector<16x128xf32>, vector<8x128xf32>, vector<8x128xf32>) -> ()""",
    "reads": """
      %a = memref.load %m[%i] : memref<8xf32>
      %b = memref.load %m[%i] : memref<8xf32>
      memref.store %b, %m[%i] : memref<8xf32>
      %c = memref.load %m[%i] : memref<8xf32>
      %d = memref.load %m[%i] : memref<8xf32>
      "test.op"(%a, %b, %c, %d) : (f32, f32, f32, f32) -> ()""",
    "writes and what nobody knows": """
      %a = "other.op"(%i) : (index) -> index
      %b = "other.op"(%i) : (index) -> index
      memref.store %x, %m[%i] : memref<8xf32>
      memref.store %x, %m[%i] : memref<8xf32>
      %unused = memref.alloc() : memref<8xf32>
      %t = arith.constant true
      scf.if %t {
        memref.store %x, %m[%a] : memref<8xf32>
      }
      %c = arith.addi %a, %b : index
      %d = arith.addi %a, %b : index
      "test.op"(%c, %d) : (index, index) -> ()""",
    "regions": """
      %a = arith.addf %x, %x : f32
      %t = "test.op"() : () -> i1
      %b = scf.if %t -> (f32) {
        %c = arith.addf %x, %x : f32
        scf.yield %c : f32
      } else {
        %c = arith.mulf %x, %x : f32
        scf.yield %c : f32
      }
      %d = scf.if %t -> (f32) {
        scf.yield %a : f32
      } else {
        %c = arith.mulf %x, %x : f32
        scf.yield %c : f32
      }
      %e = arith.mulf %x, %x : f32
      %unused = arith.mulf %b, %d : f32
      "test.op"(%b, %d, %e) : (f32, f32, f32) -> ()""",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_as_upstream(body: str):
    text = (
        f"func.func @f(%i: index, %x: f32, %m: memref<8xf32>) {{{body}\n      func.return\n    }}"
    )
    context = make_context()
    context.allow_unregistered = True
    expected = Parser(context, text).parse_module()
    actual = expected.clone()
    cse(expected)
    remove_common_subexpressions(actual)
    assert str(actual) == str(expected)
    assert len(str(actual)) < len(str(Parser(context, text).parse_module()))


def test_equal_loads_of_two_accesses_say_where_both_lie():
    load = (
        "tpu.load %m[%i, %i] sublanes [true, true, true, true, true, true, true, true] {{{}}} : "
        "memref<12x256xf32>, vector<8x128xf32>"
    )
    boxes = ("0, 0, 3, 128, 12, 256", "-1, 0, 2, 256, 12, 256")
    loads = [load.format(f"tpu.box = array<i64: {box}>") for box in boxes]
    text = f"""func.func @f(%i: index, %m: memref<12x256xf32>) {{
      %a = {loads[0]}
      %b = {loads[1]}
      %c = {load.format("")}
      "test.op"(%a, %b, %c) : (vector<8x128xf32>, vector<8x128xf32>, vector<8x128xf32>) -> ()
      func.return
    }}"""
    context = make_context()
    context.allow_unregistered = True
    module = Parser(context, text).parse_module()
    remove_common_subexpressions(module)
    assert str(module).count("tpu.load") == 1
    assert "tpu.box = array<i64: -1, 0, 4, 256, 12, 256>" in str(module)


def test_equal_reads_are_found_at_a_cost_in_proportion(monkeypatch: pytest.MonkeyPatch):
    """However far apart they are, each operation is asked at most twice what it does."""
    asked: list[Operation] = []

    def counted(op: Operation):
        asked.append(op)
        return get_effects(op)

    monkeypatch.setattr(common_subexpressions, "get_effects", counted)
    loads = [f"%v{n} = memref.load %m[%i] : memref<8xf32>" for n in range(100)]
    uses = [f'"test.op"(%w{n}) : (f32) -> ()' for n in range(100)]
    sums = [f"%w{n} = arith.addf %v0, %v{n} : f32" for n in range(100)]
    lines = "\n".join([*(f"{a}\n{b}" for a, b in zip(loads, sums, strict=True)), *uses])
    context = make_context()
    context.allow_unregistered = True
    module = Parser(
        context, f"func.func @f(%i: index, %m: memref<8xf32>) {{{lines}\nfunc.return\n}}"
    ).parse_module()
    remove_common_subexpressions(module)
    assert str(module).count("memref.load") == 1
    assert len(asked) <= 2 * len(loads)


def test_branches_that_differ_in_numbers_are_not_compared(monkeypatch: pytest.MonkeyPatch):
    compared: list[Operation] = []

    def noted(one: Operation, other: Operation) -> bool:
        compared.append(one)
        return False

    monkeypatch.setattr(common_subexpressions, "_same_regions", noted)
    lines = [
        f"%b{n} = scf.if %c -> (f32) {{ %a = arith.constant {n}.0 : f32 scf.yield %a : f32 }} "
        f"else {{ scf.yield %x : f32 }}"
        for n in range(20)
    ]
    uses = ", ".join(f"%b{n}" for n in range(20))
    kinds = ", ".join(["f32"] * 20)
    body = "\n".join([*lines, f'"test.op"({uses}) : ({kinds}) -> ()', "func.return"])
    context = make_context()
    context.allow_unregistered = True
    module = Parser(context, f"func.func @f(%c: i1, %x: f32) {{{body}}}").parse_module()
    remove_common_subexpressions(module)
    assert str(module).count("scf.if") == 20
    assert not compared
