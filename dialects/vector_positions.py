"""Operations of `vector` that take or replace what is at a position; part of
`pallasite.dialects.vector`. Upstream's accept positions behind the end and parts of any shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    IndexTypeConstr,
    VectorType,
    i64,
)
from xdsl.dialects.utils import (
    DynamicIndexList,
    split_dynamic_index_list,
    verify_dynamic_index_list,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.types import dense_integers, vector_type
from pallasite.dialects.vector_shapes import verify_element_types

Position = Sequence[SSAValue | int]


def _verify_position(
    whole: VectorType[Attribute],
    part: Attribute,
    static: Sequence[int],
    dynamic: Sequence[SSAValue],
) -> None:
    """`part` is what `whole` has at a position: an element, or a vector of its last dimensions."""
    verify_dynamic_index_list(static, dynamic, DYNAMIC_INDEX)
    verify_element_types(whole, part)
    if isinstance(part, VectorType) and not part.get_num_dims():
        raise VerifyException(f"expected the scalar {part.element_type} as the part, got {part}")
    shape = whole.get_shape()
    kept = tuple(part.get_shape()) if isinstance(part, VectorType) else ()
    if len(static) > len(shape) or tuple(shape[len(static) :]) != kept:
        raise VerifyException(
            f"{part} is no part of {whole} at a position of {len(static)} indices"
        )
    for d, (index, size) in enumerate(zip(static, shape, strict=False)):
        if index != DYNAMIC_INDEX and not 0 <= index < size:
            raise VerifyException(f"index {index} is outside dimension {d} of {whole}")


@irdl_op_definition
class ExtractOp(IRDLOperation):
    """An element or a row: `%r = vector.extract %v[0] : vector<128xf32> from vector<8x128xf32>`."""

    name = "vector.extract"

    static_position = prop_def(DenseArrayBase.constr(i64))
    vector = operand_def(VectorType)
    dynamic_position = var_operand_def(IndexTypeConstr)
    result = result_def(AnyAttr())

    traits = traits_def(Pure())

    assembly_format = (
        "$vector `` custom<DynamicIndexList>($dynamic_position, $static_position)"
        " attr-dict `:` type($result) `from` type($vector)"
    )
    custom_directives = (DynamicIndexList,)

    def __init__(self, vector: SSAValue, positions: Position, result_type: Attribute):
        static, dynamic = split_dynamic_index_list(positions, DYNAMIC_INDEX)
        super().__init__(
            operands=[vector, dynamic],
            result_types=[result_type],
            properties={"static_position": dense_integers(static)},
        )

    def verify_(self) -> None:
        _verify_position(
            vector_type(self.vector),
            self.result.type,
            self.static_position.get_values(),
            self.dynamic_position,
        )


@irdl_op_definition
class InsertOp(IRDLOperation):
    """A vector with one part replaced:
    `%r = vector.insert %row, %v [0] : vector<128xf32> into vector<8x128xf32>`.
    """

    name = "vector.insert"

    _T: ClassVar = VarConstraint("T", base(VectorType))
    static_position = prop_def(DenseArrayBase.constr(i64))
    source = operand_def(AnyAttr())
    dest = operand_def(_T)
    dynamic_position = var_operand_def(IndexTypeConstr)
    result = result_def(_T)

    traits = traits_def(Pure())

    assembly_format = (
        "$source `,` $dest custom<DynamicIndexList>($dynamic_position, $static_position)"
        "attr-dict `:` type($source) `into` type($dest)"
    )
    custom_directives = (DynamicIndexList,)

    def __init__(self, source: SSAValue, dest: SSAValue, positions: Position):
        static, dynamic = split_dynamic_index_list(positions, DYNAMIC_INDEX)
        super().__init__(
            operands=[source, dest, dynamic],
            result_types=[dest.type],
            properties={"static_position": dense_integers(static)},
        )

    def verify_(self) -> None:
        _verify_position(
            vector_type(self.dest),
            self.source.type,
            self.static_position.get_values(),
            self.dynamic_position,
        )


POSITION_OPS = (ExtractOp, InsertOp)
