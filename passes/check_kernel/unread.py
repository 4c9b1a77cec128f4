"""Finds buffers in VMEM for which the TPU compiler allocates no memory, since nothing reads it.

The compiler removes stores to a buffer that is never loaded. It also forwards stores: a load of
whole registers that earlier stores of the same block have written takes the stored values, unless
a region, a transfer, a store to part of a register or one to another unknown offset lies between.
If all loads of a buffer are forwarded, the buffer needs no memory (`memory.py` then does not count
it). Offsets known only at run time are equal if they are the same SSA value. Asked of libtpu 0.0.51
(v4 to v7x) with buffers larger than the VMEM that a kernel gets.
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
"""First index of an access in one dimension: a number, a value known at run time, or None where it
is a sum of values."""
Place = tuple[SSAValue | None, int]
"""Number of a register along one dimension, counted from the register at the value; None is 0."""
Registers = set[tuple[Place, ...]]
"""Registers of a buffer, each by its place in every dimension."""
_FORWARDED = (8, 16, 32)
"""Bit widths of elements for which the compiler forwards stores."""
_MOST = 1 << 16
"""An access of more registers is not analysed."""


def unread(buffer: SSAValue, target: Target) -> bool:
    """Whether no load reads the memory of `buffer`: there is none, or all are forwarded."""
    if memory_space(buffer.type) not in ("vmem", None):
        return False
    accesses = _accesses(buffer)
    if accesses is None:
        return False
    live = [op for op in accesses if not stores(op) and op.results[0].first_use is not None]
    blocks = {id(op.parent): cast(Block, op.parent) for op in live}
    return all(_forwarded(block, set(accesses), buffer, target) for block in blocks.values())


def _accesses(buffer: SSAValue) -> list[Operation] | None:
    """The loads and stores of `buffer` and of views of it; None if it is used in another way."""
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
    """Whether every load of `buffer` in `block` takes what earlier stores in `block` have written.

    `accesses` are the loads and stores of the buffer.
    """
    # Registers whose stored values the compiler knows at this point of the block.
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
    """The registers that an access covers; none if it covers parts of one, or unknown ones.

    On targets whose tiles of 16-bit buffers have 8 rows, a store of them writes half a register,
    which is never forwarded.
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
    """The first index of `access` in each dimension of `buffer`; [None] behind other views than
    slices."""
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
    """`index` as a number if it is constant, else the value that it is cast from."""
    number = constant_of(index)
    while number is None and isinstance(index.owner, arith.IndexCastOp):
        index = index.owner.operands[0]
    return index if number is None else number


def _sum(one: Start, other: Start) -> Start:
    if isinstance(one, int) and isinstance(other, int):
        return one + other
    return one if other == 0 else other if one == 0 else None
