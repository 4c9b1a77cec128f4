"""Tables of rules by class of operation, in which passes that walk kernels look rules up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

from xdsl.ir import Operation

R = TypeVar("R", bound=Callable[..., Any])


class Registered:
    """What all tables of rules have in common."""

    changes: ClassVar[int] = 0
    """How many registrations, in any table, may have changed the result of a lowering; results kept
    from before are then out of date. A first rule for operations that were refused does not count.
    """
    authors: ClassVar[set[str]] = set()
    """The names of the modules that have registered rules, in any table."""

    @staticmethod
    def changed() -> None:
        """Counts a registration that may change results."""
        Registered.changes += 1


class LastRules(Registered, Generic[R]):
    """One rule per class of operation: the one that was registered last."""

    def __init__(self) -> None:
        self.of: dict[type[Operation], R] = {}

    def rule(self, *kinds: type[Operation]) -> Callable[[R], R]:
        """A decorator that registers the rule of the classes `kinds`; it replaces earlier ones."""

        def register(function: R) -> R:
            if not self.of.keys().isdisjoint(kinds):
                self.changed()
            self.of.update(dict.fromkeys(kinds, function))
            self.authors.add(function.__module__)
            return function

        return register


class AllRules(Registered, Generic[R]):
    """Several rules per class of operation, in the order of their registration."""

    def __init__(self) -> None:
        self.of: dict[type[Operation], list[R]] = {}

    def rule(self, *kinds: type[Operation]) -> Callable[[R], R]:
        """A decorator that registers a rule of the classes `kinds`, after their earlier ones."""

        def register(function: R) -> R:
            for kind in kinds:
                self.of.setdefault(kind, []).append(function)
            self.authors.add(function.__module__)
            self.changed()
            return function

        return register
