"""Asynchronous copies between memories, and waiting for them."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import IntegerAttr, MemRefType, VectorType, i32
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.tpu.base import (
    ANY,
    ANY_SEMAPHORE,
    BOOL_ATTR,
    DMA_SEMAPHORE,
    FALSE,
    I32_ATTR,
    MEMREF,
    TpuOp,
    operand,
    optional_operand,
)
from pallasite.dialects.tpu.cores import (
    TENSOR_CORE,
    VECTOR_SUBCORE,
    check_scalar_semaphore,
    check_vector_subcore,
    in_space,
    memory_core,
    own_core,
)
from pallasite.dialects.tpu.types import SemaphoreType
from pallasite.dialects.types import AnyMemRef, AnyVector, shape_of

ZERO = IntegerAttr(0, 32)


class _TransferOp(TpuOp, ABC):
    """A copy between two refs, by its ends: both operations of one spell the same."""

    source = operand(MEMREF)
    source_semaphore = optional_operand(ANY_SEMAPHORE)
    target = operand(MEMREF)
    target_semaphore = optional_operand(ANY_SEMAPHORE)
    device_id = optional_operand(i32)
    core_id = optional_operand(i32)
    subcore_id = optional_operand(i32)
    priority = prop_def(I32_ATTR, default_value=ZERO)
    strict_ordering = prop_def(BOOL_ATTR, default_value=FALSE)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "`source` `(` $source `:` type($source) `)` `target` `(` $target `:` type($target) `)`"
        " (`source_semaphore` `(` $source_semaphore^ `:` type($source_semaphore) `)`)?"
        " (`target_semaphore` `(` $target_semaphore^ `:` type($target_semaphore) `)`)?"
        " (`device_id` `(` $device_id^ `)`)? (`core_id` `(` $core_id^ `)`)?"
        " (`subcore_id` `(` $subcore_id^ `)`)? attr-dict"
    )


@irdl_op_definition
class EnqueueDmaOp(_TransferOp):
    """Starts a copy; its end credits the target semaphore, and the source one if it is remote."""

    name = "tpu.enqueue_dma"

    def verify_(self) -> None:
        check_transfer_semaphores(self)
        source, target = self.source.type, self.target.type
        if source.element_type != target.element_type:
            raise VerifyException(f"expected one element type, got {source} and {target}")
        if source.get_shape() != target.get_shape():
            raise VerifyException(f"expected one shape, got {source} and {target}")
        check_remote(self)
        check_transfer_cores(self)


@irdl_op_definition
class WaitDma2Op(TpuOp):
    """Waits until the bytes of `dst` have arrived, and takes them from the semaphore."""

    name = "tpu.wait_dma2"

    semaphore = operand(DMA_SEMAPHORE)
    src = operand(MEMREF)
    dst = operand(MEMREF)
    device_id = optional_operand(i32)
    core_id = optional_operand(i32)
    strict_ordering = prop_def(BOOL_ATTR, default_value=FALSE)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "`semaphore` `(` $semaphore `:` type($semaphore) `)` `src` `(` $src `:` type($src) `)`"
        " `dst` `(` $dst `:` type($dst) `)` (`device_id` `(` $device_id^ `)`)?"
        " (`core_id` `(` $core_id^ `)`)? attr-dict"
    )

    def verify_(self) -> None:
        check_scalar_semaphore(self.semaphore.type)
        check_local(self, self.semaphore.type)


@irdl_op_definition
class WaitDmaOp(_TransferOp):
    """Waits for one end of the copy that an `enqueue_dma` with the same operands started."""

    name = "tpu.wait_dma"

    wait_target = prop_def(BOOL_ATTR)

    def verify_(self) -> None:
        waits_for_target = self.wait_target.value.data
        semaphore = self.target_semaphore if waits_for_target else self.source_semaphore
        if semaphore is None:
            end = "target" if waits_for_target else "source"
            raise VerifyException(f"expected a {end}_semaphore, since it waits for the {end}")
        check_scalar_semaphore(semaphore.type)
        check_local(self, semaphore.type)
        if self.subcore_id is not None and own_core(self) != VECTOR_SUBCORE:
            raise VerifyException(
                f"expected no subcore_id on {own_core(self)}, only on {VECTOR_SUBCORE}"
            )


@irdl_op_definition
class EnqueueIndirectDmaOp(TpuOp):
    """Starts a gather or scatter of slices that `offsets` name; only on vector subcores."""

    name = "tpu.enqueue_indirect_dma"

    source = operand(MEMREF)
    target = operand(MEMREF)
    offsets = operand(ANY)
    semaphore = operand(DMA_SEMAPHORE)
    offset_filter = optional_operand(i32)
    add = prop_def(BOOL_ATTR, default_value=FALSE)

    assembly_format = (
        "`source` `(` $source `:` type($source) `)` `target` `(` $target `:` type($target) `)`"
        " `offsets` `(` $offsets `:` type($offsets) `)` (`offset_filter` `(` $offset_filter^ `)`)?"
        " `semaphore` `(` $semaphore `:` type($semaphore) `)` attr-dict"
    )

    def verify_(self) -> None:
        check_vector_subcore(self)
        source, target, offsets = self.source.type, self.target.type, self.offsets.type
        check_offsets(offsets)
        gathers = is_gather(source, target)
        check_scalar_semaphore(self.semaphore.type)
        if source.element_type != target.element_type:
            raise VerifyException(f"expected one element type, got {source} and {target}")
        indexed, dense = (source, target) if gathers else (target, source)
        check_indirect_shapes(indexed.get_shape(), dense.get_shape(), shape_of(offsets))


@irdl_op_definition
class WaitIndirectDmaOp(TpuOp):
    """Waits for a gather or scatter."""

    name = "tpu.wait_indirect_dma"

    semaphore = operand(DMA_SEMAPHORE)
    src = operand(MEMREF)
    dst = operand(MEMREF)

    assembly_format = (
        "`semaphore` `(` $semaphore `:` type($semaphore) `)` `src` `(` $src `:` type($src) `)`"
        " `dst` `(` $dst `:` type($dst) `)` attr-dict"
    )

    def verify_(self) -> None:
        check_vector_subcore(self)
        is_gather(self.src.type, self.dst.type)
        check_scalar_semaphore(self.semaphore.type)


def check_transfer_semaphores(op: EnqueueDmaOp) -> None:
    """There is a single target semaphore; a source semaphore is single and of the same kind."""
    if op.target_semaphore is None:
        raise VerifyException("expected a target_semaphore")
    check_scalar_semaphore(op.target_semaphore.type)
    if op.source_semaphore is None:
        return
    check_scalar_semaphore(op.source_semaphore.type)
    kinds = op.source_semaphore.type.element_type, op.target_semaphore.type.element_type
    if kinds[0] != kinds[1]:
        raise VerifyException(f"expected semaphores of one kind, got {kinds[0]} and {kinds[1]}")


def check_remote(op: EnqueueDmaOp) -> None:
    """A source semaphore, and no priority, where a device or core is named."""
    remote = op.device_id is not None or op.core_id is not None
    if remote and op.source_semaphore is None:
        raise VerifyException("expected a source_semaphore for a DMA to another device or core")
    if not remote and op.source_semaphore is not None:
        raise VerifyException("expected a device_id or core_id beside a source_semaphore")
    priority = op.priority.value.data
    if priority not in (0, 1):
        raise VerifyException(f"expected priority 0 or 1, got {priority}")
    if priority and remote:
        raise VerifyException(f"expected priority 0 to another device or core, got {priority}")


def check_transfer_cores(op: EnqueueDmaOp) -> None:
    """The source semaphore is local; other cores are named; SparseCores have orders, subcores."""
    own = own_core(op)
    if op.source_semaphore is not None:
        check_local(op, op.source_semaphore.type)
    target = own
    if op.target_semaphore is not None:
        target = memory_core(op.target_semaphore.type) or own
        if isinstance(op.target_semaphore.type.element_type, SemaphoreType):
            check_regular_semaphore_dma(op)
    if target != own and op.core_id is None:
        raise VerifyException(f"expected a core_id for a DMA from {own} to {target}")
    if op.strict_ordering.value.data and own == TENSOR_CORE:
        raise VerifyException(f"expected strict_ordering on SparseCores only, got it on {own}")
    if op.subcore_id is not None and target != VECTOR_SUBCORE:
        raise VerifyException(
            f"expected no subcore_id for a DMA to {target}, only to {VECTOR_SUBCORE}"
        )


def check_regular_semaphore_dma(op: EnqueueDmaOp) -> None:
    """DMAs that credit regular semaphores leave the TensorCore's SMEM alone."""
    for memref in (op.source.type, op.target.type):
        if in_space(memref, "smem") and memory_core(memref) == TENSOR_CORE:
            raise VerifyException(
                f"expected DMA semaphores for a DMA that touches {memref}, got regular semaphores"
            )


def check_local(op: Operation, semaphore: AnyMemRef) -> None:
    """The semaphore belongs to the core that runs."""
    core = memory_core(semaphore)
    if core is not None and core != own_core(op):
        raise VerifyException(f"expected a semaphore of {own_core(op)}, got {semaphore}")


def check_offsets(type: Attribute) -> None:
    """Offsets are i32, in VMEM or in a vector of rank 1."""
    if isinstance(type, MemRefType):
        memref = cast(AnyMemRef, type)
        if memref.element_type == i32 and in_space(memref, "vmem"):
            return
    elif isinstance(type, VectorType):
        vector = cast(AnyVector, type)
        if vector.element_type == i32 and vector.get_num_dims() == 1:
            return
    raise VerifyException(f"expected offsets of i32 in vmem or in a rank 1 vector, got {type}")


def is_gather(source: AnyMemRef, target: AnyMemRef) -> bool:
    """Whether an indirect DMA reads shared memory; raises unless one side is shared, one VMEM."""

    def shared(memref: AnyMemRef) -> bool:
        tensor_core = in_space(memref, "vmem") and memory_core(memref) == TENSOR_CORE
        return in_space(memref, "hbm") or in_space(memref, "vmem_shared") or tensor_core

    if shared(source) and in_space(target, "vmem"):
        return True
    if in_space(source, "vmem") and shared(target):
        return False
    raise VerifyException(f"expected vmem on one side and shared memory, got {source}, {target}")


def check_indirect_shapes(
    indexed: Sequence[int], dense: Sequence[int], offsets: Sequence[int]
) -> None:
    """The dense side holds one slice of the indexed side per offset (spec/tpu_dialect.md 3.8)."""
    if len(offsets) not in (1, 2) or (len(offsets) == 2 and offsets[0] != 1):
        raise VerifyException(f"expected offsets of shape [n] or [1, n], got {list(offsets)}")
    slices = tuple(indexed[len(offsets) :])
    if len(indexed) < len(offsets) or (len(offsets) == 2 and indexed[0] != 1):
        raise VerifyException(f"expected [n, ...] or [1, n, ...] as indexed side, got {indexed}")
    if tuple(dense) != (*offsets, *slices):
        raise VerifyException(
            f"expected {[*offsets, *slices]} as the other side of {list(indexed)}, "
            f"got {list(dense)}"
        )


OPERATIONS = (
    EnqueueDmaOp,
    WaitDma2Op,
    WaitDmaOp,
    EnqueueIndirectDmaOp,
    WaitIndirectDmaOp,
)
