"""Many operations that differ in their operands only, made at a fraction of the usual cost.

`Operation.create` fills in default properties and sorts them for each operation anew. Here this is
done once, for the model; its copies take over what came out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from xdsl.dialects.builtin import IndexType, IntegerAttr, LocationAttr, VectorType
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.ir.core import SSAValues

_INDEX = IndexType()


class Model:
    """An operation without regions but for its operands; `make` gives one with operands."""

    def __init__(
        self,
        kind: type[Operation],
        result_types: Sequence[Attribute],
        properties: Mapping[str, Attribute],
        attributes: Mapping[str, Attribute] | None = None,
        location: LocationAttr | None = None,
    ) -> None:
        self._kind, self._types = kind, result_types
        self._properties, self._attributes = properties, attributes or {}
        self._location = location
        self._first: Operation | None = None

    def make(self, operands: Sequence[SSAValue]) -> Operation:
        """A new operation, in no block."""
        first = self._first
        if first is None:
            self._first = first = self._kind.create(
                operands=operands,
                result_types=self._types,
                properties=self._properties,
                attributes=self._attributes,
                location=self._location,
            )
            return first
        op = self._kind.__new__(self._kind)
        # The fields that are not set here keep the defaults of their class.
        op.operands = operands
        op.results = SSAValues([OpResult(t, op, i) for i, t in enumerate(self._types)])
        op.properties = first.properties.copy()
        op.attributes = first.attributes.copy()
        op.location = first.location
        return op


@lru_cache(maxsize=4096)
def index_attribute(value: int) -> IntegerAttr[IndexType]:
    """`value : index`."""
    return IntegerAttr(value, _INDEX)


@lru_cache(maxsize=1024)
def vector_type(element: Attribute, shape: tuple[int, ...]) -> VectorType[Attribute]:
    """`vector<SHAPExELEMENT>`."""
    return VectorType(element, shape)
