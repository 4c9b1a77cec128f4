"""Matrix products: `lax.dot_general` with any dimension numbers."""

from __future__ import annotations

from typing import Any

from jax import lax

from pallasite.dialects.pallas import DotOp
from pallasite.dialects.tpu import ContractPrecision
from pallasite.frontend.jaxprs import types
from pallasite.frontend.jaxprs.rules import Result, rule
from pallasite.frontend.jaxprs.tracer import Equation


@rule(lax.dot_general_p)
def _dot_general(e: Equation) -> Result:
    for aval in e.inputs:
        if types.is_unsigned(aval.dtype):
            raise e.unsupported(
                f"the matrix unit takes integers as signed, got {aval.dtype}",
                f"cast both operands to {_floats(e)}, and the result back: exact up to {2**24}",
                "a signed type of the same width takes the larger half of the numbers for negative",
                code="unsupported-type",
            )
    contracting, batch = e.params["dimension_numbers"]
    if not e.output.shape:
        raise e.unsupported(
            "the matrix unit makes no scalars: this product sums over every dimension",
            "use jnp.sum(x * y)",
        )
    precision = _precision(e)
    return e.emit(
        DotOp(
            e.operand(0),
            e.operand(1),
            contracting,
            types.element_type(e.output.dtype),
            batch=batch,
            precision=precision,
        )
    )


def _floats(e: Equation) -> str:
    """What holds the numbers of both operands, and how it is multiplied."""
    if all(aval.dtype.itemsize == 1 for aval in e.inputs):
        return "bfloat16, with preferred_element_type=jnp.float32"
    return "float32, with precision=lax.Precision.HIGHEST"


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
