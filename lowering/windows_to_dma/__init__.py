"""From form `mosaic` to form `dma`: windows become buffers, DMAs, semaphores and a loop."""

from pallasite.lowering.windows_to_dma.windows_to_dma import WindowsToDmaPass

__all__ = ["WindowsToDmaPass"]
