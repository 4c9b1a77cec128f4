"""Pinned buffers, which the TPU's compiler keeps in place from one kernel to the next.

JAX lowers them to values of memref type that only that compiler knows, between custom calls that
begin and end them. Kernels that alias them are callbacks here, and what comes back from one is its
result: an array serves as well.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jax._src.interpreters import mlir
from jax._src.state.primitives import pin_p, unpin_p
from jax._src.state.types import AbstractLinVal
from jax.core import ShapedArray

from pallasite.frontend.jaxprs.internals import jax_core

Rule = Callable[..., Sequence[Any]]


def pin_to_arrays(active: Callable[[], bool]) -> None:
    """While `active`, pinned buffers are arrays of the program."""
    original = mlir.ir_type_handlers[AbstractLinVal]

    def types_of(aval: Any) -> Any:
        if not active():
            return original(aval)
        return mlir.ir_type_handlers[ShapedArray](ShapedArray(aval.shape, aval.dtype))

    mlir.ir_type_handlers[AbstractLinVal] = types_of
    for primitive in (pin_p, unpin_p):
        _leave_out(primitive, active)


def _leave_out(primitive: jax_core.Primitive, active: Callable[[], bool]) -> None:
    original: Rule = mlir._lowerings[primitive].rule

    @functools.wraps(original)
    def rule(ctx: mlir.LoweringRuleContext, value: Any, **params: Any) -> Sequence[Any]:
        return [value] if active() else original(ctx, value, **params)

    mlir.register_lowering(primitive, rule, platform="cpu")
