"""Constraints of types and attributes that the constraint language of xDSL lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from typing_extensions import TypeVar
from xdsl.dialects.builtin import (
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    UnrankedTensorType,
    VectorType,
    i1,
)
from xdsl.ir import Attribute, Region
from xdsl.irdl import (
    AttrConstraint,
    InferenceContext,
    IntConstraint,
    VarConstraint,
    VerificationContext,
)
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.types import AnyVector


@dataclass(frozen=True)
class DerivedFrom(AttrConstraint[Attribute]):
    """The type that `rule` makes of the types bound to `sources`; formats need not spell it."""

    sources: tuple[VarConstraint[Attribute], ...]
    rule: Callable[..., Attribute]

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        bound = [constraint_context.get_variable(s.name) for s in self.sources]
        # A source that comes later (or failed) has reported itself.
        if None in bound:
            return
        expected = self.rule(*bound)
        if attr != expected:
            raise VerifyException(f"expected type {expected}, got {attr}")

    def can_infer(self, var_constraint_names: AbstractSet[str]) -> bool:
        return all(s.name in var_constraint_names for s in self.sources)

    def infer(self, context: InferenceContext) -> Attribute:
        return self.rule(*(context.get_variable(s.name) for s in self.sources))

    def mapping_type_vars(
        self, type_var_mapping: Mapping[TypeVar, AttrConstraint | IntConstraint]
    ) -> AttrConstraint[Attribute]:
        return self


@dataclass(frozen=True)
class VectorOf(AttrConstraint[AnyVector]):
    """A vector of rank at least `rank` whose element type is one of `elements`, if any are given.

    `integers` admits all integer types besides.
    """

    elements: tuple[Attribute, ...] = ()
    rank: int = 1
    integers: bool = False

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        if not isinstance(attr, VectorType):
            raise VerifyException(f"expected a vector, got {attr}")
        if len(attr.shape.data) < self.rank:
            raise VerifyException(f"expected a vector of rank at least {self.rank}, got {attr}")
        if not self.elements and not self.integers:
            return
        element = attr.element_type
        if (self.integers and isinstance(element, IntegerType)) or element in self.elements:
            return
        names = [str(e) for e in self.elements] + (["any integer"] if self.integers else [])
        raise VerifyException(f"expected a vector of {' or '.join(names)}, got {attr}")

    def mapping_type_vars(self, type_var_mapping: Any) -> VectorOf:
        return self


def boolean_like(type: Attribute) -> Attribute:
    """The type of a comparison of two values of `type`."""
    if isinstance(type, VectorType):
        return VectorType(i1, type.shape, type.scalable_dims)
    if isinstance(type, TensorType):
        return TensorType(i1, type.shape, type.encoding)
    if isinstance(type, UnrankedTensorType):
        return UnrankedTensorType(i1)
    return i1


def broken_alignment(alignment: IntegerAttr[Any] | None) -> str | None:
    """What is wrong with the alignment of a memory access or allocation; None if nothing is."""
    if alignment is None or ((n := alignment.value.data) > 0 and n & (n - 1) == 0):
        return None
    return f"expected an alignment that is a power of two, got {n}"


VISIBILITIES = ("public", "private", "nested")


def broken_visibility(visibility: StringAttr | None) -> str | None:
    """What is wrong with the visibility of a symbol; None if nothing is."""
    if visibility is None or visibility.data in VISIBILITIES:
        return None
    return f"expected a visibility of {', '.join(VISIBILITIES)}, got {visibility}"


def verify_no_arguments(region: Region, name: str) -> None:
    """Nothing enters the region but through what it can see around it."""
    if region.blocks and region.blocks[0].args:
        types = ", ".join(str(a.type) for a in region.blocks[0].args)
        raise VerifyException(f"expected {name} to have no arguments, got ({types})")
