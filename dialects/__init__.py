"""Which dialects there are: upstream's, ours of the same name in their place, and our own.

A *derived* dialect keeps upstream's name and every upstream operation that holds Mosaic's IR as it
is, and replaces or adds the rest. Operation classes are therefore imported from
`pallasite.dialects.X`, never from `xdsl.dialects.X`.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.context import Context
from xdsl.ir import Dialect

Factories = dict[str, Callable[[], Dialect]]


def _arith() -> Dialect:
    from pallasite.dialects.arith import Arith

    return Arith


def _cf() -> Dialect:
    from pallasite.dialects.cf import Cf

    return Cf


def _func() -> Dialect:
    from pallasite.dialects.func import Func

    return Func


def _grid() -> Dialect:
    from pallasite.dialects.grid import Grid

    return Grid


def _math() -> Dialect:
    from pallasite.dialects.math import Math

    return Math


def _memref() -> Dialect:
    from pallasite.dialects.memref import MemRef

    return MemRef


def _pallas() -> Dialect:
    from pallasite.dialects.pallas import Pallas

    return Pallas


def _scf() -> Dialect:
    from pallasite.dialects.scf import Scf

    return Scf


def _tpu() -> Dialect:
    from pallasite.dialects.tpu import Tpu

    return Tpu


def _vector() -> Dialect:
    from pallasite.dialects.vector import Vector

    return Vector


def get_own_dialects() -> Factories:
    """The dialects that upstream does not have; what a plain `xdsl-opt` may learn from us."""
    return {"grid": _grid, "pallas": _pallas, "tpu": _tpu}


def get_derived_dialects() -> Factories:
    """Ours in place of upstream's of the same name."""
    return {
        "arith": _arith,
        "cf": _cf,
        "func": _func,
        "math": _math,
        "memref": _memref,
        "scf": _scf,
        "vector": _vector,
    }


def get_all_dialects() -> Factories:
    """Every dialect that our tools know, by name; factories import on their first call."""
    from xdsl.dialects import get_all_dialects as get_upstream_dialects

    return {**get_upstream_dialects(), **get_derived_dialects(), **get_own_dialects()}


def make_context(*, allow_unregistered: bool = False) -> Context:
    """A context that knows every dialect of `get_all_dialects`, loaded on demand."""
    context = Context(allow_unregistered=allow_unregistered)
    for name, factory in get_all_dialects().items():
        context.register_dialect(name, factory)
    return context
