"""Matrix products: `lax.dot_general` with any dimension numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import lax
from xdsl.ir import SSAValue

from pallasite.dialects import arith, vector
from pallasite.dialects.pallas import DotOp, ReduceOp
from pallasite.dialects.tpu import ContractPrecision
from pallasite.frontend.jaxprs import types
from pallasite.frontend.jaxprs.tracer import Equation, Result, rule


@rule(lax.dot_general_p)
def _dot_general(e: Equation) -> Result:
    for aval in e.inputs:
        if types.is_unsigned(aval.dtype):
            raise e.unsupported(
                f"the matrix unit takes integers as signed, got {aval.dtype}",
                "cast to a signed type first",
                code="unsupported-type",
            )
    contracting, batch = e.params["dimension_numbers"]
    precision = _precision(e)
    if _is_matrix_times_vector(e):
        return _product_with_row(e)
    return e.emit(
        DotOp(
            e.operand(0),
            e.operand(1),
            contracting,
            types.element_type(e.output.dtype),
            batch,
            precision,
        )
    )


def _precision(e: Equation) -> ContractPrecision | None:
    given: Any = e.params["precision"]
    if given is None:
        return None
    left, right = given if isinstance(given, tuple) else (given, given)
    if left != right:
        raise e.unsupported(
            f"precision {left} of one operand and {right} of the other", "give both the same"
        )
    if left in (None, lax.Precision.DEFAULT):
        return None
    if left == lax.Precision.HIGHEST:
        return ContractPrecision.FP32
    raise e.unsupported(
        f"precision {left} of a matrix product", "use lax.Precision.DEFAULT or HIGHEST"
    )


def _is_matrix_times_vector(e: Equation) -> bool:
    """(M, K) times (1, K) transposed, not both of float32, which is no work for the matrix unit."""
    left, right = e.inputs
    return (
        e.params["dimension_numbers"] == (((1,), (1,)), ((), ()))
        and len(left.shape) == len(right.shape) == 2
        and right.shape[0] == 1
        and not (left.dtype == right.dtype == np.float32)
    )


def _product_with_row(e: Equation) -> Result:
    """Products element by element, summed along rows, as JAX's lowering computes them."""
    left, right = e.inputs
    dtype = e.params["preferred_element_type"] or left.dtype
    element = types.element_type(dtype)
    factors: list[SSAValue] = []
    for i, aval in enumerate((left, right)):
        factor = e.tracer.spread(e.operand(i), left.shape)
        if aval.dtype == dtype:
            factors.append(factor)
            continue
        if dtype != np.float32 or not types.is_float(aval.dtype):
            raise e.unsupported(
                f"a product of a {left.dtype} matrix with a row of {right.dtype} as {dtype}",
                "use preferred_element_type=jnp.float32, or cast the operands",
                code="unsupported-type",
            )
        wide = types.value_type(left.shape, element)
        factors.append(e.emit(arith.ExtFOp(factor, wide)))
    times = arith.MulfOp if types.is_float(dtype) else arith.MuliOp
    products = e.emit(times(factors[0], factors[1]))
    sums = e.emit(ReduceOp("add", products, (1,)))
    return e.emit(vector.ShapeCastOp(sums, e.result_type))
