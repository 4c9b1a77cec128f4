"""`legalize-shuffles`: splits sublane shuffles of two registers that no instruction does.

    %r = tpu.sublane_shuffle %a, %b, [1, 2, 3, 4, 5, 6, 7, 8]
becomes
    %x = tpu.sublane_shuffle %a, %a, [1, 2, 3, 4, 5, 6, 7, 7]
    %y = tpu.sublane_shuffle %b, %b, [0, 0, 0, 0, 0, 0, 0, 0]
    %r = arith.select %first_seven_sublanes, %x, %y

Needs the `tiles` or `vreg` form; leaves the same form. A shuffle of one register may have any
pattern. In a shuffle of two registers, each half of the result (four sublanes) must come from one
quarter of the two (sublanes 0-3 or 4-7 of one register). This was found by asking the TPU compiler
for every generation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    ModuleOp,
    VectorType,
    i1,
    i32,
)
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from pallasite.dialects import arith, grid, tpu
from pallasite.dialects.subcores import lowered_functions
from pallasite.dialects.types import AnyVector, splat
from pallasite.dialects.walking import of_kind
from pallasite.layouts.registers import LANES, SUBLANES, register_shape
from pallasite.passes.admission import Admits
from pallasite.passes.common_subexpressions import remove_common_subexpressions
from pallasite.passes.insertion import insert_before
from pallasite.targets import DEFAULT_TARGET

QUARTER = SUBLANES // 2


def is_legal(pattern: Sequence[int]) -> bool:
    """Whether a shuffle is one instruction; `pattern` has, for each sublane of the result, a number
    from 0 to 15 among the sublanes of both registers."""
    if len({p // SUBLANES for p in pattern}) == 1:
        return True
    halves = (pattern[:QUARTER], pattern[QUARTER:])
    return all(len({p // QUARTER for p in half}) == 1 for half in halves)


class _Masks:
    """The masks of sublanes in one module; each is built once per block, before its first use."""

    def __init__(self) -> None:
        self._known: dict[tuple[Block | None, tuple[bool, ...]], SSAValue] = {}

    def get(self, rows: tuple[bool, ...], anchor: Operation, kind: AnyVector) -> SSAValue:
        """A mask for a grid of registers of type `kind`, true on the sublanes of `rows`."""
        key = (anchor.parent, rows)
        if key not in self._known:
            self._known[key] = _sublane_mask(rows, anchor)
        shape = kind.get_shape()
        mask = self._known[key]
        wanted = VectorType(i1, shape)
        if mask.type == wanted:
            return mask
        return insert_before(grid.BroadcastOp(mask, wanted), anchor)


def _sublane_mask(rows: tuple[bool, ...], anchor: Operation) -> SSAValue:
    """A mask of one register of words, true on the sublanes of `rows`: `tpu.create_mask` if they
    are neighbours, else computed from the bits of a constant."""
    chosen = [r for r, wanted in enumerate(rows) if wanted]
    if chosen == list(range(chosen[0], chosen[-1] + 1)):
        bounds = [
            insert_before(arith.ConstantOp(IntegerAttr(n, IndexType())), anchor)
            for n in (chosen[0], 0, chosen[-1] + 1, LANES)
        ]
        made = tpu.CreateMaskOp.create(
            operands=bounds, result_types=[VectorType(i1, (SUBLANES, LANES))]
        )
        return insert_before(made, anchor)
    word = VectorType(i32, (SUBLANES, LANES))
    iota = tpu.IotaOp.create(
        result_types=[word], properties={"dimensions": DenseArrayBase.from_list(i32, [0])}
    )
    row = insert_before(iota, anchor)
    bits = insert_before(arith.ConstantOp(splat(word, sum(1 << r for r in chosen))), anchor)
    one = insert_before(arith.ConstantOp(splat(word, 1)), anchor)
    zero = insert_before(arith.ConstantOp(splat(word, 0)), anchor)
    bit = insert_before(arith.AndIOp(insert_before(arith.ShRUIOp(bits, row), anchor), one), anchor)
    return insert_before(arith.CmpiOp(bit, zero, "ne"), anchor)


def _one_source(op: tpu.SublaneShuffleOp, source: SSAValue, rows: list[int | None]) -> SSAValue:
    """A register whose sublane i is sublane `rows[i]` of `source`, or anything where that is None.

    `source` itself where that will do.
    """
    keep = all(r is None or r == i for i, r in enumerate(rows))
    if keep:
        return source
    known = [r for r in rows if r is not None]
    pattern = [known[0] if r is None else r for r in rows]
    # A rotation, where the wanted rows allow one, is the cheapest shuffle.
    shift = {(r - i) % SUBLANES for i, r in enumerate(rows) if r is not None}
    if len(shift) == 1:
        amount = shift.pop()
        pattern = [(i + amount) % SUBLANES for i in range(SUBLANES)]
    made = tpu.SublaneShuffleOp.create(
        operands=[source, source],
        result_types=[source.type],
        properties={"pattern": DenseArrayBase.from_list(i32, pattern)},
    )
    return insert_before(made, op)


def _expand(op: tpu.SublaneShuffleOp, masks: _Masks) -> None:
    pattern = [int(p) for p in cast(DenseArrayBase[Any], op.pattern).get_values()]
    first = [p if p < SUBLANES else None for p in pattern]
    second = [p - SUBLANES if p >= SUBLANES else None for p in pattern]
    left, right = _one_source(op, op.lhs, first), _one_source(op, op.rhs, second)
    kind = cast(AnyVector, op.results[0].type)
    if len(register_shape(32)) != len(_register(kind)):
        shape = (*kind.get_shape()[:-3], SUBLANES, LANES)
        as_words = VectorType(i32, shape)
        left, right = (
            insert_before(tpu.BitcastVregOp.create(operands=[v], result_types=[as_words]), op)
            for v in (left, right)
        )
    mask = masks.get(tuple(p < SUBLANES for p in pattern), op, cast(AnyVector, left.type))
    chosen = insert_before(arith.SelectOp(mask, left, right), op)
    if chosen.type != kind:
        chosen = insert_before(tpu.BitcastVregOp.create(operands=[chosen], result_types=[kind]), op)
    op.results[0].replace_all_uses_with(chosen)
    op.detach()
    op.erase()


def _register(kind: AnyVector) -> tuple[int, ...]:
    shape = kind.get_shape()
    return tuple(shape[-2:]) if shape[-1] == LANES else tuple(shape[-3:])


@dataclass(frozen=True)
class LegalizeShufflesPass(ModulePass):
    """Splits two-source sublane shuffles that are not made of quarters of registers."""

    name = "legalize-shuffles"

    target: str = DEFAULT_TARGET
    """Not used so far: the rule is the same on every target."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.apply_admitted(ctx, op, None)

    def apply_admitted(self, ctx: Context, op: ModuleOp, admits: Admits | None) -> None:
        """`apply` with only those splits that `admits` allows."""
        masks = _Masks()
        for shuffle in of_kind(op, tpu.SublaneShuffleOp):
            if shuffle.lhs is shuffle.rhs:
                continue
            pattern = [int(p) for p in cast(DenseArrayBase[Any], shuffle.pattern).get_values()]
            if len(pattern) != SUBLANES or is_legal(pattern):
                continue
            if admits is None or admits("split", shuffle):
                _expand(shuffle, masks)
        for function in lowered_functions(op):
            remove_common_subexpressions(function)
