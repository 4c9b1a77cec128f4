"""Which values are certainly equal: those that removing common subexpressions would merge."""

from __future__ import annotations

from collections.abc import Hashable

from xdsl.ir import Block, Operation, OpResult, SSAValue

from pallasite.dialects.walking import operations
from pallasite.passes.effects import has_no_effects, only_reads

_MOST_PAIRS = 64


def equal_values(one: SSAValue, other: SSAValue) -> bool:
    """Whether both values come from the same operations on the same values.

    Loads count if nothing writes between them. False if more than 64 pairs of values would have to
    be compared.
    """
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
    # The operations between two reads are checked last, since there may be many.
    return all(_reads_the_same(first, second) for first, second in reads)


class EarlierValues:
    """Finds values of one function that equal a given one, fast enough to ask for every value.

    The function must not change. Values get a number that is the same for candidates; `find` then
    compares only these.
    """

    def __init__(self, function: Operation) -> None:
        self._places: dict[Operation, int] = {}
        self._numbers: dict[SSAValue, int] = {}
        """Equal for results of equal operations on operands with equal numbers; loads count."""
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
        """The last value that certainly equals `value` and is defined, and visible, in front of
        `before`; None if there is none."""
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
    """Whether the operations compute the same, given equal operands and equal memory."""
    return (
        type(a) is type(b)
        and not a.regions
        and a.properties == b.properties
        and len(a.operands) == len(b.operands)
        and [r.type for r in a.results] == [r.type for r in b.results]
    )


def _reads_the_same(a: Operation, b: Operation) -> bool:
    """Whether two reads are in one block and nothing between them writes."""
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
