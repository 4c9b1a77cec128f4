"""What the predicates of comparisons say, and which of them belong together.

The last two letters of a name are an order; what stands in front says how the operands are read:
integers with a sign (`s`) or without (`u`), floats with NaN apart (`o`) or equal to all (`u`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from pallasite.dialects.integers import unsigned, wrap

ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt,
    "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
"""Of numbers or arrays; `ord`, `uno`, `true` and `false` end in none of these."""
MIRRORED = {
    "eq": "eq", "ne": "ne", "slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle",
    "ult": "ugt", "ule": "uge", "ugt": "ult", "uge": "ule",
}  # fmt: skip
"""Of each predicate of `arith.cmpi`, the one that says the same of the operands exchanged."""
OPPOSITE = {
    "eq": "ne", "ne": "eq", "slt": "sge", "sle": "sgt", "sgt": "sle", "sge": "slt",
    "ult": "uge", "ule": "ugt", "ugt": "ule", "uge": "ult",
}  # fmt: skip
"""Of each predicate of `arith.cmpi`, the one that is true where it is not."""


def is_unsigned(predicate: str) -> bool:
    """Whether a predicate of `arith.cmpi` reads integers without their sign; `eq` and `ne` read no
    sign, either way."""
    return predicate[0] == "u"


def holds(predicate: str, left: int, right: int, bits: int) -> bool:
    """Whether `arith.cmpi` is true of two integers of `bits` bits, given with or without a sign."""
    read = unsigned if is_unsigned(predicate) else wrap
    return bool(ORDERS[predicate[-2:]](read(left, bits), read(right, bits)))
