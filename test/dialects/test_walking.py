"""Lists of operations are in the order of `Operation.walk`."""

from pallasite import api
from pallasite.dialects import arith, func, scf
from pallasite.dialects.walking import of_kind, operations, operations_in, operations_of

TEXT = """
func.func @main(%c: i1, %n: index) {
  %a = arith.constant 1 : index
  scf.for %i = %a to %n step %a {
    scf.if %c {
      %x = arith.addi %i, %i : index
    } else {
      %y = arith.constant 2 : index
    }
  }
  func.return
}
func.func @other() {
  func.return
}
"""


def test_operations_are_those_of_walk():
    module = api.parse(TEXT)
    assert operations(module) == list(module.walk())
    assert operations_in(module.body) == list(module.walk())[1:]


def test_kinds_are_exact_and_in_order():
    module = api.parse(TEXT)
    assert of_kind(module, scf.IfOp) == [op for op in module.walk() if isinstance(op, scf.IfOp)]
    kinds = [type(op) for op in of_kind(module, func.FuncOp, arith.ConstantOp)]
    assert kinds == [func.FuncOp, arith.ConstantOp, arith.ConstantOp, func.FuncOp]


def test_an_operation_is_of_its_own_kind():
    module = api.parse(TEXT)
    main = of_kind(module, func.FuncOp)[0]
    assert of_kind(main, func.FuncOp) == [main]


def test_what_is_listed_may_be_removed():
    module = api.parse(TEXT)
    for op in of_kind(module, scf.ForOp, scf.IfOp):
        if op.parent is not None:
            op.detach()
            op.erase()
    assert not of_kind(module, scf.ForOp, scf.IfOp)


def test_operations_of_a_block_leave_out_what_is_in_regions():
    module = api.parse(TEXT)
    body = of_kind(module, func.FuncOp)[0].body.block
    assert operations_of(body) == list(body.ops)
