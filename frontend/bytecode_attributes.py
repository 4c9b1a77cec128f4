"""The binary encodings of builtin attributes; codes are those of `bytecode_format`."""

from __future__ import annotations

import math
from typing import Any, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    BytesAttr,
    CallSiteLoc,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FileLineColLoc,
    FixedBitwidthType,
    FloatAttr,
    FusedLoc,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    NameLoc,
    NoneAttr,
    PackableType,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
    UnknownLoc,
    VectorType,
)
from xdsl.ir import Attribute

from pallasite.dialects.types import compact
from pallasite.frontend.bytecode_cursor import Cursor
from pallasite.frontend.bytecode_format import (
    FLOAT_TYPES,
    INDEX_WIDTH,
    SIGNEDNESS,
    AttributeCode,
)
from pallasite.frontend.bytecode_table import AttributeTable, Decoder


def _attributes(table: AttributeTable, cursor: Cursor) -> list[Attribute]:
    return [table.attribute(cursor) for _ in range(cursor.count("attributes"))]


def _array(table: AttributeTable, cursor: Cursor) -> Attribute:
    return ArrayAttr(_attributes(table, cursor))


def _dictionary(table: AttributeTable, cursor: Cursor) -> Attribute:
    entries: dict[str, Attribute] = {}
    for _ in range(cursor.count("entries")):
        key = table.attribute_of(cursor, StringAttr, "a string as key")
        entries[key.data] = table.attribute(cursor)
    return DictionaryAttr(entries)


def _symbol(table: AttributeTable, cursor: Cursor) -> Attribute:
    return SymbolRefAttr(table.attribute_of(cursor, StringAttr, "a symbol name"))


def _nested_symbol(table: AttributeTable, cursor: Cursor) -> Attribute:
    root = table.attribute_of(cursor, StringAttr, "a symbol name")
    nested = [
        table.attribute_of(cursor, SymbolRefAttr, "a symbol reference").root_reference
        for _ in range(cursor.count("symbols"))
    ]
    return SymbolRefAttr(root, nested)


def _type_attribute(table: AttributeTable, cursor: Cursor) -> Attribute:
    return table.type(cursor)


def _bits(cursor: Cursor, width: int) -> int:
    """An integer of `width` bits; its sign is the caller's business."""
    if width <= 8:
        return cursor.byte()
    if width <= 64:
        return cursor.signed()
    words = [cursor.signed() & ((1 << 64) - 1) for _ in range(cursor.count("words"))]
    return sum(word << (64 * i) for i, word in enumerate(words))


def _integer(table: AttributeTable, cursor: Cursor) -> Attribute:
    kind = table.type(cursor)
    if isinstance(kind, IndexType):
        return IntegerAttr(_bits(cursor, INDEX_WIDTH), kind)
    if not isinstance(kind, IntegerType):
        raise cursor.error(f"expected an integer type, got {kind}")
    width = kind.width.data
    value = _bits(cursor, width) & ((1 << width) - 1)
    if kind.signedness.data != SIGNEDNESS[2] and value << 1 >> width:
        value -= 1 << width
    return IntegerAttr(value, kind)


def _float(table: AttributeTable, cursor: Cursor) -> Attribute:
    kind = table.type(cursor)
    if type(kind) not in FLOAT_TYPES.values():
        raise cursor.error(f"expected a floating-point type, got {kind}")
    packed = cast(PackableType[float], kind)
    width = cast(FixedBitwidthType, kind).bitwidth
    raw = (_bits(cursor, width) & ((1 << width) - 1)).to_bytes(packed.compile_time_size, "little")
    return FloatAttr(packed.unpack(raw, 1)[0], cast(Any, kind))


def _call_site(table: AttributeTable, cursor: Cursor) -> Attribute:
    return CallSiteLoc(table.location(cursor), table.location(cursor))


def _file_line_col(table: AttributeTable, cursor: Cursor) -> Attribute:
    file = table.attribute_of(cursor, StringAttr, "a file name")
    return FileLineColLoc(file, IntAttr(cursor.varint()), IntAttr(cursor.varint()))


def _file_line_col_range(table: AttributeTable, cursor: Cursor) -> Attribute:
    """The start of the range: xDSL's locations have no end.

    Stored are 0 to 4 numbers: line; line, column; line, column, end column; line, column, end
    line, end column.
    """
    file = table.attribute_of(cursor, StringAttr, "a file name")
    numbers = [cursor.varint() for _ in range(cursor.count("line and column numbers"))]
    if len(numbers) > 4:
        raise cursor.error(f"expected at most 4 line and column numbers, got {len(numbers)}")
    line, column, *_ = [*numbers, 0, 0]
    return FileLineColLoc(file, IntAttr(line), IntAttr(column))


def _locations(table: AttributeTable, cursor: Cursor) -> ArrayAttr[Attribute]:
    return ArrayAttr(table.location(cursor) for _ in range(cursor.count("locations")))


def _fused(table: AttributeTable, cursor: Cursor) -> Attribute:
    return FusedLoc(_locations(table, cursor), NoneAttr())


def _fused_with_metadata(table: AttributeTable, cursor: Cursor) -> Attribute:
    return FusedLoc(_locations(table, cursor), table.attribute(cursor))


def _name_loc(table: AttributeTable, cursor: Cursor) -> Attribute:
    return NameLoc(table.attribute_of(cursor, StringAttr, "a name"), table.location(cursor))


def _dense_array(table: AttributeTable, cursor: Cursor) -> Attribute:
    kind = table.type(cursor)
    element = cast(Any, kind)
    # Integers of no bits are a type, of which there are no arrays.
    is_integer = isinstance(kind, IntegerType) and kind.width.data > 0
    if not is_integer and type(kind) not in FLOAT_TYPES.values():
        raise cursor.error(f"expected an integer or floating-point type, got {kind}")
    size = cursor.varint()
    data = cursor.blob("array elements")
    if len(data) != size * element.compile_time_size:
        raise cursor.error(f"expected {size} elements of {kind}, got {len(data)} bytes")
    return DenseArrayBase(element, BytesAttr(_stored(element, data)))


def _stored(element: Attribute, data: bytes) -> bytes:
    """`data` as xDSL stores it: integers narrower than a byte are sign-extended."""
    if not isinstance(element, IntegerType) or (width := element.width.data) >= 8:
        return data
    half, mask = 1 << (width - 1) if width else 0, (1 << width) - 1
    signed = element.signedness.data != SIGNEDNESS[2]
    table = bytes(
        (v & mask) - (1 << width) & 0xFF if signed and v & half else v & mask for v in range(256)
    )
    return data.translate(table)


def _dense_elements(table: AttributeTable, cursor: Cursor) -> Attribute:
    kind = table.type(cursor)
    if not isinstance(kind, (VectorType, TensorType)):
        raise cursor.error(f"expected a vector or tensor type, got {kind}")
    element = cast(Any, kind.element_type)
    shape = kind.get_shape()
    if not isinstance(element, PackableType) or DYNAMIC_INDEX in shape:
        raise cursor.error(f"expected elements of fixed size and number, got {kind}")
    count = math.prod(shape)
    size = element.compile_time_size
    data = cursor.blob("elements")
    if isinstance(element, IntegerType) and element.width.data == 1:
        data = _unpack_bits(data, count)
    # A splat is one element, here as in the file.
    if len(data) not in ((size, count * size) if count else (0,)):
        raise cursor.error(f"expected {size} or {count * size} bytes of {kind}, got {len(data)}")
    return compact(DenseIntOrFPElementsAttr(cast(Any, kind), BytesAttr(_stored(element, data))))


def _unpack_bits(data: bytes, count: int) -> bytes:
    """One byte for each of `count` booleans.

    A single byte for more than eight is a splat (any value but zero is true: older writers said
    0xff, newer ones 0x01); else eight are packed in a byte, unless each has its own.
    """
    if len(data) == 1 and count > 8:
        return bytes([data[0] != 0])
    if len(data) == (count + 7) // 8:
        return bytes(data[i >> 3] >> (i & 7) & 1 for i in range(count))
    return data


ATTRIBUTES: dict[int, Decoder] = {
    AttributeCode.ARRAY: _array,
    AttributeCode.DICTIONARY: _dictionary,
    AttributeCode.STRING: lambda table, cursor: StringAttr(table.string(cursor)),
    AttributeCode.FLAT_SYMBOL_REF: _symbol,
    AttributeCode.SYMBOL_REF: _nested_symbol,
    AttributeCode.TYPE: _type_attribute,
    AttributeCode.UNIT: lambda table, cursor: UnitAttr(),
    AttributeCode.INTEGER: _integer,
    AttributeCode.FLOAT: _float,
    AttributeCode.CALL_SITE_LOC: _call_site,
    AttributeCode.FILE_LINE_COL_LOC: _file_line_col,
    AttributeCode.FUSED_LOC: _fused,
    AttributeCode.FUSED_LOC_WITH_METADATA: _fused_with_metadata,
    AttributeCode.NAME_LOC: _name_loc,
    AttributeCode.UNKNOWN_LOC: lambda table, cursor: UnknownLoc(),
    AttributeCode.DENSE_ARRAY: _dense_array,
    AttributeCode.DENSE_ELEMENTS: _dense_elements,
    AttributeCode.FILE_LINE_COL_RANGE: _file_line_col_range,
}
