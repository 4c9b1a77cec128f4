"""Types of JAX's modules for its abstract values, whatever the version of JAX."""

from __future__ import annotations

import inspect
from typing import Any

from jax._src.interpreters import mlir

_convert: Any = mlir.aval_to_ir_type
_NEEDS_MODULE = len(inspect.signature(_convert).parameters) > 1


def ir_type(ctx: mlir.LoweringRuleContext, aval: Any) -> Any:
    """The type of a value of type `aval` in the module that `ctx`, a rule's context, lowers to."""
    return _convert(ctx.module_context, aval) if _NEEDS_MODULE else _convert(aval)
