"""Asynchronous copies between memories, and waiting for them."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.irdl import (
    AttrSizedOperandSegments,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
)

from pallasite.dialects.tpu.base import (
    ANY,
    ANY_SEMAPHORE,
    BOOL_ATTR,
    DMA_SEMAPHORE,
    FALSE,
    I32_ATTR,
    MEMREF,
    TpuOp,
)

ZERO = IntegerAttr(0, 32)
_TRANSFER_FORMAT = (
    "`source` `(` $source `:` type($source) `)` `target` `(` $target `:` type($target) `)`"
    " (`source_semaphore` `(` $source_semaphore^ `:` type($source_semaphore) `)`)?"
    " (`target_semaphore` `(` $target_semaphore^ `:` type($target_semaphore) `)`)?"
    " (`device_id` `(` $device_id^ `)`)? (`core_id` `(` $core_id^ `)`)?"
    " (`subcore_id` `(` $subcore_id^ `)`)? attr-dict"
)


@irdl_op_definition
class EnqueueDmaOp(TpuOp):
    """Starts a copy; its end credits the target semaphore, and the source one if it is remote."""

    name = "tpu.enqueue_dma"

    source = operand_def(MEMREF)
    source_semaphore = opt_operand_def(ANY_SEMAPHORE)
    target = operand_def(MEMREF)
    target_semaphore = opt_operand_def(ANY_SEMAPHORE)
    device_id = opt_operand_def(i32)
    core_id = opt_operand_def(i32)
    subcore_id = opt_operand_def(i32)
    priority = prop_def(I32_ATTR, default_value=ZERO)
    strict_ordering = prop_def(BOOL_ATTR, default_value=FALSE)

    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = _TRANSFER_FORMAT


@irdl_op_definition
class WaitDma2Op(TpuOp):
    """Waits until the bytes of `dst` have arrived, and takes them from the semaphore."""

    name = "tpu.wait_dma2"

    semaphore = operand_def(DMA_SEMAPHORE)
    src = operand_def(MEMREF)
    dst = operand_def(MEMREF)
    device_id = opt_operand_def(i32)
    core_id = opt_operand_def(i32)
    strict_ordering = prop_def(BOOL_ATTR, default_value=FALSE)

    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "`semaphore` `(` $semaphore `:` type($semaphore) `)` `src` `(` $src `:` type($src) `)`"
        " `dst` `(` $dst `:` type($dst) `)` (`device_id` `(` $device_id^ `)`)?"
        " (`core_id` `(` $core_id^ `)`)? attr-dict"
    )


@irdl_op_definition
class WaitDmaOp(TpuOp):
    """Waits for one end of the copy that an `enqueue_dma` with the same operands started."""

    name = "tpu.wait_dma"

    source = operand_def(MEMREF)
    source_semaphore = opt_operand_def(ANY_SEMAPHORE)
    target = operand_def(MEMREF)
    target_semaphore = opt_operand_def(ANY_SEMAPHORE)
    device_id = opt_operand_def(i32)
    core_id = opt_operand_def(i32)
    subcore_id = opt_operand_def(i32)
    priority = prop_def(I32_ATTR, default_value=ZERO)
    strict_ordering = prop_def(BOOL_ATTR, default_value=FALSE)
    wait_target = prop_def(BOOL_ATTR)

    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = _TRANSFER_FORMAT


@irdl_op_definition
class EnqueueIndirectDmaOp(TpuOp):
    """Starts a gather or scatter of slices that `offsets` name; only on vector subcores."""

    name = "tpu.enqueue_indirect_dma"

    source = operand_def(MEMREF)
    target = operand_def(MEMREF)
    offsets = operand_def(ANY)
    semaphore = operand_def(DMA_SEMAPHORE)
    offset_filter = opt_operand_def(i32)
    add = prop_def(BOOL_ATTR, default_value=FALSE)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "`source` `(` $source `:` type($source) `)` `target` `(` $target `:` type($target) `)`"
        " `offsets` `(` $offsets `:` type($offsets) `)` (`offset_filter` `(` $offset_filter^ `)`)?"
        " `semaphore` `(` $semaphore `:` type($semaphore) `)` attr-dict"
    )


@irdl_op_definition
class WaitIndirectDmaOp(TpuOp):
    """Waits for a gather or scatter."""

    name = "tpu.wait_indirect_dma"

    semaphore = operand_def(DMA_SEMAPHORE)
    src = operand_def(MEMREF)
    dst = operand_def(MEMREF)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "`semaphore` `(` $semaphore `:` type($semaphore) `)` `src` `(` $src `:` type($src) `)`"
        " `dst` `(` $dst `:` type($dst) `)` attr-dict"
    )


OPERATIONS = (
    EnqueueDmaOp,
    WaitDma2Op,
    WaitDmaOp,
    EnqueueIndirectDmaOp,
    WaitIndirectDmaOp,
)
