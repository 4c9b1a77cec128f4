"""Functions of JAX that programs have by names of their own.

A program that says `from jax.experimental.pallas import core_map` at its top has the function from
before its first simulation on: a new value of JAX's own name would not be what it calls. So what is
ours is put into the function itself.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, cast

_numbers = itertools.count()


def replace_function(function: Any, instead: Callable[[Any], Callable[..., Any]]) -> None:
    """Has `function` do what `instead` makes of it, whoever calls it by whatever name."""
    target = cast(FunctionType, inspect.unwrap(function))
    assert target.__closure__ is None, f"{target.__qualname__} has variables of a function around"
    # The values of parameters that are left out stay with the original.
    original = FunctionType(
        target.__code__, target.__globals__, target.__name__, target.__defaults__
    )
    original.__kwdefaults__ = target.__kwdefaults__
    original.__qualname__, original.__doc__ = target.__qualname__, target.__doc__
    # What its parameters are is asked of it: they are still the same.
    signature = inspect.signature(target)
    for same in (original, target):
        cast(Any, same).__signature__ = signature
    name = f"_pallasite_{next(_numbers)}_{target.__name__}"
    target.__globals__[name] = instead(original)
    target.__defaults__ = target.__kwdefaults__ = None
    target.__code__ = _calling(name, target.__code__)


def _calling(name: str, code: CodeType) -> CodeType:
    """Code that passes everything on to the global `name`, and is at the place of `code`."""
    scope: dict[str, Any] = {}
    exec(f"def passing(*args, **options):\n    return {name}(*args, **options)", scope)
    passing: CodeType = scope["passing"].__code__
    return passing.replace(
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_filename=code.co_filename,
        co_firstlineno=code.co_firstlineno,
    )
