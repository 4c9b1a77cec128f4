"""Registers that are worked on alike: one operation of NumPy instead of many.

The register form is written out: where its source has one operation on a grid of registers, it has
a run of operations that differ in their registers only. The compiled driver makes a *pack* of those
of a run that do not depend on each other: their results are one array with a leading dimension, of
which every register is an element (`p3[5]`). A pack means what the same operation means on a
grid of registers, which has the same bits. Loads and stores of a pack are in
`effects/register_packs.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from pallasite.dialects import arith, tpu
from pallasite.dialects.registers import BOX
from pallasite.dialects.types import split_grid
from pallasite.interpreter.meanings import Facts, Function, lookup
from pallasite.interpreter.ops import arithmetic, transcendental

LEAST = 4
"""Registers of the smallest pack."""
MOST = 64
"""Registers of the largest one: it stays in memory as long as any of them is used."""

_DIMENSIONS: dict[type[Operation], tuple[str, ...]] = {
    tpu.AllReduceOp: ("dim",),
    tpu.DynamicGatherOp: ("dimensions",),
    tpu.DynamicRotateOp: ("dimension", "stride_dimension"),
    tpu.RotateOp: ("dimension", "stride_dimension"),
}
"""The attributes that name dimensions of the full type."""
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
ACCESSES = frozenset((tpu.LoadOp, tpu.StoreOp))
"""What makes packs although it has effects: only neighbours, in their order."""


Pack = tuple[Operation, ...]
"""Operations that differ in registers, or in where these lie, and nothing else."""


def runs(block: Block) -> Iterator[list[Operation]]:
    """The operations of `block` in order, neighbours that might make packs together."""
    for kind, group in groupby(block.ops, _kind):
        ops = list(group)
        if kind is not None and len(ops) >= LEAST:
            yield ops
        else:
            for op in ops:
                yield [op]


def _kind(op: Operation) -> Any:
    """What neighbours must share to be of one run; None if nothing helps."""
    cls = type(op)
    if cls in ACCESSES:
        value = op.operands[0] if cls is tpu.StoreOp else op.results[0]
        return (cls, cast(Any, op).base) if _single(value) else None
    if cls in _PURE and len(op.results) == 1 and _single(op.results[0]):
        return cls
    return None


def _single(value: SSAValue) -> bool:
    type = value.type
    if not isinstance(type, VectorType):
        return False
    split = split_grid(cast("VectorType[Attribute]", type))
    return split is not None and not split[0]


def packs(run: Sequence[Operation], known: Any) -> list[Pack]:
    """`run`, of operations without effects or of loads or stores, cut into packs.

    `known` are the values that need not be computed: they are part of what operations are.
    """
    if type(run[0]) in ACCESSES:
        return [
            ops[start : start + MOST]
            for _, group in groupby(run, lambda op: _alike(op, known))
            for ops in (tuple(group),)
            for start in range(0, len(ops), MOST)
        ]
    levels: dict[Operation, int] = {}
    found: dict[Any, list[Operation]] = {}
    for op in run:
        owners = [o for operand in op.operands if isinstance(o := operand.owner, Operation)]
        level = max([levels[o] + 1 for o in owners if o in levels], default=0)
        levels[op] = level
        found.setdefault((level, *_alike(op, known)), []).append(op)
    # Of one level in the order of their text, which is that of their operands.
    place = {op: number for number, op in enumerate(run)}
    chosen = sorted(found.items(), key=lambda item: (item[0][0], place[item[1][0]]))
    return [
        tuple(ops[start : start + MOST]) for _, ops in chosen for start in range(0, len(ops), MOST)
    ]


def _alike(op: Operation, known: Any) -> tuple[Any, ...]:
    """What the operations of one pack share."""
    attributes = {k: v for k, v in op.attributes.items() if k != BOX}
    operands = [
        operand.type if isinstance(operand.type, VectorType) and operand not in known else operand
        for operand in op.operands
    ]
    if type(op) in ACCESSES:
        # Where they lie is for `register_packs` to compare.
        operands = [None if o in known else o for o in operands]
    return (
        *operands,
        *(r.type for r in op.results),
        tuple(sorted(op.properties.items())),
        tuple(sorted(attributes.items())),
    )


def grid_type(type: Attribute, count: int) -> Attribute:
    """`count` registers of `type` as a grid."""
    if not isinstance(type, VectorType):
        return type
    vector = cast("VectorType[Attribute]", type)
    return VectorType(vector.element_type, (count, *vector.get_shape()))


def meaning_of_pack(op: Operation, count: int, facts: Facts) -> Function | None:
    """What `op` means on a grid of `count` registers."""
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
    """Dimensions of a register as those of a grid with one dimension more."""
    if isinstance(attribute, IntegerAttr):
        number = cast("IntegerAttr[Any]", attribute)
        return IntegerAttr(number.value.data + 1, number.type)
    array = cast("DenseArrayBase[Any]", attribute)
    return DenseArrayBase.from_list(array.elt_type, [int(v) + 1 for v in array.get_values()])


def spread(array: Any, count: int) -> Any:
    """The same register `count` times."""
    return np.broadcast_to(array, (count, *array.shape))


def joined(*parts: Any) -> Any:
    """The registers of several packs, one after the other."""
    return np.concatenate(parts)
