"""Loops as the TPU compiler (libtpu 0.0.51) takes and refuses them, each asked of it."""

from __future__ import annotations

import pytest

from ..checking import SMEM, VMEM, beyond, check, kernel, memref


def loop(first: int, last: str, step: int = 1, used: str = "%i") -> str:
    """Stores its counter, or `used`, up to `last`."""
    body = f"""%first = arith.constant {first} : i32
      %step = arith.constant {step} : i32
      %five = arith.constant 5 : i32
      %unknown = arith.addi %n, %five : i32
      {last}
      scf.for %i = %first to %last step %step : i32 {{
        %k = arith.index_cast {used} : i32 to index
        %z = arith.constant 0.0 : f32
        %v = vector.broadcast {used} : i32 to vector<8x128xi32>
        vector.store %v, %o[%c0, %c0] : {memref("8x128xi32")}, vector<8x128xi32>
      }}"""
    return kernel(f"%n: i32, %o: {memref('8x128xi32', VMEM)}", body)


def constant(number: int) -> str:
    return f"%last = arith.constant {number} : i32"


SUM = "%last = arith.addi %first, %five : i32"
AT_RUN_TIME = "%last = arith.addi %first, %unknown : i32"


@pytest.mark.parametrize(
    ("first", "last"), [(-2, constant(2)), (-1, constant(1)), (-100, constant(9)), (-2, SUM)]
)
def test_counters_through_zero(first: int, last: str) -> None:
    beyond(loop(first, last), "signed-counter")
    check(loop(first, last, step=2))
    check(loop(first, last, used="%n"))


@pytest.mark.parametrize(
    ("first", "last"),
    [(0, constant(2)), (-2, constant(0)), (-9, SUM), (-2, AT_RUN_TIME)],
)  # fmt: skip
def test_counters_of_one_sign(first: int, last: str) -> None:
    check(loop(first, last))


def counted(last: str, bounds: str = "1", indices: str = "%p: i32") -> str:
    """A loop from 2 to `last`, in a kernel with a grid."""
    text = loop(2, f"%two = arith.constant 2 : i32\n{last}")
    text = text.replace("(%n: i32,", f"({indices}, %n: memref<1xi32, {SMEM}>,")
    text = text.replace("arith.addi %n, %five", "arith.addi %p, %five")
    axes = ", ".join("#tpu.dimension_semantics<arbitrary>" for _ in bounds.split(","))
    windows = f"iteration_bounds = array<i64: {bounds}>, window_params = [{{}}, {{}}]"
    return text.replace("dimension_semantics = []", f"dimension_semantics = [{axes}], {windows}")


def folded(operation: str) -> str:
    return f"%last = arith.{operation} %p, %two : i32"


INDEX = "%zero = arith.constant 0 : i32\n%last = arith.minsi %p, %five : i32"
TWO = "%p: i32, %q: i32"


@pytest.mark.parametrize("last", [INDEX, folded("minsi"), folded("divsi")])
def test_loops_to_the_index_of_the_only_step(last: str) -> None:
    beyond(counted(last), "loop-to-only-step")
    beyond(counted(last, "1, 1", TWO), "loop-to-only-step")
    check(counted(last, "2"))
    check(counted(last, "1, 2", TWO))


@pytest.mark.parametrize("operation", ["addi", "maxsi", "muli", "andi"])
def test_loops_that_may_run(operation: str) -> None:
    check(counted(folded(operation)))


def test_switches_are_branches() -> None:
    """libtpu: "Unsupported operation: scf.index_switch in infer-vector-layout pass"."""
    scalars = memref("4xi32", SMEM)
    body = f"""%n = memref.load %s[%c0] : {scalars}
      %i = arith.index_cast %n : i32 to index
      %r = scf.index_switch %i -> i32
      case 0 {{ scf.yield %n : i32 }}
      default {{ %two = arith.constant 2 : i32
        scf.yield %two : i32 }}
      memref.store %r, %s[%c0] : {scalars}"""
    beyond(kernel(f"%s: {scalars}", body), "switch")
