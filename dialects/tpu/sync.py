"""Semaphores and barriers. A semaphore operand is a memref, nearly always of rank 0."""

from __future__ import annotations

from xdsl.dialects.builtin import i32
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.tpu.base import (
    ANY_SEMAPHORE,
    INDEX,
    MEMREF_I32,
    SEMAPHORE,
    TpuOp,
    operand,
    operands,
    optional_operand,
)
from pallasite.dialects.tpu.cores import (
    VECTOR_SUBCORE,
    check_scalar_semaphore,
    memory_core,
    own_core,
)


@irdl_op_definition
class SemAllocOp(TpuOp):
    """Fresh semaphores, with count zero, for the enclosing `tpu.region`."""

    name = "tpu.sem_alloc"

    result = result_def(ANY_SEMAPHORE)

    assembly_format = "attr-dict `:` type($result)"


@irdl_op_definition
class SemBarrierOp(TpuOp):
    """The chip's barrier semaphore."""

    name = "tpu.sem_barrier"

    result = result_def(SEMAPHORE)

    assembly_format = "attr-dict `:` type($result)"

    def verify_(self) -> None:
        check_scalar_semaphore(self.result.type)


@irdl_op_definition
class SemReadOp(TpuOp):
    """The present count of a semaphore."""

    name = "tpu.sem_read"

    semaphore = operand(ANY_SEMAPHORE)
    result = result_def(i32)

    assembly_format = "$semaphore attr-dict `:` type($semaphore) `->` type($result)"


@irdl_op_definition
class SemWaitOp(TpuOp):
    """Blocks until the count reaches `amount`, then takes that much from it."""

    name = "tpu.sem_wait"

    semaphore = operand(SEMAPHORE)
    amount = operand(i32)

    assembly_format = "$semaphore `,` $amount attr-dict `:` type($semaphore)"

    def verify_(self) -> None:
        check_scalar_semaphore(self.semaphore.type)


@irdl_op_definition
class SemSignalOp(TpuOp):
    """Adds `amount` to a semaphore here, or on another device or core."""

    name = "tpu.sem_signal"

    semaphore = operand(SEMAPHORE)
    amount = operand(i32)
    device_id = optional_operand(i32)
    core_id = optional_operand(i32)
    subcore_id = optional_operand(i32)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$semaphore `,` $amount (`device_id` $device_id^)? (`core_id` $core_id^)?"
        " (`subcore_id` $subcore_id^)? attr-dict `:` type($semaphore)"
    )

    def verify_(self) -> None:
        check_scalar_semaphore(self.semaphore.type)
        own = own_core(self)
        target = memory_core(self.semaphore.type) or own
        if self.device_id is None and self.core_id is None and target != own:
            raise VerifyException(
                f"expected a device_id or core_id, since {own} signals a semaphore of {target}"
            )
        if self.subcore_id is not None and target != VECTOR_SUBCORE:
            raise VerifyException(
                f"expected no subcore_id for a semaphore of {target}, only of {VECTOR_SUBCORE}"
            )


@irdl_op_definition
class BarrierOp(TpuOp):
    """Waits for all vector subcores of a SparseCore."""

    name = "tpu.barrier"

    barrier_id = operand(INDEX)

    assembly_format = "`barrier_id` `(` $barrier_id `)` attr-dict"


@irdl_op_definition
class FetchAndAddSyncOp(TpuOp):
    """Adds to a word of another core's memory and returns the old value."""

    name = "tpu.fetch_and_add_sync"

    base = operand(MEMREF_I32)
    indices = operands(i32)
    value = operand(i32)
    core_id = operand(i32)
    result = result_def(i32)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$base `[` $indices `]` `,` $value `,` $core_id attr-dict"
        " `:` type($base) `,` type($value) `->` type($result)"
    )

    def verify_(self) -> None:
        target = memory_core(self.base.type) or own_core(self)
        if target != VECTOR_SUBCORE:
            raise VerifyException(f"expected memory of {VECTOR_SUBCORE}, got {target}")
        if len(self.indices) != self.base.type.get_num_dims():
            raise VerifyException(
                f"expected {self.base.type.get_num_dims()} indices for {self.base.type}, "
                f"got {len(self.indices)}"
            )


OPERATIONS = (
    SemAllocOp,
    SemBarrierOp,
    SemReadOp,
    SemWaitOp,
    SemSignalOp,
    BarrierOp,
    FetchAndAddSyncOp,
)
