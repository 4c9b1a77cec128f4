"""The steps from one form of a kernel to the next (docs/internals/lowering.md).

`pipelines` puts them together, and `whole` runs them with all that is checked on the way. In order:
`pallas_to_mosaic/`, `windows_to_dma/`, `absorb_moves/` (before memory is tiled),
`vectors_to_tiles/`, and `tiles_to_vregs/`; what runs between them stays within a form and is in
`passes`. `creation` makes operations for those that make thousands of them, `boxes` keeps what
registers are part of.
"""
