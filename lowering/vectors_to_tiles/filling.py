"""Converts a function in several ways, and keeps the one with the fewest register operations.

* Loads may fill registers with several small tiles (`dense.py`), or take one tile per register.
  Elementwise work takes fewer full registers. Reductions, products and broadcasts want one tile in
  each, and moving it there costs more than loading it so.
* Vectors that come from reductions may cross the borders of regions as these leave them,
  replicated, or in native layouts (`carried.py`).
"""

from __future__ import annotations

import math
from typing import cast

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute

from pallasite.diagnostics import Diagnostic
from pallasite.dialects import arith, func, grid, scf, tpu, vector
from pallasite.dialects.grid_base import Renaming
from pallasite.dialects.types import (
    bit_width,
    element_of,
    is_vector,
    shape_of,
    split_grid,
    tiling_of,
)
from pallasite.dialects.walking import of_kind, operations
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.lowering.vectors_to_tiles.converter import Converter
from pallasite.lowering.vectors_to_tiles.spread_loads import load_spread_rows
from pallasite.lowering.vectors_to_tiles.views import absorb_bitcasts
from pallasite.passes.common_subexpressions import remove_common_subexpressions
from pallasite.passes.divisibility import constant_of
from pallasite.targets import Target

_FREE = (Renaming, arith.ConstantOp, tpu.BitcastVregOp, grid.ConcatOp, grid.PoisonOp)
"""Operations that cost no instruction."""


def convert(function: func.FuncOp, target: Target) -> None:
    """Converts the vectors of `function` to grids of registers, in the best way that is found."""
    block = function.parent_block()
    if block is None:
        _convert(function, target)
        return
    carries = _carries_vectors(function)
    native = function.clone() if carries else None
    dense = function.clone() if _has_small_tiles(function) else None
    kept, spread = function, _convert(function, target, spread_carries=carries)
    if native is not None and spread:
        kept = _shorter(kept, native, target, spread_carries=False)
        spread = kept is function
    if dense is not None:
        _shorter(kept, dense, target, dense=True, spread_carries=spread)


def _shorter(kept: func.FuncOp, other: func.FuncOp, target: Target, **choices: bool) -> func.FuncOp:
    """Converts `other`, erases the one with more operations, and returns the one that is left.

    A way that raises a diagnostic loses.
    """
    block = kept.parent_block()
    assert block is not None
    block.insert_op_after(other, kept)
    loser = other
    try:
        _convert(other, target, **choices)
        if _operations(other) < _operations(kept):
            loser = kept
    except Diagnostic:
        pass
    loser.detach()
    loser.erase(safe_erase=False)
    return other if loser is kept else kept


def _convert(function: func.FuncOp, target: Target, **choices: bool) -> bool:
    """Converts `function` with some `choices` of `Converter`; returns whether carried vectors are
    spread."""
    converter = Converter(target, **choices)
    converter.run(function)
    absorb_bitcasts(function)
    load_spread_rows(function)
    remove_common_subexpressions(function)
    return converter.spreads_carries


def _carries_vectors(function: func.FuncOp) -> bool:
    """Whether a vector crosses the border of a region."""
    kinds = (scf.ForOp, scf.WhileOp, scf.IfOp, scf.IndexSwitchOp)
    return any(is_vector(v) for op in of_kind(function, *kinds) for v in op.results)


def _has_small_tiles(function: func.FuncOp) -> bool:
    """Whether some access takes several tiles, or one row of several, that a register could hold
    together."""
    for op in of_kind(function, vector.LoadOp, vector.StoreOp, tpu.VectorStoreOp):
        value = op.results[0] if isinstance(op, vector.LoadOp) else op.operands[0]
        tiling = tiling_of(cast(MemRefType[Attribute], op.base.type))
        shape = shape_of(value.type)
        native = SUBLANES * packing(bit_width(element_of(value)))
        if tiling is None or len(shape) < 2 or len(tiling.first) != 2 or shape[-1] <= LANES:
            continue
        if shape[-2] <= tiling.first[0] < native and tiling.strides[-1] == 1:
            return True
        start, p = constant_of(op.indices[-2]), native // SUBLANES
        if start is not None and start % p + shape[-2] <= p < tiling.first[0]:
            return True
    return False


def _operations(function: func.FuncOp) -> int:
    """The number of register operations of `function`."""
    count = 0
    for op in operations(function):
        if isinstance(op, _FREE):
            continue
        if isinstance(op, grid.ReduceOp):
            count += _registers(op.operands[0].type) - _registers(op.results[0].type)
            continue
        values = (*op.operands, *op.results)
        count += max((_registers(value.type) for value in values), default=0)
    return count


def _registers(kind: Attribute) -> int:
    split = split_grid(kind)
    return 0 if split is None else math.prod(split[0])
