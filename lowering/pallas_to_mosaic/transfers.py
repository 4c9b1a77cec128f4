"""DMAs: the same operations in both forms, except that memory holds no booleans."""

from __future__ import annotations

from pallasite.dialects import tpu
from pallasite.lowering.pallas_to_mosaic.driver import Converter, rule


@rule(tpu.EnqueueDmaOp, tpu.WaitDma2Op)
def check_transfer(op: tpu.EnqueueDmaOp | tpu.WaitDma2Op, c: Converter) -> None:
    """A transfer of booleans would count the bytes of what memory has in their place."""
    for operand in op.operands:
        if c.held(operand).boolean:
            raise c.unsupported(
                op,
                "bool-transfer",
                "transfers are of types that memory holds, got booleans",
                "booleans are 32-bit integers in memory; use an int32 array and compare with 0",
            )
    c.keep(op)
