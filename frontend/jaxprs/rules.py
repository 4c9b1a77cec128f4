"""The rules by which primitives become operations, on TensorCores and on subcores of SparseCores.

A rule is a function of an `Equation`, registered with `@rule(primitive, ...)` in the file of its
family; it emits operations and returns the equation's results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from pallasite.frontend.jaxprs.internals import jax_core, tpu_core, tpu_lowering

if TYPE_CHECKING:
    from pallasite.frontend.jaxprs.tracer import Equation, Value

Result: TypeAlias = "Value | Sequence[Value]"
Rule: TypeAlias = "Callable[[Equation], Result]"
R = TypeVar("R", bound="Rule")

RULES: dict[Any, Rule] = {}
SUBCORE_RULES: dict[Any, Rule] = {}
"""The rules that subcores of SparseCores have instead."""


def rule(*primitives: Any) -> Callable[[R], R]:
    """Registers the rule of `primitives`."""

    def register(function: R) -> R:
        RULES.update(dict.fromkeys(primitives, function))
        return function

    return register


def subcore_rule(*primitives: Any) -> Callable[[R], R]:
    """Registers the rule of `primitives` on subcores of SparseCores."""

    def register(function: R) -> R:
        SUBCORE_RULES.update(dict.fromkeys(primitives, function))
        return function

    return register


def rule_of(primitive: jax_core.Primitive, core: Any) -> Rule | None:
    """The rule of `primitive` on a core of JAX's kind `core`; None if there is none.

    Subcores have rules only of what JAX lowers for them.
    """
    if core is tpu_core.CoreType.TC:
        return RULES.get(primitive)
    if primitive not in tpu_lowering.lowering_rules[core]:
        return None
    return SUBCORE_RULES.get(primitive) or RULES.get(primitive)
