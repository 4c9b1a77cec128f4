"""What each op means, one module per family; `pallasite.interpreter.meanings` imports them all."""
