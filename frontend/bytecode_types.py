"""The binary encodings of builtin types; codes are those of `bytecode_format`."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    ComplexType,
    FunctionType,
    IndexType,
    IntegerType,
    MemRefLayoutAttr,
    MemRefType,
    NoneAttr,
    NoneType,
    TensorType,
    TupleType,
    UnrankedMemRefType,
    UnrankedTensorType,
    VectorType,
)
from xdsl.ir import Attribute, TypeAttribute
from xdsl.ir.affine import AffineMap

from pallasite.frontend.bytecode_cursor import Cursor
from pallasite.frontend.bytecode_format import (
    DYNAMIC_SIZE,
    FLOAT_TYPES,
    MAX_INTEGER_WIDTH,
    SIGNEDNESS,
    TypeCode,
)
from pallasite.frontend.bytecode_table import AttributeTable, Decoder


def _integer_type(table: AttributeTable, cursor: Cursor) -> Attribute:
    code = cursor.varint()
    width, sign = code >> 2, code & 3
    if width > MAX_INTEGER_WIDTH or sign >= len(SIGNEDNESS):
        raise cursor.error(f"invalid integer type of {width} bits, signedness {sign}")
    return IntegerType(width, SIGNEDNESS[sign])


def _types(table: AttributeTable, cursor: Cursor) -> list[Attribute]:
    return [table.type(cursor) for _ in range(cursor.count("types"))]


def _function_type(table: AttributeTable, cursor: Cursor) -> Attribute:
    return FunctionType.from_lists(_types(table, cursor), _types(table, cursor))


def _shape(cursor: Cursor) -> list[int]:
    sizes = [cursor.signed() for _ in range(cursor.count("dimensions"))]
    for size in sizes:
        if size < 0 and size != DYNAMIC_SIZE:
            raise cursor.error(f"expected a size of at least 0, got {size}")
    return [DYNAMIC_INDEX if size == DYNAMIC_SIZE else size for size in sizes]


def _memref(table: AttributeTable, cursor: Cursor, space: Attribute | None = None) -> Attribute:
    shape, element = _shape(cursor), table.type(cursor)
    layout = table.attribute(cursor)
    if isinstance(layout, AffineMapAttr) and layout.data == AffineMap.identity(len(shape)):
        layout = NoneAttr()
    if not isinstance(layout, (MemRefLayoutAttr, NoneAttr)):
        raise cursor.error(f"expected a memref layout, got {layout.name}")
    return MemRefType(element, shape, layout, space or NoneAttr())


def _memref_with_space(table: AttributeTable, cursor: Cursor) -> Attribute:
    return _memref(table, cursor, table.attribute(cursor))


def _tensor(table: AttributeTable, cursor: Cursor, encoding: Attribute | None = None) -> Attribute:
    shape = _shape(cursor)
    return TensorType(table.type(cursor), shape, encoding or NoneAttr())


def _tensor_with_encoding(table: AttributeTable, cursor: Cursor) -> Attribute:
    return _tensor(table, cursor, table.attribute(cursor))


def _vector(table: AttributeTable, cursor: Cursor) -> Attribute:
    shape = _shape(cursor)
    if DYNAMIC_INDEX in shape or 0 in shape:
        raise cursor.error(f"expected vector sizes of at least 1, got {shape}")
    return VectorType(table.type(cursor), shape)


def _unranked_memref_with_space(table: AttributeTable, cursor: Cursor) -> Attribute:
    space = table.attribute(cursor)
    return UnrankedMemRefType.from_type(table.type(cursor), space)


def _float_type(kind: type[AnyFloat]) -> Decoder:
    return lambda table, cursor: kind()


TYPES: dict[int, Decoder] = {
    **{code: _float_type(kind) for code, kind in FLOAT_TYPES.items()},
    TypeCode.INTEGER: _integer_type,
    TypeCode.INDEX: lambda table, cursor: IndexType(),
    TypeCode.FUNCTION: _function_type,
    TypeCode.COMPLEX: lambda table, cursor: ComplexType(cast(Any, table.type(cursor))),
    TypeCode.MEMREF: _memref,
    TypeCode.MEMREF_WITH_SPACE: _memref_with_space,
    TypeCode.NONE: lambda table, cursor: NoneType(),
    TypeCode.TENSOR: _tensor,
    TypeCode.TENSOR_WITH_ENCODING: _tensor_with_encoding,
    TypeCode.TUPLE: lambda table, cursor: TupleType(
        ArrayAttr(cast(list[TypeAttribute], _types(table, cursor)))
    ),
    TypeCode.UNRANKED_MEMREF: lambda table, cursor: UnrankedMemRefType.from_type(
        table.type(cursor)
    ),
    TypeCode.UNRANKED_MEMREF_WITH_SPACE: _unranked_memref_with_space,
    TypeCode.UNRANKED_TENSOR: lambda table, cursor: UnrankedTensorType(table.type(cursor)),
    TypeCode.VECTOR: _vector,
}
