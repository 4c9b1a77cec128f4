"""Type constraints that the constraint language of xDSL lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from typing_extensions import TypeVar
from xdsl.dialects.builtin import TensorType, UnrankedTensorType, VectorType, i1
from xdsl.ir import Attribute
from xdsl.irdl import (
    AttrConstraint,
    InferenceContext,
    IntConstraint,
    VarConstraint,
    VerificationContext,
)
from xdsl.utils.exceptions import VerifyException


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


def boolean_like(type: Attribute) -> Attribute:
    """The type of a comparison of two values of `type`."""
    if isinstance(type, VectorType):
        return VectorType(i1, type.shape, type.scalable_dims)
    if isinstance(type, TensorType):
        return TensorType(i1, type.shape, type.encoding)
    if isinstance(type, UnrankedTensorType):
        return UnrankedTensorType(i1)
    return i1
