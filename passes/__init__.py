"""Passes over modules: analyses, canonical forms, checks, and the registry of all of them.

* `registry` lists our passes; `plugins` finds those of other packages and of users' files.
* Passes that stay within a form: `fold_kernel/`, `infer_memref_layout/`, `fold_ranges`,
  `fill_registers/`, `canonicalize_mosaic/`, `legalize_shuffles`, `common_subexpressions`,
  `dead_code`.
* `check_kernel/` refuses kernels that no pass can make legal. `reference_tiles` models how the TPU
  compiler tiles arrays.
* The other files have analyses that several passes use: of integers (`ranges`, `divisibility`), of
  values (`equal_values`, `two_values`), of accesses and of layouts of memory.
"""
