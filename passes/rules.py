"""Rules by the kinds of operations that they are for: where the passes that walk kernels look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from xdsl.ir import Operation

from pallasite.again import rule_registered

R = TypeVar("R", bound=Callable[..., Any])


class LastRules(Generic[R]):
    """The rule of each kind of operation that was registered last."""

    def __init__(self) -> None:
        self.of: dict[type[Operation], R] = {}

    def rule(self, *kinds: type[Operation]) -> Callable[[R], R]:
        """Registers the rule of the operations `kinds`, in place of those that they have."""

        def register(function: R) -> R:
            if not self.of.keys().isdisjoint(kinds):
                rule_registered()
            self.of.update(dict.fromkeys(kinds, function))
            return function

        return register


class AllRules(Generic[R]):
    """All rules of each kind of operation, in the order of their registration."""

    def __init__(self) -> None:
        self.of: dict[type[Operation], list[R]] = {}

    def rule(self, *kinds: type[Operation]) -> Callable[[R], R]:
        """Registers a rule of the operations `kinds`, behind those that they have."""

        def register(function: R) -> R:
            for kind in kinds:
                self.of.setdefault(kind, []).append(function)
            rule_registered()
            return function

        return register
