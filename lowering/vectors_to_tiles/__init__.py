"""From logical vectors to grids of registers: layouts chosen, moves planned, one rule per op.

* `converter` has the pass, its walk, and what rules ask of it; `rules` lists the families of
  operations, a file each. A vector that is lowered is a `tiled` one: a grid and its layout.
* `agreement` chooses the layout in which operands meet. `relayout` and `chains` change layouts by
  plans of `pallasite.layouts`, which `movement` writes as operations (with `moved_words` and
  `index_registers`); `relabel` and `blocks` only rename registers.
* `access` says how registers meet tiled memory. Beside `memory`, `loading`, `stores` and `strided`,
  the files `packed_loads`, `shuffled_loads`, `pairs` and `stacked` load what would otherwise be
  moved: a rule tells it of its value (`offers`).
* `masks`, `padding` and `positions` are about which elements of a register count.
* `filling` converts a function twice where small tiles of memory could fill registers (`dense`),
  and keeps the shorter one. `views` and `spread_loads` run afterwards, on registers.
"""

from pallasite.lowering.vectors_to_tiles.converter import VectorsToTilesPass

__all__ = ["VectorsToTilesPass"]
