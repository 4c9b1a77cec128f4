"""Operands in HBM of which a kernel sees elements only, and not where in memory they lie.

Transfers copy elements from any order into any other, so the memory of such an array may be the
caller's own array, or the one that is returned as a result: nothing is laid out anew before and
after the run. What sees the layout (views of another shape, or an operand whose registers are
loaded where it is) has that of the chip.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import BlockArgument, SSAValue

from pallasite.dialects import tpu
from pallasite.dialects.kernel import SLOTS, Kernel
from pallasite.dialects.types import memory_space, shape_of
from pallasite.interpreter.machine.boxes import digits_of
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.windows import IN_PLACE
from pallasite.layouts.tiling import Tiling, contiguous_strides


class Use(Enum):
    """What the operations of a kernel do with an array in HBM."""

    LAYOUT = "some may see where its elements lie"
    WRITES = "they copy boxes of its elements from and to it"
    READS = "they copy boxes of its elements from it"


def uses_of(kernel: Kernel) -> tuple[Use, ...]:
    """What the operations of `kernel` do with each of its operands, scalar prefetch first."""
    return tuple(_use(argument) for argument in (*kernel.prefetch, *kernel.operands))


def _use(argument: BlockArgument) -> Use:
    space = memory_space(argument.type)
    if space not in IN_PLACE:
        # The kernel sees copies of blocks, or of all of it, in a memory of their own.
        return Use.READS
    if space not in ("any", "hbm"):
        return Use.LAYOUT
    found = Use.READS
    waiting: list[SSAValue] = [argument]
    while waiting:
        ref = waiting.pop()
        for use in ref.uses:
            op = use.operation
            if isinstance(op, tpu.MemrefSliceOp) and DYNAMIC_INDEX not in shape_of(op.result.type):
                waiting.append(op.result)
            elif isinstance(op, tpu.MemrefSqueezeOp):
                waiting.append(op.result)
            elif isinstance(op, tpu.EnqueueDmaOp) and op.target is not ref:
                continue
            elif isinstance(op, tpu.EnqueueDmaOp) and SLOTS not in op.attributes:
                found = Use.WRITES
            elif not isinstance(op, tpu.WaitDmaOp | tpu.WaitDma2Op):
                return Use.LAYOUT
    return found


def joined(uses: Sequence[Use], pairs: Iterable[tuple[int, int]]) -> list[Use]:
    """`uses` where each of some pairs, of an input and a result, is one array."""
    found = list(uses)
    for pair in pairs:
        both = {uses[operand] for operand in pair}
        for operand in pair:
            found[operand] = Use.LAYOUT if Use.LAYOUT in both else Use.WRITES
    return found


def in_order(ref: Ref) -> Ref | None:
    """The whole buffer that `ref` is, with its elements in row-major order.

    None if it has more bytes than its elements, or if memory packs several into a word: then a
    transfer that keeps words whole is worth more.
    """
    if ref.codec.packing != 1 or ref.byte_count != ref.buffer.size:
        return None
    tiling = Tiling((), contiguous_strides(ref.shape, ()))
    return Ref(ref.buffer, ref.element, ref.shape, digits_of(tiling), blocks=ref.blocks)
