"""Operations that are alike are verified once, and nothing else is missed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr, VectorType, f32, i32
from xdsl.ir import Block, Operation
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from pallasite.diagnostics import VerifyError
from pallasite.dialects import arith, func, get_all_dialects
from pallasite.dialects.alike import keeps_rules, rules_of
from pallasite.dialects.verification import verify

OURS = ("arith", "math", "vector", "memref", "scf", "func", "cf", "tpu", "grid", "pallas")


def kernel() -> tuple[ModuleOp, list[arith.AddfOp]]:
    """Two additions that are alike, and what ends their block."""
    block = Block(arg_types=[VectorType(f32, [8, 128])])
    (x,) = block.args
    one = arith.AddfOp(x, x)
    two = arith.AddfOp(one.result, x)
    block.add_ops([one, two, func.ReturnOp()])
    function = func.FuncOp("kernel", ([x.type], []))
    function.body.detach_block(0)
    function.body.add_block(block)
    return ModuleOp([function]), [one, two]


@pytest.mark.parametrize("dialect", OURS)
def test_what_a_class_declares_is_told_apart_from_its_own_rules(dialect: str) -> None:
    for kind in get_all_dialects()[dialect]().operations:
        assert rules_of(kind) is not None, kind.name


def test_a_good_module() -> None:
    module, _ = kernel()
    assert keeps_rules(module)
    verify(module)


def test_one_of_two_with_another_type() -> None:
    module, (_, two) = kernel()
    Rewriter.replace_value_with_new_type(two.result, VectorType(i32, [8, 128]))
    assert not keeps_rules(module)
    with pytest.raises(VerifyError, match=r"arith\.addf"):
        verify(module)


def test_one_of_two_with_another_property() -> None:
    module, (_, two) = kernel()
    two.properties["fastmath"] = StringAttr("fast")
    assert not keeps_rules(module)
    with pytest.raises(VerifyError, match=r"arith\.addf"):
        verify(module)


def test_a_property_that_became_an_attribute() -> None:
    module, (one, two) = kernel()
    for op in (one, two):
        op.attributes["overflow"] = StringAttr("none")
    two.properties.update(two.attributes)
    two.attributes.clear()
    assert not keeps_rules(module)


def test_rules_of_a_class_are_asked_of_every_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Operation] = []
    module, additions = kernel()
    rules = rules_of(arith.AddfOp)
    assert rules is not None
    watched = replace(rules, own=asked.append)

    def found(kind: type[Operation]) -> object:
        return watched if kind is arith.AddfOp else rules_of(kind)

    monkeypatch.setattr("pallasite.dialects.alike.rules_of", found)
    assert keeps_rules(module)
    assert asked == additions


def test_a_block_that_does_not_end() -> None:
    module, _ = kernel()
    (function,) = module.body.block.ops
    last = function.regions[0].block.last_op
    assert last is not None
    last.detach()
    assert not keeps_rules(module)
    with pytest.raises(VerifyException):
        module.verify()


def test_an_empty_block() -> None:
    module, _ = kernel()
    (function,) = module.body.block.ops
    function.regions[0].add_block(Block())
    assert not keeps_rules(module)
