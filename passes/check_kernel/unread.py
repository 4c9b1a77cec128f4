"""Buffers in VMEM that the TPU compiler leaves out, because nothing is read from their memory.

Asked of libtpu 0.0.51 (v4 to v7x) with buffers larger than what a kernel gets: it drops stores to
what is never loaded, and loads whole registers from the stores before them in the same
block, unless a region, a transfer or a store to another unknown place or part of a register is
between. Places known at run time only are the same if they are one value.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import cast

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, SSAValue

from pallasite.dialects import arith, tpu
from pallasite.dialects.tpu.base import TRUE
from pallasite.dialects.types import AnyMemRef, bit_width, memory_space
from pallasite.dialects.walking import operations_of
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.passes.accesses import ACCESSES, Access, Store, accessed_shape, base_of, stores
from pallasite.passes.divisibility import constant_of, remainder
from pallasite.passes.effects import is_pure
from pallasite.targets import Target

Start = int | SSAValue | None
"""Where an access begins in a dimension, maybe known at run time only; None for sums of those."""
Place = tuple[SSAValue | None, int]
"""Registers counted from the beginning, or from what is known at run time only."""
Registers = set[tuple[Place, ...]]
"""Which registers of a buffer, by their places in it."""
_FORWARDED = (8, 16, 32)
"""Bits of elements whose registers the compiler takes from stores."""
_MOST = 1 << 16
"""Registers of an access that are listed."""


def unread(buffer: SSAValue, target: Target) -> bool:
    """Whether all that is loaded from `buffer`, if anything is, is known without its memory."""
    if memory_space(buffer.type) not in ("vmem", None):
        return False
    accesses = _accesses(buffer)
    if accesses is None:
        return False
    live = [op for op in accesses if not stores(op) and op.results[0].first_use is not None]
    blocks = {id(op.parent): cast(Block, op.parent) for op in live}
    return all(_forwarded(block, set(accesses), buffer, target) for block in blocks.values())


def _accesses(buffer: SSAValue) -> list[Operation] | None:
    """The loads and stores of `buffer`, also by way of views; None if it is used otherwise."""
    found: list[Operation] = []
    refs = [buffer]
    while refs:
        for use in refs.pop().uses:
            op = use.operation
            if isinstance(op, ACCESSES) and base_of(op) is op.operands[use.index]:
                if getattr(op, "add", None) == TRUE:
                    return None
                found.append(op)
            elif op.results and not op.regions and isinstance(op.results[0].type, MemRefType):
                refs.append(op.results[0])
            else:
                return None
    return found


def _forwarded(block: Block, accesses: set[Operation], buffer: SSAValue, target: Target) -> bool:
    """Whether earlier stores of `block` to `buffer` make up every load from it."""
    known: Registers = set()
    for op in operations_of(block):
        if op in accesses:
            touched = _registers(op, buffer, target)
            if isinstance(op, Store):
                bases = {_bases(register) for register in touched}
                known = {register for register in known if _bases(register) in bases} | touched
            elif op.results[0].first_use is not None and not (touched and touched <= known):
                return False
        elif op.regions or not (isinstance(op, ACCESSES) or is_pure(type(op))):
            known = set()
    return True


def _bases(register: tuple[Place, ...]) -> tuple[SSAValue | None, ...]:
    return tuple(base for base, _ in register)


def _registers(op: Operation, buffer: SSAValue, target: Target) -> Registers:
    """The whole registers that an access is to; none if it is to parts, or to unknown ones.

    Rows of 16 bits whose tiles are no whole registers are stored as halves of registers.
    """
    bits, shape = bit_width(buffer.type), cast(AnyMemRef, buffer.type).get_shape()
    strided = isinstance(op, tpu.StridedLoadOp | tpu.StridedStoreOp)
    if strided or getattr(op, "mask", None) or bits not in _FORWARDED or len(shape) < 2:
        return set()
    if bits == 16 and "scratch" not in target.large_half_tiles:
        return set()
    units = [*[1] * (len(shape) - 2), SUBLANES * packing(bits), LANES]
    places: list[list[Place]] = []
    for start, size, unit in zip(_start(op, buffer), accessed_shape(op), units, strict=False):
        if start is None or size % unit:
            return set()
        if isinstance(start, int):
            base, first = None, start
        else:
            base, first = start, remainder(start, unit)
        if first is None or first % unit:
            return set()
        places.append([(base, place) for place in range(first // unit, (first + size) // unit)])
    return set(product(*places)) if prod(map(len, places)) <= _MOST else set()


def _start(access: Operation, buffer: SSAValue) -> list[Start]:
    """Where `access` begins in `buffer`, per dimension."""
    ref = base_of(access)
    places = [_place(index) for index in cast(Access, access).indices]
    while ref is not buffer:
        view = ref.owner
        if not isinstance(view, tpu.MemrefSliceOp):
            return [None]
        more = [_place(index) for index in view.base_idx]
        places = [_sum(*pair) for pair in zip(places, more, strict=True)]
        ref = view.mem_ref
    return places


def _place(index: SSAValue) -> Start:
    """The number that `index` is, or the value that it is cast from."""
    number = constant_of(index)
    while number is None and isinstance(index.owner, arith.IndexCastOp):
        index = index.owner.operands[0]
    return index if number is None else number


def _sum(one: Start, other: Start) -> Start:
    if isinstance(one, int) and isinstance(other, int):
        return one + other
    return one if other == 0 else other if one == 0 else None
