"""From a movement of elements to the cheapest grid instructions that perform it.

`planner.plan` is asked; its parts, in the order in which a move meets them:

* `batch`, `split`, `periods` and `extend` plan a small move for a large one, and apply that plan to
  the rest; `judge` says when.
* `trace`, on the index arithmetic of `lines`, says where every row comes from; `words` puts that in
  whole words, which most strategies move.
* `search` and `solve` ask the strategies in turn, by what `ways` judges each to cost; `budget` ends
  a search that cannot get cheaper.
* The strategies share `classes`, `layers` and `patterns` (rows), `overlay` and `fields` (masks and
  index registers).
* `program` puts a plan together; `costs` and `distinct` say what it costs.
* `check` accepts no plan that has not moved the numbers of the elements rightly, by `execute` or,
  where it is large, `points` and `demand`.
"""
