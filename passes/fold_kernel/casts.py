"""Folds casts: there and back again, one after another, and of constants."""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float32Type
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import arith, tpu
from pallasite.dialects.integers import greatest, least, unsigned
from pallasite.dialects.types import element_of
from pallasite.passes.fold_kernel.driver import (
    Folder,
    integer,
    number,
    rule,
    width_of,
)
from pallasite.passes.ranges import range_of

_EXTENSIONS = (arith.ExtSIOp, arith.ExtUIOp)
_KEEPS_WORDS = (
    arith.MinSIOp, arith.MaxSIOp, arith.AndIOp, arith.OrIOp, arith.XOrIOp, arith.SelectOp,
    arith.RemSIOp, arith.ShRSIOp, tpu.AssumeMultipleOp,
)  # fmt: skip
"""Operations whose result fits 32 bits if their operands do."""
_DEEPEST = 8
"""How many operations in a row are looked through."""


@rule(arith.TruncIOp)
def fold_truncation(op: arith.TruncIOp, f: Folder) -> SSAValue | None:
    """A truncation of an extension is a smaller extension or truncation, or no operation; two
    truncations are one."""
    owner = op.input.owner
    if isinstance(owner, arith.TruncIOp):
        return _cast(arith.TruncIOp, owner.input, op, f)
    if not isinstance(owner, _EXTENSIONS):
        return None
    narrow, wanted = (width_of(element_of(v)) for v in (owner.input, op.result))
    if narrow == wanted:
        return owner.input
    return _cast(type(owner) if narrow < wanted else arith.TruncIOp, owner.input, op, f)


@rule(*_EXTENSIONS)
def fold_extension(op: arith.ExtSIOp | arith.ExtUIOp, f: Folder) -> SSAValue | None:
    """Two extensions of one kind are one; a value extended by zeros is not negative, so extending
    it by its sign adds zeros, too."""
    owner = op.input.owner
    if isinstance(owner, arith.ExtUIOp):
        return _cast(arith.ExtUIOp, owner.input, op, f)
    if isinstance(owner, arith.ExtSIOp) and isinstance(op, arith.ExtSIOp):
        return _cast(arith.ExtSIOp, owner.input, op, f)
    return None


@rule(arith.IndexCastOp, arith.BitcastOp)
def fold_cast_back(op: Operation, f: Folder) -> SSAValue | None:
    """A cast back to the first type is the first value, if the type between holds all of it."""
    owner = op.operands[0].owner
    if not isinstance(owner, type(op)) or owner.operands[0].type != op.results[0].type:
        return None
    first = owner.operands[0]
    between, whole = (width_of(element_of(v)) for v in (op.operands[0], op.results[0]))
    if isinstance(op, arith.BitcastOp):
        return first
    if between >= whole or (between == 32 and _fits_words(first, _DEEPEST)):
        return first
    return None


def _fits_words(index: SSAValue, depth: int) -> bool:
    """Whether `index` certainly fits 32 bits; sums and products of such numbers may not."""
    owner = index.owner
    if isinstance(owner, arith.IndexCastOp) or range_of(index).fits_words():
        return True
    if not isinstance(owner, _KEEPS_WORDS) or not depth:
        return False
    return all(_fits_words(v, depth - 1) for v in owner.operands if v.type == index.type)


@rule(arith.TruncFOp)
def fold_rounding(op: arith.TruncFOp, f: Folder) -> SSAValue | None:
    """A float that is extended and truncated back to its type is unchanged."""
    owner = op.input.owner
    if isinstance(owner, arith.ExtFOp) and owner.input.type == op.result.type:
        return owner.input
    return None


@rule(*_EXTENSIONS, arith.TruncIOp, arith.IndexCastOp)
def fold_cast_of_integer(op: Operation, f: Folder) -> SSAValue | None:
    """A cast of an integer constant is a constant."""
    known = _cast_integer(op)
    return None if known is None else f.constant(op.results[0].type, known)


@rule(arith.SIToFPOp, arith.UIToFPOp, tpu.SitofpOp, tpu.UitofpOp)
def fold_number_of_integer(op: Operation, f: Folder) -> SSAValue | None:
    """A constant that a float type holds exactly is a constant of that type."""
    known = _cast_integer(op)
    return None if known is None else _exact(float(known), op, f)


@rule(arith.FPToSIOp)
def fold_integer_of_number(op: arith.FPToSIOp, f: Folder) -> SSAValue | None:
    """A float constant in the range of the integer type is the constant without its fraction."""
    known, width = number(op.input), width_of(element_of(op.result))
    if known is None or not math.isfinite(known) or width == 1:
        return None
    fits = least(width) <= int(known) <= greatest(width)
    return f.constant(op.result.type, int(known)) if fits else None


@rule(arith.ExtFOp, arith.TruncFOp)
def fold_cast_of_number(op: Operation, f: Folder) -> SSAValue | None:
    """A float constant that both types hold is a constant of the other."""
    known = number(op.operands[0])
    return None if known is None or not math.isfinite(known) else _exact(known, op, f)


def _cast_integer(op: Operation) -> int | None:
    """The value of a constant integer operand as `op` reads it, signed or unsigned; else None."""
    known, width = integer(op.operands[0]), width_of(element_of(op.operands[0]))
    if known is None:
        return None
    if isinstance(op, arith.ExtUIOp | arith.UIToFPOp | tpu.UitofpOp):
        return unsigned(known, width)
    # The only bit is the sign: true is -1. Truncated, it is the same bit.
    return -known if width == 1 else known


def _exact(known: float, op: Operation, f: Folder) -> SSAValue | None:
    """The constant `known` of the result's type, if that is f32 or bf16 and holds it exactly."""
    element = element_of(op.results[0])
    word = np.float32(known)
    if not isinstance(element, Float32Type | BFloat16Type) or float(word) != known:
        return None
    if isinstance(element, BFloat16Type) and int(word.view(np.uint32)) & 0xFFFF:
        return None
    return f.constant(op.results[0].type, known)


def _cast(kind: type[Operation], value: SSAValue, op: Operation, f: Folder) -> SSAValue:
    """`value` cast to the type of `op`'s result."""
    return f.emit(kind.create(operands=[value], result_types=[op.results[0].type]))
