"""Folds loops that run at most once, and drops carried values that are unchanged or unused."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from pallasite.dialects import scf
from pallasite.dialects.integers import unsigned
from pallasite.dialects.types import element_of
from pallasite.passes.equal_values import equal_values
from pallasite.passes.fold_kernel.branches import inline, is_outside
from pallasite.passes.fold_kernel.driver import Folder, integer, rule, width_of


@rule(scf.ForOp)
def inline_short_loop(op: scf.ForOp, f: Folder) -> bool:
    """A loop that runs once is its body, one that never runs its initial values."""
    lower, upper, step = _bounds(op)
    if op.lb is op.ub or (lower is not None and upper is not None and upper <= lower):
        for result, initial in zip(op.results, op.iter_args, strict=True):
            result.replace_all_uses_with(initial)
        op.detach()
        op.erase()
        return True
    if lower is None or upper is None or step is None or not step >= upper - lower:
        return False
    inline(op, op.body, (op.lb, *op.iter_args))
    return True


def _bounds(op: scf.ForOp) -> tuple[int | None, int | None, int | None]:
    """Lower bound, upper bound and step of a loop, each None if it is not known."""
    lower, upper, step = (integer(v) for v in (op.lb, op.ub, op.step))
    if op.unsigned_cmp is not None:
        bits = width_of(element_of(op.lb))
        lower, upper, step = (
            None if v is None else unsigned(v, bits) for v in (lower, upper, step)
        )
    return lower, upper, step


@rule(scf.ForOp)
def drop_carried(op: scf.ForOp, f: Folder) -> bool:
    """A value that a loop carries unchanged is its initial value, inside and after the loop.

    A carried value that neither the body nor anything after the loop reads is dropped.
    """
    end = op.body.block.last_op
    if not isinstance(end, scf.YieldOp):
        return False
    arguments = op.body.block.args[1:]
    lower, upper, _ = _bounds(op)
    runs = lower is not None and upper is not None and lower < upper
    for index, argument in enumerate(arguments):
        # The loop runs and yields a value from outside, whatever the initial value is.
        if runs and argument.first_use is None and is_outside(end.operands[index], op):
            op.results[index].replace_all_uses_with(end.operands[index])
    fixed = {
        index
        for index, (argument, initial) in enumerate(zip(arguments, op.iter_args, strict=True))
        if end.operands[index] is argument
        or equal_values(end.operands[index], initial)
        or (argument.first_use is None and op.results[index].first_use is None)
    }
    if not fixed:
        return False
    for index in sorted(fixed, reverse=True):
        argument = arguments[index]
        argument.replace_all_uses_with(op.iter_args[index])
        op.results[index].replace_all_uses_with(op.iter_args[index])
        op.body.block.erase_arg(argument)
    kept = [index for index in range(len(arguments)) if index not in fixed]
    end.operands = [end.operands[index] for index in kept]
    new = scf.ForOp.create(
        operands=[op.lb, op.ub, op.step, *(op.iter_args[index] for index in kept)],
        result_types=[op.results[index].type for index in kept],
        properties=op.properties,
        attributes=op.attributes,
        regions=[op.detach_region(op.body)],
    )
    f.insert(new)
    for index, result in zip(kept, new.results, strict=True):
        op.results[index].replace_all_uses_with(result)
    op.detach()
    op.erase()
    return True


@rule(scf.WhileOp)
def drop_carried_by_while(op: scf.WhileOp, f: Folder) -> bool:
    """A value that a `while` loop carries unchanged is its initial value, inside and after it."""
    before, after = op.before_region.block, op.after_region.block
    condition, end = before.last_op, after.last_op
    if not isinstance(condition, scf.ConditionOp) or not isinstance(end, scf.YieldOp):
        return False
    fixed = {
        index
        for index, (argument, initial) in enumerate(zip(before.args, op.arguments, strict=True))
        if end.operands[index] in _seen_as(argument, condition, after.args)
        or equal_values(end.operands[index], initial)
    }
    if not fixed:
        return False
    places: set[int] = set()
    for index in sorted(fixed, reverse=True):
        argument, initial = before.args[index], op.arguments[index]
        for place, value in enumerate(condition.args):
            if value is argument:
                after.args[place].replace_all_uses_with(initial)
                op.results[place].replace_all_uses_with(initial)
                places.add(place)
        argument.replace_all_uses_with(initial)
    _rebuild(op, f, fixed, places)
    return True


@rule(scf.WhileOp)
def drop_unused_by_while(op: scf.WhileOp, f: Folder) -> bool:
    """A carried value that neither the body nor anything after a `while` loop reads is dropped.

    Carried values that are only used to compute each other stay, as in the TPU compiler.
    """
    before, after = op.before_region.block, op.after_region.block
    condition = before.last_op
    if not isinstance(condition, scf.ConditionOp):
        return False
    places = {
        place
        for place, (argument, result) in enumerate(zip(after.args, op.results, strict=True))
        if argument.first_use is None and result.first_use is None
    }
    passed = {value for place, value in enumerate(condition.args) if place not in places}
    unused = {
        index
        for index, argument in enumerate(before.args)
        if argument not in passed and all(use.operation is condition for use in argument.uses)
        and argument is not condition.condition
    }  # fmt: skip
    if not places and not unused:
        return False
    _rebuild(op, f, unused, places)
    return True


def _rebuild(op: scf.WhileOp, f: Folder, dropped: set[int], places: set[int]) -> None:
    """Replaces `op` by a loop without the initial values `dropped` and without the operands of its
    condition at `places`."""
    before, after = op.before_region.block, op.after_region.block
    condition, end = before.last_op, after.last_op
    assert isinstance(condition, scf.ConditionOp) and isinstance(end, scf.YieldOp)
    condition.operands = [
        condition.condition,
        *(value for place, value in enumerate(condition.args) if place not in places),
    ]
    end.operands = [value for index, value in enumerate(end.operands) if index not in dropped]
    for place in sorted(places, reverse=True):
        after.erase_arg(after.args[place])
    for index in sorted(dropped, reverse=True):
        before.erase_arg(before.args[index])
    kept = [result for place, result in enumerate(op.results) if place not in places]
    new = scf.WhileOp.create(
        operands=[value for index, value in enumerate(op.arguments) if index not in dropped],
        result_types=[result.type for result in kept],
        properties=op.properties,
        attributes=op.attributes,
        regions=[op.detach_region(region) for region in list(op.regions)],
    )
    f.insert(new)
    for old, result in zip(kept, new.results, strict=True):
        old.replace_all_uses_with(result)
    op.detach()
    op.erase()


def _seen_as(
    argument: SSAValue, condition: scf.ConditionOp, inside: Sequence[SSAValue]
) -> list[SSAValue]:
    """The arguments `inside` the body of a `while` loop that are `argument` of its condition."""
    return [inside[place] for place, value in enumerate(condition.args) if value is argument]
