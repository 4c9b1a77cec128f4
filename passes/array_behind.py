"""Rewrites accesses to slices and squeezes of an array as accesses to the array itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import arith, tpu
from pallasite.dialects.tpu.views import squeezed_dimensions
from pallasite.dialects.types import shape_of
from pallasite.dialects.viewed import PARTS, views_behind
from pallasite.passes.dead_code import remove_dead_code
from pallasite.passes.divisibility import constant_of
from pallasite.passes.insertion import Insertion

_INDEX = IndexType()
_Access = TypeVar("_Access", bound=Operation)
_Entry = TypeVar("_Entry")


def look_through(
    function: FuncOp,
    accesses: Iterable[_Access],
    cuts: Callable[[_Access], bool],
    rewrite: Callable[[_Access], None],
) -> None:
    """Applies `rewrite` to those `accesses` of `function` for which `cuts` holds, then removes dead
    views."""
    changed = False
    for access in accesses:
        if cuts(access):
            rewrite(access)
            changed = True
    if changed:
        for block in function.body.blocks:
            remove_dead_code(block)


def unsqueezed(
    view: tpu.MemrefSqueezeOp, entries: Sequence[_Entry], missing: Callable[[], _Entry]
) -> list[_Entry]:
    """`entries`, one per dimension of the squeezed ref, with `missing()` for dropped dimensions."""
    shape, left = shape_of(view.input.type), iter(entries)
    dropped = squeezed_dimensions(shape, shape_of(view.result.type)) or ()
    return [missing() if dim in dropped else next(left) for dim in range(len(shape))]


class ArrayBehind(Insertion):
    """Finds the array behind a view; writes index arithmetic in front of the operation `op`."""

    def __init__(self, op: Operation) -> None:
        self._anchor = op

    def found(self, array: SSAValue, index: list[SSAValue]) -> tuple[SSAValue, list[SSAValue]]:
        """The array of which the ref `array` is a slice or squeeze, and `index` in that array."""
        for view in views_behind(array, *PARTS):
            array = view.operands[0]
            if isinstance(view, tpu.MemrefSliceOp):
                index = [self._sum(*pair) for pair in zip(view.base_idx, index, strict=True)]
            else:
                index = unsqueezed(view, index, lambda: self._number(0))
        return array, index

    def _sum(self, start: SSAValue, index: SSAValue) -> SSAValue:
        first, further = constant_of(start), constant_of(index)
        if first is not None and further is not None:
            return self._number(first + further)
        if first == 0:
            return index
        at = (
            self._number(first)
            if first is not None
            else self.emit(arith.IndexCastOp(start, _INDEX))
        )
        return at if further == 0 else self.emit(arith.AddiOp(at, index))

    def _number(self, value: int) -> SSAValue:
        return self.emit(arith.ConstantOp(IntegerAttr(value, _INDEX)))
