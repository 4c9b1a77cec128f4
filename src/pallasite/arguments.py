"""Checks and converts arguments of the library's functions, one function per kind of argument.

Each returns the argument in the type that is used inside, and raises a `UsageError` that says what
was expected for anything else.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, SupportsIndex, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from pallasite.diagnostics import UsageError
from pallasite.dialects.kernel import FORMS

CHECKS = ("race", "init", "bounds", "sync")
DRIVERS = ("compiled", "reference")
MOST_DEVICES = 1 << 14
"""The most devices of a run: more than any slice of TPUs has."""


def source_of(value: object) -> str | bytes:
    """The text or bytes of a module; not the name of a file, which is a likely mistake."""
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if not isinstance(value, str | bytes) or _is_path(value):
        raise _wrong("the text or bytes of a module (of a file: path.read_bytes())", value)
    return value


def name_of(value: object) -> str:
    """The name of a source in diagnostics, given as a text or a path."""
    if not isinstance(value, str | os.PathLike):
        raise _wrong("a name of the source", value)
    return os.fsdecode(cast("str | os.PathLike[str]", value))


def _is_path(value: str | bytes) -> bool:
    """Whether `value` is the name of an existing file; a module has more than one word."""
    return len(value) < 4096 and len(value.split()) == 1 and os.path.isfile(value.strip())


def module_of(value: object) -> ModuleOp:
    """A module."""
    if not isinstance(value, ModuleOp):
        raise _wrong("a module, as pallasite.parse gives", value)
    return value


def whole_number(value: object, what: str) -> int:
    """An int, also one of NumPy's."""
    try:
        return operator.index(cast(SupportsIndex, value))
    except TypeError:
        raise _wrong(f"a whole number for {what}", value) from None


def flag(value: object, what: str) -> bool:
    """A bool, also one of NumPy's, or 0 or 1; a text would count as true whatever it says."""
    if not isinstance(value, int | np.bool_) or value not in (0, 1):
        raise _wrong(f"True or False for {what}", value)
    return bool(value)


def limit(value: object, what: str) -> int | None:
    """A limit of a run, at least 1; None stands for the default."""
    return None if value is None else _at_least(1, value, what, "limit")


def devices(value: object) -> int:
    """How many devices to model."""
    number = whole_number(value, "devices")
    if not 1 <= number <= MOST_DEVICES:
        raise UsageError("device-count", f"expected 1 to {MOST_DEVICES} devices, got {number}")
    return number


def seed(value: object) -> int:
    """A seed of random numbers, at least 0."""
    return _at_least(0, value, "a seed", "negative-seed")


def form(value: object) -> str:
    """The name of a form."""
    if value not in FORMS:
        raise UsageError("unknown-form", f"expected a form of {', '.join(FORMS)}, got {value!r}")
    return value


def checks(value: object) -> tuple[str, ...]:
    """Names of sanitizers, from a list or a text with commas; `all` stands for all of them."""
    if isinstance(value, str):
        value = [name.strip() for name in value.split(",") if name.strip()]
    known = ", ".join((*CHECKS, "all"))
    if not isinstance(value, Iterable):
        raise _wrong(f"checks of {known}", value)
    wanted: list[str] = []
    for name in cast("Iterable[object]", value):
        if not isinstance(name, str) or name not in (*CHECKS, "all"):
            raise UsageError("unknown-check", f"expected checks of {known}, got {name!r}")
        wanted.append(name)
    return CHECKS if "all" in wanted else tuple(dict.fromkeys(wanted))


def driver(value: object) -> str:
    """The name of what executes a kernel: compiled code, or the reference interpreter."""
    if value not in DRIVERS:
        raise UsageError("unknown-driver", f"expected {' or '.join(DRIVERS)}, got {value!r}")
    return value


def array_list(value: object, what: str) -> Sequence[Any]:
    """A sequence of arrays; an array counts as the sequence of its rows."""
    if hasattr(value, "__len__") and hasattr(value, "__getitem__"):
        return cast("Sequence[Any]", value)
    raise _wrong(f"a list of {what}", value)


def passes(value: object) -> tuple[ModulePass, ...]:
    """A list of passes (objects, not names or classes), as a tuple."""
    given: list[ModulePass] = []
    for step in _listed(value, "a list of passes"):
        if not isinstance(step, ModulePass):
            raise _wrong("passes, which are objects and not names or classes", step)
        given.append(step)
    return tuple(given)


def result_types(value: object) -> list[tuple[tuple[int, ...], Any]]:
    """The types of results, as pairs of shape and dtype."""
    expected = "results as a list of (shape, dtype)"
    found: list[tuple[tuple[int, ...], Any]] = []
    for pair in _listed(value, expected):
        shape, dtype = _pair(pair, expected)
        sizes = (_at_least(0, n, "a size", "array-type") for n in _listed(shape, "a shape"))
        found.append((tuple(sizes), dtype))
    return found


def alias_pairs(value: object, operands: int, results: int) -> tuple[tuple[int, int], ...]:
    """Pairs of an operand's and a result's number that share memory, from a dict; None is ().

    The call has that many `operands` and `results`; no result may occur twice.
    """
    if value is None:
        return ()
    if not isinstance(value, Mapping):
        raise _wrong("aliases as a dict from operands to results", value)
    pairs = tuple(
        (whole_number(i, "an aliased operand"), whole_number(o, "an aliased result"))
        for i, o in cast("Mapping[object, object]", value).items()
    )
    inside = all(0 <= i < operands and 0 <= o < results for i, o in pairs)
    if not inside or len({o for _, o in pairs}) < len(pairs):
        raise _wrong(f"aliases from {operands} operands to {results} results, none twice", value)
    return pairs


def called(value: object, what: str) -> Callable[..., Any] | None:
    """A function, or None."""
    if value is not None and not callable(value):
        raise _wrong(f"a function for {what}", value)
    return value


def _at_least(least: int, value: object, what: str, code: str) -> int:
    number = whole_number(value, what)
    if number < least:
        raise UsageError(code, f"expected {what} of at least {least}, got {number}")
    return number


def _listed(value: object, what: str) -> list[object]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise _wrong(what, value)
    return list(cast("Iterable[object]", value))


def _pair(value: object, what: str) -> tuple[object, object]:
    parts = _listed(value, what)
    if len(parts) != 2:
        raise _wrong(what, value)
    return parts[0], parts[1]


def _wrong(expected: str, got: object) -> UsageError:
    shown = repr(got)
    shown = shown if len(shown) <= 60 else type(got).__name__
    return UsageError("argument", f"expected {expected}, got {shown}")
