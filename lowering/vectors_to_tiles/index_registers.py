"""Builds registers that say where elements come from: constants, masks, indices.

They are built from boxes (`tpu.create_mask`), iotas and splats, because the register form has no
other constants. Each is built once per movement. `layouts/planner/fields.py` defines fields: index
registers as affine functions of register number, sublane and lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, IntegerType, i1, i32
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import arith, grid, tpu
from pallasite.dialects.integers import wrap
from pallasite.dialects.types import AnyVector, splat, vector_of
from pallasite.layouts.planner.fields import FULL, Affine, Box, Field, Mask
from pallasite.layouts.registers import LANES, SUBLANES

Insert = Callable[[Operation], SSAValue]


class IndexRegisters:
    """Builds masks and index registers through `insert`, which inserts an operation and returns its
    first result."""

    def __init__(self, insert: Insert) -> None:
        self._insert = insert
        self._made: dict[object, SSAValue] = {}

    # Constants.

    def once(self, key: object, make: Callable[[], Operation]) -> SSAValue:
        """The result of the operation that `make` creates, inserted once for each `key`."""
        if key not in self._made:
            self._made[key] = self._insert(make())
        return self._made[key]

    def constant(self, value: int, kind: AnyVector) -> SSAValue:
        """A splat of `value`, wrapped to 32 bits, of type `kind`."""
        return self.once(
            ("constant", value, kind), lambda: arith.ConstantOp(splat(kind, wrap(value, 32)))
        )

    def scalar(self, value: int, kind: IntegerType | IndexType = i32) -> SSAValue:
        """A scalar constant."""
        return self.once(
            ("scalar", value, kind), lambda: arith.ConstantOp(IntegerAttr(value, kind))
        )

    def spread(self, register: SSAValue, shape: Sequence[int]) -> SSAValue:
        """A grid of `shape` with the same `register` at every position."""
        source = cast(AnyVector, register.type)
        target = vector_of(source.element_type, (*shape, *source.get_shape()))
        return self.once(("spread", register, target), lambda: grid.BroadcastOp(register, target))

    # Masks and index registers.

    def mask(self, mask: Mask, shape: Sequence[int], register: Sequence[int]) -> SSAValue:
        """An i1 grid of `shape` for registers of shape `register`.

        A mask is a union of boxes, a bit of a field, or the lanes from a field on. Packed registers
        can have boxes only.
        """
        if mask.field is not None and mask.first is not None:
            return self._lanes_from(mask.field, mask.first, shape)
        if mask.field is not None:
            field = self.field(mask.field, shape)
            kind = cast(AnyVector, field.type)
            bit = self._insert(arith.AndIOp(field, self.constant(1 << mask.bit, kind)))
            return self._insert(arith.CmpiOp(bit, self.constant(0, kind), "ne"))
        boxes = [self._box(box, register) for box in mask.boxes]
        joined = boxes[0]
        for box in boxes[1:]:
            left = joined
            joined = self.once(("or", left, box), lambda a=left, b=box: arith.OrIOp(a, b))
        return self.spread(joined, shape)

    def _lanes_from(self, field: Field, first: int, shape: Sequence[int]) -> SSAValue:
        """A mask of the lanes from `first` plus `field` on; equal registers are compared once."""
        begin = self._different(field, shape)
        inner = cast(AnyVector, begin.type).get_shape()[:-2]
        lane = self._affine((-first, 0, 0, 1), vector_of(i32, (SUBLANES, LANES)))
        made = self._insert(arith.CmpiOp(self.spread(lane, inner), begin, "sge"))
        return self._repeated(made, field, shape)

    def _box(self, box: Box, register: Sequence[int] = (SUBLANES, LANES)) -> SSAValue:
        """The mask of the sublanes and lanes in `box`."""
        kind = vector_of(i1, register)
        s0, s1, l0, l1 = (self.scalar(v, IndexType()) for v in box)
        return self.once(
            ("box", box, kind),
            lambda: tpu.CreateMaskOp(operands=[[s0, l0], [s1, l1]], result_types=[kind]),
        )

    def field(self, field: Field, shape: Sequence[int]) -> SSAValue:
        """An i32 grid of `shape` with the values of `field`; only a flat grid can differ between
        registers."""
        return self._repeated(self._different(field, shape), field, shape)

    def indices(self, field: Field, shape: Sequence[int]) -> SSAValue:
        """`field`, for a gather from single registers; no index is negative.

        The gather takes its indices modulo the register's extent (spec/tpu_dialect.md,
        `dynamic_gather`), so the field's own modulus is left out.
        """
        return self.field(_wrapping(field), shape)

    def _repeated(self, made: SSAValue, field: Field, shape: Sequence[int]) -> SSAValue:
        """The registers for all of `shape`, given `made` for the different registers of `field`."""
        numbers = field.numbers()
        if numbers is None:
            return made if field.registers > 1 else self.spread(made, shape)
        source = cast(AnyVector, made.type)
        kind = vector_of(source.element_type, (*shape, SUBLANES, LANES))
        return self._insert(grid.TakeOp(made, numbers.tolist(), kind))

    def _different(self, field: Field, shape: Sequence[int]) -> SSAValue:
        """The different registers of `field`: one, those of its table, or all of `shape`."""
        varies = field.registers > 1
        inner = (field.registers,) if field.table else tuple(shape) if varies else ()
        kind = vector_of(i32, (*inner, SUBLANES, LANES))
        result = self._affine(field.base, kind)
        for box, affine in field.overlays:
            over = self._affine(affine, kind)
            if box == FULL:
                result = over
                continue
            result = self._insert(arith.SelectOp(self.spread(self._box(box), inner), over, result))
        if field.modulus and not _within(field):
            mask = self.constant(field.modulus - 1, kind)
            result = self._insert(arith.AndIOp(result, mask))
        return result

    def _affine(self, affine: Affine, kind: AnyVector) -> SSAValue:
        """The values of an affine function; the part that all registers share is built once."""
        constant, along_grid, along_sublanes, along_lanes = affine
        one = vector_of(i32, (SUBLANES, LANES))
        terms: list[SSAValue] = []
        for factor, dim in ((along_sublanes, 0), (along_lanes, 1)):
            if not factor:
                continue
            term = self._iota(dim)
            if factor != 1:
                term = self._insert(arith.MuliOp(term, self.constant(factor, one)))
            terms.append(term)
        if constant or not (terms or along_grid):
            terms.append(self.constant(constant, one))
        result = self._sum(terms) if terms else None
        shape = kind.get_shape()[:-2]
        if not along_grid:
            assert result is not None
            return self.spread(result, shape)
        position = self._insert(grid.PositionOp(0, along_grid, kind))
        return position if result is None else self._sum([position, self.spread(result, shape)])

    def _sum(self, terms: Sequence[SSAValue]) -> SSAValue:
        """The sum of registers of words."""
        result = terms[0]
        for term in terms[1:]:
            result = self._insert(arith.AddiOp(result, term))
        return result

    def _iota(self, dim: int) -> SSAValue:
        """A register with the number of the sublane (`dim` 0) or lane (1)."""
        kind = vector_of(i32, (SUBLANES, LANES))
        return self.once(
            ("iota", dim),
            lambda: tpu.IotaOp(
                result_types=[kind], properties={"dimensions": DenseArrayBase.from_list(i32, [dim])}
            ),
        )


def _within(field: Field) -> bool:
    """Whether all values of the field lie in [0, modulus), so that the modulus changes nothing."""
    plain = Field(field.base, field.overlays, 0, field.registers).array()
    return bool((plain >= 0).all() and (plain < field.modulus).all())


def _wrapping(field: Field) -> Field:
    """`field` without its modulus: values that are equal modulo it, and not negative."""

    def raised(box: Box, affine: Affine) -> Affine:
        """`affine`, raised by a multiple of the modulus so that its least value in `box` is not
        negative."""
        s0, s1, l0, l1 = box
        spans = ((0, field.registers), (s0, s1), (l0, l1))
        ends = zip(affine[1:], spans, strict=True)
        least = affine[0] + sum(min(f * low, f * (high - 1)) for f, (low, high) in ends)
        return (affine[0] - min(least // field.modulus, 0) * field.modulus, *affine[1:])

    if not field.modulus:
        return field
    overlays = tuple([(box, raised(box, affine)) for box, affine in field.overlays])
    return replace(field, base=raised(FULL, field.base), overlays=overlays, modulus=0)
