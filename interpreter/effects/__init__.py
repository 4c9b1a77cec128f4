"""What ops do to the machine, one module per family; `interpreter.meanings` has the registry."""
