"""Which loads may give a view of memory instead of a copy.

A load must copy what it reads if memory may change while its value, or a view of it, is still used.
A *brief* load is one whose value is used only before that: then the view is as good.
"""

from __future__ import annotations

from bisect import bisect_left

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Block, Operation, SSAValue

from pallasite.dialects import arith, tpu
from pallasite.interpreter.meanings import lookup
from pallasite.interpreter.ops import arithmetic, transcendental

LEAST_ELEMENTS = 1 << 13
"""Elements from which copying takes longer than finding out whether it is needed."""
MOST_USERS = 64
"""Users of a value, and of views of it, that are examined before giving up."""
_LOADS = (tpu.LoadOp, tpu.ShuffledLoadOp)
"""Operations with effects that leave memory as it is."""
_STORES = (tpu.StoreOp,)
"""Operations with effects that keep no vector operand beyond their end."""
FRESH = frozenset(
    (
        *arithmetic.BINARY,
        *transcendental.ELEMENTWISE,
        arith.CmpfOp,
        arith.CmpiOp,
        arith.NegfOp,
    )
)
"""Operations whose results are always new arrays; other results may be views of operands."""


def is_fresh(op: Operation) -> bool:
    """Whether the results of `op` are always new arrays. A scalar condition selects an operand
    itself."""
    if isinstance(op, arith.SelectOp):
        return isinstance(op.cond.type, VectorType)
    return type(op) in FRESH


class Memory:
    """Where the operations of a function change memory; computed once for each block."""

    def __init__(self) -> None:
        self._blocks: dict[Block, tuple[dict[Operation, int], list[int]]] = {}

    def is_brief(self, load: Operation) -> bool:
        """Whether nobody uses the value of `load`, or a view of it, once memory has changed.

        All users must be in the block of the load. None but the last may write memory, and none may
        wait or have regions.
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
        """The position of each operation of `block`, and the positions of those that change
        memory."""
        found = self._blocks.get(block)
        if found is None:
            places = {op: number for number, op in enumerate(block.ops)}
            changes = [place for op, place in places.items() if not _leaves_memory(op)]
            found = self._blocks[block] = places, changes
        return found


def _ends(user: Operation) -> bool:
    """Whether `user` needs its operands no longer once it has ended, except in views that are its
    results."""
    entry = lookup(user)
    return entry is not None and (not entry.effect or isinstance(user, _STORES))


def _leaves_memory(op: Operation) -> bool:
    """Whether `op` certainly does not change memory."""
    entry = lookup(op)
    return entry is not None and (not entry.effect or isinstance(op, _LOADS))
