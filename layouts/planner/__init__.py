"""From a movement of elements to the cheapest grid instructions that perform it.

`planner.plan` is asked; its parts, in the order in which a move meets them:

* `batch`, `split` and `periods` find a small move to plan for a large one, `copies` and `extend`
  apply that plan to the rest; `judge` says when.
* `trace`, on the index arithmetic of `lines`, says where every row comes from; `words` puts that in
  whole words, which most strategies move.
* `search` and `solve` ask the strategies in turn, by what `ways` judges each to cost; `budget` ends
  a search that cannot get cheaper.
* The strategies share `classes`, `layers`, `patterns` and `bit_networks` (rows), `overlay` and
  `fields` (masks and index registers).
* `program` puts a plan together, with views that are `strided` boxes where they can be; `costs` and
  `distinct` say what it costs.
* `check` accepts no plan that has not moved the numbers of the elements rightly, by `execute` or,
  where it is large, `points` and `demand`.
"""
