"""Masks of a register that are true on whole sublanes and false on all others."""

from __future__ import annotations

from typing import cast

from xdsl.ir import SSAValue

from pallasite.dialects import func, tpu
from pallasite.dialects.arith import known_integer
from pallasite.dialects.walking import of_kind
from pallasite.layouts.registers import LANES, SUBLANES

Sublanes = frozenset[int]


def row_masks(function: func.FuncOp) -> dict[SSAValue, Sublanes]:
    """The numbers of the sublanes on which each such mask of the unrolled `function` is true."""
    made = of_kind(function, tpu.CreateMaskOp)
    return {mask.result: rows for mask in made if (rows := _rows(mask)) is not None}


def _rows(mask: tpu.CreateMaskOp) -> Sublanes | None:
    """The sublanes on which `mask` is true; None if it depends on the lane or is not constant."""
    bounds = [known_integer(value) for value in mask.operands]
    lows, highs = bounds[: len(bounds) // 2], bounds[len(bounds) // 2 :]
    if None in bounds or lows[1:] != [0] or highs[1:] != [LANES]:
        return None
    return frozenset(range(cast(int, lows[0]), min(cast(int, highs[0]), SUBLANES)))
