"""Stores of rows that were concatenated, or rolled by a constant, become stores of the parts."""

from __future__ import annotations

from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from pallasite.dialects import tpu
from pallasite.dialects.types import bit_width, element_type, shape_of
from pallasite.layouts.registers import SUBLANES, packing
from pallasite.lowering.absorb_moves.memory import (
    Box,
    index_plus,
    memory_serves,
    part_of,
)
from pallasite.lowering.absorb_moves.slices import sliced, unserved
from pallasite.passes.divisibility import constant_of


def split_store(op: tpu.VectorStoreOp) -> None:
    """Replaces a store of a concatenation or a roll of rows by a store of each part at its own row.

        store %b[0, 0], concatenate(%p : 3x128, %q : 5x128)   becomes   store %b[0, 0], %p
                                                                        store %b[3, 0], %q

    It does so if memory serves stores at those rows.
    """
    owner = op.value.owner
    if op.mask is not None or op.add.value.data or not op.value.has_one_use():
        return
    rows = len(shape_of(op.value.type)) - 2
    if rows < 0:
        return
    if isinstance(owner, tpu.ConcatenateOp) and owner.dimension.value.data == rows:
        parts = _concatenated(owner, op)
    elif isinstance(owner, tpu.DynamicRotateOp) and owner.dimension.value.data == rows:
        parts = _rolled(owner)
    else:
        return
    bits = bit_width(element_type(op.value.type))
    if not parts or not all(
        memory_serves(op.base, op.indices[-2], offset, bits) for offset, _ in parts
    ):
        return
    for offset, part in parts:
        indices: list[SSAValue] = list(op.indices)
        indices[-2] = index_plus(indices[-2], offset, op)
        value = sliced(owner.operands[0], part) if isinstance(part, Box) else part
        stored = tpu.VectorStoreOp.create(
            operands=[value, op.base, *indices],
            properties=op.properties,
            attributes={**op.attributes, **part_of(op, indices)},
        )
        stored.location = op.location
        Rewriter.insert_op(stored, InsertPoint.before(op))
    op.detach()
    op.erase()


def _concatenated(
    owner: tpu.ConcatenateOp, store: tpu.VectorStoreOp
) -> list[tuple[int, SSAValue | Box]]:
    """The operands and their first rows; nothing if each of them begins at a register."""
    parts: list[tuple[int, SSAValue | Box]] = []
    offset = 0
    for source in owner.sources:
        parts.append((offset, source))
        offset += shape_of(source.type)[-2]
    native = SUBLANES * packing(bit_width(element_type(store.value.type)))
    return parts if any(row % native for row, _ in parts) else []


def _rolled(owner: tpu.DynamicRotateOp) -> list[tuple[int, SSAValue | Box]]:
    """The two parts of a roll of loaded rows by a constant, with the row at which each is stored.

    A roll by n moves the last n rows to the front. Nothing if a part would need movement of
    registers.
    """
    amount = constant_of(owner.amount)
    shape = shape_of(owner.value.type)
    rows = shape[-2]
    native = SUBLANES * packing(bit_width(element_type(owner.value.type)))
    if amount is None or not amount % rows or owner.stride is not None:
        return []
    if not owner.value.has_one_use():
        return []
    amount %= rows
    if not amount % native and not rows % native:
        return []
    zeros = (0,) * len(shape)
    end = Box((*zeros[:-2], rows - amount, 0), (*shape[:-2], amount, shape[-1]))
    begin = Box(zeros, (*shape[:-2], rows - amount, shape[-1]))
    if unserved(owner.value, end) or unserved(owner.value, begin):
        return []
    return [(0, end), (amount, begin)]
