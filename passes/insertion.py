"""Inserts the operations that rules make, in front of the one they rewrite, at its source line."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from pallasite.dialects import tpu


def put_before(op: Operation, place: Operation) -> None:
    """Inserts `op`, which need not have results, in front of `place`, at its source line."""
    op.location = place.location
    Rewriter.insert_op(op, InsertPoint.before(place))


def insert_before(op: Operation, place: Operation) -> SSAValue:
    """Inserts `op` in front of `place`, at its source line; returns its first result."""
    put_before(op, place)
    return op.results[0]


def alike(
    op: Operation, operands: Sequence[SSAValue], result_types: Sequence[Attribute]
) -> Operation:
    """An operation of the class and with the attributes of `op`, which has no regions, on other
    operands and with other result types."""
    return type(op).create(
        operands=operands,
        result_types=result_types,
        properties=op.properties,
        attributes=op.attributes,
    )


class Insertion:
    """Inserts operations in front of the one at which a walk stands, at its source line."""

    _anchor: Operation | None = None

    @contextmanager
    def standing(self, place: Operation) -> Generator[None]:
        """A context in which operations are inserted in front of `place`."""
        outer, self._anchor = self._anchor, place
        try:
            yield
        finally:
            self._anchor = outer

    def emit(self, op: Operation) -> SSAValue:
        """Inserts `op` and returns its first result."""
        self.insert(op)
        return op.results[0]

    def ordered(self, value: SSAValue, order: Sequence[int]) -> SSAValue:
        """The vector `value` transposed: dimension d of the result is dimension `order[d]`."""
        stays = list(order) == list(range(len(order)))
        return value if stays else self.emit(tpu.TransposeOp.of(value, order))

    def insert(self, op: Operation) -> None:
        """Inserts `op`, which need not have results."""
        assert self._anchor is not None and self._anchor.parent is not None
        op.location = self._anchor.location
        self._anchor.parent.insert_op_before(op, self._anchor)
