"""The modelled machine: memories, refs, semaphores, DMA, cores and their scheduler."""
