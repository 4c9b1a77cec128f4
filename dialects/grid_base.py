"""What the operations of the `grid` dialect share: their values are grids of registers."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.types import split_grid, vector_type, with_grid

_NOTHING: Mapping[str, Attribute] = {}


def grid_of(value: SSAValue) -> tuple[int, ...]:
    """The grid of a value; raises if it is no grid of registers."""
    split = split_grid(value.type)
    if split is None:
        raise VerifyException(f"expected a grid of registers, got {value.type}")
    return split[0]


def expect(value: SSAValue, like: SSAValue, grid: Sequence[int]) -> None:
    """`value` has the registers of `like` in the grid `grid`."""
    expected = with_grid(vector_type(like), grid)
    if value.type != expected:
        raise VerifyException(f"expected {expected}, got {value.type}")


def fill(
    op: IRDLOperation,
    operands: Sequence[SSAValue],
    result_type: Attribute,
    properties: Mapping[str, Attribute] = _NOTHING,
) -> None:
    """Makes `op` one of these parts, which are complete and in order: `IRDLOperation.__init__`
    would sort them, at several times the cost."""
    Operation.__init__(op, operands=operands, result_types=(result_type,), properties=properties)


class Renaming(IRDLOperation, ABC):
    """An operation on one grid that costs no instruction."""

    value = operand_def(VectorType)
    result = result_def(VectorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())

    @property
    def keeps_all(self) -> bool:
        """Whether the result is the operand, register by register."""
        return self.value.type == self.result.type
