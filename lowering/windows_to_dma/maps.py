"""Index maps: evaluates a window's `transform_i` function where the schedule needs its block.

A map takes the grid indices and the scalar-prefetch memrefs and returns one i32 per dimension of
the block (spec/tpu_dialect.md section 4.2). To evaluate it for a step, its operations are copied to
the insertion point; operations whose operands are known now are folded instead. With a grid of one
axis and the map `(i) -> (i, 0)`, nothing is copied: the results are the step and 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from pallasite.diagnostics import VerifyError
from pallasite.dialects import arith, memref
from pallasite.dialects.locations import source_location
from pallasite.dialects.tpu import ACTS_OF_MAPS, IterationBoundOp
from pallasite.lowering.windows_to_dma.scalars import Scalar, ScalarBuilder, known
from pallasite.passes.effects import has_no_effects
from pallasite.passes.ranges import Range, is_judged, range_of_operation
from pallasite.passes.scalar_folds import fold_numbers

_Known = dict[SSAValue, Scalar]
_WORDS = Range(-(2**31), 2**31 - 1)


def acts(function: FuncOp) -> bool:
    """Whether an index map does something besides computing its results: it prints or asserts."""
    inner = (op for block in function.body.blocks for op in block.walk())
    return any(isinstance(op, ACTS_OF_MAPS) for op in inner)


def evaluate(
    build: ScalarBuilder, function: FuncOp, arguments: Sequence[Scalar], bounds: Sequence[Scalar]
) -> tuple[Scalar, ...]:
    """The block index that the index map `function` gives for `arguments`.

    `arguments` are the grid indices and the prefetched refs; `bounds` are the sizes of the grid,
    which replace `tpu.iteration_bound`.
    """
    block = function.body.block
    scalars: _Known = dict(zip(block.args, arguments, strict=True))
    for op in block.ops:
        if op.next_op is None:
            return tuple(scalars[operand] for operand in op.operands)
        if isinstance(op, IterationBoundOp):
            scalars[op.results[0]] = _bound_of(op, bounds)
            continue
        folded = _fold(op, scalars)
        if folded is not None:
            scalars[op.results[0]] = folded
            continue
        clone = op.clone(_mapping(build, op, scalars))
        bind(clone, build, bounds)
        if len(op.results) == 1 and not op.regions and has_no_effects(op):
            scalars[op.results[0]] = build.once(clone)
        elif isinstance(op, memref.LoadOp):
            # Kernels may write SMEM between two steps, so a load is shared within a step only.
            scalars[op.results[0]] = build.once(clone, everywhere=False)
        else:
            build.keep(clone)
            scalars.update(zip(op.results, clone.results, strict=True))
    return ()


def bind(op: Operation, build: ScalarBuilder, bounds: Sequence[Scalar]) -> None:
    """Replaces each `tpu.iteration_bound` in `op` by the size of its grid axis in `bounds`.

    Raises a `VerifyError` for an axis that the grid does not have.
    """
    for inner in op.walk():
        if isinstance(inner, IterationBoundOp):
            inner.result.replace_all_uses_with(build.value(_bound_of(inner, bounds)))


def _bound_of(op: IterationBoundOp, bounds: Sequence[Scalar]) -> Scalar:
    axis = op.dim.value.data
    if not 0 <= axis < len(bounds):
        raise VerifyError(
            "iteration-bound",
            f"grid dimension must be below {len(bounds)}, got {axis}",
            source_location(op),
        )
    return bounds[axis]


def _mapping(build: ScalarBuilder, op: Operation, scalars: _Known) -> dict[SSAValue, SSAValue]:
    # Operands of nested operations count too: a map may contain an scf.if.
    return {
        operand: build.value(scalars[operand], operand.type)
        for nested in op.walk()
        for operand in nested.operands
        if operand in scalars
    }


def _fold(op: Operation, scalars: _Known) -> Scalar | None:
    """The value of `op` if it is known now or is one of its operands, else None."""
    if isinstance(op, arith.ConstantOp):
        return known(op.result)
    if op.regions or len(op.results) != 1 or not op.operands:
        return None
    values = [known(scalars.get(operand)) for operand in op.operands]
    kind = type(op)
    if isinstance(op, arith.SelectOp) and values[0] is not None:
        return scalars[op.operands[1 if values[0] else 2]]
    if kind is arith.AddiOp and 0 in values:
        return scalars[op.operands[1 - values.index(0)]]
    if kind is arith.MuliOp and 0 in values:
        return 0
    if any(value is None for value in values):
        return None
    return fold_numbers(op, cast("list[int]", values))


def ranges(function: FuncOp, bounds: Sequence[int | None]) -> tuple[Range, ...]:
    """The range of each result of the index map `function` over a grid with `bounds`.

    A bound of None is known only at run time.
    """
    block = function.body.block
    found: dict[SSAValue, Range] = {}
    for argument, bound in zip(block.args, bounds, strict=False):
        found[argument] = Range(0, None if bound is None else bound - 1)
    for op in block.ops:
        if op.next_op is None:
            return tuple(found.get(operand, Range()) for operand in op.operands)
        if len(op.results) == 1:
            operands = [found.get(operand, Range()) for operand in op.operands]
            found[op.results[0]] = _range_of(op, operands)
    return ()


def _range_of(op: Operation, operands: Sequence[Range]) -> Range:
    value = known(op.results[0])
    if not is_judged(op.results[0]):
        return Range()
    if value is not None:
        return Range(value, value)
    result = range_of_operation(op, operands)
    bounded = bool(operands) and all(None not in operand for operand in operands)
    # Nothing is known of a number that may have wrapped, but that any word may result. One that
    # depends on a table or on the length of a dynamic grid is not judged.
    wraps = result == Range() and bounded and op.results[0].type == i32
    return _WORDS if wraps else result
