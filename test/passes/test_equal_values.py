"""Values from before are found without comparing each with each."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from pallasite import api
from pallasite.dialects import arith, func, memref, scf
from pallasite.dialects.walking import of_kind
from pallasite.passes import equal_values
from pallasite.passes.equal_values import EarlierValues

SUMS = 50


def _module(inside: str) -> ModuleOp:
    """A chain of sums, each with a branch behind it that gives the value of `inside`."""
    lines = ["%v0 = memref.load %m[%i] : memref<8xf32>"]
    for n in range(SUMS):
        line = inside.format(n)
        lines += [
            f"%b{n} = scf.if %c -> (f32) {{ {line} scf.yield %a : f32 }}"
            f"else {{ scf.yield %v{n} : f32 }}",
            f"%v{n + 1} = arith.addf %v{n}, %x : f32",
        ]
    return api.parse(f"""func.func @f(%i: index, %x: f32, %c: i1, %m: memref<8xf32>) {{
      {chr(10).join(lines)}
      func.return
    }}""")


def _found(module: ModuleOp) -> list[SSAValue | None]:
    """What equals the value of each branch, from before it."""
    function = of_kind(module, func.FuncOp)[0]
    earlier = EarlierValues(function)
    found: list[SSAValue | None] = []
    for op in of_kind(function, scf.IfOp):
        end = op.true_region.block.last_op
        assert end is not None
        found.append(earlier.find(end.operands[0], op))
    return found


def test_the_same_sum_before_a_branch():
    module = _module("%a = arith.addf %v0, %x : f32")
    sums = [op for op in of_kind(module, arith.AddfOp) if not isinstance(op.parent_op(), scf.IfOp)]
    assert _found(module) == [None, *[sums[0].result] * (SUMS - 1)]


def test_the_same_read_before_a_branch_is_another_one():
    """Nothing is known of what happens to memory on the way into a branch."""
    module = _module("%a = memref.load %m[%i] : memref<8xf32>")
    assert _found(module) == [None] * SUMS


def test_different_values_are_not_compared(monkeypatch: pytest.MonkeyPatch):
    compared: list[SSAValue] = []

    def counted(one: SSAValue, other: SSAValue) -> bool:
        compared.append(one)
        return False

    monkeypatch.setattr(equal_values, "equal_values", counted)
    assert _found(_module("%a = arith.mulf %v{0}, %x : f32")) == [None] * SUMS
    assert not compared


def test_reads_of_different_places_are_told_apart_without_looking_between(
    monkeypatch: pytest.MonkeyPatch,
):
    module = api.parse("""func.func @f(%i: index, %j: index, %m: memref<8xf32>) {
      %a = memref.load %m[%i] : memref<8xf32>
      %b = memref.load %m[%j] : memref<8xf32>
      func.return
    }""")
    looked: list[Operation] = []

    def noted(first: Operation, second: Operation) -> bool:
        looked.append(first)
        return True

    monkeypatch.setattr(equal_values, "_reads_the_same", noted)
    one, other = of_kind(module, memref.LoadOp)
    assert not equal_values.equal_values(one.res, other.res)
    assert not looked
