"""From a movement of elements to the cheapest grid instructions that perform it.

`planner.plan` is asked; its parts, in the order in which a move meets them:

* `planner` makes plans of copies and of stages, `whole` those of what is neither; `composed` are
  plans that are put together of plans.
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

Parts of a movement are planned in the same way. That ends, as of the following the first that
differs is less for the part:

1. whether stages, how many stacks and whether halves are allowed (`costs`): each of these asks for
   its parts with less of it, and nobody allows more;
2. whether elements are narrower than words: they are unpacked;
3. whether sources that are joined lie in different ways: they are turned, one by one or together;
4. whether lanes come from rows or registers: transposes are of what does, and leave none of it;
5. whether rows that are cut anew are replicated in the end: they come to one place before;
6. whether tiles are not native;
7. in how many orders rows and lanes may be done in turn: what is done then moves one of them;
8. registers of the destination: a copy has fewer;
9. how often registers are counted in other groups, which is at most twice: the number of groups is
   the greatest common one each time;
10. whether the index map has more steps than it takes.
"""
