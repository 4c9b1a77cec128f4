"""Operands in HBM of which a kernel sees elements only, and not where in memory they lie.

Transfers copy elements from any order into any other, so the memory of such an array may be the
caller's own array, or the one that is returned as a result: nothing is laid out anew before and
after the run. What sees the layout (views of another shape, or an operand whose registers are
loaded where it is) has that of the chip.

A `tpu.reinterpret_cast` of such an array to one of as many elements in other tiles, both without
padding, only says which elements a view has, and in which order: `row_major_view` finds the same
ones in an array in row-major order. Layout passes see rows of tiles so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from math import prod
from operator import mod
from typing import NamedTuple

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Attribute, BlockArgument, SSAValue

from pallasite.dialects import tpu
from pallasite.dialects.func import FuncOp
from pallasite.dialects.kernel import IN_PLACE, SLOTS, Kernel
from pallasite.dialects.types import memory_space, shape_of, tiling_of
from pallasite.interpreter.machine import boxes
from pallasite.interpreter.machine.boxes import row_major_digits, row_major_view
from pallasite.interpreter.machine.codec import view
from pallasite.interpreter.machine.spare import Block
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.values import POISON_WORDS, Array
from pallasite.layouts.tiling import Digits, offset_of


class Use(Enum):
    """What the operations of a kernel do with an array in HBM."""

    LAYOUT = "some may see where its elements lie"
    BOTH = "they copy boxes of its elements from and to it"
    READS = "they copy boxes of its elements from it"
    FILLS = "they copy boxes of its elements to it, on one core"


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
    found: set[Use] = set()
    filled: set[Attribute] = set()
    """The types of the whole arrays through parts of which it is written."""
    waiting: list[tuple[SSAValue, Attribute]] = [(argument, argument.type)]
    while waiting:
        ref, whole = waiting.pop()
        for use in ref.uses:
            op = use.operation
            if isinstance(op, tpu.MemrefSliceOp) and DYNAMIC_INDEX not in shape_of(op.result.type):
                waiting.append((op.result, whole))
            elif isinstance(op, tpu.MemrefSqueezeOp):
                waiting.append((op.result, whole))
            elif isinstance(op, tpu.ReinterpretCastOp) and cast_in_order(op) is not None:
                waiting.append((op.result, op.result.type))
            elif isinstance(op, tpu.EnqueueDmaOp):
                found.add(_copy(op, ref))
                if op.target is ref:
                    filled.add(whole)
            elif not isinstance(op, tpu.WaitDmaOp | tpu.WaitDma2Op):
                return Use.LAYOUT
    if Use.LAYOUT in found:
        return Use.LAYOUT
    if len(filled) > 1:
        # `is_filled` compares boxes of one array only.
        return Use.BOTH
    return Use.BOTH if len(found) > 1 else next(iter(found), Use.READS)


class OrderedCast(NamedTuple):
    """What a `tpu.reinterpret_cast` makes of an array whose elements are in row-major order."""

    given: tuple[Digits, ...]
    """Those of that array."""
    seen: tuple[Digits, ...]


def cast_in_order(op: tpu.ReinterpretCastOp) -> OrderedCast | None:
    """The view by which `op` sees the same elements, at the same indices, wherever an argument in
    HBM is in row-major order. None if there is none, or if `op` sees something else."""
    array, kind, result = op.input, op.input.type, op.result.type
    if not isinstance(array, BlockArgument) or not isinstance(array.block.parent_op(), FuncOp):
        return None
    if memory_space(kind) not in ("any", "hbm") or len(op.operands) > 1:
        return None
    shape, seen = shape_of(kind), shape_of(result)
    tiling, tiles = tiling_of(kind), tiling_of(result)
    if kind.element_type != result.element_type or DYNAMIC_INDEX in (*shape, *seen):
        return None
    if tiling is None or tiles is None:
        return None
    digits = row_major_view(shape, tiling, seen, tiles)
    return None if digits is None else OrderedCast(row_major_digits(shape), digits)


def _copy(op: tpu.EnqueueDmaOp, ref: SSAValue) -> Use:
    """What a transfer does with one of its ends."""
    if op.target is not ref:
        return Use.READS
    if SLOTS in op.attributes:
        return Use.LAYOUT
    remote = op.device_id is not None or op.core_id is not None or op.source is ref
    return Use.BOTH if remote else Use.FILLS


def joined(uses: Sequence[Use], pairs: Iterable[tuple[int, int]]) -> list[Use]:
    """`uses` where each of some pairs, of an input and a result, is one array."""
    found = list(uses)
    for pair in pairs:
        both = {uses[operand] for operand in pair}
        for operand in pair:
            found[operand] = Use.LAYOUT if Use.LAYOUT in both else Use.BOTH
    return found


def in_order(ref: Ref) -> Ref | None:
    """The whole buffer that `ref` is, with its elements in row-major order.

    None if it has more bytes than its elements, or if memory packs several into a word: then a
    transfer that keeps words whole is worth more.
    """
    if ref.codec.packing != 1 or ref.byte_count != ref.buffer.size:
        return None
    found = ref.views.get("in order")
    if found is None:
        digits = row_major_digits(ref.shape)
        found = Ref(ref.buffer, ref.element, ref.shape, digits, blocks=ref.blocks)
        ref.views["in order"] = found
    return found


def completed(ref: Ref) -> Block | None:
    """The contents of the buffer that `ref`, which is `in_order`, is, for the caller to keep.

    What no transfer has written becomes poison, if it is not yet. None if they are given away.
    """
    contents = ref.buffer.hand_over()
    if contents is None or ref.buffer.landed is None or is_filled(ref):
        return contents
    contents.view(np.uint32)[unwritten(ref)] = POISON_WORDS[ref.buffer.memory.poison]
    return contents


def unwritten(ref: Ref) -> Array:
    """Of each element of a buffer that notes what `landed` in it, whether no transfer has written
    it."""
    marks = np.ones(prod(ref.shape), np.uint8)
    for base, starts, shape, digits in ref.buffer.landed or ():
        for piece in boxes.pieces(digits, starts, shape, None, 1) or ():
            view(marks, np.uint8, base, piece, 8)[...] = 0
    return marks.view(np.bool_)


def is_filled(ref: Ref) -> bool:
    """Whether transfers have certainly written all of a buffer that notes what `landed` in it."""
    landed = ref.buffer.landed or set()
    _, _, block, alike = next(iter(landed), (0, (), (0,), ()))
    if len(landed) * prod(block) != prod(ref.shape):
        return False
    if not all(
        shape == block and digits == alike and not any(map(mod, starts, shape))
        for _, starts, shape, digits in landed
    ):
        return False
    # Of boxes of one shape that begin at multiples of it, no two overlap that begin elsewhere: of
    # dimensions with one stride, all but the slowest have one position.
    return len({_first(box) for box in landed}) == len(landed)


def _first(box: tuple[int, tuple[int, ...], tuple[int, ...], tuple[Digits, ...]]) -> int:
    """The first element of a box."""
    base, starts, _, digits = box
    return base + sum(map(offset_of, digits, starts))
