"""Scalar operations that the compiled driver writes as expressions equal their meanings."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.parser import Parser

from pallasite.dialects import make_context
from pallasite.dialects.integers import wrap
from pallasite.interpreter.compiled.inline import expression
from pallasite.interpreter.meanings import Facts, lookup
from pallasite.targets import get_target

V5E = get_target("v5e")

BINARY = ["addi", "subi", "muli", "andi", "ori", "xori", "minsi", "maxsi"]
COMPARISONS = ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"]
CASTS = [
    "extsi %a : i1 to i32", "extui %a : i1 to i32", "extsi %a : i8 to i32",
    "extui %a : i8 to i32", "extui %a : i32 to i64", "trunci %a : i32 to i8",
    "trunci %a : i32 to i1", "trunci %a : i64 to i32", "index_cast %a : i32 to index",
    "index_cast %a : index to i32", "extui %a : i1 to i8",
]  # fmt: skip


def first_op(text: str) -> Any:
    module = Parser(make_context(), text, "kernel.mlir").parse_module()
    module.verify()
    func = next(iter(module.body.block.ops))
    return next(iter(func.regions[0].block.ops))


def check_inline(text: str, *values: Any) -> None:
    op = first_op(text)
    source = expression(op, [f"v{n}" for n in range(len(values))])
    assert source is not None
    entry = lookup(op)
    assert entry is not None
    names = {f"v{n}": value for n, value in enumerate(values)}
    result = eval(source, {"wrap": wrap, **names})
    expected = entry.factory(op, Facts(V5E))(*values)
    assert result == expected and isinstance(result, bool) == isinstance(expected, bool)


def of_width(bits: int) -> st.SearchStrategy[int]:
    half = 1 << (bits - 1)
    edges = st.sampled_from([-half, -half + 1, -1, 0, 1, half - 2, half - 1])
    return edges | st.integers(-half, half - 1)


@pytest.mark.parametrize("name", ["divsi", "remsi"])
@pytest.mark.parametrize("type", ["i8", "i32", "index"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_inline_divisions_by_constants_equal_their_meanings(
    name: str, type: str, data: Any
) -> None:
    bits = 64 if type == "index" else int(type[1:])
    a = data.draw(of_width(bits))
    b = data.draw(st.integers(1, (1 << (bits - 1)) - 1))
    op = first_op(
        f"func.func @f(%a: {type}, %b: {type}) {{ %r = arith.{name} %a, %b : {type} func.return }}"
    )
    source, entry = expression(op, ["v0", str(b)]), lookup(op)
    assert source is not None and entry is not None
    assert eval(source, {"v0": a}) == entry.factory(op, Facts(V5E))(a, b)
    for unknown in ("v1", "0", "(-3)"):
        assert expression(op, ["v0", unknown]) is None


@pytest.mark.parametrize("name", ["divui", "remui"])
@pytest.mark.parametrize("type", ["i8", "i32", "index"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_inline_unsigned_divisions_by_constants_equal_their_meanings(
    name: str, type: str, data: Any
) -> None:
    bits = 64 if type == "index" else int(type[1:])
    a = data.draw(of_width(bits))
    b = data.draw(st.integers(2, (1 << (bits - 1)) - 1))
    op = first_op(
        f"func.func @f(%a: {type}, %b: {type}) {{ %r = arith.{name} %a, %b : {type} func.return }}"
    )
    source, entry = expression(op, ["v0", str(b)]), lookup(op)
    assert source is not None and entry is not None
    assert eval(source, {"v0": a}) == entry.factory(op, Facts(V5E))(a, b)
    for unknown in ("v1", "0", "1", "(-3)"):
        assert expression(op, ["v0", unknown]) is None


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("type", ["i8", "i32", "index"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_inline_arithmetic_equals_its_meaning(name: str, type: str, data: Any) -> None:
    bits = 64 if type == "index" else int(type[1:])
    text = f"func.func @f(%a: {type}, %b: {type}) {{ %c = arith.{name} %a, %b : {type}\n return }}"
    check_inline(text, data.draw(of_width(bits)), data.draw(of_width(bits)))


@pytest.mark.parametrize("predicate", COMPARISONS)
@settings(max_examples=40, deadline=None)
@given(a=of_width(32), b=of_width(32))
def test_inline_comparison_equals_its_meaning(predicate: str, a: int, b: int) -> None:
    text = (
        f"func.func @f(%a: i32, %b: i32) {{ %c = arith.cmpi {predicate}, %a, %b : i32\n return }}"
    )
    check_inline(text, a, b)


@pytest.mark.parametrize("cast", CASTS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_inline_cast_equals_its_meaning(cast: str, data: Any) -> None:
    type = cast.split(" : ")[1].split()[0]
    text = f"func.func @f(%a: {type}) {{ %c = arith.{cast}\n return }}"
    bits = 64 if type == "index" else int(type[1:])
    check_inline(text, data.draw(st.booleans() if bits == 1 else of_width(bits)))


@pytest.mark.parametrize("name", ["andi", "ori", "xori"])
@pytest.mark.parametrize("a", [False, True])
@pytest.mark.parametrize("b", [False, True])
def test_inline_logic_of_bools_equals_its_meaning(name: str, a: bool, b: bool) -> None:
    text = f"func.func @f(%a: i1, %b: i1) {{ %c = arith.{name} %a, %b : i1\n return }}"
    check_inline(text, a, b)
