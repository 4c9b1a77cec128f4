"""Sizes of transfers that are promised to be whole tiles, and need not be.

JAX's pipelines promise that a bounded slice is as long as whole tiles, whatever its size is at run
time, and a DMA moves whole tiles: every element of the slice arrives, and those behind it in the
last tile of the target may be overwritten, by elements of the source's last tile. So such a promise
binds nobody; what lies behind the slice is poison when the transfer has landed.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import arith, pallas, tpu
from pallasite.dialects.types import shape_of
from pallasite.dialects.viewed import PARTS, viewed

_TRANSFERS = (tpu.EnqueueDmaOp, tpu.WaitDma2Op, tpu.WaitDmaOp)
_SLICES = (tpu.MemrefSliceOp, pallas.AtOp)

Slice = tpu.MemrefSliceOp | pallas.AtOp
"""A part of a ref, of which `pallas.at` may leave out dimensions of size 1."""


def is_rounded(promise: tpu.AssumeMultipleOp) -> bool:
    """Whether the number is the size of what transfers move, and nothing else."""
    uses = list(promise.result.uses)
    return bool(uses) and all(
        isinstance(use.operation, _SLICES)
        and use.index >= _sizes_from(use.operation)
        and _is_moved(use.operation.result)
        for use in uses
    )


def multiples(slice: Slice) -> dict[int, int]:
    """The promised multiple of each dimension of the slice that is rounded up to one."""
    found: dict[int, int] = {}
    for d, size in _unknown_sizes(slice):
        owner = size.owner
        if isinstance(owner, tpu.AssumeMultipleOp) and is_rounded(owner):
            found[d] = owner.multiple.value.data
    return found


def multiples_of_view(view: SSAValue) -> dict[int, int]:
    """The same for a slice, maybe without some dimensions of size 1."""
    return _of_view(view, multiples)


def edges_of_copy(copy: tpu.EnqueueDmaOp) -> dict[int, int]:
    """The size of the block of a pipeline of which the target of a copy is the first part, in each
    dimension where the pipeline finds out how long that part is: the last block may reach over the
    edge of its array, and a bounded slice may be shorter than its block.
    """
    semaphore = copy.target_semaphore
    # A pipeline has a semaphore for each of its blocks.
    slots = 1 if semaphore is None else prod(shape_of(viewed(semaphore, *PARTS, pallas.AtOp).type))
    return _of_view(copy.target, lambda slice: _edges(slice, slots))


def _edges(slice: Slice, slots: int) -> dict[int, int]:
    found: dict[int, int] = {}
    for d, size in _unknown_sizes(slice):
        owner = size.owner
        if isinstance(owner, tpu.AssumeMultipleOp) and is_rounded(owner):
            block = _block(slice, d, owner.value, slots)
            if block is not None:
                found[d] = block
    return found


def _block(slice: Slice, d: int, size: SSAValue, slots: int) -> int | None:
    """How long the block is in dimension `d`, of which a pipeline's slice of `size` is a part."""
    buffer = shape_of(slice.operands[0].type)
    # Flat blocks lie one behind the other in a buffer.
    block = buffer[d] // slots if len(buffer) == 1 else buffer[d]
    if len(buffer) > 1 and _known_start(slice, d) != 0:
        return None
    sizes = _constants(size)
    known = len(sizes) == 1 or max(sizes, default=None) == block
    return block if known or _is_cut_at_the_end(size) else None


def _is_cut_at_the_end(size: SSAValue) -> bool:
    """Whether it is a number, or another where a slice of that size leaves its array: the size of
    a bounded slice, and of one that begins at any element."""
    choice = size.owner
    if not isinstance(choice, arith.SelectOp):
        return False
    condition = choice.cond.owner
    if not isinstance(condition, arith.CmpiOp) or condition.predicate_name != "sgt":
        return False
    end = condition.lhs.owner
    terms = [*end.operands] if isinstance(end, arith.AddiOp) else [condition.lhs]
    within = any(_is_same(term, choice.rhs) for term in terms)
    return within and arith.known_integer(condition.rhs) is not None


def _is_same(one: SSAValue, other: SSAValue) -> bool:
    known = arith.known_integer(one)
    return one is other or (known is not None and known == arith.known_integer(other))


def _constants(size: SSAValue) -> list[int]:
    """The constants of which a number is one; none if that is not all."""
    owner = size.owner
    if isinstance(owner, arith.SelectOp):
        first = arith.known_integer(owner.cond)
        if first is not None:
            return _constants(owner.lhs if first else owner.rhs)
        either = [arith.known_integer(value) for value in (owner.lhs, owner.rhs)]
        return [number for number in either if number is not None] if None not in either else []
    known = arith.known_integer(size)
    return [] if known is None else [known]


def _of_view(view: SSAValue, of_slice: Callable[[Slice], dict[int, int]]) -> dict[int, int]:
    """What is known of a slice by dimension, for one maybe without some dimensions of size 1."""
    owner = view.owner
    if isinstance(owner, tpu.MemrefSliceOp):
        return of_slice(owner)
    if isinstance(owner, pallas.AtOp):
        inner = of_slice(owner)
        kept = [d for d, entry in enumerate(owner.entries) if not entry.drop]
    elif isinstance(owner, tpu.MemrefSqueezeOp):
        inner = _of_view(owner.input, of_slice)
        kept = kept_dimensions(owner) if inner else []
    else:
        return {}
    return {kept.index(d): number for d, number in inner.items() if d in kept}


def kept_dimensions(op: tpu.MemrefSqueezeOp) -> tuple[int, ...]:
    """The dimensions of the operand that the result has; types tell them apart from the end."""
    source, result = shape_of(op.input.type), shape_of(op.result.type)
    kept: list[int] = []
    wanted = len(result) - 1
    for d in range(len(source) - 1, -1, -1):
        if wanted >= 0 and source[d] == result[wanted]:
            kept.append(d)
            wanted -= 1
    return tuple(kept[::-1])


def _sizes_from(slice: Slice) -> int:
    return len(slice.operands) - len(slice.dynamic_sizes)


def _unknown_sizes(slice: Slice) -> list[tuple[int, SSAValue]]:
    """The sizes that are known at run time, with their dimensions."""
    if isinstance(slice, pallas.AtOp):
        entries = enumerate(slice.entries)
        return [(d, entry.size) for d, entry in entries if isinstance(entry.size, SSAValue)]
    unknown = (d for d, n in enumerate(shape_of(slice.result.type)) if n == DYNAMIC_INDEX)
    return list(zip(unknown, slice.operands[_sizes_from(slice) :], strict=True))


def _known_start(slice: Slice, d: int) -> int | None:
    """Where the slice begins in dimension `d`, if that is a constant."""
    start = slice.entries[d].start if isinstance(slice, pallas.AtOp) else slice.base_idx[d]
    return start if isinstance(start, int) else arith.known_integer(start)


def _is_moved(view: SSAValue) -> bool:
    users: list[Operation] = [use.operation for use in view.uses]
    return all(
        isinstance(user, _TRANSFERS)
        or (isinstance(user, tpu.MemrefSqueezeOp) and _is_moved(user.result))
        for user in users
    )
