"""Rules by the kinds of operations that they are for: where the passes that walk kernels look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

from xdsl.ir import Operation

R = TypeVar("R", bound=Callable[..., Any])


class Registered:
    """What tables of rules count in common."""

    changes: ClassVar[int] = 0
    """How often a rule was registered, in any table, that may change what comes out of a lowering:
    what was lowered before may come out otherwise then. A new rule for what was refused does not
    count."""
    authors: ClassVar[set[str]] = set()
    """The modules that have registered rules, in any table."""

    @staticmethod
    def changed() -> None:
        """Counts such a rule."""
        Registered.changes += 1


class LastRules(Registered, Generic[R]):
    """The rule of each kind of operation that was registered last."""

    def __init__(self) -> None:
        self.of: dict[type[Operation], R] = {}

    def rule(self, *kinds: type[Operation]) -> Callable[[R], R]:
        """Registers the rule of the operations `kinds`, in place of those that they have."""

        def register(function: R) -> R:
            if not self.of.keys().isdisjoint(kinds):
                self.changed()
            self.of.update(dict.fromkeys(kinds, function))
            self.authors.add(function.__module__)
            return function

        return register


class AllRules(Registered, Generic[R]):
    """All rules of each kind of operation, in the order of their registration."""

    def __init__(self) -> None:
        self.of: dict[type[Operation], list[R]] = {}

    def rule(self, *kinds: type[Operation]) -> Callable[[R], R]:
        """Registers a rule of the operations `kinds`, behind those that they have."""

        def register(function: R) -> R:
            for kind in kinds:
                self.of.setdefault(kind, []).append(function)
            self.authors.add(function.__module__)
            self.changed()
            return function

        return register
