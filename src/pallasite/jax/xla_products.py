"""Products of XLA outside of kernels, rounded as on a TPU.

At default precision a TPU's matrix units take float32 rounded to bfloat16 and add up in float32, in
kernels and in what XLA makes of `jnp.dot` and convolutions; on a CPU, XLA multiplies float32. Tests
written for TPUs compare the two closely. With `products="tpu"` operands of float32 are rounded
here, too, and added up in float64, so that the order of sums is none of this computer's; products
that ask for `Precision.HIGH`, `HIGHEST` or an algorithm stay as they are
(spec/pallas_semantics.md section 4.6).
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import ml_dtypes
import numpy as np
from jax._src.interpreters import mlir
from jax._src.lax import convolution, lax
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo

from pallasite.frontend.jaxprs.internals import jax_core
from pallasite.jax.ir_types import ir_type

_EXPONENT, _MANTISSA = 8, 7
"""Bits of a bfloat16 beside its sign."""
_DEFAULTS = (jax.lax.Precision.DEFAULT, jax.lax.DotAlgorithmPreset.DEFAULT)
_FLOAT32, _BFLOAT16 = np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16)


def round_products(rounding: Callable[[], bool]) -> None:
    """Products and convolutions lowered for the CPU round their operands where `rounding` says."""
    for primitive in (lax.dot_general_p, convolution.conv_general_dilated_p):
        _replace_rule(primitive, rounding)


def _replace_rule(primitive: jax_core.Primitive, rounding: Callable[[], bool]) -> None:
    rules: Any = mlir._platform_specific_lowerings["cpu"]
    original: Any = rules[primitive].rule

    @functools.wraps(original)
    def rule(ctx: Any, *operands: Any, precision: Any, **params: Any) -> Sequence[Any]:
        if not rounding() or not _is_default(precision) or not _is_rounded(ctx):
            return original(ctx, *operands, precision=precision, **params)
        wide = ctx.replace(avals_in=_widened(ctx.avals_in), avals_out=_widened(ctx.avals_out))
        params["preferred_element_type"] = np.dtype(np.float64)
        factors = [
            _converted(ctx, _rounded(value) if before.dtype == _FLOAT32 else value, after)
            for value, before, after in zip(operands, ctx.avals_in, wide.avals_in, strict=True)
        ]
        (total,) = original(wide, *factors, precision=precision, **params)
        return [_converted(ctx, total, ctx.avals_out[0])]

    mlir.register_lowering(primitive, rule, platform="cpu")


def _is_default(precision: Any) -> bool:
    """Whether neither operand asks for more than one pass of the matrix unit."""
    each = precision if isinstance(precision, tuple) else (precision,)
    return all(p is None or p in _DEFAULTS for p in each)


def _is_rounded(ctx: Any) -> bool:
    """Whether the factors are float32, or that and bfloat16."""
    factors = {aval.dtype for aval in ctx.avals_in}
    return _FLOAT32 in factors <= {_FLOAT32, _BFLOAT16}


def _widened(avals: Sequence[Any]) -> list[Any]:
    return [aval.update(dtype=np.dtype(np.float64)) for aval in avals]


def _converted(ctx: Any, value: Any, aval: Any) -> Any:
    return hlo.convert(ir_type(ctx, aval), value)


def _rounded(value: Any) -> Any:
    bits = ir.IntegerType.get_signless(32)
    exponent, mantissa = (ir.IntegerAttr.get(bits, n) for n in (_EXPONENT, _MANTISSA))
    return hlo.reduce_precision(value, exponent, mantissa)
