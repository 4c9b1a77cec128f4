"""The matrix unit by hand: weights are pushed, rows accumulated, results popped."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, i32

from pallasite.dialects.tpu import MatmulAccLhsOp, MatmulPopOp, MatmulPushRhsOp
from pallasite.frontend.jaxprs.internals import tpu_primitives
from pallasite.frontend.jaxprs.rules import Result, rule
from pallasite.frontend.jaxprs.tracer import Equation


def _number(value: int) -> IntegerAttr:
    return IntegerAttr(int(value), i32)


@rule(tpu_primitives.matmul_push_rhs_p)
def _push(e: Equation) -> Result:
    e.add(
        MatmulPushRhsOp(
            operands=[e.operand(0)],
            properties={
                "mxu_index": _number(e.params["mxu_index"]),
                "staging_register": _number(e.params["staging_register"]),
                "transpose": IntegerAttr.from_bool(e.params.get("transpose", False)),
            },
        )
    )
    return []


@rule(tpu_primitives.matmul_acc_lhs_p)
def _accumulate(e: Equation) -> Result:
    properties = {
        "acc": _number(e.params["acc_addr"]),
        "mxu_index": _number(e.params["mxu_index"]),
    }
    if e.params["load_staged_rhs"] is not None:
        properties["load_staged_rhs"] = _number(e.params["load_staged_rhs"])
    e.add(MatmulAccLhsOp(operands=[e.operand(0)], properties=properties))
    return []


@rule(tpu_primitives.matmul_pop_p)
def _pop(e: Equation) -> Result:
    properties = {
        "acc": _number(e.params["acc_addr"]),
        "mxu_index": _number(e.params["mxu_index"]),
    }
    return e.emit(MatmulPopOp(result_types=[e.result_type], properties=properties))
