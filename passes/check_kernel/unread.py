"""Buffers in VMEM that the TPU compiler leaves out, because nothing is read from their memory.

Asked of libtpu 0.0.51 (v4 to v7x) with buffers larger than what a kernel gets: it drops stores to
what is never loaded, and loads whole registers from the stores before them in the same
block, unless a region, a transfer or a store to an unknown place or part of a register is between.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import cast

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, SSAValue

from pallasite.dialects import tpu
from pallasite.dialects.tpu.base import TRUE
from pallasite.dialects.types import AnyMemRef, bit_width, memory_space
from pallasite.dialects.walking import operations_of
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.passes.accesses import ACCESSES, Access, Store, accessed_shape, base_of, stores
from pallasite.passes.divisibility import constant_of
from pallasite.passes.effects import is_pure

Registers = set[tuple[int, ...]]
"""Which registers of a buffer, by their places in it, counted in registers."""
_FORWARDED = (8, 32)
"""Bits of elements whose registers the compiler takes from stores; of 16 it stores halves."""
_MOST = 1 << 16
"""Registers of an access that are listed."""


def unread(buffer: SSAValue) -> bool:
    """Whether all that is loaded from `buffer`, if anything is, is known without its memory."""
    if memory_space(buffer.type) not in ("vmem", None):
        return False
    accesses = _accesses(buffer)
    if accesses is None:
        return False
    live = [op for op in accesses if not stores(op) and op.results[0].first_use is not None]
    blocks = {id(op.parent): cast(Block, op.parent) for op in live}
    return all(_forwarded(block, set(accesses), buffer) for block in blocks.values())


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


def _forwarded(block: Block, accesses: set[Operation], buffer: SSAValue) -> bool:
    """Whether earlier stores of `block` to `buffer` make up every load from it."""
    known: Registers = set()
    for op in operations_of(block):
        if op in accesses:
            touched = _registers(op, buffer)
            if isinstance(op, Store):
                known = known | touched if touched else set()
            elif op.results[0].first_use is not None and not (touched and touched <= known):
                return False
        elif op.regions or not (isinstance(op, ACCESSES) or is_pure(type(op))):
            known = set()
    return True


def _registers(op: Operation, buffer: SSAValue) -> Registers:
    """The whole registers that an access is to; none if it is to parts, or to unknown ones."""
    bits, shape = bit_width(buffer.type), cast(AnyMemRef, buffer.type).get_shape()
    strided = isinstance(op, tpu.StridedLoadOp | tpu.StridedStoreOp)
    if strided or getattr(op, "mask", None) or bits not in _FORWARDED or len(shape) < 2:
        return set()
    units = [*[1] * (len(shape) - 2), SUBLANES * packing(bits), LANES]
    ranges: list[range] = []
    for place, size, unit in zip(_start(op, buffer), accessed_shape(op), units, strict=False):
        if place is None or place % unit or size % unit:
            return set()
        ranges.append(range(place // unit, (place + size) // unit))
    return set(product(*ranges)) if prod(map(len, ranges)) <= _MOST else set()


def _start(access: Operation, buffer: SSAValue) -> list[int | None]:
    """Where `access` begins in `buffer`, per dimension; None if that is known at run time only."""
    ref = base_of(access)
    places = [constant_of(index) for index in cast(Access, access).indices]
    while ref is not buffer:
        view = ref.owner
        if not isinstance(view, tpu.MemrefSliceOp):
            return [None]
        more = [constant_of(index) for index in view.base_idx]
        pairs = zip(places, more, strict=True)
        places = [None if a is None or b is None else a + b for a, b in pairs]
        ref = view.mem_ref
    return places
