"""Where the rules of a walk put the operations that they make."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter


def insert_before(op: Operation, place: Operation) -> SSAValue:
    """Inserts `op` in front of `place`, at its source line; returns its first result."""
    op.location = place.location
    Rewriter.insert_op(op, InsertPoint.before(place))
    return op.results[0]


class Insertion:
    """Puts operations in front of the one that a walk has come to, at its source line."""

    _anchor: Operation | None = None

    def emit(self, op: Operation) -> SSAValue:
        """Inserts `op` and returns its first result."""
        self.insert(op)
        return op.results[0]

    def insert(self, op: Operation) -> None:
        """Inserts `op`, which need not have results."""
        assert self._anchor is not None and self._anchor.parent is not None
        op.location = self._anchor.location
        self._anchor.parent.insert_op_before(op, self._anchor)
