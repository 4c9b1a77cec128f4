"""Refuses matrix products by their element types and precision.

Every pair of element types was asked of libtpu 0.0.51 (v4 to v7x), with float32 and with int32
accumulators.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import Float32Type, IntegerType, VectorType
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import tpu, vector
from pallasite.dialects.arith import known_number
from pallasite.dialects.locations import refusal
from pallasite.dialects.products import check_product
from pallasite.dialects.types import bit_width
from pallasite.passes.check_kernel.rules import RuleTable
from pallasite.targets import Target


def _elements(op: tpu.MatmulOp) -> list[Attribute]:
    """The element types of the two factors and the accumulator."""
    return [cast("VectorType[Attribute]", v.type).element_type for v in op.operands[:3]]


def _factors(op: tpu.MatmulOp, target: Target) -> None:
    """Refuses a pair of element types that the MXU does not take, even widened.

    Widening is spec/vreg_lowering.md 4.3, steps 5 and 6; types that a target only moves
    (`Target.unconverted`) are not widened.
    """
    left, right, _ = _elements(op)
    if (str(left), str(right)) in target.matmul_pairs:
        return
    integers = [isinstance(element, IntegerType) for element in (left, right)]
    if all(integers):
        narrow_enough = all(2 < bit_width(element) <= 8 for element in (left, right))
        alike = left == right and target.widens_matmuls
        widened = narrow_enough and (alike or target.widens_mixed_bytes)
    else:
        narrow = [bit_width(e) < 16 for e, i in zip((left, right), integers, strict=True) if not i]
        widened = target.widens_matmuls or not any(narrow)
        widened = widened and not target.unmultiplied & {str(left), str(right)}
    moved = target.unconverted & {str(left), str(right)}
    widened = widened and not moved
    if not widened or 1 in (bit_width(left), bit_width(right)):
        bytes_fit = all(integers) and max(bit_width(left), bit_width(right)) <= 8
        instead = "cast the operands to bfloat16 or float32"
        if moved:
            # Nor is there a cast in the kernel.
            instead = f"keep what is {', '.join(moved)} in a wider type, converted outside"
        elif all(integers):
            exact = "int8, or " if bytes_fit and ("i8", "i8") in target.matmul_pairs else ""
            # Bytes are numbers of bfloat16, words are not.
            floats = (
                "bfloat16, with preferred_element_type=jnp.float32"
                if bytes_fit
                else "float32, with precision=lax.Precision.HIGHEST"
            )
            instead = (
                f"cast the operands to {exact}{floats}, and the result back: exact up to {2**24}"
            )
        raise refusal(
            op, "matmul-type", f"{target.name} has no matmul of {left} by {right}",
            instead, *_rounded(left, right, target),
        )  # fmt: skip


def _rounded(left: Attribute, right: Attribute, target: Target) -> list[str]:
    """The note that a product of int32 by int8 or int4 is inexact in the TPU compiler.

    It makes as much code as for float32 by bfloat16 (libtpu 0.0.51), so it does not split the words
    into bfloat16 parts, and the product is exact only for words of up to 8 bits.
    """
    narrow, wide = sorted(bit_width(e) for e in (left, right))
    words = isinstance(left, IntegerType) and isinstance(right, IntegerType) and wide == 32
    if not words or narrow not in (4, 8) or not target.widens_mixed_bytes:
        return []
    return ["the TPU compiler takes it, and rounds int32 to bfloat16"]


def _sums(op: tpu.MatmulOp, target: Target) -> None:
    """Refuses accumulators that are not 32 bits wide, and integer ones for floats."""
    left, right, total = _elements(op)
    if bit_width(total) != 32:
        raise refusal(
            op, "matmul-type", f"a product of {left} and {right} into {total} is not supported",
            "the matrix unit accumulates 32-bit words",
            "give preferred_element_type=jnp.float32 or jnp.int32, and convert the result",
        )  # fmt: skip
    if isinstance(total, IntegerType) and not all(
        isinstance(element, IntegerType) for element in (left, right)
    ):
        raise refusal(
            op, "matmul-type", f"a product of {left} and {right} into {total} is not supported",
            "accumulate in float32, and convert the result",
        )  # fmt: skip


def _shapes(op: tpu.MatmulOp, target: Target) -> None:
    """Refuses dimension numbers on which libtpu aborts, or which have no meaning."""
    check_product(op)


def _integer_sums(op: tpu.MatmulOp, target: Target) -> None:
    """Refuses float accumulators for integers that the matrix unit multiplies as integers."""
    left, right, total = _elements(op)
    native = (str(left), str(right)) in target.matmul_pairs
    if native and isinstance(left, IntegerType) and not isinstance(total, IntegerType):
        raise refusal(
            op, "matmul-type", f"a product of {left} and {right} into {total} is not supported on "
            f"{target.name}",
            "its matrix unit sums products of integers as integers",
            "give preferred_element_type=jnp.int32, and convert the result",
        )  # fmt: skip


def _precision(op: tpu.MatmulOp, target: Target) -> None:
    """Refuses full precision unless both factors are multiplied as f32, in passes over bf16 parts.

    An integer beside an f32 becomes f32, except on targets that make it bf16.
    """
    left, right, _ = _elements(op)
    full = op.precision is not None and op.precision.data == tpu.ContractPrecision.FP32
    if full and not all(_in_words(e, other, target) for e, other in ((left, right), (right, left))):
        raise refusal(
            op, "matmul-precision", f"a product of {left} and {right} in full "
            "precision is not supported",
            "the matrix unit multiplies f32 in several passes over bf16 parts of both operands",
            "write precision=lax.Precision.DEFAULT if both operands are narrow, also where "
            "jax_default_matmul_precision is set, or cast both to float32",
        )  # fmt: skip


def _in_words(element: Attribute, other: Attribute, target: Target) -> bool:
    """Whether a factor of type `element` is multiplied as float32 by one of type `other`."""
    if isinstance(element, Float32Type):
        return True
    halved = target.widens_mixed_bytes and bit_width(element) <= 8
    return isinstance(element, IntegerType) and isinstance(other, Float32Type) and not halved


def _constant_nibbles(op: tpu.MatmulOp, target: Target) -> None:
    """Refuses a factor with a nonzero constant part in products of i4 on targets that have them.

    libtpu: "LLO_CHECK failure: Expected vector-int4, got vector-int32".
    """
    left, right, _ = _elements(op)
    if not left == right == IntegerType(4) or ("i4", "i4") not in target.matmul_pairs:
        return
    for factor in op.operands[:2]:
        if _has_constant(factor):
            raise refusal(
                op, "matmul-constant", "a product of a constant of i4 is not supported on "
                f"{target.name}",
                "the matrix unit takes bytes, and the compiler does not unpack registers that hold "
                "one number of 4 bits",
                "cast the factors to int8 before the product",
            )  # fmt: skip


def _has_constant(value: SSAValue, depth: int = 8) -> bool:
    """Whether a part of `value` is a constant other than 0."""
    if known_number(value):
        return True
    made = value.owner
    if not isinstance(made, _MOVING) or not depth:
        return False
    return any(_has_constant(operand, depth - 1) for operand in made.operands)


_MOVING = (
    tpu.ConcatenateOp, tpu.TransposeOp, vector.TransposeOp, vector.BroadcastOp, vector.ShapeCastOp,
)  # fmt: skip


PRODUCT_RULES: RuleTable = {tpu.MatmulOp: (_shapes, _factors, _sums)}
PRODUCT_REFERENCE_RULES: RuleTable = {tpu.MatmulOp: (_integer_sums, _precision, _constant_nibbles)}
"""What the TPU compiler refuses and we could do."""
