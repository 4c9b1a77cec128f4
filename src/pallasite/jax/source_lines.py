"""The kernel's line for what JAX's own functions do in it.

What `jnp.where` or `jax.nn.relu` do to a value is traced once per shape, by whoever calls them
first, and nothing in it is a line of the user's: JAX's lowering for the TPU gives such an operation
no place at all. In a simulation it gets the place of the call.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from jax._src import source_info_util
from jax._src.interpreters import mlir
from jax._src.pallas.mosaic import pallas_call_registration as tpu_rules

from pallasite.frontend.jaxprs.internals import jax_core
from pallasite.frontend.jaxprs.locations import OURS

_call: ContextVar[Any] = ContextVar("_call", default=None)
"""The traceback of the innermost call with a line of the user's."""


def keep_source_lines(simulating: Callable[[], bool]) -> None:
    """Kernels that JAX lowers where `simulating` says so have the user's lines throughout."""
    source_info_util.register_exclusion(OURS)
    lowering: Any = tpu_rules.lowering
    inner, located = lowering.jaxpr_subcomp, mlir.source_info_to_location

    @functools.wraps(inner)
    def called(*args: Any, **options: Any) -> Any:
        traceback = source_info_util._source_info_context.context.traceback
        if not simulating() or not _is_users(traceback):
            return inner(*args, **options)
        token = _call.set(traceback)
        try:
            return inner(*args, **options)
        finally:
            _call.reset(token)

    @functools.wraps(located)
    def placed(
        ctx: Any,
        primitive: jax_core.Primitive,
        name_stack: Any,
        traceback: Any,
    ) -> Any:
        call = _call.get()
        if call is not None and not _is_users(traceback):
            traceback = call
        return located(ctx, primitive, name_stack, traceback)

    lowering.jaxpr_subcomp = called
    mlir.source_info_to_location = placed


def _is_users(traceback: Any) -> bool:
    return traceback is not None and source_info_util.user_frame(traceback) is not None
