"""Kernels that do the same in every run: what one run does with arrays, replayed by later ones."""
