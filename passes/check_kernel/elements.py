"""Refuses element types that registers or memories cannot hold, and vectors that are too large."""

from __future__ import annotations

from math import prod
from typing import cast

from xdsl.dialects.builtin import ComplexType, Float16Type, IntegerType
from xdsl.ir import Attribute, Operation

from pallasite.diagnostics import WITHOUT_X64
from pallasite.dialects.in_words import in_words
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import AnyVector, bit_width
from pallasite.layouts.registers import LANES, SUBLANES, packing

_UNKNOWN_FLOATS = frozenset({"f8E3M4", "f8E4M3", "f8E4M3FNUZ", "f8E5M2FNUZ"})
HELD = "memory holds elements of 2, 4, 8, 16 or 32 bits"
"""The note of refusals of elements that it does not hold."""
MOST_REGISTERS = 1 << 18
"""Of one vector: 1 GiB, several times the VMEM of any target, which is where registers spill."""


def check_size(op: Operation, kind: AnyVector) -> None:
    """Raises `Unsupported` for a vector that no memory could hold, before it is split into
    registers."""
    bits = max(bit_width(kind), 1)
    *leading, rows, columns = (1, 1, *kind.get_shape())
    words = prod(leading) * -(-rows // packing(bits)) * columns
    registers = max(words // (SUBLANES * LANES), prod(leading))
    if registers > MOST_REGISTERS:
        raise refusal(
            op, "vector-size", f"{in_words(op)} makes {kind}, which is more than {MOST_REGISTERS} "
            "registers",
            "what registers do not hold is kept in VMEM",
            "take smaller blocks, or loop over parts of the ref",
        )  # fmt: skip


def check_element(op: Operation, element: Attribute) -> None:
    """Refuses vectors of f16, of unknown 8-bit floats, and of elements of over 32 bits."""
    if element.name in _UNKNOWN_FLOATS:
        raise refusal(
            op, "element-type", f"vectors of {element} are not supported, got them in "
            f"{in_words(op)}",
            "the vector unit does not have this kind of 8-bit float",
            "use float8_e4m3fn or float8_e5m2",
        )  # fmt: skip
    if isinstance(element, Float16Type):
        raise refusal(
            op, "element-type", f"vectors of f16 are not supported, got them in {in_words(op)}",
            "the vector unit has no f16; convert to bfloat16 or float32 outside the kernel",
        )  # fmt: skip
    wide = isinstance(element, IntegerType) and element.width.data > 32
    if wide or element.name in ("f64", "complex"):
        raise refusal(
            op, "element-type", f"vectors of {element} are not supported, got them in "
            f"{in_words(op)}",
            "a register holds 32-bit words; use a 32-bit type",
            _half_as_wide(element),
        )  # fmt: skip


def check_held(op: Operation, element: Attribute) -> None:
    """Refuses refs of elements of over 32 bits, which no memory of a core holds; the message points
    at `op`."""
    if isinstance(element, ComplexType):
        # Both parts.
        bits = 2 * bit_width(cast(Attribute, element.element_type))
        instead = "keep real and imaginary parts in arrays of their own"
    else:
        bits, instead = bit_width(element), _half_as_wide(element)
    if bits > 32:
        message = f"kernels cannot hold elements of type {element}"
        raise refusal(op, "element-type", message, HELD, instead)


def _half_as_wide(element: Attribute) -> str:
    """Advice for elements of 64 bits."""
    name = "float32" if element.name == "f64" else "int32"
    return f"use {name}, of an operand x.astype(jnp.{name}) before the call, {WITHOUT_X64}"
