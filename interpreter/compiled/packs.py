"""Packs: operations that do the same to many registers, done as one operation of NumPy.

In the register form a grid of registers is written out: where its source has one operation on a
grid, it has a run of operations that differ in their registers only. The compiled driver makes a
*pack* of those operations of a run that do not depend on each other. Their results are one array
with a leading dimension, of which every register is an element:

    %a0 = arith.addf %x0, %y0
    %a1 = arith.addf %x1, %y1        p3 = f4(p1, p2), where p3[0] is %a0, p3[1] is %a1
    ...

A pack means what the same operation means on a grid of registers, and has the same bits. Loads and
stores of a pack are in `effects/register_packs.py`; `pack_writer` writes packs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from pallasite.dialects import arith, tpu
from pallasite.dialects.numbering import Numbers
from pallasite.dialects.registers import BOX
from pallasite.dialects.types import split_grid, vector_of
from pallasite.interpreter.meanings import Facts, Function, lookup
from pallasite.interpreter.ops import arithmetic, transcendental

PACKS = "packs"
"""The kind of the effects of packs of loads and stores."""
LEAST = 4
"""Registers of the smallest pack."""
MOST = 64
"""Registers of the largest pack: its array stays in memory as long as any of them is used."""

_DIMENSIONS: dict[type[Operation], tuple[str, ...]] = {
    tpu.AllReduceOp: ("dim",),
    tpu.DynamicGatherOp: ("dimensions",),
    tpu.DynamicRotateOp: ("dimension", "stride_dimension"),
    tpu.RotateOp: ("dimension", "stride_dimension"),
}
"""Attributes that name dimensions of a type; a leading dimension moves them by one."""
_PURE = frozenset(
    (
        *arithmetic.BINARY,
        *transcendental.ELEMENTWISE,
        *_DIMENSIONS,
        arith.CmpfOp,
        arith.CmpiOp,
        arith.ExtFOp,
        arith.ExtSIOp,
        arith.ExtUIOp,
        arith.FPToSIOp,
        arith.NegfOp,
        arith.SIToFPOp,
        arith.SelectOp,
        arith.TruncFOp,
        arith.TruncIOp,
        tpu.BitcastVregOp,
        tpu.PackSubelementsOp,
        tpu.UnpackSubelementsOp,
    )
)
"""Operations without effects that make packs."""
ACCESSES = frozenset((tpu.LoadOp, tpu.StoreOp))
"""Operations with effects that make packs, if they are neighbours and stay in order."""


Pack = tuple[Operation, ...]
"""Operations that differ only in their registers, or in where those lie in memory."""


class Packer:
    """Finds the packs of one function."""

    def __init__(self) -> None:
        self._numbers = Numbers()
        self._registers: dict[int, bool] = {}
        """Whether a type, by its number, is one register."""

    def runs(self, block: Block) -> Iterator[list[Operation]]:
        """The operations of `block` in order, cut into runs: neighbours that might make packs
        together.

        An operation that does not help is a run of its own.
        """
        for kind, group in groupby(block.ops, self._kind):
            ops = list(group)
            if kind is not None and len(ops) >= LEAST:
                yield ops
            else:
                for op in ops:
                    yield [op]

    def _kind(self, op: Operation) -> Any:
        """What neighbours must share to be in one run; None if an operation makes no packs."""
        cls = type(op)
        if cls in ACCESSES:
            value = op.operands[0] if cls is tpu.StoreOp else op.results[0]
            return (cls, cast(Any, op).base) if self._single(value) else None
        if cls in _PURE and len(op.results) == 1 and self._single(op.results[0]):
            return cls
        return None

    def _single(self, value: SSAValue) -> bool:
        """Whether `value` is one register."""
        type = value.type
        if not isinstance(type, VectorType):
            return False
        number = self._numbers.of(type)
        found = self._registers.get(number)
        if found is None:
            split = split_grid(cast("VectorType[Attribute]", type))
            found = self._registers[number] = split is not None and not split[0]
        return found

    def packs(self, run: Sequence[Operation], known: Any) -> list[Pack]:
        """Cuts `run` into packs of at most `MOST` operations.

        Loads and stores stay in order. Other operations are sorted by level first, which is one
        more than the highest level of their operands within the run, so that those of one level do
        not depend on each other. `known` has the values that need not be computed: operations of
        one pack share these.
        """
        if type(run[0]) in ACCESSES:
            return [
                ops[start : start + MOST]
                for _, group in groupby(run, lambda op: self._alike(op, known))
                for ops in (tuple(group),)
                for start in range(0, len(ops), MOST)
            ]
        levels: dict[int, int] = {}
        """The level of each result, by its identity."""
        found: dict[Any, list[Operation]] = {}
        first: dict[Any, int] = {}
        """The position in `run` of the first operation of each pack."""
        for place, op in enumerate(run):
            level = max([levels.get(id(operand), -1) for operand in op.operands], default=-1) + 1
            levels[id(op.results[0])] = level
            key = (level, *self._alike(op, known))
            if key not in found:
                found[key], first[key] = [], place
            found[key].append(op)
        # Within a level packs follow the order of the text, which is that of their operands.
        chosen = sorted(found, key=lambda key: (key[0], first[key]))
        return [
            tuple(found[key][start : start + MOST])
            for key in chosen
            for start in range(0, len(found[key]), MOST)
        ]

    def _alike(self, op: Operation, known: Any) -> tuple[Any, ...]:
        """The key that the operations of one pack share: types, attributes, and operands that are
        not registers, by identity."""
        number = self._numbers.of
        access = type(op) in ACCESSES
        operands: list[Any] = []
        for operand in op.operands:
            type_ = operand.type
            if isinstance(type_, VectorType) and operand not in known:
                operands.append((number(type_),))
            elif access and operand in known:
                # Where they lie is for `register_packs` to compare.
                operands.append(None)
            else:
                operands.append(id(operand))
        return (
            *operands,
            *[(number(result.type),) for result in op.results],
            tuple(sorted([(name, number(a)) for name, a in op.properties.items()])),
            tuple(sorted([(n, number(a)) for n, a in op.attributes.items() if n != BOX])),
        )


def grid_type(type: Attribute, count: int) -> Attribute:
    """The type of a grid of `count` registers of `type`; types of scalars and refs are left as they
    are."""
    if not isinstance(type, VectorType):
        return type
    vector = cast("VectorType[Attribute]", type)
    return vector_of(vector.element_type, (count, *vector.get_shape()))


def meaning_of_pack(op: Operation, count: int, facts: Facts) -> Function | None:
    """The meaning of `op` on a grid of `count` registers; None if there is none.

    It is made by building the operation on types with a leading dimension of size `count`.
    """
    entry = lookup(op)
    if entry is None:
        return None
    block = Block(arg_types=[grid_type(operand.type, count) for operand in op.operands])
    properties = dict(op.properties)
    for name in _DIMENSIONS.get(type(op), ()):
        if name in properties:
            properties[name] = _moved(properties[name])
    grid = type(op).create(
        operands=block.args,
        result_types=[grid_type(result.type, count) for result in op.results],
        properties=properties,
        attributes=op.attributes,
    )
    try:
        return entry.factory(grid, facts)
    except Exception:
        # What is wrong with it, each operation says for itself.
        return None


def _moved(attribute: Attribute) -> Attribute:
    """Dimension numbers of a register as those of a type with one more leading dimension."""
    if isinstance(attribute, IntegerAttr):
        number = cast("IntegerAttr[Any]", attribute)
        return IntegerAttr(number.value.data + 1, number.type)
    array = cast("DenseArrayBase[Any]", attribute)
    return DenseArrayBase.from_list(array.elt_type, [int(v) + 1 for v in array.get_values()])


def spread(array: Any, count: int) -> Any:
    """The same register `count` times, as a broadcast view."""
    return np.broadcast_to(array, (count, *array.shape))


def joined(*parts: Any) -> Any:
    """The registers of several packs, one after the other, as one array."""
    return np.concatenate(parts)
