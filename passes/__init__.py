"""Passes over modules: analyses, canonical forms, checks, and the registry of all of them.

* `registry` names them, `plugins` those of others.
* Passes that stay within a form: `fold_kernel/`, `infer_memref_layout`, `fold_ranges`,
  `fill_registers/`, `canonicalize_mosaic/`, `legalize_shuffles`, `common_subexpressions`,
  `dead_code`.
* `check_kernel` refuses what no step makes legal; each `check_*` has the rules of one subject, or
  advice about what is odd. What the rules ask of the TPU compiler's own choices is in
  `reference_tiles`, `reference_parts`, `kept_once` and `lane_offsets`.
* The other files are what several passes ask: of numbers (`ranges`, `divisibility`), of values
  (`equal_values`, `two_values`), of accesses and of how memory is laid out.
"""
