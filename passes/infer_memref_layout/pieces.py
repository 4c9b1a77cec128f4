"""A part of an array, as a slice of the array seen as pieces of its tiles.

    %r = tpu.memref_slice %x[...] : A -> R
becomes
    %pieces = tpu.reinterpret_cast %x : A -> P
    %part = tpu.memref_slice %pieces[...] : P -> Q
    %r = tpu.memref_squeeze %part : Q -> R

where P has more dimensions than A, and Q size 1 in those that R lacks.
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
    """What takes the place of one slice: operations are made in order, and put there at the end."""

    def __init__(self, op: tpu.MemrefSliceOp) -> None:
        self._op = op
        self._made: list[Operation] = []

    def emit(self, new: Operation) -> SSAValue:
        """Adds an operation in front of the slice."""
        new.location = self._op.location
        self._made.append(new)
        return new.results[0]

    def number(self, value: int) -> SSAValue:
        """A constant."""
        return self.emit(arith.ConstantOp.from_int_and_width(value, i32))

    def array(self, shape: Sequence[int], tiling: Tiling) -> SSAValue:
        """The array as one of `shape` in `tiling`."""
        kind = laid_out(self._op.mem_ref.type, shape, tiling)
        return self.emit(
            tpu.ReinterpretCastOp(operands=[self._op.mem_ref, [], []], result_types=[kind])
        )

    def replace(
        self, array: SSAValue, tiling: Tiling, starts: Sequence[SSAValue], sizes: Sequence[int]
    ) -> SSAValue:
        """Puts the part of `array`, which is in `tiling`, in the place of the slice."""
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
