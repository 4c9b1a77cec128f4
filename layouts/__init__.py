"""Layouts of memory and registers, and plans of data movement, as plain arithmetic without IR.

Layouts: `registers` (shapes of registers and of grids), `tiling` (arrays in memory),
`vector_layout` (vectors in registers). Movement: a `move` specifies which element has to end up
where, a `plan` lists the grid instructions that perform it. `planner/` searches for the cheapest
plan of a move; each file of `strategies/` is one method that it tries.
"""
