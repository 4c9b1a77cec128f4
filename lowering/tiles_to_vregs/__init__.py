"""From form `tiles` to form `vreg`: every grid of registers becomes one SSA value per register.

`unroll` drives the lowering and has the state that rules use. Rules are in `registerwise` (the same
for every register), `renaming` (indexing only), `memory` (loads and stores), `groups` (matrix
products, transposes, reductions), `extremum` and `control` (structured control flow, with
`branches`). Afterwards, `folding` folds single registers, and `ordered_loads`, `joined_loads`,
`rows_apart` and `turned_rows` let loads, stores and rotations do what shuffles and selects do.
"""

from pallasite.lowering.tiles_to_vregs.tiles_to_vregs import TilesToVregsPass

__all__ = ["TilesToVregsPass"]
