"""Emits plans of movements as operations; all movement of data between registers is emitted here.

Most steps become one `tpu`, `arith` or `grid` operation; masks and index registers are built by
`index_registers.py`. `layouts/planner` makes the plans.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    i1,
    i32,
)
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import arith, grid, tpu
from pallasite.dialects.tpu.base import si32
from pallasite.dialects.tpu.keywords import PackFormat
from pallasite.dialects.types import AnyVector, vector_of
from pallasite.layouts.plan import (
    RENAMING,
    Elements,
    GatherLanes,
    GatherSublanes,
    GridBroadcast,
    GridConcat,
    GridReshape,
    GridSlice,
    GridTake,
    GridTranspose,
    Interleave,
    KeepElements,
    Or,
    Pack,
    Plan,
    RotateLanes,
    Select,
    ShiftLeft,
    ShiftRight,
    Step,
    SublaneShuffle,
    TransposeBlocks,
    Unpack,
    Value,
    Words,
)
from pallasite.layouts.planner.fields import Field
from pallasite.layouts.registers import LANES, SUBLANES, register_shape
from pallasite.lowering.vectors_to_tiles.index_registers import IndexRegisters, Insert
from pallasite.lowering.vectors_to_tiles.moved_words import (
    WORDS_ONLY,
    PackedRegisters,
    any_words,
    moves_words,
    wanted_as_words,
)


def emit(
    plan: Plan,
    operands: Sequence[SSAValue],
    insert: Insert,
    packed: PackedRegisters = WORDS_ONLY,
) -> SSAValue:
    """Inserts the operations of `plan` applied to the grids `operands`; returns the moved grid.

    `insert` inserts one operation and returns its first result. `packed` says what the target can
    do with packed registers. Masks are moved as integers of their data's width, unless registers
    are merely renamed.
    """
    element = cast(AnyVector, operands[0].type).element_type
    renamed = all(isinstance(step, RENAMING) for step in plan.steps)
    if element != i1 or renamed:
        return _Emitter(plan, element, insert, packed).run(operands)
    integer = IntegerType(plan.bits)
    emitter = _Emitter(plan, integer, insert, packed)
    moved = emitter.run([emitter.integers(mask) for mask in operands])
    zero = emitter.constant(0, cast(AnyVector, moved.type))
    return insert(arith.CmpiOp(moved, zero, "ne"))


def _ints(values: Sequence[int]) -> DenseArrayBase[Any]:
    """An array attribute of i32 `values`."""
    return DenseArrayBase.from_list(i32, list(values))


class _Emitter(IndexRegisters):
    """Emits the steps of one plan; constants, masks and index registers are built once."""

    def __init__(
        self, plan: Plan, element: Attribute, insert: Insert, packed: PackedRegisters
    ) -> None:
        super().__init__(insert)
        self._plan, self._element = plan, element
        self._packed = packed
        self._as_words = wanted_as_words(plan, packed)

    def run(self, operands: Sequence[SSAValue]) -> SSAValue:
        """Emits all steps, and returns the grid that the plan results in."""
        values = list(operands)
        plan = self._plan
        for number, step in enumerate(plan.steps, plan.sources):
            given = [values[o] for o in step.operands]
            value = plan.values[number]
            if isinstance(step, Words | Elements):
                stays = isinstance(step, Words) and not self._as_words[number]
                kind = "element" if stays or isinstance(step, Elements) else "word"
                values.append(self._held(given[0], kind))
                continue
            kinds = [plan.values[o].kind for o in step.operands]
            if isinstance(step, Unpack) or (
                moves_words(step, plan, self._packed) and not any_words(given)
            ):
                kinds = ["element"] * len(given)
            given = [self._held(v, kind) for v, kind in zip(given, kinds, strict=True)]
            values.append(self._step(step, given, value))
        return self._held(values[plan.result], plan.values[plan.result].kind)

    # Words of packed elements.

    def _held(self, value: SSAValue, kind: str) -> SSAValue:
        """`value` as registers of packed elements (`kind` element) or as the same bits in words
        (word)."""
        source = cast(AnyVector, value.type)
        if self._plan.bits == 32 or (source.element_type == i32) == (kind == "word"):
            return value
        shape = source.get_shape()
        lead = shape[: -2 if source.element_type == i32 else -3]
        if kind == "word":
            made = vector_of(i32, (*lead, SUBLANES, LANES))
        else:
            made = vector_of(self._element, (*lead, *register_shape(self._plan.bits)))
        return self.once(
            (kind, value), lambda: tpu.BitcastVregOp(operands=[value], result_types=[made])
        )

    def type(self, value: Value, like: SSAValue | None = None) -> AnyVector:
        """The vector type of `value`: registers of the moved element, or i32 words, or (`like`) of
        another value's registers."""
        if like is not None:
            kind = cast(AnyVector, like.type)
            packed = kind.element_type != i32 and self._plan.bits < 32
            register = kind.get_shape()[-3 if packed else -2 :]
            return vector_of(kind.element_type, (*value.grid, *register))
        if value.kind == "word":
            return vector_of(i32, (*value.grid, SUBLANES, LANES))
        # A mask has the register shape of its data.
        register = register_shape(self._plan.bits)
        return vector_of(self._element, (*value.grid, *register))

    def integers(self, mask: SSAValue) -> SSAValue:
        """A mask as integers 0 and 1."""
        source = cast(AnyVector, mask.type)
        kind = vector_of(self._element, source.get_shape())
        one, zero = self.constant(1, kind), self.constant(0, kind)
        return self._insert(arith.SelectOp(mask, one, zero))

    # Steps.

    def _step(  # noqa: C901  a case per step
        self, step: Step, operands: list[SSAValue], value: Value
    ) -> SSAValue:
        """Emits one step on the grids `operands`; `value` describes its result."""
        if isinstance(step, RENAMING):
            return self._renaming(step, operands, value)
        if isinstance(step, Unpack | Pack):
            return self._packing(step, operands, value)
        first = operands[0]
        rank = len(value.grid)
        kind = self.type(value, first)
        match step:
            case SublaneShuffle():
                made = tpu.SublaneShuffleOp(
                    operands=[first, operands[-1]],
                    result_types=[kind],
                    properties={"pattern": _ints(step.pattern)},
                )
            case RotateLanes():
                made = tpu.DynamicRotateOp(
                    operands=[first, self.scalar(step.amount)],
                    result_types=[kind],
                    properties={"dimension": IntegerAttr(rank + 1, si32)},
                )
            case Select():
                register = kind.get_shape()[rank:]
                mask = self.mask(step.mask, value.grid, register)
                made = arith.SelectOp(mask, first, operands[1])
            case GatherLanes() if (lanes := _diagonals(step.index, value.registers)) is not None:
                return self._columns(first, lanes, kind, kind.get_shape()[rank:])
            case GatherLanes() | GatherSublanes():
                dim = rank + 1 if isinstance(step, GatherLanes) else rank
                made = tpu.DynamicGatherOp(
                    operands=[first, self.indices(step.index, value.grid)],
                    result_types=[kind],
                    properties={"dimensions": _ints([dim])},
                )
            case ShiftLeft():
                made = arith.ShLIOp(first, self.constant(step.amount * self._plan.bits, kind))
            case ShiftRight():
                made = arith.ShRUIOp(first, self.constant(step.amount * self._plan.bits, kind))
            case KeepElements():
                made = arith.AndIOp(first, self.field(step.mask, value.grid))
            case Or():
                made = arith.OrIOp(first, operands[1])
            case Interleave():
                return self._interleaved(step, first, operands[1], value)
            case TransposeBlocks():
                made = grid.TransposeBlocksOp(first)
            case _:
                raise TypeError(f"no operation for {type(step).__name__}")
        return self._insert(made)

    def _interleaved(
        self, step: Interleave, first: SSAValue, second: SSAValue, value: Value
    ) -> SSAValue:
        """In words; the differences that both results need are made once."""
        kind, bits = self.type(value), step.width * self._plan.bits
        if step.way == "pack":
            halves = vector_of(IntegerType(16), (*value.grid, *register_shape(16)))
            made = tpu.PackSubelementsOp.in_order([first, second], halves, PackFormat.INTERLEAVED)
            packed = self._insert(made)
            return self._insert(tpu.BitcastVregOp(operands=[packed], result_types=[kind]))
        amount = self.constant(bits, kind)
        even = sum((1 << bits) - 1 << place for place in range(0, 32, 2 * bits))
        lower, upper = (self.constant(mask, kind) for mask in (even, even << bits))
        if step.way == "differences":
            key = ("differences", first, second, step.width)
            down = self.once(("shifted", *key), lambda: arith.ShRUIOp(first, amount))
            other = self.once(("other", *key), lambda: arith.XOrIOp(down, second))
            kept = self.once(key, lambda: arith.AndIOp(other, lower))
            if step.odd:
                return self._insert(arith.XOrIOp(second, kept))
            return self._insert(arith.XOrIOp(first, self._insert(arith.ShLIOp(kept, amount))))
        if step.odd:
            down = self._insert(arith.ShRUIOp(first, amount))
            down = down if step.halves else self._insert(arith.AndIOp(down, lower))
            return self._insert(arith.OrIOp(down, self._insert(arith.AndIOp(second, upper))))
        up = self._insert(arith.ShLIOp(second, amount))
        up = up if step.halves else self._insert(arith.AndIOp(up, upper))
        return self._insert(arith.OrIOp(self._insert(arith.AndIOp(first, lower)), up))

    def _columns(
        self, source: SSAValue, lanes: Sequence[int], kind: AnyVector, register: Sequence[int]
    ) -> SSAValue:
        """Column `lanes[g]` of register g in all lanes, of eight sublanes from lane to lane."""
        flat = self._insert(
            grid.ReshapeOp(source, vector_of(kind.element_type, (len(lanes), *register)))
        )
        places: dict[int, list[int]] = {}
        for number, lane in enumerate(lanes):
            places.setdefault(lane, []).append(number)
        pieces: list[SSAValue] = []
        for lane, numbers in places.items():
            part = vector_of(kind.element_type, (len(numbers), *register))
            made = tpu.BroadcastInSublanesOp.create(
                operands=[self._insert(grid.TakeOp(flat, numbers, part))],
                result_types=[part],
                properties={"lane": IntegerAttr(lane, i32)},
            )
            pieces.append(self._insert(made))
        made = pieces[0] if len(pieces) == 1 else self._insert(grid.ConcatOp(pieces, 0))
        order = [n for numbers in places.values() for n in numbers]
        back = sorted(range(len(order)), key=order.__getitem__)
        return self._insert(grid.TakeOp(made, back, kind))

    def _renaming(self, step: Step, operands: list[SSAValue], value: Value) -> SSAValue:
        first = operands[0]
        kind = self.type(value, first)
        match step:
            case GridReshape():
                made = grid.ReshapeOp(first, kind)
            case GridSlice():
                made = grid.SliceOp(first, step.offsets, step.sizes, step.strides)
            case GridTranspose():
                made = grid.TransposeOp(first, step.permutation)
            case GridBroadcast():
                made = grid.BroadcastOp(first, kind)
            case GridConcat():
                made = grid.ConcatOp(operands, step.dim)
            case GridTake():
                made = grid.TakeOp(first, step.numbers().tolist(), kind)
            case _:
                raise TypeError(f"no operation for {type(step).__name__}")
        return self._insert(made)

    def _packing(self, step: Unpack | Pack, operands: list[SSAValue], value: Value) -> SSAValue:
        """Bits are moved as integers, so no value is rounded."""
        bits = self._plan.bits
        integer = IntegerType(bits)
        formats = {
            "compressed": PackFormat.COMPRESSED,
            "interleaved": PackFormat.INTERLEAVED,
        }
        pack_format = formats[step.format]
        if isinstance(step, Unpack):
            source = operands[0]
            packed = vector_of(integer, cast(AnyVector, source.type).get_shape())
            if source.type != packed:
                source = self._insert(tpu.BitcastVregOp(operands=[source], result_types=[packed]))
            properties: dict[str, Attribute] = {
                "pack_format": tpu.PackFormatAttr(pack_format),
                "index": IntegerAttr(step.index, i32),
            }
            return self._insert(
                tpu.UnpackSubelementsOp(
                    operands=[source], result_types=[self.type(value)], properties=properties
                )
            )
        kind = self.type(value)
        packed = vector_of(integer, kind.get_shape())
        made = self._insert(tpu.PackSubelementsOp.in_order(operands, packed, pack_format))
        if packed == kind:
            return made
        return self._insert(tpu.BitcastVregOp(operands=[made], result_types=[kind]))


def _diagonals(index: Field, registers: int) -> list[int] | None:
    """Per register, the lane that sublane 0 takes if every sublane takes the next lane, on all
    lanes; None if one does not."""
    constant, step, across, along = index.base
    if index.overlays or (across, along) != (1, 0):
        return None
    numbers = index.numbers()
    if numbers is None:
        numbers = np.arange(registers) if index.registers > 1 else np.zeros(registers, np.int64)
    lanes = (constant + step * numbers) % LANES
    return lanes.tolist() if (lanes <= LANES - SUBLANES).all() else None
