"""What verifiers of casts enforce: kinds, shapes and widths of two types.

Each function raises a `VerifyException` that names the types.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import (
    AnyFloat,
    IndexType,
    IntegerType,
    MemRefType,
    ShapedType,
    VectorType,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.type import get_element_type_or_self

from pallasite.dialects.types import bit_width

_KINDS: dict[str, tuple[Any, ...]] = {
    "float": (AnyFloat,),
    "integer": (IntegerType,),
    "integer or index": (IntegerType, IndexType),
    "integer or float": (IntegerType, AnyFloat),
}


def verify_same_shape(first: Attribute, second: Attribute) -> None:
    """Both types are scalars, or both are containers of one kind and shape."""
    one = (type(first), first.get_shape()) if isinstance(first, ShapedType) else None
    two = (type(second), second.get_shape()) if isinstance(second, ShapedType) else None
    if one != two or (
        isinstance(first, VectorType)
        and isinstance(second, VectorType)
        and first.scalable_dims != second.scalable_dims
    ):
        raise VerifyException(f"expected types of one shape, got {first} and {second}")


def verify_kind(type: Attribute, kind: str, *, memory: bool = False) -> None:
    """`type`, or its elements, are of `kind`; it is the type of memory only if `memory`."""
    is_memory = isinstance(type, MemRefType) and not memory
    if is_memory or not isinstance(get_element_type_or_self(type), _KINDS[kind]):
        article = "an" if kind.startswith("i") else "a"
        raise VerifyException(f"expected {article} {kind}-like type, got {type}")


def verify_width(source: Attribute, target: Attribute, *, widens: bool) -> None:
    """The elements of `target` are wider than those of `source`, or narrower."""
    before, after = _width(source), _width(target)
    if (after <= before) if widens else (after >= before):
        order = "wider" if widens else "narrower"
        raise VerifyException(f"expected a result {order} than {source}, got {target}")


def verify_one_width(source: Attribute, target: Attribute) -> None:
    """The elements of `target` are as wide as those of `source`."""
    if _width(source) != _width(target):
        raise VerifyException(f"expected elements of one width, got {source} and {target}")


def verify_index_cast(source: Attribute, target: Attribute) -> None:
    """Exactly one of two types of one shape is `index`, or has such elements."""
    verify_same_shape(source, target)
    verify_kind(source, "integer or index", memory=True)
    verify_kind(target, "integer or index", memory=True)
    index = [isinstance(get_element_type_or_self(t), IndexType) for t in (source, target)]
    if index[0] == index[1]:
        raise VerifyException(f"expected exactly one index type, got {source} and {target}")


def _width(type: Attribute) -> int:
    return bit_width(get_element_type_or_self(type))
