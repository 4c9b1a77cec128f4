"""`fold-kernel`: brings a kernel into the canonical form in which the TPU compiler judges it.

`driver` has the walk, and says what goes in and out; each other file has the rules for one family
of operations. Every rule is exact.
"""

from pallasite.passes.fold_kernel.driver import FoldKernelPass, fold_kernel

__all__ = ["FoldKernelPass", "fold_kernel"]
