"""Creates operations faster than xDSL's constructors do: an unrolled function has thousands.

`Operation.create` looks up default properties for each operation, and its setters first remove the
operands and successors that a new operation does not have. The functions here write the fields of
xDSL's objects directly, and `Model` prepares once what many equal operations share. Callers give
all properties and correct types; nothing is checked.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, cast

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
from xdsl.irdl import IRDLOperation, OptionalDef

from pallasite.dialects.numbering import Numbers
from pallasite.dialects.tpu.base import TpuOp
from pallasite.dialects.types import split_grid, vector_of

# pyright: reportPrivateUsage=false
_new: Any = object.__new__
_tuple_of: Any = tuple.__new__
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
    """The same operation as `kind.create` gives, without regions and successors, not inserted."""
    op = _wired(kind, operands, result_types)
    op.properties, op.attributes = dict(properties), dict(attributes)
    op.location = _UNKNOWN if location is None else location
    if _needs_more(kind, tuple(properties)):
        op.__post_init__()
    return op


@lru_cache(maxsize=4096)
def _needs_more(kind: type[Operation], given: tuple[str, ...]) -> bool:
    """Whether `__post_init__` of `kind` changes an operation with the properties `given`: it fills
    in defaults or sorts them."""
    if kind.__post_init__ is TpuOp.__post_init__:
        if list(given) != sorted(given):
            return True
    elif kind.__post_init__ is not IRDLOperation.__post_init__:
        return True
    definition = cast(type[IRDLOperation], kind).get_irdl_definition()
    missing = [d for name, d in definition.properties.items() if name not in given]
    found = [*missing, *definition.attributes.values()]
    return any(not isinstance(d, OptionalDef) and d.default_value is not None for d in found)


def _wired(
    kind: type[Operation], operands: Sequence[SSAValue], result_types: Sequence[Attribute]
) -> Operation:
    """An operation of class `kind` with operands and results; its other fields are not set."""
    # Fields that are not set keep the defaults of their class: most of the time of an unrolling is
    # spent here, so nothing is called that need not be.
    op = _using(kind, operands)
    results: list[OpResult] = []
    for number, kind_of_result in enumerate(result_types):
        result = _new(OpResult)
        result._type = kind_of_result
        result.op = op
        result.index = number
        results.append(result)
    op.results = _tuple_of(SSAValues, results)
    return op


def _using(kind: type[Operation], operands: Sequence[SSAValue]) -> Any:
    """An operation of class `kind` with operands; its other fields are not set."""
    op = _new(kind)
    uses: list[Use] = []
    number = 0
    for value in operands:
        # What `Use` and `add_use` do for an operation that had no operands.
        use = _new(Use)
        use._operation = op
        use._index = number
        after = value.first_use
        if after is not None:
            use._next_use = after
            after._prev_use = use
        value.first_use = use
        uses.append(use)
        number += 1
    op._operands = _tuple_of(SSAValues, operands)
    op._operand_uses = tuple(uses)
    return op


def fill(block: Block, ops: Sequence[Operation]) -> None:
    """Makes `ops` the operations of `block`, whose own are forgotten; `ops` may be in other blocks.

    `Block.add_op` checks that no operation contains the block; none of these may.
    """
    before: Operation | None = None
    for op in ops:
        op.parent = block
        op._prev_op = before
        if before is not None:
            before._next_op = op
        before = op
    if before is not None:
        before._next_op = None
        block._first_op = ops[0]
        block._last_op = before


def prepend(block: Block, ops: Sequence[Operation]) -> None:
    """Inserts `ops` at the start of `block`; they may be in other blocks before."""
    first, last = block._first_op, block._last_op
    fill(block, ops)
    if ops and first is not None:
        ops[-1]._next_op, first._prev_op = first, ops[-1]
        block._last_op = last


def emptied(block: Block) -> None:
    """Makes `block` empty, after `fill` has moved its operations to another block."""
    block._first_op = block._last_op = None


class Model:
    """Everything about an operation but its operands, from which many equal ones are made.

    It has no regions and no successors; without a `location` it is at none.
    """

    def __init__(
        self,
        kind: type[Operation],
        result_types: Sequence[Attribute],
        properties: Mapping[str, Attribute],
        attributes: Mapping[str, Attribute] = _NOTHING,
        location: LocationAttr | None = None,
    ) -> None:
        self.kind, self._types = kind, result_types
        self._properties, self._attributes = properties, attributes
        self._location = location
        self._first: Operation | None = None
        self._key: Hashable = None

    def key(self, numbers: Numbers) -> Hashable:
        """A key, equal for models whose operations compute equal results of equal operands.

        Keys can be compared if they were made with the same `numbers`.
        """
        if self._key is None:
            entries = [
                tuple([(name, numbers.of(given[name])) for name in sorted(given)])
                for given in (self._properties, self._attributes)
            ]
            self._key = (self.kind, *map(numbers.of, self._types), *entries)
        return self._key

    def make(self, operands: Sequence[SSAValue]) -> Operation:
        """A new operation with these operands, not inserted."""
        first = self._first
        if first is None:
            self._first = first = made(
                self.kind,
                operands,
                self._types,
                self._properties,
                self._attributes,
                self._location,
            )
            return first
        op = _wired(self.kind, operands, self._types)
        op.properties = first.properties.copy()
        op.attributes = first.attributes.copy()
        op.location = first.location
        return op

    def results(self, rows: Iterable[Sequence[SSAValue]], into: list[Operation]) -> list[SSAValue]:
        """Makes one operation for each row of operands and appends it to `into`.

        Returns their results; an operation has one or none.
        """
        kind, first, values = self.kind, self._first, list[SSAValue]()
        for operands in rows:
            if first is None:
                op = first = self.make(operands)
                values += op.results
                into.append(op)
                continue
            op = _using(kind, operands)
            for type_ in self._types:
                result = _new(OpResult)
                result._type = type_
                result.op = op
                result.index = 0
                op.results = _tuple_of(SSAValues, (result,))
                values.append(result)
            op.properties = first.properties.copy()
            op.attributes = first.attributes.copy()
            op.location = first.location
            into.append(op)
        return values


@lru_cache
def operand_segments(*sizes: int) -> Mapping[str, Attribute]:
    """The property `operandSegmentSizes`: how many operands each group of the definition has."""
    return MappingProxyType({"operandSegmentSizes": DenseArrayBase.from_list(i32, sizes)})


@lru_cache(maxsize=4096)
def index_attribute(value: int) -> IntegerAttr[IndexType]:
    """`value : index`."""
    return IntegerAttr(value, _INDEX)


@lru_cache(maxsize=4096)
def grid_and_register(
    element: Attribute, shape: tuple[int, ...]
) -> tuple[tuple[int, ...], VectorType[Attribute]] | None:
    """The grid and the type of one register of `vector<SHAPExELEMENT>`; None if it has no grid.

    `vector<4x2x8x128xf32>` is a grid of 4x2 registers of 8x128.
    """
    split = split_grid(vector_of(element, shape))
    return None if split is None else (split[0], vector_of(element, split[1]))
