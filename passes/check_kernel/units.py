"""Rules for kernels that feed the matrix units themselves (`tpu.matmul_push_rhs` and so on).

A kernel pushes a right operand, which is stationary in the unit, and feeds rows of left operands.
On some generations the unit keeps the sums in accumulators from which they are popped, on others
results leave through a queue. Asked of libtpu 0.0.51 for v4 to v7x.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import Float32Type, VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import tpu
from pallasite.dialects.in_words import in_words
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import bit_width
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.passes.check_kernel.rules import RuleTable
from pallasite.targets import Target

_WITH_SUMS = tpu.MatmulAccLhsOp | tpu.MatmulPopOp
_PRODUCT = "or write jnp.dot, which feeds the matrix units of every TPU"


def _number(op: Operation, target: Target) -> None:
    """The number of the matrix unit must exist."""
    index = cast("tpu.MatmulPopOp", op).mxu_index.value.data
    if not 0 <= index < target.mxus:
        raise refusal(
            op, "mxu-index", f"{target.name} has no matrix unit {index}",
            f"a core has {target.mxus} of them", f"use 0 to {target.mxus - 1}, {_PRODUCT}",
        )  # fmt: skip


def _way(op: Operation, target: Target) -> None:
    """Refuses operations with accumulators on targets without them, and the other way round."""
    if isinstance(op, _WITH_SUMS) == bool(target.accumulators):
        return
    kept = "keep sums in accumulators" if target.accumulators else "give results to a queue"
    raise refusal(
        op, "mxu-results", f"{in_words(op)} is not supported on {target.name}",
        f"its matrix units {kept}",
        "write jnp.dot, which feeds the matrix units of every TPU",
    )  # fmt: skip


def _matrix(value: SSAValue) -> tuple[tuple[int, ...], Attribute]:
    vector = cast("VectorType[Attribute]", value.type)
    return vector.get_shape(), vector.element_type


def _depth(element: Attribute, target: Target) -> int:
    """Rows of the stationary operand: a cell holds two elements of less than 8 bits."""
    return target.mxu_contracting * (2 if bit_width(element) < 8 else 1)


def _element(op: Operation, element: Attribute, target: Target) -> None:
    if str(element) not in target.pushed_types:
        raise refusal(
            op, "mxu-element", f"a matrix unit of {target.name} that is fed by hand takes no "
            f"{element}",
            f"it takes {', '.join(sorted(target.pushed_types))}",
            f"cast the operand to bfloat16, {_PRODUCT}",
        )  # fmt: skip


def _pushed(op: tpu.MatmulPushRhsOp, target: Target) -> None:
    """A pushed operand must fill the unit, and its staging register must exist."""
    shape, element = _matrix(op.rhs)
    _element(op, element, target)
    whole = (_depth(element, target), target.mxu_columns)
    if shape != whole:
        raise refusal(
            op, "mxu-shape", f"a right operand of shape {list(shape)} cannot be pushed",
            f"the matrix unit of {target.name} holds {whole[0]} x {whole[1]} elements of {element}",
            f"push blocks of that shape, padded with zeros, {_PRODUCT}",
        )  # fmt: skip
    register = op.staging_register.value.data
    if not 0 <= register < target.staging_registers:
        raise refusal(
            op, "mxu-register", f"{target.name} has no staging register {register}",
            f"a matrix unit has {target.staging_registers} of them",
            f"use registers below {target.staging_registers}",
        )  # fmt: skip


def _fed(op: tpu.MatmulAccLhsOp | tpu.MatmulLhsFifoOp, target: Target) -> None:
    """A left operand must consist of whole registers, with as many columns as the stationary
    operand has rows."""
    shape, element = _matrix(op.lhs)
    _element(op, element, target)
    rows, depth = SUBLANES * packing(bit_width(element)), _depth(element, target)
    if len(shape) != 2 or shape[0] % rows or shape[1] != depth:
        raise refusal(
            op, "mxu-shape", f"a left operand of shape {list(shape)} cannot be multiplied",
            f"a register holds {rows} rows of {element}, the matrix unit of {target.name} "
            f"contracts {depth} columns",
            f"use a multiple of {rows} rows and {depth} columns, padded with zeros, {_PRODUCT}",
        )  # fmt: skip
    if isinstance(op, tpu.MatmulAccLhsOp):
        _kept(op, op.acc.value.data, shape[0], target)


def _popped(op: tpu.MatmulPopOp | tpu.MatmulPopFifoOp, target: Target) -> None:
    """A result must consist of whole registers, with as many columns as the stationary operand;
    accumulators are f32."""
    shape, element = _matrix(op.results[0])
    if len(shape) != 2 or shape[0] % SUBLANES or shape[1] != target.mxu_columns:
        raise refusal(
            op, "mxu-shape", f"a result of shape {list(shape)} cannot be popped",
            f"a register holds {SUBLANES} rows, a row of results is {target.mxu_columns} wide",
            f"pop a multiple of {SUBLANES} rows of {target.mxu_columns} columns, {_PRODUCT}",
        )  # fmt: skip
    if isinstance(op, tpu.MatmulPopOp):
        if not isinstance(element, Float32Type):
            raise refusal(
                op, "mxu-element", f"accumulators of {element} are not supported",
                f"the matrix unit of {target.name} adds float32",
                f"pop jnp.float32, and convert the result, {_PRODUCT}",
            )  # fmt: skip
        _kept(op, op.acc.value.data, shape[0], target)


def _kept(op: Operation, first: int, rows: int, target: Target) -> None:
    """`rows` rows of sums must fit from accumulator `first`, which starts a row of results."""
    wide = target.mxu_columns // LANES
    count = rows // SUBLANES * wide
    if first % wide or not 0 <= first <= target.accumulators - count:
        raise refusal(
            op, "mxu-accumulator", f"{rows} rows of sums do not fit at accumulator {first}",
            f"a matrix unit of {target.name} has {target.accumulators} registers for sums, {wide} "
            f"of which hold {SUBLANES} rows",
            f"use a multiple of {wide}, up to {max(target.accumulators - count, 0)} for so many "
            f"rows, {_PRODUCT}",
        )  # fmt: skip


UNIT_RULES: RuleTable = {
    tpu.MatmulPushRhsOp: (_number, _pushed),
    tpu.MatmulAccLhsOp: (_number, _way, _fed),
    tpu.MatmulLhsFifoOp: (_number, _way, _fed),
    tpu.MatmulPopOp: (_number, _way, _popped),
    tpu.MatmulPopFifoOp: (_number, _way, _popped),
}
