"""Values that are certainly equal, as removing common subexpressions finds them."""

from __future__ import annotations

from collections.abc import Hashable

from xdsl.ir import Block, Operation, OpResult, SSAValue

from pallasite.dialects.walking import operations
from pallasite.passes.effects import has_no_effects, only_reads

_MOST_PAIRS = 64


def equal_values(one: SSAValue, other: SSAValue) -> bool:
    """Whether the two values come from the same operations on the same values; loads count if
    nothing writes between them. Not known of what takes more than 64 operations."""
    wanted = [(one, other)]
    met = {(one, other)}
    reads: list[tuple[Operation, Operation]] = []
    while wanted:
        left, right = wanted.pop()
        if left is right:
            continue
        if not isinstance(left, OpResult) or not isinstance(right, OpResult):
            return False
        if left.index != right.index or not _alike(left.op, right.op):
            return False
        if not has_no_effects(left.op):
            reads.append((left.op, right.op))
        pairs = {*zip(left.op.operands, right.op.operands, strict=True)} - met
        met |= pairs
        if len(met) > _MOST_PAIRS:
            return False
        wanted += pairs
    # What lies between two reads is looked at last: it may be much.
    return all(_reads_the_same(first, second) for first, second in reads)


class EarlierValues:
    """The results of all operations in one function, which stays as it is, to be found by what
    equals them: most have nobody to be compared with."""

    def __init__(self, function: Operation) -> None:
        self._places: dict[Operation, int] = {}
        self._numbers: dict[SSAValue, int] = {}
        """The same for results of the same operations on the same values, loads included."""
        self._numbered: dict[tuple[Block, int], list[OpResult]] = {}
        known: dict[Hashable, int] = {}
        for place, op in enumerate(operations(function)):
            self._places[op] = place
            if op.regions or op.parent is None:
                continue
            operands = tuple([self._numbers.get(v, v) for v in op.operands])
            does = (type(op), frozenset(op.properties.items()), operands)
            for result in op.results:
                number = known.setdefault((does, result.index), len(known))
                self._numbers[result] = number
                self._numbered.setdefault((op.parent, number), []).append(result)

    def find(self, value: SSAValue, before: Operation) -> SSAValue | None:
        """The last value that certainly equals `value` and is known in front of `before`."""
        number = self._numbers.get(value)
        place: Operation | None = before
        while place is not None and place.parent is not None and number is not None:
            for found in reversed(self._numbered.get((place.parent, number), ())):
                earlier = self._places[found.op] < self._places[place]
                if earlier and equal_values(found, value):
                    return found
            place = place.parent_op()
        return None


def _alike(a: Operation, b: Operation) -> bool:
    """Whether the operations do the same with operands, and in memory, that are equal."""
    return (
        type(a) is type(b)
        and not a.regions
        and a.properties == b.properties
        and len(a.operands) == len(b.operands)
        and [r.type for r in a.results] == [r.type for r in b.results]
    )


def _reads_the_same(a: Operation, b: Operation) -> bool:
    """Whether only reads stand between two operations of one block, which read themselves."""
    if a.parent is not b.parent or a.parent is None:
        return False
    first, last = (a, b) if a.is_before_in_block(b) else (b, a)
    op: Operation | None = first
    while op is not None:
        if not only_reads(op):
            return False
        if op is last:
            return True
        op = op.next_op
    return False
