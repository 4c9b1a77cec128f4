"""Folds `scf.if`: known conditions, sides that agree, unused results, branches by one condition."""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, VectorType
from xdsl.ir import Block, Operation, Region, SSAValue

from pallasite.dialects import arith, scf, vector
from pallasite.passes.effects import is_pure, only_reads
from pallasite.passes.equal_values import equal_values
from pallasite.passes.fold_kernel.driver import Folder, integer, rule, same

_MOST_REPEATED = 16
"""Two branches are not joined if more operations between them repeat earlier ones."""
_MOST_CONDITIONS = 64
"""A condition from which more conditions are derived is not followed."""
_OF_CONDITIONS = (arith.XOrIOp, arith.ExtUIOp, arith.CmpiOp)
"""Operations that derive a condition from another: by negation, or as JAX does, which extends it to
0 or 1 and compares that with 0."""


@rule(scf.IfOp)
def take_known_branch(op: scf.IfOp, f: Folder) -> bool:
    """A branch with a constant condition is replaced by the side that it takes."""
    known = integer(op.cond)
    if known is None:
        return False
    region = op.true_region if known else op.false_region
    if region.blocks:
        inline(op, region, ())
    else:
        _erase(op)
    return True


@rule(scf.ExecuteRegionOp)
def take_region(op: scf.ExecuteRegionOp, f: Folder) -> bool:
    """An `scf.execute_region` of one block is replaced by the operations in it."""
    if len(op.region.blocks) != 1:
        return False
    inline(op, op.region, ())
    return True


@rule(scf.IfOp)
def know_condition_inside(op: scf.IfOp, f: Folder) -> bool:
    """Within a side of a branch its condition is a constant."""
    changed = False
    for region, known in ((op.true_region, 1), (op.false_region, 0)):
        inside = [use for use in op.cond.uses if _within(use.operation, region)]
        if inside:
            constant = f.constant(op.cond.type, known)
            for use in inside:
                use.operation.operands[use.index] = constant
            changed = True
    return changed


@rule(scf.IfOp)
def drop_results(op: scf.IfOp, f: Folder) -> bool:
    """Drops results that are unused, or for which both sides yield values from outside the branch.

    One and the same value replaces such a result directly, two different ones by way of an
    `arith.select`. JAX's branches yield such values where they only pass something on.
    """
    if not op.results:
        return False
    yields = [_yield(region) for region in (op.true_region, op.false_region)]
    if None in yields:
        return False
    kept: list[int] = []
    for index, result in enumerate(op.results):
        if result.first_use is None:
            continue
        left, right = (end.operands[index] for end in yields if end is not None)
        if not (is_outside(left, op) and is_outside(right, op) and _selectable(left, right)):
            kept.append(index)
            continue
        value = left if same(left, right) else f.emit(arith.SelectOp(op.cond, left, right))
        result.replace_all_uses_with(value)
    if len(kept) == len(op.results):
        return False
    for end in yields:
        if end is not None:
            end.operands = [end.operands[index] for index in kept]
    new = scf.IfOp.create(
        operands=[op.cond],
        result_types=[op.results[index].type for index in kept],
        properties=op.properties,
        attributes=op.attributes,
        regions=[op.detach_region(region) for region in list(op.regions)],
    )
    f.insert(new)
    for index, result in zip(kept, new.results, strict=True):
        op.results[index].replace_all_uses_with(result)
    _erase(op)
    return True


@rule(scf.IfOp)
def turn_negated_branch(op: scf.IfOp, f: Folder) -> bool:
    """A branch by `not c` is a branch by `c` with its sides exchanged.

    Only if both sides do something, as in libtpu 0.0.51.
    """
    opposite = op.cond.owner
    if not isinstance(opposite, arith.XOrIOp) or not _does_both(op):
        return False
    one, other = opposite.operands
    condition = one if integer(other) else other if integer(one) else None
    if condition is None:
        return False
    true, false = (op.detach_region(region) for region in list(op.regions))
    kinds = [result.type for result in op.results]
    turned = scf.IfOp(condition, kinds, false, true, op.attributes)
    f.insert(turned)
    for result, new in zip(op.results, turned.results, strict=True):
        result.replace_all_uses_with(new)
    _erase(op)
    return True


def turns_branch(condition: SSAValue) -> bool:
    """Whether some branch that does something on both sides has `condition`, or one derived from it
    by `_OF_CONDITIONS`, as its own. False if there are more than 64 derived ones."""
    waiting, met = [condition], {condition}
    while waiting:
        for use in waiting.pop().uses:
            op = use.operation
            if isinstance(op, scf.IfOp):
                if _does_both(op):
                    return True
            elif isinstance(op, _OF_CONDITIONS) and op.results[0] not in met:
                if len(met) == _MOST_CONDITIONS:
                    return False
                met.add(op.results[0])
                waiting.append(op.results[0])
    return False


def _does_both(op: scf.IfOp) -> bool:
    """Whether both sides of a branch have operations, or yield values."""
    for region in op.regions:
        first = region.block.first_op if region.blocks else None
        if first is None or (isinstance(first, scf.YieldOp) and not first.operands):
            return False
    return True


@rule(scf.IfOp)
def join_branches(op: scf.IfOp, f: Folder) -> bool:
    """Joins a branch with an earlier one by the same condition.

    What the second does with a result of the first then folds within one side, such as a mask that
    both negate. Branches without results stay apart, since nothing of theirs can fold.
    """
    first = _branch_before(op)
    if first is None or not (first.results or op.results):
        return False
    regions: list[Region] = []
    for index, region in enumerate(op.regions):
        given = _sides(first, index)
        for result, value in zip(first.results, given, strict=True):
            result.replace_uses_with_if(
                value, lambda use, inside=region: _within(use.operation, inside)
            )
        yielded = [*given, *_sides(op, index)]
        block = Block()
        for source in (first.regions[index], region):
            for inner in list(source.block.ops) if source.blocks else ():
                if not isinstance(inner, scf.YieldOp):
                    inner.detach()
                    block.add_op(inner)
        block.add_op(scf.YieldOp(*yielded))
        regions.append(Region(block))
    results = (*first.results, *op.results)
    true, false = regions
    kinds = [result.type for result in results]
    joined = scf.IfOp(first.cond, kinds, true, false, op.attributes)
    f.insert(joined)
    for result, new in zip(results, joined.results, strict=True):
        result.replace_all_uses_with(new)
    for old in (op, first):
        _erase(old)
    return True


def _branch_before(op: scf.IfOp) -> scf.IfOp | None:
    """The earlier branch by the same condition with which `op` can be joined, None without one.

    Between the two may be constants, operations that compute the condition, and operations without
    effects that repeat one from before the earlier branch.
    """
    before, passed = op.prev_op, {op.cond}
    again: list[Operation] = []
    while before is not None and not isinstance(before, scf.IfOp):
        needed = any(result in passed for result in before.results)
        if not isinstance(before, arith.ConstantOp) and not (needed and is_pure(type(before))):
            if before.regions or not only_reads(before) or len(again) == _MOST_REPEATED:
                return None
            again.append(before)
        passed.update(before.operands if needed else ())
        before = before.prev_op
    if before is None or not equal_values(before.cond, op.cond):
        return None
    return before if all(_is_repeated(between, before) for between in again) else None


def _is_repeated(op: Operation, branch: scf.IfOp) -> bool:
    """Whether an operation before `branch`, in its block, has a result equal to that of `op`."""
    earlier = branch.prev_op
    while earlier is not None:
        if type(earlier) is type(op) and len(op.results) == 1:
            if equal_values(earlier.results[0], op.results[0]):
                return True
        earlier = earlier.prev_op
    return False


def _sides(op: scf.IfOp, index: int) -> list[SSAValue]:
    """The values that side `index` of a branch yields."""
    end = _yield(op.regions[index])
    return [] if end is None else list(end.operands)


def inline(op: Operation, region: Region, arguments: tuple[SSAValue, ...]) -> None:
    """Replaces `op` by the block of `region`, and its results by what the block yields."""
    block, outer = region.block, op.parent
    assert outer is not None
    for argument, value in zip(block.args, arguments, strict=True):
        argument.replace_all_uses_with(value)
    end = block.last_op
    assert isinstance(end, scf.YieldOp)
    for result, value in zip(op.results, end.operands, strict=True):
        result.replace_all_uses_with(value)
    _erase(end)
    for inner in list(block.ops):
        inner.detach()
        outer.insert_op_before(inner, op)
    _erase(op)


def _yield(region: Region) -> scf.YieldOp | None:
    if not region.blocks:
        return None
    end = region.block.last_op
    return end if isinstance(end, scf.YieldOp) else None


def _within(op: Operation | None, region: Region) -> bool:
    while op is not None:
        if op.parent_region() is region:
            return True
        op = op.parent_op()
    return False


def is_outside(value: SSAValue, op: Operation) -> bool:
    """Whether `value` is defined outside of the regions of `op`.

    Constants, and broadcasts of scalars from outside, are moved in front of `op` for this.
    """
    owner = value.owner
    if not isinstance(owner, Operation):
        inside = owner.parent_op()
    elif not any(owner.parent_region() is region for region in op.regions):
        inside = owner.parent_op()
    elif isinstance(owner, vector.BroadcastOp) and (
        isinstance(owner.source.type, VectorType) or not is_outside(owner.source, op)
    ):
        return False
    elif isinstance(owner, vector.BroadcastOp | arith.ConstantOp):
        assert op.parent is not None
        owner.detach()
        op.parent.insert_op_before(owner, op)
        return True
    else:
        return False
    while inside is not None and inside is not op:
        inside = inside.parent_op()
    return inside is None


def _selectable(left: SSAValue, right: SSAValue) -> bool:
    """Whether `arith.select` can choose between both, or they are the same value."""
    numbers = (VectorType, IntegerType, IndexType, AnyFloat)
    return same(left, right) or isinstance(left.type, numbers)


def _erase(op: Operation) -> None:
    op.detach()
    op.erase()
