"""Passes over modules: analyses, canonical forms, checks, and the registry of all of them.

* `registry` names them, `plugins` those of others.
* Passes that stay within a form: `fold_kernel/`, `infer_memref_layout/`, `fold_ranges`,
  `fill_registers/`, `canonicalize_mosaic/`, `legalize_shuffles`, `common_subexpressions`,
  `dead_code`.
* `check_kernel/` refuses what no step makes legal. How the TPU compiler itself tiles windows is in
  `reference_tiles`.
* The other files are what several passes ask: of numbers (`ranges`, `divisibility`), of values
  (`equal_values`, `two_values`), of accesses and of how memory is laid out.
"""
