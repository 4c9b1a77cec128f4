"""The registry of what ops mean when they run: one factory per op class, for every driver.

A *meaning* is pure: `factory(op, facts) -> fn` and `fn(*operands)` computes on carriers
(`pallasite.interpreter.values`). An *effect* also touches the machine: its
`fn(core, *operands)` gets the core first. Everything static about `op` is decided in the factory,
so `fn` is what a driver calls on its fast path. Floating-point exceptions never warn: whoever calls
`fn` does so inside `values.quiet()`, entered once per run rather than once per op.
"""

from __future__ import annotations

import importlib
import operator
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any, NamedTuple, TypeVar

import numpy as np
from xdsl.ir import Operation

from pallasite.interpreter.facts import Facts

__all__ = [
    "Factory", "Facts", "Function", "Many", "Meaning", "Narrowing", "Staged", "Steered", "effect",
    "elementwise", "knows_many", "lookup", "many_of", "meaning", "stacking",
]  # fmt: skip

Function = Callable[..., Any]
Factory = Callable[[Any, Facts], Function]
_AnyFactory = TypeVar("_AnyFactory", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class Staged:
    """A meaning of three operands, the first two of which are prepared each by itself: whoever
    knows that one is the same again need not do that twice."""

    left: Function
    right: Function
    last: Function
    """Of what the two make, and the third operand."""

    def __call__(self, first: Any, second: Any, third: Any) -> Any:
        return self.last(self.left(first), self.right(second), third)


@dataclass(frozen=True, eq=False)
class Narrowing:
    """A meaning whose result has carriers of a narrower type: who only stores that need not widen
    it."""

    whole: Function
    into: Function
    """Of the operands, and a view of memory of such elements, which it writes."""

    def __call__(self, *operands: Any) -> Any:
        return self.whole(*operands)

    @property
    def many(self) -> Many | None:
        """How it computes several at once (`many_of`)."""
        return many_of(self.whole)


@dataclass(frozen=True, eq=False)
class Steered:
    """A meaning of an array and of what says where its elements go: who knows the second when a
    program is written has a quicker function of the first."""

    whole: Function
    by: Callable[[Any], Function]
    """The function of the first operand, by the second one."""

    def __call__(self, array: Any, steering: Any) -> Any:
        return self.whole(array, steering)


class Many(NamedTuple):
    """How a function computes several at once: its operands are arrays with one more dimension in
    front, and so are its results, with the same bits."""

    call: Function
    spreads: bool = False
    """Whether an operand may be the same for all, without that dimension: NumPy broadcasts it."""


_MANY = "many"
_KNOWN: dict[Any, Many] = {
    fn: Many(fn, spreads=True)
    for fn in (
        *(operator.add, operator.and_, operator.eq, operator.ge, operator.gt, operator.invert),
        *(operator.le, operator.lt, operator.mul, operator.ne, operator.neg, operator.or_),
        *(operator.sub, operator.truediv, operator.xor, np.copyto),
    )
}
"""Those of functions of Python and NumPy."""


def stacking(fn: Function, many: Function, *, spreads: bool = False) -> Function:
    """`fn`, for which `many` computes several at once, as `Many` says."""
    setattr(fn, _MANY, Many(many, spreads))
    return fn


def elementwise(fn: Function, *, spreads: bool = True) -> Function:
    """`fn`, which itself computes several at once, because it takes arrays of any shape."""
    if isinstance(fn, FunctionType) and many_of(fn) is None:
        setattr(fn, _MANY, spreads)  # Itself would be a cycle.
    return fn


def many_of(fn: Any) -> Many | None:
    """How `fn` computes several at once, None if that is not known."""
    found = _KNOWN.get(fn) or getattr(fn, _MANY, None)
    if isinstance(fn, np.ufunc) and fn.signature is None:
        return Many(fn, spreads=True)
    return Many(fn, found) if isinstance(found, bool) else found


def knows_many(fn: Function, many: Function) -> None:
    """Says that `many` computes several of `fn`, a function of NumPy, at once; it broadcasts."""
    _KNOWN[fn] = Many(many, spreads=True)


@dataclass(frozen=True)
class Meaning:
    """How one op class runs. `effect`: `fn` takes the core first. `blocking`: `fn` is a generator
    function that yields a wait request wherever the core must suspend."""

    factory: Factory
    effect: bool = False
    blocking: bool = False


_MEANINGS: dict[type[Operation], Meaning] = {}


def _register(classes: tuple[type[Operation], ...], entry: Meaning) -> None:
    for cls in classes:
        if cls in _MEANINGS:
            raise ValueError(f"{cls.name} has a meaning already")
        _MEANINGS[cls] = entry


def meaning(
    *classes: type[Operation], by_element: bool = False
) -> Callable[[_AnyFactory], _AnyFactory]:
    """Registers the decorated factory as the pure meaning of `classes`.

    `by_element` says that what it makes is `elementwise`.
    """

    def decorate(factory: _AnyFactory) -> _AnyFactory:
        def marked(op: Any, facts: Facts) -> Function:
            return elementwise(factory(op, facts))

        _register(classes, Meaning(marked if by_element else factory))
        return factory

    return decorate


def effect(
    *classes: type[Operation], blocking: bool = False
) -> Callable[[_AnyFactory], _AnyFactory]:
    """Registers the decorated factory as the effect of `classes` on the machine."""

    def decorate(factory: _AnyFactory) -> _AnyFactory:
        _register(classes, Meaning(factory, effect=True, blocking=blocking))
        return factory

    return decorate


_PACKAGES = ("pallasite.interpreter.ops", "pallasite.interpreter.effects")


_PALLAS = "pallas"
"""How operations of the form begin (`pallas.load`, `pallas_steps.open`), and their modules."""


@cache
def _load(pallas: bool) -> None:
    """Imports the modules of the packages that register meanings and effects.

    Those named `pallas_*` belong to that form, which most runs never see, with its dialect.
    """
    for name in _PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(package.__path__):
            if module.name.startswith(_PALLAS) == pallas:
                importlib.import_module(f"{name}.{module.name}")


def lookup(op: Operation) -> Meaning | None:
    """The meaning of `op`, or None for structure (`scf`, `func`, regions) and unknown ops."""
    return lookup_kind(type(op))


def lookup_kind(kind: type[Operation]) -> Meaning | None:
    """The meaning of operations of class `kind`."""
    _load(pallas=False)
    if kind.name.startswith(_PALLAS):
        _load(pallas=True)
    return _MEANINGS.get(kind)


def registered() -> tuple[type[Operation], ...]:
    """Every op class that has a meaning or an effect."""
    _load(pallas=False)
    _load(pallas=True)
    return tuple(_MEANINGS)
