"""Loads whose values are gone before memory changes: they need no copy of it."""

from __future__ import annotations

from bisect import bisect_left

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Block, Operation, SSAValue

from pallasite.dialects import arith, tpu
from pallasite.interpreter.meanings import lookup
from pallasite.interpreter.ops import arithmetic, transcendental

LEAST_ELEMENTS = 1 << 13
"""Elements from which a copy takes longer than to work out that there need not be one."""
MOST_USERS = 64
"""Operations that a value, or a view of it, is followed to."""
_LOADS = (tpu.LoadOp, tpu.ShuffledLoadOp)
"""Effects that leave memory as it is."""
_STORES = (tpu.StoreOp,)
"""Effects that are done with the vector that they write when they end."""
FRESH = frozenset(
    (
        *arithmetic.BINARY,
        *transcendental.ELEMENTWISE,
        arith.CmpfOp,
        arith.CmpiOp,
        arith.NegfOp,
    )
)
"""What gives new arrays only; other results may be views of operands."""


def is_fresh(op: Operation) -> bool:
    """Whether `op` gives new arrays only. A scalar condition selects one of its operands."""
    if isinstance(op, arith.SelectOp):
        return isinstance(op.cond.type, VectorType)
    return type(op) in FRESH


class Memory:
    """When the operations of a function change memory."""

    def __init__(self) -> None:
        self._blocks: dict[Block, tuple[dict[Operation, int], list[int]]] = {}

    def is_brief(self, load: Operation) -> bool:
        """Whether nobody looks at the value of `load`, or at a view of it, once memory has changed.

        Only operations of its own block may use it, of which none before the last one writes, waits
        or has regions.
        """
        block = load.parent_block()
        if block is None:
            return False
        places, changes = self._of(block)
        users: set[Operation] = set()
        waiting: list[SSAValue] = list(load.results)
        while waiting:
            for use in waiting.pop().uses:
                user = use.operation
                if user in users:
                    continue
                if user.parent is not block or not _ends(user) or len(users) >= MOST_USERS:
                    return False
                users.add(user)
                if not is_fresh(user):
                    waiting += [r for r in user.results if isinstance(r.type, VectorType)]
        place = places[load]
        change = bisect_left(changes, place)
        return change == len(changes) or all(places[user] <= changes[change] for user in users)

    def _of(self, block: Block) -> tuple[dict[Operation, int], list[int]]:
        """Where each operation of `block` is, and where those are that change memory."""
        found = self._blocks.get(block)
        if found is None:
            places = {op: number for number, op in enumerate(block.ops)}
            changes = [place for op, place in places.items() if not _leaves_memory(op)]
            found = self._blocks[block] = places, changes
        return found


def _ends(user: Operation) -> bool:
    """Whether `user` is done with its operands when it ends, but for those in its results."""
    entry = lookup(user)
    return entry is not None and (not entry.effect or isinstance(user, _STORES))


def _leaves_memory(op: Operation) -> bool:
    entry = lookup(op)
    return entry is not None and (not entry.effect or isinstance(op, _LOADS))
