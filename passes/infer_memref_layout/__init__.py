"""`infer-memref-layout`: every ref of a kernel gets the tiling that it has in memory."""

from pallasite.passes.infer_memref_layout.driver import InferMemrefLayoutPass

__all__ = ["InferMemrefLayoutPass"]
