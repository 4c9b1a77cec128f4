"""Operations made at a fraction of the usual cost: few checks, and what they share looked up once.

`Operation.create` fills in default properties, and its setters first take back operands and
successors that a new operation does not have; an unrolled function has thousands of operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    LocationAttr,
    UnknownLoc,
    VectorType,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue, Use
from xdsl.ir.core import SSAValues

from pallasite.dialects.types import split_grid, vector_of

_INDEX = IndexType()
_UNKNOWN = UnknownLoc()
_NOTHING: Mapping[str, Attribute] = {}


def made(
    kind: type[Operation],
    operands: Sequence[SSAValue],
    result_types: Sequence[Attribute],
    properties: Mapping[str, Attribute] = _NOTHING,
    attributes: Mapping[str, Attribute] = _NOTHING,
    location: LocationAttr | None = None,
) -> Operation:
    """`kind.create` of an operation without regions and successors."""
    op = _wired(kind, operands, result_types)
    op.properties, op.attributes = dict(properties), dict(attributes)
    op.location = _UNKNOWN if location is None else location
    op.__post_init__()
    return op


def _wired(
    kind: type[Operation], operands: Sequence[SSAValue], result_types: Sequence[Attribute]
) -> Operation:
    """An operation of which only the operands and results are set."""
    op = kind.__new__(kind)
    # The fields that are not set keep the defaults of their class. What the setter of `operands`
    # does for an operation that had none.
    uses = [Use(op, i) for i in range(len(operands))]
    for value, use in zip(operands, uses, strict=True):
        value.add_use(use)
    op._operands = SSAValues(operands)  # pyright: ignore[reportPrivateUsage]
    op._operand_uses = tuple(uses)  # pyright: ignore[reportPrivateUsage]
    op.results = SSAValues([OpResult(t, op, i) for i, t in enumerate(result_types)])
    return op


def fill(block: Block, ops: Sequence[Operation]) -> None:
    """Makes `ops` the operations of the empty `block`, wherever they were before.

    One by one, `Block.add_op` looks for cycles; what is unrolled contains no block that it is in.
    """
    before: Operation | None = None
    for op in ops:
        op.parent = block
        op._prev_op = before  # pyright: ignore[reportPrivateUsage]
        if before is not None:
            before._next_op = op  # pyright: ignore[reportPrivateUsage]
        before = op
    if before is not None:
        before._next_op = None  # pyright: ignore[reportPrivateUsage]
        block._first_op = ops[0]  # pyright: ignore[reportPrivateUsage]
        block._last_op = before  # pyright: ignore[reportPrivateUsage]


def emptied(block: Block) -> None:
    """Lets `block` forget its operations, which `fill` has given to another one."""
    block._first_op = block._last_op = None  # pyright: ignore[reportPrivateUsage]


class Model:
    """An operation without regions but for its operands; `make` gives one with operands."""

    def __init__(
        self,
        kind: type[Operation],
        result_types: Sequence[Attribute],
        properties: Mapping[str, Attribute],
        attributes: Mapping[str, Attribute] = _NOTHING,
        location: LocationAttr | None = None,
    ) -> None:
        self._kind, self._types = kind, result_types
        self._properties, self._attributes = properties, attributes
        self._location = location
        self._first: Operation | None = None

    def make(self, operands: Sequence[SSAValue]) -> Operation:
        """A new operation, in no block."""
        first = self._first
        if first is None:
            self._first = first = made(
                self._kind,
                operands,
                self._types,
                self._properties,
                self._attributes,
                self._location,
            )
            return first
        op = _wired(self._kind, operands, self._types)
        op.properties = first.properties.copy()
        op.attributes = first.attributes.copy()
        op.location = first.location
        return op


@lru_cache
def operand_segments(*sizes: int) -> Mapping[str, Attribute]:
    """The property that says how many operands there are of each kind, as they are defined."""
    return MappingProxyType({"operandSegmentSizes": DenseArrayBase.from_list(i32, sizes)})


@lru_cache(maxsize=4096)
def index_attribute(value: int) -> IntegerAttr[IndexType]:
    """`value : index`."""
    return IntegerAttr(value, _INDEX)


@lru_cache(maxsize=4096)
def grid_and_register(
    element: Attribute, shape: tuple[int, ...]
) -> tuple[tuple[int, ...], VectorType[Attribute]] | None:
    """The grid of `vector<SHAPExELEMENT>` and the type of one register, None without a grid."""
    split = split_grid(vector_of(element, shape))
    return None if split is None else (split[0], vector_of(element, split[1]))
