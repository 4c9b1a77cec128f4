"""Matrix units that a kernel feeds by hand: what they take, and where they keep sums.

Asked of the real compiler (libtpu 0.0.51, v4 to v7x). Which of the two ways results leave a matrix
unit, accumulators or a queue, is up to the generation.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import Float32Type, VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import tpu
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import bit_width
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.passes.check_kernel.in_words import in_words
from pallasite.passes.check_kernel.rules import RuleTable
from pallasite.targets import Target

_WITH_SUMS = tpu.MatmulAccLhsOp | tpu.MatmulPopOp
_PRODUCT = "or write jnp.dot, which feeds the matrix units of every TPU"


def _number(op: Operation, target: Target) -> None:
    """Units are counted from 0."""
    index = cast("tpu.MatmulPopOp", op).mxu_index.value.data
    if not 0 <= index < target.mxus:
        raise refusal(
            op, "mxu-index", f"{target.name} has no matrix unit {index}",
            f"a core has {target.mxus} of them", f"use 0 to {target.mxus - 1}, {_PRODUCT}",
        )  # fmt: skip


def _way(op: Operation, target: Target) -> None:
    """Sums stay in the unit or leave it at once."""
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
    """Rows of the stationary operand: two narrow ones share a cell of the array."""
    return target.mxu_contracting * (2 if bit_width(element) < 8 else 1)


def _element(op: Operation, element: Attribute, target: Target) -> None:
    if str(element) not in target.staged:
        raise refusal(
            op, "mxu-element", f"a matrix unit of {target.name} that is fed by hand takes no "
            f"{element}",
            f"it takes {', '.join(sorted(target.staged))}",
            f"cast the operand to bfloat16, {_PRODUCT}",
        )  # fmt: skip


def _pushed(op: tpu.MatmulPushRhsOp, target: Target) -> None:
    """The stationary operand fills the array."""
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
    """Rows pass by whole registers, as long as the stationary operand is deep."""
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
    """Results are whole registers, as wide as the stationary operand."""
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
    """Sums begin at an even register and fit behind it."""
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
