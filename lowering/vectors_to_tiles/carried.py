"""Chooses the layouts of vectors that cross the borders of regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from xdsl.ir import Operation, OpResult, SSAValue

from pallasite.dialects import scf, tpu, vector
from pallasite.dialects.types import bit_width, element_of, is_vector, shape_of
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.agreement import spelled_out
from pallasite.lowering.vectors_to_tiles.converter import Converter
from pallasite.lowering.vectors_to_tiles.elementwise import CASTS, elementwise_kinds
from pallasite.lowering.vectors_to_tiles.masks import is_mask
from pallasite.lowering.vectors_to_tiles.reduce import without_dims
from pallasite.lowering.vectors_to_tiles.shape import relabel
from pallasite.lowering.vectors_to_tiles.tiled import is_one_value


def native_border(value: SSAValue) -> VectorLayout:
    """The default layout of a vector that crosses the border of a region."""
    bits = bit_width(element_of(value))
    rank = len(shape_of(value.type))
    if rank == 1:
        return VectorLayout(32 if bits == 1 else bits, None, 0, 0, 0, 1)
    return VectorLayout.native(rank, 32 if bits == 1 else bits)


def borders(op: Operation, c: Converter) -> tuple[VectorLayout | None, ...]:
    """The layouts of the vectors that the regions of `op` yield; None for scalars.

    The results, the last arguments of each region, and the last operands of its terminator (and of
    loops) all have these.
    """
    values: Sequence[SSAValue] = op.results
    if isinstance(op, scf.WhileOp) and [v.type for v in op.operands] != [v.type for v in values]:
        return ()
    found = [native_border(v) if is_vector(v) else None for v in values]
    if c.spread_carries:
        sources = _Sources(c)
        for k, result in enumerate(op.results):
            if is_vector(result) and (layout := sources.of(result)) is not None:
                c.spreads_carries |= layout != found[k]
                found[k] = layout
    return tuple(found)


class _Sources:
    """Finds, before anything is converted, values that come from reductions and the layouts that
    these leave."""

    def __init__(self, c: Converter) -> None:
        self._converter = c
        self._found: dict[SSAValue, VectorLayout | None] = {}

    def of(self, value: SSAValue) -> VectorLayout | None:
        """The layout of `value` if it is replicated along an axis of the registers, else None."""
        layout = None if is_mask(value) else self._of(value)
        if layout is None:
            return None
        # A value replicated along a dimension on one way here need not be on the others.
        layout = spelled_out(layout, shape_of(value.type))
        return layout if None in (layout.row, layout.column) else None

    def _of(self, value: SSAValue) -> VectorLayout | None:
        """The layout that `value` inherits from a reduction, found without recursion."""
        # Bodies may be unrolled, so the way back may be deeper than Python's stack.
        pending = [value]
        while pending:
            missing = [v for v in self._deciding(pending[-1]) if v not in self._found]
            if missing:
                pending.extend(missing)
            else:
                made = pending.pop()
                self._found[made] = self._made(made)
        return self._found[value]

    def _deciding(self, value: SSAValue) -> list[SSAValue]:
        """The values that decide the layout of `value`: the first of them that has one gives it."""
        if self._converter.is_known(value) or not isinstance(value, OpResult):
            return []
        op = value.op
        if isinstance(op, scf.ForOp | scf.WhileOp | scf.IfOp | scf.IndexSwitchOp | tpu.RegionOp):
            return _yielded(op, value.index)
        if isinstance(op, vector.ShapeCastOp):
            return [op.source]
        return [v for v in op.operands if is_vector(v)] if type(op) in _computing() else []

    def _made(self, value: SSAValue) -> VectorLayout | None:
        """The layout of `value`, given those of the values that decide it (`_deciding`)."""
        if self._converter.is_known(value):
            held = self._converter.tiled(value)
            spread = None in (held.layout.row, held.layout.column) and not is_one_value(held)
            return held.layout if spread else None
        op = value.owner
        if isinstance(op, vector.MultiReductionOp):
            return _reduced(op.source, [int(d) for d in op.reduction_dims.get_values()], value)
        if isinstance(op, tpu.ReduceIndexOp):
            return _reduced(op.operands[0], [op.axis.value.data], value)
        sources = (self._found[v] for v in self._deciding(value))
        layout = next((source for source in sources if source is not None), None)
        if layout is None:
            return None
        if isinstance(op, vector.ShapeCastOp):
            return relabel(layout, shape_of(op.source.type), shape_of(value.type))
        if type(op) in _computing():
            return replace(layout, bits=_bits(value), tile_rows=0)
        return layout


def _yielded(op: Operation, k: int) -> list[SSAValue]:
    """The values that may become result number `k` of `op`, which has regions."""
    ways = [r.blocks[0].last_op for r in op.regions if r.blocks]
    values = [w.operands[len(w.operands) - len(op.results) + k] for w in ways if w is not None]
    if isinstance(op, scf.ForOp | scf.WhileOp):
        values.append(op.operands[len(op.operands) - len(op.results) + k])
    return values


def _bits(value: SSAValue) -> int:
    """Bits of the elements of `value`; masks are carried as words."""
    return 32 if is_mask(value) else bit_width(element_of(value))


@cache
def _computing() -> frozenset[type[Operation]]:
    """Operations that compute element by element, and so keep the layout of an operand."""
    casts = (tpu.ExtfOp, tpu.TruncfOp, tpu.SitofpOp, tpu.FptosiOp)
    return frozenset((*elementwise_kinds(), *CASTS, *casts))


def _reduced(source: SSAValue, dims: Sequence[int], value: SSAValue) -> VectorLayout | None:
    """The layout of `value`, a reduction of native registers of `source` along `dims`."""
    if not is_vector(value):
        return None
    rank = len(shape_of(source.type))
    native = VectorLayout.native(rank, _bits(value))
    row = None if native.sublane_dim in dims else 0
    column = None if native.lane_dim in dims else 0
    if None not in (row, column):
        return None
    return without_dims(native.with_offsets(row, column), dims, rank)
