"""Sizes of transfers that are promised to be whole tiles, and need not be.

JAX's pipelines promise that a bounded slice is as long as whole tiles, whatever its size is at run
time, and a DMA moves whole tiles: every element of the slice arrives, and those behind it in the
last tile of the target may be overwritten, by elements of the source's last tile. So such a promise
binds nobody; what lies behind the slice is poison when the transfer has landed.
"""

from __future__ import annotations

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import tpu
from pallasite.dialects.types import shape_of

_TRANSFERS = (tpu.EnqueueDmaOp, tpu.WaitDma2Op, tpu.WaitDmaOp)


def is_rounded(promise: tpu.AssumeMultipleOp) -> bool:
    """Whether the number is the size of what transfers move, and nothing else."""
    uses = list(promise.result.uses)
    return bool(uses) and all(
        isinstance(use.operation, tpu.MemrefSliceOp)
        and use.index >= _sizes_from(use.operation)
        and _is_moved(use.operation.result)
        for use in uses
    )


def multiples(slice: tpu.MemrefSliceOp) -> dict[int, int]:
    """The promised multiple of each dimension of the slice that is rounded up to one."""
    unknown = (d for d, n in enumerate(shape_of(slice.result.type)) if n == DYNAMIC_INDEX)
    found: dict[int, int] = {}
    for d, size in zip(unknown, slice.operands[_sizes_from(slice) :], strict=True):
        owner = size.owner
        if isinstance(owner, tpu.AssumeMultipleOp) and is_rounded(owner):
            found[d] = owner.multiple.value.data
    return found


def multiples_of_view(view: SSAValue) -> dict[int, int]:
    """The same for a slice, maybe without some dimensions of size 1."""
    owner = view.owner
    if isinstance(owner, tpu.MemrefSliceOp):
        return multiples(owner)
    if not isinstance(owner, tpu.MemrefSqueezeOp):
        return {}
    inner = multiples_of_view(owner.input)
    kept = kept_dimensions(owner) if inner else []
    return {kept.index(d): multiple for d, multiple in inner.items() if d in kept}


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


def _sizes_from(slice: tpu.MemrefSliceOp) -> int:
    return len(slice.operands) - len(slice.dynamic_sizes)


def _is_moved(view: SSAValue) -> bool:
    users: list[Operation] = [use.operation for use in view.uses]
    return all(
        isinstance(user, _TRANSFERS)
        or (isinstance(user, tpu.MemrefSqueezeOp) and _is_moved(user.result))
        for user in users
    )
