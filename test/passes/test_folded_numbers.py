"""What `fold-kernel` makes of integers is what the operations give when they run, at any width."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from xdsl.ir import Block, Operation, SSAValue

from pallasite import api
from pallasite.dialects import arith, func
from pallasite.dialects.types import bit_width
from pallasite.interpreter.facts import Facts
from pallasite.interpreter.meanings import lookup
from pallasite.passes.fold_kernel import fold_kernel, rules
from pallasite.passes.fold_kernel.driver import Folder
from pallasite.targets import get_target

from .checking import kernel

FACTS = Facts(get_target("v5e"))
WIDTHS = (1, 8, 32)
BINARY = (
    "addi", "subi", "muli", "andi", "ori", "xori", "maxsi", "minsi", "maxui", "minui", "shli",
    "shrsi", "shrui", "divsi", "divui", "remsi", "remui",
)  # fmt: skip
PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


def edges(width: int) -> list[int]:
    if width == 1:
        return [0, 1]
    most = (1 << (width - 1)) - 1
    return [0, 1, -1, 2, -3, width, most, -most - 1]


def questions(width: int) -> Iterator[tuple[str, str]]:
    """Operations on `%x` and the constants `%k0`, `%k1`, ..., each with the type of its result."""
    names = ["%x", *[f"%k{n}" for n in range(len(edges(width)))]]
    for op, left, right in product(BINARY, names, names):
        yield f"arith.{op} {left}, {right} : i{width}", f"i{width}"
    for name, left, right in product(PREDICATES, names, names):
        yield f"arith.cmpi {name}, {left}, {right} : i{width}", "i1"
    for other, name in product(WIDTHS, names):
        if other > width:
            for op in ("extsi", "extui"):
                yield f"arith.{op} {name} : i{width} to i{other}", f"i{other}"
        elif other < width:
            yield f"arith.trunci {name} : i{width} to i{other}", f"i{other}"
    for op, kind, name in product(("sitofp", "uitofp"), ("f32", "bf16"), names):
        yield f"arith.{op} {name} : i{width} to {kind}", kind
    for op, name in product(("index_cast", "index_castui"), names):
        yield f"arith.{op} {name} : i{width} to index", "index"
    for condition, left, right in product(names, names, names) if width == 1 else ():
        yield f"arith.select {condition}, {left}, {right} : i1", "i1"


def written(width: int) -> str:
    """A function that returns the answers to all questions."""
    spelled = [f"{n} : i{width}" if width > 1 else ("false", "true")[n] for n in edges(width)]
    lines = [f"%k{n} = arith.constant {text}" for n, text in enumerate(spelled)]
    asked = list(questions(width))
    lines += [f"%r{n} = {text}" for n, (text, _) in enumerate(asked)]
    types = ", ".join(kind for _, kind in asked)
    text = kernel(f"%x: i{width}", "\n".join(lines)).replace(
        "attributes", f"-> ({types}) attributes"
    )
    answers = ", ".join(f"%r{n}" for n in range(len(asked)))
    return text.replace("return", f"return {answers} : {types}")


def answer(value: SSAValue, x: Any) -> Any:
    """`value` where the argument is `x`, as the interpreter computes it."""
    owner = value.owner
    if isinstance(owner, Block):
        return x
    meaning = lookup(owner)
    assert meaning is not None
    return meaning.factory(owner, FACTS)(*(answer(v, x) for v in owner.operands))


def defined(op: Operation, x: Any) -> bool:
    """Whether the operation means something: no division by zero, and no shift out of the word."""
    if not isinstance(op, arith.DivSIOp | arith.DivUIOp | arith.RemSIOp | arith.RemUIOp
                      | arith.ShLIOp | arith.ShRSIOp | arith.ShRUIOp):  # fmt: skip
        return True
    left, right = (answer(v, x) for v in op.operands)
    width = bit_width(op.operands[0].type)
    if isinstance(op, arith.ShLIOp | arith.ShRSIOp | arith.ShRUIOp):
        return 0 <= right < width
    overflows = width == 1 or (left == -1 << (width - 1) and right == -1)
    return right != 0 and not (overflows and isinstance(op, arith.DivSIOp | arith.RemSIOp))


@pytest.mark.parametrize("width", WIDTHS)
def test_what_is_folded_is_what_runs(width: int) -> None:
    text = written(width)
    plain, folded = api.parse(text), api.parse(text)
    fold_kernel(folded)
    before, after = (
        next(op for op in m.walk() if isinstance(op, func.ReturnOp)).operands
        for m in (plain, folded)
    )
    asked = list(questions(width))
    for (question, _), old, new in zip(asked, before, after, strict=True):
        for x in edges(width):
            if isinstance(old.owner, Operation) and defined(old.owner, x):
                assert answer(new, x) == answer(old, x), (question, x)


def test_a_condition_that_is_known_inside_its_branch_is_a_change() -> None:
    module = api.parse(kernel("%x: i1, %o: memref<1xi1, #tpu.memory_space<smem>>", """
      scf.if %x {
        memref.store %x, %o[%c0] : memref<1xi1, #tpu.memory_space<smem>>
      }
    """))  # fmt: skip
    (function,) = module.body.block.ops
    assert isinstance(function, func.FuncOp)
    rules.load()
    assert Folder().function(function) and "memref.store %x" not in str(function)
    assert not Folder().function(function)
