"""Has the operations of islands work on the rows of 128 that memory consists of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import VectorType, i32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from pallasite.dialects import arith, func, scf, tpu, vector
from pallasite.dialects.types import (
    AnyMemRef,
    bit_width,
    element_of,
    shape_of,
    splat,
    splat_value,
    tiling_of,
    vector_of,
)
from pallasite.dialects.vector_shapes import integers
from pallasite.layouts.registers import LANES, packing
from pallasite.layouts.tiling import packed_tiling
from pallasite.passes.divisibility import constant_of
from pallasite.passes.fill_registers.islands import STORES, Island, is_one_value
from pallasite.passes.insertion import Insertion
from pallasite.passes.laid_out import laid_out


def rewrite(function: func.FuncOp, islands: Sequence[Island]) -> None:
    """Has the operations of `islands`, between which values are reshaped, work on rows."""
    operations = set[Operation]().union(*(island.operations for island in islands))
    ordered = [(op, _accessed(op)) for op in function.walk() if op in operations]
    for value in [value for island in islands for value in island.values]:
        shape = islands[0].seen(shape_of(value.type))
        Rewriter.replace_value_with_new_type(value, vector_of(element_of(value), shape))
    rows = _Rows(islands[0])
    for op, shape in ordered:
        rows.work(op, shape)


def _accessed(op: Operation) -> tuple[int, ...]:
    """The shape that a load or store touches."""
    held = op.operands[0] if isinstance(op, STORES) else op.results[0] if op.results else None
    return () if held is None else shape_of(held.type)


class _Rows(Insertion):
    """Completes operations whose values have already the shapes of rows."""

    def __init__(self, island: Island) -> None:
        self._island = island

    def work(self, op: Operation, shape: tuple[int, ...]) -> None:
        """Adapts what else `op` says of shapes, or puts another operation in its place.

        `shape` is what a load or store touched before.
        """
        self._anchor = op
        self._spread_operands(op)
        if isinstance(op, vector.LoadOp):
            places = self._places(op.indices)
            rows = self._rows_of(op.base, op.indices, shape)
            self._replace(op, vector.LoadOp(rows, places, op.result.type))
        elif isinstance(op, STORES):
            places = self._places(op.indices)
            rows = self._rows_of(op.base, op.indices, shape)
            self._replace(op, vector.StoreOp(op.operands[0], rows, places))
        elif isinstance(op, vector.ShapeCastOp) and op.source.type == op.result.type:
            op.result.replace_all_uses_with(op.source)
            op.detach()
            op.erase()
        elif isinstance(op, vector.ExtractStridedSliceOp):
            self._slice(op)

    def _replace(self, old: Operation, new: Operation) -> None:
        self.insert(new)
        for before, after in zip(old.results, new.results, strict=True):
            after.name_hint = before.name_hint
            before.replace_all_uses_with(after)
        old.detach()
        old.erase()

    def _spread_operands(self, op: Operation) -> None:
        """Makes rows of what is one number."""
        loop = op.parent_op() if isinstance(op, scf.YieldOp) else op
        # Loops may carry other values, too; what the body gets says which are rows.
        carried = loop.body.block.args[1:] if isinstance(loop, scf.ForOp) else ()
        kept = len(op.operands) - len(carried)
        for number, value in enumerate(op.operands):
            same = bool(carried) and (number < kept or carried[number - kept].type == value.type)
            if isinstance(value.type, VectorType) and is_one_value(value) and not same:
                op.operands[number] = self._spread(value)

    def _spread(self, old: SSAValue) -> SSAValue:
        """A vector of one number, as rows."""
        owner, shape = old.owner, self._island.seen(shape_of(old.type))
        kind = vector_of(element_of(old), shape)
        if isinstance(owner, vector.BroadcastOp):
            return self.emit(vector.BroadcastOp(owner.source, kind))
        value = splat_value(cast(arith.ConstantOp, owner).value)
        assert value is not None
        return self.emit(arith.ConstantOp(splat(kind, value)))

    def _slice(self, op: vector.ExtractStridedSliceOp) -> None:
        """Matrices are taken whole."""
        named = len(op.sizes)
        op.sizes = integers(shape_of(op.result.type)[:named])

    def _places(self, indices: Sequence[SSAValue]) -> list[SSAValue]:
        """Where matrices begin among rows: each is taken whole."""
        outer = indices[:-2] if self._island.of_matrices else ()
        return [*outer, indices[-1], indices[-1]]

    def _rows_of(
        self, ref: SSAValue, indices: Sequence[SSAValue], shape: tuple[int, ...]
    ) -> SSAValue:
        """The matrices of `ref` as rows of words: all, or those of a part of `shape` as one."""
        kind = cast(AnyMemRef, ref.type)
        if self._island.of_matrices:
            shape = tuple(kind.get_shape())
        else:
            ref = self._part(ref, indices, shape)
        bits, rows = bit_width(kind), self._island.seen(shape)
        seen = laid_out(kind, rows, packed_tiling(rows, (packing(bits), LANES), bits))
        return self.emit(tpu.ReinterpretCastOp(operands=[ref, [], []], result_types=[seen]))

    def _part(self, ref: SSAValue, indices: Sequence[SSAValue], shape: tuple[int, ...]) -> SSAValue:
        """What is accessed; in one column of tiles these are the places of larger matrices."""
        kind = cast(AnyMemRef, ref.type)
        tiling = tiling_of(kind)
        if tuple(kind.get_shape()) == shape or tiling is None:
            return ref
        starts = [constant_of(index) or 0 for index in indices]
        places = [self.emit(arith.ConstantOp.from_int_and_width(n, i32)) for n in starts]
        part = laid_out(kind, shape, tiling)
        return self.emit(tpu.MemrefSliceOp(operands=[ref, places, []], result_types=[part]))
