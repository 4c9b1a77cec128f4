"""Several narrow elements in one word, and roundings by random bits."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i32

from pallasite.dialects.tpu import PackElementwiseOp, StochasticConvertOp, UnpackElementwiseOp
from pallasite.frontend.jaxprs import types
from pallasite.frontend.jaxprs.internals import tpu_primitives
from pallasite.frontend.jaxprs.rules import Result, rule
from pallasite.frontend.jaxprs.tracer import Equation

_ROUNDED = ("bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e4m3b11fnuz")


@rule(tpu_primitives.pack_elementwise_p)
def _pack(e: Equation) -> Result:
    packed = types.element_type(jnp.dtype(e.params["packed_dtype"]))
    return e.emit(
        PackElementwiseOp(
            operands=[e.operands()],
            result_types=[e.result_type],
            properties={"target_type": packed},
        )
    )


@rule(tpu_primitives.unpack_elementwise_p)
def _unpack(e: Equation) -> Result:
    packed = types.element_type(jnp.dtype(e.params["packed_dtype"]))
    return e.emit(
        UnpackElementwiseOp(
            operands=[e.operand(0)],
            result_types=[e.result_type],
            properties={"source_type": packed, "index": IntegerAttr(int(e.params["index"]), i32)},
        )
    )


@rule(tpu_primitives.stochastic_round_p)
def _round(e: Equation) -> Result:
    target = str(jnp.dtype(e.params["target_dtype"]))
    if e.inputs[0].dtype != np.float32 or target not in _ROUNDED:
        raise e.unsupported(
            f"a random rounding of {e.inputs[0].dtype} to {target}",
            f"round float32 to one of {', '.join(_ROUNDED)}",
            code="unsupported-type",
        )
    return e.emit(StochasticConvertOp(operands=e.operands(), result_types=[e.result_type]))
