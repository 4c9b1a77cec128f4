"""Calls from an XLA program back to Python, on XLA's own memory.

JAX's buffer callback (`jax.experimental.buffer_callback`) hands a function views of the operands
and of the room for the results, where `jax.pure_callback` copies what a function returns. XLA packs
elements of less than a byte, which only the latter unpacks: it calls kernels of those.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax._src import callback as jax_callback
from jax._src import dtypes, ffi
from jax._src.interpreters import mlir

from pallasite.jax.calls import Array

_TARGET = "xla_buffer_python_cpu_callback"
"""JAX's way from a custom call on the CPU to a Python function."""


def emit_callback(
    ctx: Any,
    function: Callable[..., Sequence[Array]],
    operands: Sequence[Any],
    *,
    effectful: bool,
    sharded: bool,
) -> tuple[list[Any], Callable[..., Any]]:
    """The results of a call of `function(results, *operands)`, and what XLA calls for it.

    The types of operands and results are `avals_in` and `avals_out` of `ctx`. `function` is given
    arrays in the memory of the program, which are there only while it runs: it reads the operands
    and returns the results, either those arrays or others. `results` is None where the memory is
    not the program's. If it is `sharded`, every device of the program calls.
    """
    sharding = None
    if sharded:
        axes = ctx.module_context.axis_context
        sharding = jax_callback._callback_op_sharding(axes, None, ctx.avals_out)
    if any(dtypes.itemsize_bits(aval.dtype) < 8 for aval in (*ctx.avals_in, *ctx.avals_out)):
        return _emit_copying(ctx, function, operands, effectful, sharding)
    count = len(operands)

    def called(context: Any, *buffers: Any) -> tuple[()]:
        arrays = [np.asarray(buffer) for buffer in buffers]
        taken, results = arrays[:count], arrays[count:]
        for array in taken:
            array.flags.writeable = False
        for result, found in zip(results, function(results, *taken), strict=True):
            if found is not result:
                np.copyto(result, found, casting="no")
        return ()

    ctx.module_context.add_host_callback(called)
    index = np.uint64(len(ctx.module_context.host_callbacks) - 1)
    emit = ffi.build_ffi_lowering_function(_TARGET, has_side_effect=effectful)
    op = emit(ctx, *operands, index=index)
    if sharding is not None:
        mlir.set_sharding(ctx.module_context, op, sharding)
    return list(op.results), called


def _emit_copying(
    ctx: Any,
    function: Callable[..., Sequence[Array]],
    operands: Sequence[Any],
    effectful: bool,
    sharding: Any,
) -> tuple[list[Any], Callable[..., Any]]:
    """`emit_callback` for functions of unpacked copies."""

    def called(*taken: Any) -> Sequence[Array]:
        return function(None, *map(np.asarray, taken))

    values, _, kernel = jax_callback.emit_python_callback(
        ctx,
        called,
        None,
        operands,
        ctx.avals_in,
        ctx.avals_out,
        has_side_effect=effectful,
        returns_token=False,
        sharding=sharding,
    )
    return list(values), kernel
