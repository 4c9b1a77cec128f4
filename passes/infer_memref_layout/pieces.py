"""Replaces a slice by a slice of its array seen as pieces of tiles.

    %r = tpu.memref_slice %x[...] : A -> R
becomes
    %pieces = tpu.reinterpret_cast %x : A -> P
    %part = tpu.memref_slice %pieces[...] : P -> Q
    %r = tpu.memref_squeeze %part : Q -> R

P has more dimensions than A, and Q has size 1 in those that R lacks.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from pallasite.dialects import arith, tpu
from pallasite.layouts.tiling import Tiling, squeezed
from pallasite.passes.laid_out import laid_out


class Pieces:
    """Collects the operations that replace one slice, and inserts them at the end."""

    def __init__(self, op: tpu.MemrefSliceOp) -> None:
        self._op = op
        self._made: list[Operation] = []

    def emit(self, new: Operation) -> SSAValue:
        """Adds `new` to the operations, and returns its first result."""
        new.location = self._op.location
        self._made.append(new)
        return new.results[0]

    def number(self, value: int) -> SSAValue:
        """An i32 constant."""
        return self.emit(arith.ConstantOp.from_int_and_width(value, i32))

    def array(self, shape: Sequence[int], tiling: Tiling) -> SSAValue:
        """The array seen in `shape` and `tiling`."""
        kind = laid_out(self._op.mem_ref.type, shape, tiling)
        return self.emit(
            tpu.ReinterpretCastOp(operands=[self._op.mem_ref, [], []], result_types=[kind])
        )

    def replace(
        self, array: SSAValue, tiling: Tiling, starts: Sequence[SSAValue], sizes: Sequence[int]
    ) -> SSAValue:
        """Replaces the slice by the part of `array`, which has `tiling`, at `starts` of `sizes`."""
        op, kind = self._op, self._op.result.type
        part = self.emit(
            tpu.MemrefSliceOp(
                operands=[array, starts, list(op.dynamic_sizes)],
                result_types=[laid_out(kind, sizes, tiling)],
            )
        )
        kept = squeezed(tiling, tuple(sizes), kind.get_shape())
        assert kept is not None
        found = self.emit(
            tpu.MemrefSqueezeOp(
                operands=[part], result_types=[laid_out(kind, kind.get_shape(), kept)]
            )
        )
        Rewriter.insert_op(self._made, InsertPoint.before(op))
        op.result.replace_all_uses_with(found)
        Rewriter.erase_op(op)
        return found
