"""Operations made quickly are those that xDSL would have made."""

from __future__ import annotations

from xdsl.dialects.builtin import i32
from xdsl.ir import Block, Operation

from pallasite.dialects import arith, func
from pallasite.lowering.creation import Model, emptied, fill, made, prepend


def test_made_is_created() -> None:
    block = Block(arg_types=[i32, i32])
    created = arith.AddiOp.create(operands=block.args, result_types=[i32])
    quick = made(arith.AddiOp, block.args, [i32])
    assert quick.is_structurally_equivalent(created)
    assert quick.location == created.location
    assert [u.operation for u in block.args[0].uses] == [quick, created]
    assert [u.index for u in block.args[1].uses] == [1, 1]


def test_copies_of_a_model_share_nothing_that_changes() -> None:
    block = Block(arg_types=[i32])
    model = Model(arith.AddiOp, [i32], {})
    first, second = (model.make((block.args[0],) * 2) for _ in range(2))
    assert second.is_structurally_equivalent(first)
    assert second.properties == arith.default_properties(arith.AddiOp)
    second.properties.clear()
    assert first.properties


def test_fill_moves_operations_between_blocks() -> None:
    old = Block([arith.ConstantOp.from_int_and_width(n, 32) for n in range(3)])
    ops, new = list(old.ops), Block()
    emptied(old)
    fill(new, ops[::-1])
    assert not list(old.ops)
    assert list(new.ops) == ops[::-1]
    assert list(reversed(new.ops)) == ops
    assert all(op.parent is new for op in ops)
    new.add_op(arith.ConstantOp.from_int_and_width(3, 32))
    assert len(list(new.ops)) == 4


def test_a_model_makes_one_operation_for_each_row_of_operands() -> None:
    block = Block(arg_types=[i32, i32])
    left, right = block.args
    made_here: list[Operation] = []
    sums = Model(arith.AddiOp, [i32], {}).results([(left, right), (right, right)], made_here)
    assert [op.results[0] for op in made_here] == sums
    for op, operands in zip(made_here, [(left, right), (right, right)], strict=True):
        created = arith.AddiOp.create(operands=operands, result_types=[i32])
        assert op.is_structurally_equivalent(created)
    assert Model(func.ReturnOp, [], {}).results([(left,), (right,)], made_here) == []
    assert [tuple(op.operands) for op in made_here[2:]] == [(left,), (right,)]


def test_prepend_puts_operations_in_front() -> None:
    block = Block()
    later = [arith.ConstantOp.from_int_and_width(n, 32) for n in range(2)]
    sooner = [arith.ConstantOp.from_int_and_width(n, 32) for n in range(2, 4)]
    prepend(block, later)
    prepend(block, sooner)
    prepend(block, [])
    assert list(block.ops) == [*sooner, *later]
    assert list(reversed(block.ops)) == [*later[::-1], *sooner[::-1]]
    assert all(op.parent is block for op in block.ops)
