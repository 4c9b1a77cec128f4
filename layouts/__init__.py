"""Plain arithmetic on layouts of memory and registers; imports no IR."""
