"""Rewrites the operations of islands to work on the rows of 128 that memory consists of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import IndexType, IntegerAttr, VectorType, i32
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
from pallasite.passes.fill_registers.orders import first_column
from pallasite.passes.insertion import Insertion
from pallasite.passes.laid_out import laid_out


def rewrite(function: func.FuncOp, islands: Sequence[Island]) -> None:
    """Gives all values of `islands` the shape of rows, and adapts their operations.

    All islands have the same order in memory; reshapes between them become no operation.
    """
    operations = set[Operation]().union(*(island.operations for island in islands))
    ordered = [(op, _accessed(op)) for op in function.walk() if op in operations]
    for value in [value for island in islands for value in island.values]:
        shape = islands[0].seen(shape_of(value.type))
        Rewriter.replace_value_with_new_type(value, vector_of(element_of(value), shape))
    rows = _Rows(islands[0], set[Operation]().union(*(island.spread for island in islands)))
    for op, shape in ordered:
        rows.work(op, shape)


def _accessed(op: Operation) -> tuple[int, ...]:
    """The shape of the vector that a load or store accesses, or of the first result."""
    held = op.operands[0] if isinstance(op, STORES) else op.results[0] if op.results else None
    return () if held is None else shape_of(held.type)


class _Rows(Insertion):
    """Adapts operations whose values already have the shapes of rows."""

    def __init__(self, island: Island, spread: set[Operation]) -> None:
        self._island, self._repeated = island, spread

    def work(self, op: Operation, shape: tuple[int, ...]) -> None:
        """Adapts the attributes of `op` to the new shapes, or replaces it by another operation.

        `shape` is the shape of the vector (`_accessed`) before.
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
        elif isinstance(op, tpu.ConcatenateOp) and op.dimension.value.data == len(shape) - 1:
            op.dimension = IntegerAttr(len(shape) - 2, i32)
        elif isinstance(op, vector.BroadcastOp) and op in self._repeated:
            self._repeat(op, shape)

    def _replace(self, old: Operation, new: Operation) -> None:
        """Inserts `new`, and replaces `old` by it."""
        self.insert(new)
        for before, after in zip(old.results, new.results, strict=True):
            after.name_hint = before.name_hint
            before.replace_all_uses_with(after)
        old.detach()
        old.erase()

    def _spread_operands(self, op: Operation) -> None:
        """Replaces operands that are one number everywhere by such vectors in the shape of rows."""
        loop = op.parent_op() if isinstance(op, scf.YieldOp) else op
        # A loop may carry other values too; the types of its block arguments say which are rows.
        carried = loop.body.block.args[1:] if isinstance(loop, scf.ForOp) else ()
        kept = len(op.operands) - len(carried)
        for number, value in enumerate(op.operands):
            same = bool(carried) and (number < kept or carried[number - kept].type == value.type)
            if isinstance(value.type, VectorType) and is_one_value(value) and not same:
                op.operands[number] = self._spread(value)

    def _spread(self, old: SSAValue) -> SSAValue:
        """The vector `old`, one number everywhere, in the shape of rows."""
        owner, shape = old.owner, self._island.seen(shape_of(old.type))
        kind = vector_of(element_of(old), shape)
        if isinstance(owner, vector.BroadcastOp):
            return self.emit(vector.BroadcastOp(owner.source, kind))
        value = splat_value(cast(arith.ConstantOp, owner).value)
        assert value is not None
        return self.emit(arith.ConstantOp(splat(kind, value)))

    def _slice(self, op: vector.ExtractStridedSliceOp) -> None:
        """Adapts a slice of whole matrices, or of whole tiles of the only row of tiles."""
        named, tile = len(op.sizes), self._island.order[-1]
        op.sizes = integers(shape_of(op.result.type)[:named])
        if named == len(shape_of(op.result.type)):
            starts = [offset.value.data for offset in op.offsets]
            op.offsets = integers([*starts[:-2], starts[-1] // LANES * tile, 0])

    def _repeat(self, op: vector.BroadcastOp, shape: tuple[int, ...]) -> None:
        """Broadcasts a row or a column over all tiles of matrices, which were of `shape`."""
        given = shape_of(op.source.type)
        outer, (rows, columns) = (*[1] * (len(shape) - len(given)), *given[:-2]), given[-2:]
        if (rows, columns) == (1, 1):
            return
        tile, tiles = self._island.order[-1], -(-shape[-1] // LANES)
        kind, value = element_of(op.vector), op.source
        matrices = vector_of(kind, (*outer, tiles * tile, LANES))
        if columns == 1:
            value = self.emit(vector.BroadcastOp(value, vector_of(kind, (*outer, tile, LANES))))
            if tiles > 1:
                joined = tpu.ConcatenateOp.create(
                    operands=[value] * tiles,
                    result_types=[matrices],
                    properties={"dimension": IntegerAttr(len(outer), i32)},
                )
                value = self.emit(joined)
        else:
            apart = (*outer, tiles, 1, LANES)
            value = self.emit(vector.ShapeCastOp(value, vector_of(kind, apart)))
            spread = vector_of(kind, (*apart[:-2], tile, LANES))
            value = self.emit(vector.BroadcastOp(value, spread))
            value = self.emit(vector.ShapeCastOp(value, matrices))
        self._replace(op, vector.BroadcastOp(value, op.vector.type))

    def _places(self, indices: Sequence[SSAValue]) -> list[SSAValue]:
        """The indices, among rows of 128, of the tile at which an access to matrices begins."""
        if not self._island.of_matrices:
            return [indices[-1], indices[-1]]
        row = (first_column(indices) or 0) // LANES * self._island.order[-1]
        first, zero = (self.emit(arith.ConstantOp(IntegerAttr(n, IndexType()))) for n in (row, 0))
        return [*indices[:-2], first, zero]

    def _rows_of(
        self, ref: SSAValue, indices: Sequence[SSAValue], shape: tuple[int, ...]
    ) -> SSAValue:
        """`ref` as rows of words: each of its matrices, or the accessed part of `shape` as a
        whole."""
        kind = cast(AnyMemRef, ref.type)
        if self._island.of_matrices:
            shape = tuple(kind.get_shape())
        else:
            ref = self._part(ref, indices, shape)
        bits, rows = bit_width(kind), self._island.seen(shape)
        seen = laid_out(kind, rows, packed_tiling(rows, (packing(bits), LANES), bits))
        return self.emit(tpu.ReinterpretCastOp(operands=[ref, [], []], result_types=[seen]))

    def _part(self, ref: SSAValue, indices: Sequence[SSAValue], shape: tuple[int, ...]) -> SSAValue:
        """The part of `ref` of `shape` that is accessed at `indices`, or `ref` itself if that is
        all of it."""
        kind = cast(AnyMemRef, ref.type)
        tiling = tiling_of(kind)
        if tuple(kind.get_shape()) == shape or tiling is None:
            return ref
        starts = [constant_of(index) or 0 for index in indices]
        places = [self.emit(arith.ConstantOp.from_int_and_width(n, i32)) for n in starts]
        part = laid_out(kind, shape, tiling)
        return self.emit(tpu.MemrefSliceOp(operands=[ref, places, []], result_types=[part]))
