"""What the operations of the dialect share: types of values and refs, arrays of integers."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Any, TypeAlias, cast

from xdsl.dialects.builtin import DenseArrayBase, MemRefType, VectorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, ParsePropInAttrDict
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.kernel import DYNAMIC
from pallasite.dialects.tpu import MemorySpaceAttr
from pallasite.dialects.types import integers_in

AnyMemRef: TypeAlias = MemRefType[Attribute]
AnyVector: TypeAlias = VectorType[Attribute]
Dense: TypeAlias = DenseArrayBase[Any]

__all__ = ["DYNAMIC", "AnyMemRef", "AnyVector", "Dense", "PallasOp"]


class PallasOp(IRDLOperation, ABC):
    """An operation of the dialect; its properties are kept sorted by name, as MLIR prints them."""

    irdl_options = (ParsePropInAttrDict(),)

    def __post_init__(self) -> None:
        super().__post_init__()
        properties = self.properties
        if len(properties) > 1:
            self.properties = dict(sorted(properties.items()))


def integers_of(attribute: Dense | None) -> tuple[int, ...]:
    """The integers of an array; none for no array."""
    return () if attribute is None else integers_in(attribute)


def memref_in(space: str, shape: Sequence[int], element: Attribute) -> AnyMemRef:
    """The type of a ref in memory `space`."""
    return MemRefType(element, shape, memory_space=MemorySpaceAttr(space))


def ref_type(value: SSAValue) -> AnyMemRef:
    """The type of a ref."""
    return cast(AnyMemRef, value.type)


def value_type(shape: Sequence[int], element: Attribute) -> Attribute:
    """The type of a value of that shape: a scalar if it has rank 0, else a vector."""
    return VectorType(element, shape) if shape else element


def check_type(actual: Attribute, expected: Attribute, what: str) -> None:
    """Raises unless `what` has the type that follows from the rest of the operation."""
    if actual != expected:
        raise VerifyException(f"expected {what} of type {expected}, got {actual}")
