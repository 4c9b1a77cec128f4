"""Plain arithmetic on layouts of memory and registers, and on what moves between them; no IR.

Where elements lie: `registers` (shapes of registers and of grids), `tiling` (arrays in memory),
`vector_layout` (vectors in registers). What moves: a `move` says what has to end up where, a `plan`
the grid instructions that do it. `planner/` finds the cheapest plan of a move; each file of
`strategies/` is one way of moving that it tries.
"""
