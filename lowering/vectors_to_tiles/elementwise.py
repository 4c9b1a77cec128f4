"""Elementwise operations: operands meet in one layout, and one operation serves the whole grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from xdsl.ir import Operation, SSAValue
from xdsl.irdl import IRDLOperation

from pallasite.dialects import arith, math, tpu, vector
from pallasite.dialects.in_words import in_words
from pallasite.dialects.types import element_of, is_vector, shape_of
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.agreement import meet, moving_cost, spelled_out
from pallasite.lowering.vectors_to_tiles.converter import Converter, rule
from pallasite.lowering.vectors_to_tiles.masks import (
    governed,
    is_mask,
    mask_in_layout,
    packs_tiles,
)
from pallasite.lowering.vectors_to_tiles.positions import lower_position_mask
from pallasite.lowering.vectors_to_tiles.tiled import Tiled, grid_type, is_one_value
from pallasite.passes.insertion import alike


def elementwise_kinds() -> list[type[Operation]]:
    """The elementwise operations of `arith` and `math` with one result, and those of `tpu`."""
    kinds: list[type[Operation]] = []
    for module in (arith, math):
        kinds += [
            k for k in vars(module).values()
            if isinstance(k, type) and issubclass(k, IRDLOperation) and getattr(k, "name", "")
            and k not in (arith.ConstantOp, *CASTS)
            and len(k.get_irdl_definition().results) == 1
        ]  # fmt: skip
    return [
        *kinds, tpu.WeirdOp, tpu.ReciprocalOp, tpu.LogisticOp,
        tpu.StochasticConvertElementwiseOp,
    ]  # fmt: skip


CASTS: tuple[type[Operation], ...] = (
    arith.ExtFOp, arith.TruncFOp, arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp,
    arith.SIToFPOp, arith.UIToFPOp, arith.FPToSIOp, arith.FPToUIOp,
    arith.ScalingExtFOp, arith.ScalingTruncFOp,
)  # fmt: skip
"""Operations that may change the width of elements, and with it the packing (`casts.py`)."""
_STORES = (vector.StoreOp, tpu.VectorStoreOp)
"""Operations whose first operand is stored."""


@rule(*elementwise_kinds())
def lower_elementwise(op: Operation, c: Converter) -> None:
    """Lowers an elementwise operation; scalar operands, such as the condition of a select, stay.

    Raises `Unsupported` if operands have different widths.
    """
    if not op.results or not is_vector(op.results[0]):
        return
    if isinstance(op, arith.CmpiOp) and lower_position_mask(op, c):
        return
    values = [v for v in op.operands if is_vector(v)]
    vectors = [c.tiled(v) for v in values]
    data = {c.tiled(v).layout.bits for v in op.operands if is_vector(v) and not is_mask(v)}
    bits = data or _mask_bits(op.results[0], vectors)
    if len(bits) != 1:
        raise c.unsupported(
            op,
            "mixed-widths",
            f"{in_words(op)} meets values of {sorted(bits)} bits in one register",
            "wide elements do not fit packed registers",
            "convert the operands to one width first",
        )
    width = bits.pop()
    alike = [v for v in values if c.tiled(v).layout.bits == width]
    layout = (
        meet(alike, width, c, only_stored=partial(only_stored, op.results[0]))
        if alike
        else VectorLayout.native(len(vectors[0].shape), width)
    )
    if len(alike) < len(values):
        layout = spelled_out(layout, vectors[0].shape)
        # Masks are packed row block by row block, which needs native tiles, or tile by tile.
        if not (layout.is_native or packs_tiles(layout)):
            layout = VectorLayout.native(len(vectors[0].shape), width)
    lower_in_layout(op, layout, c)


@lru_cache(maxsize=1)
def _by_element() -> frozenset[type[Operation]]:
    """Operations whose results depend on single elements of their operands."""
    return frozenset((*elementwise_kinds(), *CASTS))


def only_stored(value: SSAValue) -> bool:
    """Whether `value`, and what is computed from it elementwise, is only stored."""
    seen, left = {value}, [value]
    while left:
        for use in left.pop().uses:
            if isinstance(use.operation, _STORES):
                if use.index:
                    return False
            elif type(use.operation) in _by_element():
                results = [r for r in use.operation.results if r not in seen]
                left += results
                seen.update(results)
            else:
                return False
    return True


def _mask_bits(result: SSAValue, masks: Sequence[Tiled]) -> set[int]:
    """The width of the data for which masks can meet; one that is the same everywhere suits any.

    Masks of words are packed if only packed data needs the `result`, as that takes less than to
    unpack others. Other masks of different widths meet as masks of words.
    """
    every = {mask.layout.bits for mask in masks}
    found = {mask.layout.bits for mask in masks if not is_one_value(mask)} or {max(every)}
    if len(found) == 1:
        return found
    narrow = min(found)
    return {narrow} if found == {narrow, 32} and governed(result) == {narrow} else {32}


def lower_in_layout(op: Operation, layout: VectorLayout, c: Converter) -> None:
    """Clones `op` onto the grids of its operands in `layout`."""
    result = op.results[0]
    c.define(result, _cloned(op, layout, c), layout)
    if result.has_one_use() and _moves_alone(op, c):
        c.offer_smaller(result, _InFewerRegisters(op, layout, c))
    c.retire(op)


def _cloned(op: Operation, layout: VectorLayout, c: Converter) -> SSAValue:
    """`op` on the grids of its operands in `layout`."""
    operands: list[SSAValue] = [
        (mask_in_layout(v, layout, c) if is_mask(v) else c.in_layout(v, layout))
        if is_vector(v)
        else v
        for v in op.operands
    ]
    (result,) = op.results
    kind = grid_type(layout, shape_of(result.type), element_of(result))
    return c.emit(alike(op, operands, [kind]))


def _moves_alone(op: Operation, c: Converter) -> bool:
    """Whether `op` computes data from one vector, and otherwise values that are the same
    everywhere."""
    if any(is_mask(v) for v in (*op.operands, *op.results)):
        return False
    vectors = {v for v in op.operands if is_vector(v)}
    return sum(not is_one_value(c.tiled(v)) for v in vectors) == 1


@dataclass(frozen=True)
class _InFewerRegisters:
    """Offers the result of `op` in layouts of fewer registers: the operand is moved before."""

    op: Operation
    layout: VectorLayout
    converter: Converter

    def cost(self, layout: VectorLayout) -> float | None:
        """What moving the operand and computing the result takes."""
        shape = shape_of(self.op.results[0].type)
        count = layout.register_count(shape)
        if layout.bits != self.layout.bits or count >= self.layout.register_count(shape):
            return None
        vectors = dict.fromkeys(v for v in self.op.operands if is_vector(v))
        return count + sum(moving_cost(v, layout, self.converter) for v in vectors)

    def make(self, layout: VectorLayout) -> SSAValue:
        """The result of `op` in `layout`."""
        return _cloned(self.op, layout, self.converter)
