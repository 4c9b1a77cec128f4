"""`infer-memref-layout`: every ref of a kernel gets the tiling that it has in memory.

`driver` has the pass: it gives allocations and arguments (roots) a tiling, then views in program
order. Before that it rewrites accesses through views that cut tiles (`vectors_of_parts`) and slices
whose sizes are constants (`known_sizes`). The tiles of a root in VMEM depend on how it is accessed
(`single_rows`, `spread_rows`), those of narrow arrays outside VMEM on their slices
(`tiles_of_bytes`). Slices that cut tiles become slices of smaller tiles (`parts_of_tiles`,
`parts_of_folded_tiles`, both built on `pieces`).
"""

from pallasite.passes.infer_memref_layout.driver import InferMemrefLayoutPass

__all__ = ["InferMemrefLayoutPass"]
