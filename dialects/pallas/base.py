"""What the operations of the dialect share: types of values and refs, arrays of integers."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import DenseArrayBase, MemRefType, VectorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import ParsePropInAttrDict
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.sorted_properties import SortedProperties
from pallasite.dialects.tpu import MemorySpaceAttr
from pallasite.dialects.types import AnyMemRef, integers_in


class PallasOp(SortedProperties, ABC):
    """An operation of the dialect."""

    irdl_options = (ParsePropInAttrDict(),)


def integers_of(attribute: DenseArrayBase[Any] | None) -> tuple[int, ...]:
    """The integers of an array; none for no array."""
    return () if attribute is None else integers_in(attribute)


def memref_in(space: str, shape: Sequence[int], element: Attribute) -> AnyMemRef:
    """The type of a ref in memory `space`."""
    return MemRefType(element, shape, memory_space=MemorySpaceAttr(space))


def ref_type(value: SSAValue) -> AnyMemRef:
    """The type of a ref."""
    return cast(AnyMemRef, value.type)


def parse_ref_type(parser: Parser) -> AnyMemRef:
    """Reads the type of a ref."""
    start = parser.pos
    type = parser.parse_type()
    if not isinstance(type, MemRefType):
        parser.raise_error(f"expected a memref, got {type}", start, parser.pos)
    return cast(AnyMemRef, type)


def value_type(shape: Sequence[int], element: Attribute) -> Attribute:
    """The type of a value of that shape: a scalar if it has rank 0, else a vector."""
    return VectorType(element, shape) if shape else element


def check_type(actual: Attribute, expected: Attribute, what: str) -> None:
    """Raises unless `what` has the type that follows from the rest of the operation."""
    if actual != expected:
        raise VerifyException(f"expected {what} of type {expected}, got {actual}")
