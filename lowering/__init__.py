"""The steps from one form of a kernel to the next (docs/internals.md, "Lowering")."""
