"""Rows of loaded registers that are only wanted replicated are loaded into all sublanes.

    %x = tpu.load %a[%c0, %c0] sublanes [...] : memref<8x128xf32, ...>, vector<1x1x8x128xf32>
    %y = tpu.sublane_shuffle %x, %x, [3, 3, 3, 3, 3, 3, 3, 3] : ...
becomes
    %y = tpu.load %a[%c3, %c0] sublanes [...] sublane_stride 0 : ..., vector<1x1x8x128xf32>
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, i32
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith, func, tpu
from pallasite.dialects.grid_base import Renaming
from pallasite.dialects.registers import BOX, STEPS
from pallasite.dialects.types import bit_width, element_of, split_grid, tiling_of
from pallasite.dialects.walking import of_kind
from pallasite.layouts.registers import SUBLANES
from pallasite.lowering.vectors_to_tiles.loading import sublane_mask
from pallasite.passes.dead_code import remove_dead_code
from pallasite.passes.divisibility import constant_of
from pallasite.passes.insertion import alike, insert_before


def load_spread_rows(function: func.FuncOp) -> None:
    """Rewrites the loads of `function` whose registers are only replicated row by row."""
    for op in of_kind(function, tpu.LoadOp):
        _spread(op)
    for block in function.body.blocks:
        remove_dead_code(block)


def _spread(op: tpu.LoadOp) -> None:
    """Replaces the load `op` by one for each row, if all its uses replicate a row."""
    shuffles: list[tpu.SublaneShuffleOp] = []
    if not _shuffles_of(op.result, shuffles):
        return
    rows = {s: _row_of(s) for s in shuffles}
    last = _last_row(op)
    row = constant_of(op.indices[-2]) if len(op.indices) > 1 else None
    if last is None or row is None or any(r is None or r > last for r in rows.values()):
        return
    loads = {r: _load(op, row + r) for r in rows.values() if r is not None}
    for shuffle, r in rows.items():
        assert r is not None
        value = _renamed(shuffle.lhs, op.result, loads[r], shuffle)
        shuffle.result.replace_all_uses_with(value)


def _shuffles_of(value: SSAValue, shuffles: list[tpu.SublaneShuffleOp]) -> bool:
    """Collects the shuffles of a loaded value, renamed or not; False if anything else uses it."""
    for use in value.uses:
        op = use.operation
        if isinstance(op, tpu.SublaneShuffleOp):
            shuffles.append(op)
        elif not isinstance(op, Renaming) or not _shuffles_of(op.results[0], shuffles):
            return False
    return bool(shuffles)


def _row_of(op: tpu.SublaneShuffleOp) -> int | None:
    """The row that `op` copies into every sublane, None if it does something else."""
    rows = set(_numbers(op.pattern))
    row = rows.pop()
    if rows or (op.lhs is not op.rhs and row >= SUBLANES):
        return None
    return row % SUBLANES


def _last_row(op: tpu.LoadOp) -> int | None:
    """The last row of a register of words that memory has for all registers of `op`.

    None if rows do not follow each other in whole tiles, or if some of them may leave the ref.
    """
    split, steps = split_grid(op.result.type), op.attributes.get(STEPS)
    tiling = tiling_of(op.base.type)
    row = constant_of(op.indices[-2]) if len(op.indices) > 1 else None
    if tiling is None or len(tiling.first) != 2 or bit_width(element_of(op.result)) != 32:
        return None
    if row is None or split is None or len(split[0]) < 2 or steps is None:
        return None
    if BOX in op.attributes or op.sublane_stride.value.data != 1:
        return None
    tile, step = tiling.first[0], _numbers(steps)[-2]
    if tile == 1 or row % tile or step % tile:
        return None
    enabled = _numbers(op.sublane_mask)
    held = enabled.index(0) if 0 in enabled else SUBLANES
    left = op.base.type.get_shape()[-2] - row - (split[0][-2] - 1) * step
    return min(held, tile, left) - 1


def _numbers(attribute: Attribute) -> list[int]:
    """The integers of an array attribute."""
    return [int(n) for n in cast("DenseArrayBase[Any]", attribute).get_values()]


def _load(op: tpu.LoadOp, row: int) -> SSAValue:
    """A load of row `row` into every sublane of the registers of `op`."""
    at = arith.ConstantOp(IntegerAttr(row, IndexType()))
    indices = [*op.indices[:-2], at.result, op.indices[-1]]
    made = tpu.LoadOp.create(
        operands=[op.base, *indices],
        result_types=[op.result.type],
        properties={
            "sublane_mask": sublane_mask(0, SUBLANES),
            "sublane_stride": IntegerAttr(0, i32),
        },
        attributes=op.attributes,
    )
    insert_before(at, op)
    return insert_before(made, op)


def _renamed(value: SSAValue, old: SSAValue, new: SSAValue, place: Operation) -> SSAValue:
    """`new`, renamed as `value` is renamed from `old`, inserted before `place`."""
    if value is old:
        return new
    owner = value.owner
    assert isinstance(owner, Renaming)
    made = alike(owner, [_renamed(owner.operands[0], old, new, place)], [value.type])
    return insert_before(made, place)
