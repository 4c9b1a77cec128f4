"""The pass `fold-kernel`: walks over a kernel and applies rules until nothing changes.

    %m = arith.maxsi %x, %x : vector<32x128xi8>
    %s = arith.select %true, %m, %y : vector<32x128xi8>
    tpu.vector_store %o[%c0, %c0], %s ...
becomes
    tpu.vector_store %o[%c0, %c0], %x ...

The TPU compiler brings a kernel into MLIR's canonical form before it checks anything. An operation
that folds there may have any type, and one that is then unused is never checked: a maximum of bytes
has no instruction on any target, but the maximum of a value and itself is accepted. The rules here
are those of the canonical form that decide which operations remain (asked of libtpu 0.0.51 for v4
to v7x). Rules that only rewrite an expression, such as adding up constants in a sum, are left out.

Needs a kernel in the `mosaic` or `dma` form and leaves the same form. Whatever a rule does is
exact: it holds for NaN, for -0.0 and for integers that wrap.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    VectorType,
    i1,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from pallasite.dialects import arith, func, vector
from pallasite.dialects.integers import wrap
from pallasite.dialects.types import element_of, splat
from pallasite.dialects.walking import operations_of
from pallasite.passes.admission import Admits
from pallasite.passes.dead_code import drop, remove_dead_code
from pallasite.passes.insertion import Insertion
from pallasite.passes.rules import AllRules
from pallasite.targets import DEFAULT_TARGET

Rule = Callable[..., "SSAValue | bool | None"]
"""Called with `(op, folder)`. Returns the value that replaces the one result of `op`, or None to
keep it; for operations with regions, whether the rule has changed or replaced `op` itself."""
Rules = AllRules[Rule]

_MOST_ROUNDS = 10
"""The kernel is walked at most so often; each walk sees what the one before has made."""

KERNEL = Rules()
"""The rules of `fold-kernel`."""
rule = KERNEL.rule


class Folder(Insertion):
    """Applies rules to one function; rules create operations through it."""

    def __init__(self, admits: Admits | None = None, rules: Rules = KERNEL) -> None:
        """Applies `rules`; with `admits`, only where `admits(name of the rule, op)` is true."""
        self._admits = admits
        self._rules = rules.of
        self._changed = False

    def function(self, function: func.FuncOp) -> bool:
        """Applies the rules and removes dead code until nothing changes; returns whether anything
        folded."""
        folded = False
        for _ in range(_MOST_ROUNDS):
            self._changed = False
            for block in function.body.blocks:
                remove_dead_code(block)
                self._block(block)
            if not self._changed:
                break
            folded = True
        return folded

    def _block(self, block: Block) -> None:
        for op in operations_of(block):
            rules = self._rules.get(type(op))
            if rules is not None:
                self._operation(op, rules)
            if op.parent is block and op.regions:
                for region in op.regions:
                    for inner in region.blocks:
                        self._block(inner)

    def _operation(self, op: Operation, rules: list[Rule]) -> None:
        for apply in rules:
            if self._admits is not None and not self._admits(apply.__name__, op):
                continue
            self._anchor = op
            answer = apply(op, self)
            if answer is None or answer is False:
                continue
            self._changed = True
            if isinstance(answer, SSAValue):
                op.results[0].replace_all_uses_with(answer)
                drop(op)
            if op.parent is None:
                return

    def constant(self, kind: Attribute, number: int | float) -> SSAValue:
        """A constant of type `kind`, every element of which is `number`."""
        return self.emit(constant(kind, number))


def constant(kind: Attribute, number: int | float) -> arith.ConstantOp:
    """The operation that makes a constant of type `kind`, every element of which is `number`."""
    vector_type = kind if isinstance(kind, VectorType) else None
    element = vector_type.element_type if vector_type is not None else kind
    if isinstance(element, IntegerType | IndexType):
        number = _stored(int(number), element)
        value: Attribute = IntegerAttr(int(number), element)
    else:
        value = FloatAttr(float(number), cast(AnyFloat, element))
    if vector_type is not None:
        value = splat(cast(VectorType[Attribute], vector_type), number)
    return arith.ConstantOp(cast(Any, value))


def width_of(kind: Attribute) -> int:
    """Bits of an integer type; 64 for index."""
    return kind.width.data if isinstance(kind, IntegerType) else 64


def integer(value: SSAValue) -> int | None:
    """The constant that an integer, or every element of a vector of integers, is known to be, else
    None; an i1 is 0 or 1."""
    known = _known(value)
    if known is None:
        return None
    kind = element_of(value)
    if type(kind) is not IntegerType and type(kind) is not IndexType:
        return None
    return _stored(int(known), kind)


def _stored(number: int, kind: Attribute) -> int:
    """`number` as constants of integer type `kind` hold it: with its sign, but an i1 is 0 or 1."""
    return number & 1 if kind == i1 else wrap(number, width_of(kind))


def number(value: SSAValue) -> float | None:
    """The constant that a float, or every element of a vector of floats, is known to be, else None;
    it may be NaN."""
    known = _known(value)
    if known is None or isinstance(element_of(value), IntegerType | IndexType):
        return None
    return known


def same(one: SSAValue, other: SSAValue) -> bool:
    """Whether both are the same SSA value, or equal constants (0.0 and -0.0 differ)."""
    if one is other:
        return True
    # Most values are no constants: that is asked first, by type, which is the cheapest question.
    if _known(one) is None or one.type != other.type:
        return False
    known = integer(one)
    if known is not None:
        return known == integer(other)
    left, right = number(one), number(other)
    if left is None or right is None:
        return False
    return left == right and math.copysign(1, left) == math.copysign(1, right)


def _known(value: SSAValue) -> int | float | None:
    while type(owner := value.owner) is vector.BroadcastOp:
        value = owner.source
    return arith.known_number(value)


def fold_kernel(module: ModuleOp, admits: Admits | None = None) -> None:
    """Folds the functions of `module` in place."""
    from pallasite.passes.fold_kernel import rules

    rules.load()
    for function in module.body.block.ops:
        if isinstance(function, func.FuncOp):
            Folder(admits).function(function)


@dataclass(frozen=True)
class FoldKernelPass(ModulePass):
    """Brings a kernel into the form that `check-kernel` judges."""

    name = "fold-kernel"

    target: str = DEFAULT_TARGET
    """Not used: what folds does not depend on the target."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fold_kernel(op)

    def apply_admitted(self, ctx: Context, op: ModuleOp, admits: Admits | None) -> None:
        """`apply` with only those rewrites that `admits` allows."""
        fold_kernel(op, admits)
