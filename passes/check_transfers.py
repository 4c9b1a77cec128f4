"""What the DMA engines of a target cannot do, for `check-kernel`."""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation

from pallasite.dialects import tpu
from pallasite.passes.check_vectors import Rule, refusal
from pallasite.targets import Target


def _counts_transfers(op: tpu.EnqueueDmaOp, target: Target) -> None:
    """Regular semaphores count transfers from v6e on; DMA semaphores count bytes everywhere."""
    if target.dma_signals_regular:
        return
    for semaphore in (op.source_semaphore, op.target_semaphore):
        type = semaphore.type if semaphore is not None else None
        if isinstance(type, MemRefType) and isinstance(type.element_type, tpu.SemaphoreType):
            raise refusal(
                op, "transfer-semaphore",
                f"a DMA of {target.name} cannot signal a regular semaphore",
                "its engines count bytes; only newer ones (v6e, v7x) count transfers",
                "use a DMA semaphore (pltpu.SemaphoreType.DMA) and wait for the copy",
            )  # fmt: skip


TRANSFER_RULES: dict[type[Operation], tuple[Rule, ...]] = {tpu.EnqueueDmaOp: (_counts_transfers,)}
