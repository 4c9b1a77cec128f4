"""Plain arithmetic on layouts of memory and registers, and on what moves between them; no IR.

Where elements lie: `registers` (shapes of registers and of grids), `tiling` (arrays in memory),
`vector_layout` (vectors in registers). What moves: a `move` says what has to end up where, a `plan`
the grid instructions that do it, and `planner.plan` finds the cheapest plan of a move. Its parts,
in the order in which a move meets them:

* `planner_batch`, `planner_split`, `planner_periods` and `planner_extend` plan a small move for a
  large one, and apply that plan to the rest; `planner_judge` says when.
* `planner_trace`, on the index arithmetic of `planner_lines`, says where every row comes from;
  `planner_words` puts that in whole words, which most strategies move.
* `planner_search` and `planner_solve` ask the strategies in turn, by what `planner_ways` judges
  each to cost; `planner_budget` ends a search that cannot get cheaper.
* Each file `strategies_*` is one way of moving. They share `planner_classes`, `planner_layers` and
  `planner_patterns` (rows), `planner_overlay` and `planner_fields` (masks and index registers),
  `flat_rows` and `flat_moves` (rows that are numbered on).
* `planner_program` puts a plan together; `planner_costs` and `planner_distinct` say what it costs.
* `planner_check` accepts no plan that has not moved the numbers of the elements rightly, by
  `planner_execute` or, where it is large, `planner_points` and `planner_demand`.
"""
