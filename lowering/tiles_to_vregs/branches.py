"""Replaces results of conditionals that both branches only pass on by selections with a mask.

Where both branches of an `scf.if` yield values from outside of it, the TPU compiler's
canonicalization makes the result an `arith.select` with the scalar condition; and later it has no
select of vectors by a scalar. It folds before that, so a branch that yields `x * 1.0`, `(x + 3) -
3` or the sum of two constants passes on values as well. Such a result is therefore selected by a
vector mask instead, after the conditional:

    %r = scf.if %c {yield %a} else {yield %b}   becomes   %m = cmpi ne (broadcast (extui %c)), 0
                                                          %r = arith.select %m, %a, %b
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerType, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue

from pallasite.dialects import arith, func, scf, tpu, vector
from pallasite.dialects.types import bit_width, is_vector, splat, vector_of
from pallasite.dialects.walking import of_kind
from pallasite.layouts.registers import LANES, SUBLANES
from pallasite.passes.effects import has_no_effects

Emit = Callable[[Operation], Operation]
"""Inserts an operation at the current place and returns it."""

_WORDS = vector_of(i32, (SUBLANES, LANES))
_NEVER_EARLY = (arith.DivSIOp, arith.DivUIOp, arith.RemSIOp, arith.RemUIOp)
"""Operations without side effects that are only defined where the branch is taken."""
_SUMS = (arith.AddiOp, arith.SubiOp)
_NEW_WITH_ITSELF = (
    arith.AddfOp, arith.AddiOp, arith.DivfOp, arith.MulfOp, arith.MuliOp, arith.SubfOp,
)  # fmt: skip
"""Operations that compute something new of an operand and itself; others fold, such as `x | x`."""


def emit_conditional(made: scf.IfOp, emit: Emit) -> list[SSAValue]:
    """Emits the conditional `made`, and returns the values that stand for its results.

    Registers that both branches only pass on are selected by a mask afterwards. What the branches
    compute them with is emitted before the conditional.
    """
    passed = _passed_results(made)
    _move_in_front(made, passed, emit)
    emit(made)
    return _selected(made, passed, emit)


def select_what_is_passed_on(function: func.FuncOp) -> None:
    """Does the same for the conditionals already in `function`, whose registers have been folded
    since."""
    for op in reversed(of_kind(function, scf.IfOp)):
        if not op.results:
            continue
        passed = [number for number in _passed_results(op) if op.results[number].first_use]
        if not passed:
            continue
        after = op.next_op
        assert after is not None
        _move_in_front(op, passed, _in_front_of(op))
        values = _selected(op, passed, _in_front_of(after))
        for number in passed:
            op.results[number].replace_all_uses_with(values[number])


def _in_front_of(place: Operation) -> Emit:
    """An `Emit` that inserts before `place`."""
    block = place.parent
    assert block is not None

    def emit(new: Operation) -> Operation:
        block.insert_op_before(new, place)
        return new

    return emit


def _passed_results(made: scf.IfOp) -> list[int]:
    """The numbers of the results of `made` that are registers which both branches only pass on."""
    passed = [_passed_on(region.block) for region in made.regions if region.blocks]
    return [
        number
        for number, value in enumerate(made.results)
        if is_vector(value)
        and all(
            side in known or not made.is_ancestor(side.owner)
            for side, known in zip(_sides(made, number), passed, strict=True)
        )
    ]


def _sides(made: scf.IfOp, number: int) -> list[SSAValue]:
    """What the branches yield for result `number`."""
    ends = [cast(Operation, region.block.last_op) for region in made.regions]
    return [end.operands[number] for end in ends]


def _move_in_front(made: scf.IfOp, passed: Sequence[int], emit: Emit) -> None:
    """Moves what the branches compute results `passed` with out of `made`, and emits it."""
    if not passed:
        return
    sides = zip(*[_sides(made, number) for number in passed], strict=True)
    for region, values in zip(made.regions, sides, strict=True):
        for op in _leading_to(values, region.block):
            op.detach()
            emit(op)


def _selected(made: scf.IfOp, passed: Sequence[int], emit: Emit) -> list[SSAValue]:
    """The results of `made`, those of numbers `passed` as selections."""
    values = list[SSAValue](made.results)
    if passed:
        mask = _mask(made.cond, emit)
        for number in passed:
            values[number] = _select(mask, _sides(made, number), emit)
    return values


def _passed_on(block: Block) -> set[SSAValue]:
    """Results of operations in `block` that may fold to constants or to values from outside of
    it."""
    constants: set[SSAValue] = set()
    passed: set[SSAValue] = set()
    for op in block.ops:
        if isinstance(op, arith.ConstantOp):
            constants.update(op.results)
            continue
        if not op.operands or op.regions or isinstance(op, _NEVER_EARLY) or not has_no_effects(op):
            continue
        known = [_is_constant(v, constants) for v in op.operands]
        if all(known):
            constants.update(op.results)
        elif all(
            constant or v in passed or _parent(v) is not block
            for v, constant in zip(op.operands, known, strict=True)
        ) and _may_fold(op):
            passed.update(op.results)
        elif isinstance(op, _SUMS):
            base, distance = _base(op.result)
            if not distance and (base in passed or _parent(base) is not block):
                passed.update(op.results)
    return constants | passed


def _base(value: SSAValue) -> tuple[SSAValue, int]:
    """The value to which integer constants are added to give `value`, and their sum (modulo
    2**bits).

    For `(x + 3) - 3` that is x and 0.
    """
    distance, modulus = 0, 1 << bit_width(value.type)
    while isinstance(value.owner, _SUMS):
        left, right = value.owner.operands
        constant = _splat(right)
        if constant is not None:
            distance += constant if isinstance(value.owner, arith.AddiOp) else -constant
            value = left
        elif isinstance(value.owner, arith.AddiOp) and (constant := _splat(left)) is not None:
            distance += constant
            value = right
        else:
            break
    return value, distance % modulus


def _splat(value: SSAValue) -> int | None:
    """The integer that every element of a constant is, else None."""
    number = arith.splat_number(value)
    return None if number is None else int(number)


def _parent(value: SSAValue) -> Block | None:
    """The block that defines `value`."""
    return value.owner.parent if isinstance(value.owner, Operation) else value.owner


def _is_constant(value: SSAValue, constants: set[SSAValue]) -> bool:
    return value in constants or isinstance(value.owner, arith.ConstantOp)


def _may_fold(op: Operation) -> bool:
    """Whether `op` may fold to one of its operands, or to a constant."""
    if any(_is_identity(v) for v in op.operands):
        return True
    return len(set(op.operands)) < len(op.operands) and not isinstance(op, _NEW_WITH_ITSELF)


def _is_identity(value: SSAValue) -> bool:
    """Whether `value` is a constant with which some operation folds: it passes its other operand
    on, or absorbs it.

    These are 0, 1, -1, infinities, and the largest and smallest integers.
    """
    owner = value.owner
    constant = owner.value if isinstance(owner, arith.ConstantOp) else None
    if not isinstance(constant, DenseIntOrFPElementsAttr) or not constant.is_splat():
        return False
    number = cast(float, next(iter(constant.get_values())))
    identities: set[float] = {-1, 0, 1, inf, -inf}
    element = constant.get_element_type()
    if isinstance(element, IntegerType):
        largest = 1 << (element.width.data - 1)
        identities |= {largest, -largest, largest - 1}
    return number in identities


def _leading_to(values: Sequence[SSAValue], block: Block) -> list[Operation]:
    """The operations of `block` that compute `values`, in order."""
    needed = set(values)
    found: list[Operation] = []
    for op in reversed(list(block.ops)):
        if any(result in needed for result in op.results):
            needed.update(op.operands)
            found.append(op)
    return found[::-1]


def _mask(condition: SSAValue, emit: Emit) -> SSAValue:
    """A register mask that is true everywhere if the scalar `condition` holds, else false
    everywhere."""
    word = emit(arith.ExtUIOp.create(operands=[condition], result_types=[i32]))
    spread = emit(vector.BroadcastOp(word.results[0], _WORDS))
    zero = emit(arith.ConstantOp(splat(_WORDS, 0)))
    return emit(arith.CmpiOp(spread, zero, "ne")).results[0]


def _select(mask: SSAValue, sides: Sequence[SSAValue], emit: Emit) -> SSAValue:
    """The first of the registers `sides` where `mask` is true, else the second, word by word."""
    kind = sides[0].type
    operands = [_bitcast(side, _WORDS, emit) for side in sides] if bit_width(kind) != 32 else sides
    return _bitcast(emit(arith.SelectOp(mask, *operands)).results[0], kind, emit)


def _bitcast(value: SSAValue, kind: Attribute, emit: Emit) -> SSAValue:
    """`value` bitcast to the register type `kind`, if it has another type."""
    if value.type == kind:
        return value
    return emit(tpu.BitcastVregOp.create(operands=[value], result_types=[kind])).results[0]
