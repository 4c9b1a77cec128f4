"""From form `mosaic` to form `dma`: windows become buffers, DMAs, semaphores and a loop.

`windows_to_dma` is the pass. `operands` decides what becomes of each operand, `schedule` writes the
pipelined loop over `grid`, `maps` evaluates index maps, and `transfers` copies one block, whose
place in its array `extents` computes. All of it is written through the folding builder of
`scalars`; `copies` makes the operations for views and DMAs. `pallas.emit_pipeline` is lowered by
the same code (`lowering/pallas_to_mosaic/pipeline.py`).
"""

from pallasite.lowering.windows_to_dma.windows_to_dma import WindowsToDmaPass

__all__ = ["WindowsToDmaPass"]
