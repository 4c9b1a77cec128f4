"""Helpers of passes that change how a ref is laid out in memory."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.rewriter import InsertPoint, Rewriter

from pallasite.dialects import tpu
from pallasite.dialects.tpu import TiledLayoutAttr
from pallasite.dialects.types import AnyMemRef, memref_of
from pallasite.layouts.tiling import Tiling


def see_operand(op: tpu.MemrefSliceOp | tpu.MemrefReshapeOp, kind: AnyMemRef) -> None:
    """Inserts a `tpu.reinterpret_cast` to the type `kind` in front of `op`, as its operand."""
    view = tpu.ReinterpretCastOp(operands=[op.operands[0], [], []], result_types=[kind])
    view.location = op.location
    Rewriter.insert_op(view, InsertPoint.before(op))
    op.operands[0] = view.result


def laid_out(kind: AnyMemRef, shape: Iterable[int], tiling: Tiling) -> AnyMemRef:
    """The type of a ref of `shape` with the layout `tiling`, and the element type and memory space
    of `kind`."""
    return memref_of(kind.element_type, tuple(shape), kind.memory_space, TiledLayoutAttr.of(tiling))
