"""Writes views of refs, DMAs and DMA semaphores as operations of the `tpu` dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects.tpu import (
    DMASemaphoreType,
    EnqueueDmaOp,
    MemorySpaceAttr,
    MemrefSliceOp,
    MemrefSqueezeOp,
    SemAllocOp,
    WaitDma2Op,
)
from pallasite.dialects.types import memref_of
from pallasite.lowering.creation import made, operand_segments
from pallasite.lowering.windows_to_dma.scalars import Scalar, ScalarBuilder, known

_SEMAPHORES = MemorySpaceAttr("semaphore_mem")


def memref_type(value: SSAValue) -> MemRefType[Attribute]:
    """The type of a ref."""
    return cast("MemRefType[Attribute]", value.type)


def slice_of(
    build: ScalarBuilder, base: SSAValue, start: Sequence[Scalar], sizes: Sequence[Scalar]
) -> SSAValue:
    """`tpu.memref_slice` of `base`: `sizes` elements from `start` in each dimension.

    A slice that is all of `base` is `base` itself. Sizes known only at run time are dynamic in the
    type of the result.
    """
    type = memref_type(base)
    if all(known(s) == 0 for s in start) and tuple(sizes) == type.get_shape():
        return base
    static = [known(size) for size in sizes]
    shape = tuple(DYNAMIC_INDEX if size is None else size for size in static)
    dynamic = [build.value(z) for z, size in zip(sizes, static, strict=True) if size is None]
    result = memref_of(type.element_type, shape, type.memory_space)
    operands = (base, *(build.value(s) for s in start), *dynamic)
    return build.made(
        MemrefSliceOp, operands, result, operand_segments(1, len(start), len(dynamic))
    )


def squeeze_to(build: ScalarBuilder, view: SSAValue, shape: Sequence[int]) -> SSAValue:
    """`view` without dimensions of size 1, so that its shape is `shape`."""
    type = memref_type(view)
    if type.get_shape() == tuple(shape):
        return view
    result = memref_of(type.element_type, tuple(shape), type.memory_space)
    return build.made(MemrefSqueezeOp, (view,), result)


def start_copy(
    build: ScalarBuilder, source: SSAValue, target: SSAValue, semaphore: SSAValue
) -> Operation:
    """Starts a DMA from `source` to `target`, which signals the DMA semaphore `semaphore`."""
    properties = operand_segments(1, 0, 1, 1, 0, 0, 0)
    return build.emit(made(EnqueueDmaOp, (source, target, semaphore), (), properties))


def wait_copy(
    build: ScalarBuilder, source: SSAValue, target: SSAValue, semaphore: SSAValue
) -> None:
    """Waits on `semaphore` until a copy of `source` to `target` has landed."""
    properties = operand_segments(1, 1, 1, 0, 0)
    build.emit(made(WaitDma2Op, (semaphore, source, target), (), properties))


def copy(build: ScalarBuilder, source: SSAValue, target: SSAValue, semaphore: SSAValue) -> None:
    """Copies `source` to `target` and waits until the copy has landed."""
    start_copy(build, source, target, semaphore)
    wait_copy(build, source, target, semaphore)


def dma_semaphores(build: ScalarBuilder, count: int, hint: str) -> SSAValue:
    """Allocates `count` DMA semaphores as a ref named `hint`, of rank 0 if `count` is 1."""
    shape = () if count == 1 else (count,)
    type = memref_of(DMASemaphoreType(), shape, _SEMAPHORES)
    return build.emit(made(SemAllocOp, (), (type,)), hint).results[0]
