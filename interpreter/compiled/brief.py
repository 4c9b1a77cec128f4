"""Loads whose values are gone before memory changes: they need no copy of it."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import arith, tpu
from pallasite.dialects.types import shape_of
from pallasite.interpreter.meanings import lookup
from pallasite.interpreter.ops import arithmetic, transcendental

LEAST_ELEMENTS = 1 << 13
"""Elements from which a copy takes longer than to work out that there need not be one."""
_LOADS = (tpu.LoadOp, tpu.ShuffledLoadOp)
"""Effects that leave memory as it is."""
_STORES = (tpu.StoreOp,)
"""Effects that are done with the vector that they write when they end."""
_FRESH = frozenset(
    (
        *arithmetic.BINARY,
        *transcendental.ELEMENTWISE,
        arith.CmpfOp,
        arith.CmpiOp,
        arith.NegfOp,
    )
)
"""What gives new arrays only; other results may be views of operands."""


def is_brief(load: Operation) -> bool:
    """Whether nobody looks at the value of `load`, or at a view of it, once memory has changed.

    Only operations of its own block may use it, of which none before the last one writes, waits or
    has regions.
    """
    if prod(shape_of(load.results[0].type)) < LEAST_ELEMENTS:
        return False
    last: set[Operation] = set()
    waiting: list[SSAValue] = list(load.results)
    while waiting:
        for use in waiting.pop().uses:
            user = use.operation
            if user in last:
                continue
            if user.parent is not load.parent or not _ends(user):
                return False
            last.add(user)
            if type(user) not in _FRESH:
                waiting += [r for r in user.results if isinstance(r.type, VectorType)]
    op = load.next_op
    while last and op is not None:
        last.discard(op)
        if last and not _leaves_memory(op):
            return False
        op = op.next_op
    return not last


def _ends(user: Operation) -> bool:
    """Whether `user` is done with its operands when it ends, but for those in its results."""
    entry = lookup(user)
    return entry is not None and (not entry.effect or isinstance(user, _STORES))


def _leaves_memory(op: Operation) -> bool:
    entry = lookup(op)
    return entry is not None and (not entry.effect or isinstance(op, _LOADS))
