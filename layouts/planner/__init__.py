"""Finds the cheapest list of grid instructions that performs a movement of elements.

The entry point is `planner.plan`. The modules, in the order in which a move passes through them:

* `planner` splits a move into copies or stages, `whole` plans moves that are neither; `composed`
  handles plans that are assembled from other plans.
* `batch`, `split` and `periods` find a small move that stands for a large one, `copies` and
  `extend` apply its plan to the rest; `judge` decides when, from shapes and traces.
* `trace`, with the index arithmetic of `lines`, computes the source of every row segment; `words`
  expresses this in whole 32-bit words, which most strategies move.
* `search` and `solve` try the strategies, ordered by the estimates of `ways`; `budget` stops an
  attempt that can no longer become the cheapest.
* The strategies share `classes`, `layers`, `patterns` and `bit_networks` (rows), `overlay` and
  `fields` (masks and index registers).
* `program` builds a plan, with views expressed as `strided` boxes where possible; `costs` and
  `distinct` compute what it costs.
* `check` accepts a plan only after it has moved element numbers correctly, by `execute` or, for
  large plans, by `points` and `demand`.

Parts of a movement are planned recursively by the same functions. The recursion terminates because
a part is smaller in lexicographic order of the following quantities:

1. whether stages, how many nested stacks and whether halves are allowed (fields of `Costs`): each
   of these plans its parts with less of it, and nothing raises them again;
2. whether elements are narrower than words: unpacking removes this;
3. whether concatenated sources have different layouts: they are transposed, one by one or together;
4. whether lanes come from rows or registers: a transpose removes this;
5. whether reshaped rows are replicated in the result: they are first moved to one place;
6. whether tiles are not native;
7. in how many orders rows and lanes may be moved in turn: each half moves only one of them;
8. the number of registers of the destination: one copy has fewer than all;
9. how often registers can be regrouped, which is at most twice, since the number of groups is the
   greatest common divisor each time;
10. whether the index map has more steps than necessary.
"""
