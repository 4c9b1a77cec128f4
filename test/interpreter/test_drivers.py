"""Both drivers run the same structure to bit-equal results, and name the line where a run fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.interpreter import Interpreter
from xdsl.parser import Parser

from pallasite.diagnostics import Diagnostic, ExecutionError, Unsupported
from pallasite.dialects import make_context
from pallasite.dialects.integers import wrap
from pallasite.interpreter import compiled, reference
from pallasite.interpreter.driver import Budget
from pallasite.interpreter.machine.machine import Machine
from pallasite.interpreter.meanings import Facts

from .driving import V5E, finish, parse

DRIVERS = pytest.mark.parametrize("driver", [compiled, reference], ids=["compiled", "reference"])


def call(driver: Any, text: str, *arguments: Any, name: str = "main", steps: int = 10**6) -> Any:
    core = Machine(V5E).cores[0]
    program = driver.Program(parse(text), Facts(V5E), Budget(steps))
    return finish(program.function(name)(core, *arguments))


LOOP = """
func.func @main(%n: i32, %v: vector<8x128xf32>) -> (i32, vector<8x128xf32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %k = arith.constant dense<2.0> : vector<8x128xf32>
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %c0, %b = %v)
      -> (i32, vector<8x128xf32>) : i32 {
    %s = arith.addi %a, %i : i32
    %m = arith.mulf %b, %k : vector<8x128xf32>
    %odd = arith.andi %i, %c1 : i32
    %c = arith.cmpi eq, %odd, %c1 : i32
    %q = scf.if %c -> (vector<8x128xf32>) {
      scf.yield %m : vector<8x128xf32>
    } else {
      %z = arith.addf %m, %v : vector<8x128xf32>
      scf.yield %z : vector<8x128xf32>
    }
    scf.yield %s, %q : i32, vector<8x128xf32>
  }
  return %r#0, %r#1 : i32, vector<8x128xf32>
}
"""


@DRIVERS
def test_loop_carries_values(driver: Any) -> None:
    vector = np.full((8, 128), 3, np.float32)
    total, product = call(driver, LOOP, 5, vector)
    expected = vector
    for i in range(5):
        expected = expected * 2 if i % 2 else expected * 2 + vector
    assert total == 10
    np.testing.assert_array_equal(product, expected)
    np.testing.assert_array_equal(vector, 3)


@DRIVERS
def test_loop_without_iterations_gives_its_initial_values(driver: Any) -> None:
    vector = np.ones((8, 128), np.float32)
    total, product = call(driver, LOOP, -1, vector)
    assert total == 0
    np.testing.assert_array_equal(product, vector)


@DRIVERS
def test_carried_values_swap_at_once(driver: Any) -> None:
    text = """
    func.func @main(%x: i32, %y: i32) -> (i32, i32) {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c3 = arith.constant 3 : i32
      %r:2 = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %x, %b = %y) -> (i32, i32) : i32 {
        scf.yield %b, %a : i32, i32
      }
      return %r#0, %r#1 : i32, i32
    }"""
    assert call(driver, text, 1, 2) == (2, 1)


@DRIVERS
def test_while_forwards_values_of_the_condition(driver: Any) -> None:
    text = """
    func.func @main(%n: i32) -> (i32, i32) {
      %c1 = arith.constant 1 : i32
      %r:2 = scf.while (%x = %n) : (i32) -> (i32, i32) {
        %double = arith.addi %x, %x : i32
        %c = arith.cmpi sgt, %x, %c1 : i32
        scf.condition(%c) %x, %double : i32, i32
      } do {
      ^bb0(%x: i32, %d: i32):
        %less = arith.subi %x, %c1 : i32
        scf.yield %less : i32
      }
      return %r#0, %r#1 : i32, i32
    }"""
    assert call(driver, text, 7) == (1, 2)


@DRIVERS
@pytest.mark.parametrize(("index", "expected"), [(0, 10), (7, 20), (3, 30)])
def test_switch_picks_its_case(driver: Any, index: int, expected: int) -> None:
    text = """
    func.func @main(%i: index) -> i32 {
      %r = scf.index_switch %i -> i32
      case 0 {
        %a = arith.constant 10 : i32
        scf.yield %a : i32
      }
      case 7 {
        %b = arith.constant 20 : i32
        scf.yield %b : i32
      }
      default {
        %c = arith.constant 30 : i32
        scf.yield %c : i32
      }
      return %r : i32
    }"""
    assert call(driver, text, index) == (expected,)


@DRIVERS
def test_unsigned_loops_count_past_the_sign(driver: Any) -> None:
    text = """
    func.func @main(%low: i32, %high: i32) -> (i32, i32) {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %r:2 = scf.for unsigned %i = %low to %high step %c1 iter_args(%n = %c0, %l = %c0)
          -> (i32, i32) : i32 {
        %m = arith.addi %n, %c1 : i32
        scf.yield %m, %i : i32, i32
      }
      return %r#0, %r#1 : i32, i32
    }"""
    assert call(driver, text, 2**31 - 2, wrap(2**31 + 3, 32)) == (5, wrap(2**31 + 2, 32))


def nest(depth: int) -> str:
    """`depth` nested loops of two iterations that add up the innermost carried value."""
    lines = [
        "func.func @main(%v: vector<8x128xf32>) -> vector<8x128xf32> {",
        "%c0 = arith.constant 0 : index",
        "%c1 = arith.constant 1 : index",
        "%c2 = arith.constant 2 : index",
    ]
    carried = "%v"
    for d in range(depth):
        high = "%c2" if d < 8 else "%c1"
        lines.append(
            f"%r{d} = scf.for %i{d} = %c0 to {high} step %c1 iter_args(%a{d} = {carried}) "
            "-> (vector<8x128xf32>) {"
        )
        carried = f"%a{d}"
    lines.append(f"%s = arith.addf {carried}, %v : vector<8x128xf32>")
    inner = "%s"
    for d in reversed(range(depth)):
        lines += [f"scf.yield {inner} : vector<8x128xf32>", "}"]
        inner = f"%r{d}"
    return "\n".join([*lines, f"return {inner} : vector<8x128xf32>", "}"])


@DRIVERS
@pytest.mark.parametrize("depth", [11, 12, 13, 40])
def test_nesting_deeper_than_python_allows(driver: Any, depth: int) -> None:
    (result,) = call(driver, nest(depth), np.ones((8, 128), np.float32))
    np.testing.assert_array_equal(result, 1 + 2**8)


@DRIVERS
def test_calls_and_their_results(driver: Any) -> None:
    text = """
    func.func @main(%x: i32) -> i32 {
      %a:2 = func.call @both(%x) : (i32) -> (i32, i32)
      %s = arith.subi %a#0, %a#1 : i32
      return %s : i32
    }
    func.func @both(%x: i32) -> (i32, i32) {
      %c = arith.constant 100 : i32
      %y = arith.muli %x, %c : i32
      return %y, %x : i32, i32
    }"""
    assert call(driver, text, 3) == (297,)


@DRIVERS
def test_scopes_free_what_they_allocate(driver: Any) -> None:
    text = """
    func.func @main(%n: i32) {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      scf.for %i = %c0 to %n step %c1 : i32 {
        %m = memref.alloca() : memref<1024x1024xf32, #tpu.memory_space<vmem>>
        scf.yield
      }
      "tpu.region"() ({
        %m = memref.alloca() : memref<1024x1024xf32, #tpu.memory_space<vmem>>
        tpu.yield
      }) : () -> ()
      return
    }"""
    core = Machine(V5E).cores[0]
    finish(driver.Program(parse(text), Facts(V5E)).function("main")(core, 1000))
    assert core.memory("vmem").used_bytes == 0
    assert core.memory("vmem").peak_bytes == 4 << 20


# What goes wrong


@DRIVERS
def test_endless_loop_meets_the_step_limit(driver: Any) -> None:
    text = """
    func.func @main() {
      scf.while : () -> () {
        %t = arith.constant true
        scf.condition(%t)
      } do {
        scf.yield
      }
      return
    }"""
    message = r"1000 steps inside a while loop \(scf\.while\)"
    with pytest.raises(ExecutionError, match=message) as caught:
        call(driver, text, steps=1000)
    assert caught.value.code == "step-limit"


def test_drivers_count_steps_alike() -> None:
    left = []
    for driver in (compiled, reference):
        budget = Budget(1000)
        program = driver.Program(parse(LOOP), Facts(V5E), budget)
        finish(program.function("main")(None, 6, np.ones((8, 128), np.float32)))
        left.append(budget.left)
    assert left[0] == left[1] < 1000


@DRIVERS
def test_errors_name_the_line_of_the_op(driver: Any) -> None:
    text = """
    func.func @main(%m: memref<4xi32, #tpu.memory_space<smem>>, %i: index) -> i32 {
      %c1 = arith.constant 1 : index
      %j = arith.addi %i, %c1 : index
      %r = memref.load %m[%j] : memref<4xi32, #tpu.memory_space<smem>> loc("user.py":12:7)
      memref.store %r, %m[%c1] : memref<4xi32, #tpu.memory_space<smem>>
      return %r : i32
    }"""
    from pallasite.frontend import read

    module = read(text)
    core = Machine(V5E).cores[0]
    func = next(iter(module.body.block.ops))
    ref = core.allocate(func.regions[0].block.args[0].type)
    program = driver.Program(module, Facts(V5E))
    with pytest.raises(Diagnostic) as caught:
        finish(program.function("main")(core, ref, 7))
    assert str(caught.value.location) == "user.py:12:7"


@DRIVERS
def test_loop_step_must_be_positive(driver: Any) -> None:
    text = """
    func.func @main(%s: i32) {
      %c0 = arith.constant 0 : i32
      scf.for %i = %c0 to %c0 step %s : i32 {
        scf.yield
      }
      return
    }"""
    with pytest.raises(ExecutionError, match="step of a loop must be positive, got 0"):
        call(driver, text, 0)


@DRIVERS
def test_endless_recursion_is_a_diagnostic(driver: Any) -> None:
    text = """
    func.func @main() {
      func.call @main() : () -> ()
      return
    }"""
    with pytest.raises(ExecutionError):
        call(driver, text)


@DRIVERS
def test_unknown_operations_are_refused(driver: Any) -> None:
    context = make_context()
    context.allow_unregistered = True
    text = 'func.func @main() { "nobody.knows"() : () -> ()\n return }'
    module = Parser(context, text).parse_module()
    with pytest.raises(Unsupported, match="cannot be executed"):
        finish(driver.Program(module, Facts(V5E)).function("main")(None))


@DRIVERS
def test_unknown_functions_are_refused(driver: Any) -> None:
    with pytest.raises(ExecutionError, match="no function @nobody"):
        call(driver, LOOP, name="nobody")


# Installing in a foreign interpreter


def test_meanings_install_in_any_interpreter() -> None:
    module = parse(LOOP)
    interpreter = Interpreter(module)
    reference.install(interpreter, reference.State(None, Facts(V5E)))
    total, _ = interpreter.call_op("main", (4, np.ones((8, 128), np.float32)))
    assert total == 6


FOLDED = """
func.func @main(%n: index, %v: vector<16x256xf32>) -> vector<16x256xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %k = arith.constant dense<2.5> : vector<1x256xf32>
  %half = arith.constant 0.5 : f32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %v) -> (vector<16x256xf32>) {
    %b = vector.broadcast %k : vector<1x256xf32> to vector<16x256xf32>
    %h = vector.broadcast %half : f32 to vector<16x256xf32>
    %p = arith.mulf %b, %h : vector<16x256xf32>
    %q = arith.addf %a, %p : vector<16x256xf32>
    scf.yield %q : vector<16x256xf32>
  }
  return %r : vector<16x256xf32>
}
"""


def test_vectors_known_beforehand_are_made_once() -> None:
    start = np.arange(16 * 256, dtype=np.float32).reshape(16, 256)
    program = compiled.Program(parse(FOLDED), Facts(V5E), Budget(10**6))
    (result,) = finish(program.function("main")(Machine(V5E).cores[0], 3, start))
    np.testing.assert_array_equal(result, start + np.float32(3.75))
    np.testing.assert_array_equal(result, call(reference, FOLDED, 3, start)[0])
    (source,) = program.sources.values()
    calls = [line for line in source[source.index("for ") :].splitlines() if "= f" in line]
    assert len(calls) == 1  # the sum


@pytest.mark.parametrize("one_number", [False, True])
def test_large_vectors_are_not_kept_for_the_next_iteration(one_number: bool) -> None:
    text = FOLDED.replace("16x256", "512x256")
    row = np.full(256, 2.5, np.float32) if one_number else np.arange(256, dtype=np.float32)
    text = text.replace("dense<2.5>", f"dense<[{row.tolist()}]>")
    program = compiled.Program(parse(text), Facts(V5E), Budget(10**6))
    start = np.ones((512, 256), np.float32)
    (result,) = finish(program.function("main")(Machine(V5E).cores[0], 2, start))
    np.testing.assert_array_equal(result, start + row)
    (source,) = program.sources.values()
    calls = [line for line in source[source.index("for ") :].splitlines() if "= f" in line]
    # The product of two broadcasts takes 512 KiB, but for one number, and then there is the sum.
    assert len(calls) == (1 if one_number else 2)
