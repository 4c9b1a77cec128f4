"""`fold-kernel`: what is known or trivial before anything is judged goes, as in the compiler."""

from pallasite.passes.fold_kernel.driver import FoldKernelPass, fold_kernel

__all__ = ["FoldKernelPass", "fold_kernel"]
