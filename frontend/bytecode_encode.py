"""The string, dialect, attribute and type tables of a bytecode file that is being written.

Builtin attributes and types get their binary encodings (the inverse of `bytecode_attributes` and
`bytecode_types`), all others are text. Numbers are given in the order of first use, children
before the attribute that holds them.
"""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO
from itertools import groupby
from typing import Any, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    CallSiteLoc,
    ComplexType,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FileLineColLoc,
    FloatAttr,
    FunctionType,
    FusedLoc,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    NameLoc,
    NoneAttr,
    NoneType,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    TupleType,
    UnitAttr,
    UnknownLoc,
    UnregisteredAttr,
    VectorType,
)
from xdsl.ir import Attribute, BuiltinAttribute, TypeAttribute
from xdsl.ir.affine import AffineMap
from xdsl.printer import Printer

from pallasite.frontend.bytecode_format import (
    DYNAMIC_SIZE,
    FLOAT_TYPES,
    INDEX_WIDTH,
    SIGNEDNESS,
    AttributeCode,
    TypeCode,
)

_FLOAT_CODES = {kind: code for code, kind in FLOAT_TYPES.items()}


def varint(value: int) -> bytes:
    """An unsigned integer of at most 64 bits: the first byte's trailing zeros tell the length."""
    size = max(1, (value.bit_length() + 6) // 7)
    if size > 8:
        return b"\0" + value.to_bytes(8, "little")
    return ((value << 1 | 1) << (size - 1)).to_bytes(size, "little")


def signed(value: int) -> bytes:
    """A signed integer, stored zigzag."""
    return varint(value << 1 if value >= 0 else ~value << 1 | 1)


def blob(data: bytes) -> bytes:
    """Bytes preceded by their number."""
    return varint(len(data)) + data


class _Column:
    """The encoded attributes, or types: their numbers, dialects and bytes."""

    def __init__(self) -> None:
        self.numbers: dict[Attribute, int] = {}
        self.entries: list[tuple[str, bool, bytes]] = []


class Encoder:
    """Hands out numbers for strings, dialects, attributes and types, and their sections."""

    def __init__(self) -> None:
        self._strings: dict[str, int] = {}
        self._dialects: dict[str, int] = {}
        self._attributes = _Column()
        self._types = _Column()

    def string(self, text: str) -> int:
        """The number of `text` in the string section."""
        return self._strings.setdefault(text, len(self._strings))

    def dialect(self, name: str) -> int:
        """The number of the dialect called `name`."""
        return self._dialects.setdefault(name, len(self._dialects))

    def attribute(self, attribute: Attribute) -> int:
        """The number of `attribute`, which is encoded when it is first asked for."""
        return self._number(self._attributes, attribute)

    def type(self, attribute: Attribute) -> int:
        """The number of a type, which is encoded when it is first asked for."""
        return self._number(self._types, attribute)

    def _number(self, column: _Column, attribute: Attribute) -> int:
        number = column.numbers.get(attribute)
        if number is not None:
            return number
        data = self._type_data(attribute) if column is self._types else self._data(attribute)
        binary = data is not None
        dialect = _dialect_of(attribute)
        self.dialect(dialect)
        number = column.numbers[attribute] = len(column.entries)
        column.entries.append(
            (dialect, binary, data if data is not None else _text(attribute).encode() + b"\0")
        )
        return number

    # Sections ---------------------------------------------------------------------------------

    def grouped(self, entries: list[tuple[str, bytes]]) -> bytes:
        """Entries in their order, in runs of the same dialect."""
        out = bytearray()
        for dialect, run in groupby(entries, key=lambda entry: entry[0]):
            members = [data for _, data in run]
            out += varint(self.dialect(dialect)) + varint(len(members)) + b"".join(members)
        return bytes(out)

    def dialect_names(self) -> bytes:
        """The dialect section: the names of all dialects so far."""
        names = [varint(self.string(name)) for name in self._dialects]
        return varint(len(names)) + b"".join(names)

    def data(self) -> bytes:
        """The section of attributes and types, one after another."""
        return b"".join(e[2] for column in (self._attributes, self._types) for e in column.entries)

    def offsets(self) -> bytes:
        """The section that says how long each attribute and type is, and whose."""
        out = bytearray()
        for column in (self._attributes, self._types):
            out += varint(len(column.entries))
        for column in (self._attributes, self._types):
            out += self.grouped(
                [(d, varint(len(data) << 1 | binary)) for d, binary, data in column.entries]
            )
        return bytes(out)

    def string_section(self) -> bytes:
        """The string section: lengths, last first, then the texts."""
        texts = [text.encode() + b"\0" for text in self._strings]
        lengths = [varint(len(text)) for text in reversed(texts)]
        return varint(len(texts)) + b"".join(lengths) + b"".join(texts)

    # Attributes -------------------------------------------------------------------------------

    def _data(self, attribute: Attribute) -> bytes | None:
        """The binary encoding of an attribute, None if it is written as text."""
        code = AttributeCode
        match attribute:
            case TypeAttribute():
                return _bytes(code.TYPE, self.type(attribute))
            case ArrayAttr():
                return _bytes(code.ARRAY) + self._list(attribute.data)
            case DictionaryAttr(data):
                pairs = [(StringAttr(key), value) for key, value in sorted(data.items())]
                children = [self.attribute(child) for pair in pairs for child in pair]
                return _bytes(code.DICTIONARY, len(pairs), *children)
            case StringAttr(data):
                return _bytes(code.STRING, self.string(data))
            case SymbolRefAttr():
                return self._symbol(attribute)
            case UnitAttr():
                return _bytes(code.UNIT)
            case _:
                return self._numeric(attribute)

    def _numeric(self, attribute: Attribute) -> bytes | None:
        """The binary encoding of a number or of an array of numbers; that of a location else."""
        match attribute:
            case IntegerAttr():
                return self._integer(attribute)
            case FloatAttr():
                return self._float(attribute)
            case DenseArrayBase():
                return self._dense_array(cast(DenseArrayBase[Any], attribute))
            case DenseIntOrFPElementsAttr():
                return self._dense(cast(DenseIntOrFPElementsAttr[Any], attribute))
            case _:
                return self._location(attribute)

    def _list(self, attributes: Iterable[Attribute]) -> bytes:
        numbers = [self.attribute(child) for child in attributes]
        return _bytes(len(numbers), *numbers)

    def _symbol(self, symbol: SymbolRefAttr) -> bytes:
        root = self.attribute(symbol.root_reference)
        nested = symbol.nested_references.data
        if not nested:
            return _bytes(AttributeCode.FLAT_SYMBOL_REF, root)
        return _bytes(AttributeCode.SYMBOL_REF, root) + self._list(map(SymbolRefAttr, nested))

    def _integer(self, attribute: IntegerAttr) -> bytes:
        kind = attribute.type
        width = kind.width.data if isinstance(kind, IntegerType) else INDEX_WIDTH
        return _bytes(AttributeCode.INTEGER, self.type(kind)) + _bits(attribute.value.data, width)

    def _float(self, attribute: FloatAttr[AnyFloat]) -> bytes | None:
        kind = attribute.type
        if type(kind) not in _FLOAT_CODES:
            return None
        raw = int.from_bytes(kind.pack((attribute.value.data,)), "little")
        return _bytes(AttributeCode.FLOAT, self.type(kind)) + _bits(raw, kind.bitwidth)

    def _dense_array(self, attribute: DenseArrayBase[Any]) -> bytes:
        kind, data = cast(Attribute, attribute.elt_type), attribute.data.data
        return _bytes(AttributeCode.DENSE_ARRAY, self.type(kind), len(attribute)) + blob(
            _unsigned(kind, data)
        )

    def _dense(self, attribute: DenseIntOrFPElementsAttr[Any]) -> bytes:
        kind = cast(Attribute, attribute.get_element_type())
        data = _unsigned(kind, attribute.data.data)
        size = max(1, len(data) // max(1, len(attribute)))
        if data and data == data[:size] * (len(data) // size):
            data = data[:size]
            if _is_boolean(kind):
                data = b"\xff" if data[0] else b"\0"
        elif _is_boolean(kind):
            bits = sum(bit << i for i, bit in enumerate(data))
            data = bits.to_bytes((len(data) + 7) // 8, "little")
        return _bytes(AttributeCode.DENSE_ELEMENTS, self.type(attribute.type)) + blob(data)

    def _location(self, location: Attribute) -> bytes | None:
        code = AttributeCode
        match location:
            case UnknownLoc():
                return _bytes(code.UNKNOWN_LOC)
            case FileLineColLoc():
                file = self.attribute(location.filename)
                return _bytes(
                    code.FILE_LINE_COL_LOC, file, location.line.data, location.column.data
                )
            case NameLoc():
                child = UnknownLoc() if location.location == NoneAttr() else location.location
                return _bytes(code.NAME_LOC, self.attribute(location.desc), self.attribute(child))
            case CallSiteLoc():
                callee, caller = self.attribute(location.callee), self.attribute(location.caller)
                return _bytes(code.CALL_SITE_LOC, callee, caller)
            case FusedLoc():
                members = self._list(cast(ArrayAttr[Attribute], location.locations).data)
                if location.metadata == NoneAttr():
                    return _bytes(code.FUSED_LOC) + members
                metadata = varint(self.attribute(location.metadata))
                return _bytes(code.FUSED_LOC_WITH_METADATA) + members + metadata
            case _:
                return None

    # Types ------------------------------------------------------------------------------------

    def _type_data(self, kind: Attribute) -> bytes | None:
        """The binary encoding of a type, None if it is written as text."""
        code = TypeCode
        match kind:
            case IntegerType():
                sign = SIGNEDNESS.index(kind.signedness.data)
                return _bytes(code.INTEGER, kind.width.data << 2 | sign)
            case IndexType():
                return _bytes(code.INDEX)
            case NoneType():
                return _bytes(code.NONE)
            case FunctionType():
                inputs, outputs = self._type_list(kind.inputs), self._type_list(kind.outputs)
                return _bytes(code.FUNCTION) + inputs + outputs
            case ComplexType():
                return _bytes(code.COMPLEX, self.type(cast(Attribute, kind.element_type)))
            case TupleType():
                return _bytes(code.TUPLE) + self._type_list(kind.types)
            case _:
                return self._shaped(kind)

    def _shaped(self, kind: Attribute) -> bytes | None:
        """The binary encoding of a type with a shape; that of a float type else."""
        match kind:
            case MemRefType():
                return self._memref(kind)
            case TensorType():
                return self._tensor(kind)
            case VectorType():
                if any(dim.value.data for dim in kind.scalable_dims):
                    return None
                element = self.type(kind.element_type)
                return _bytes(TypeCode.VECTOR) + _shape(kind.get_shape()) + varint(element)
            case _:
                float_code = _FLOAT_CODES.get(cast("type[AnyFloat]", type(kind)))
                return None if float_code is None else _bytes(float_code)

    def _type_list(self, kinds: Iterable[Attribute]) -> bytes:
        numbers = [self.type(kind) for kind in kinds]
        return _bytes(len(numbers), *numbers)

    def _memref(self, kind: MemRefType[Attribute]) -> bytes:
        shape = kind.get_shape()
        layout = kind.layout
        if isinstance(layout, NoneAttr):
            layout = AffineMapAttr(AffineMap.identity(len(shape)))
        rest = _shape(shape) + _bytes(self.type(kind.element_type), self.attribute(layout))
        if isinstance(kind.memory_space, NoneAttr):
            return _bytes(TypeCode.MEMREF) + rest
        return _bytes(TypeCode.MEMREF_WITH_SPACE, self.attribute(kind.memory_space)) + rest

    def _tensor(self, kind: TensorType[Attribute]) -> bytes:
        rest = _shape(kind.get_shape()) + varint(self.type(kind.element_type))
        if isinstance(kind.encoding, NoneAttr):
            return _bytes(TypeCode.TENSOR) + rest
        return _bytes(TypeCode.TENSOR_WITH_ENCODING, self.attribute(kind.encoding)) + rest


def _bytes(*values: int) -> bytes:
    return b"".join(map(varint, values))


def _bits(value: int, width: int) -> bytes:
    """An integer of known width, as MLIR stores it: zero-extended, and then as a signed number."""
    value &= (1 << width) - 1
    if width <= 8:
        return bytes([value])
    if width <= 64:
        return signed(value - (1 << 64) if value >> 63 else value)
    words = [value >> shift & (1 << 64) - 1 for shift in range(0, value.bit_length() or 1, 64)]
    return varint(len(words)) + b"".join(signed(w - (1 << 64) if w >> 63 else w) for w in words)


def _shape(sizes: Iterable[int]) -> bytes:
    stored = [DYNAMIC_SIZE if size == DYNAMIC_INDEX else size for size in sizes]
    return varint(len(stored)) + b"".join(map(signed, stored))


def _is_boolean(kind: Attribute) -> bool:
    return isinstance(kind, IntegerType) and kind.width.data == 1


def _unsigned(kind: Attribute, data: bytes) -> bytes:
    """`data` of xDSL, which sign-extends integers narrower than a byte, as MLIR stores it."""
    if not isinstance(kind, IntegerType) or kind.width.data >= 8:
        return data
    mask = (1 << kind.width.data) - 1
    return data.translate(bytes(value & mask for value in range(256)))


def _dialect_of(attribute: Attribute) -> str:
    if isinstance(attribute, UnregisteredAttr):
        return attribute.attr_name.data.partition(".")[0]
    if isinstance(attribute, BuiltinAttribute) or "." not in attribute.name:
        return "builtin"
    return attribute.name.partition(".")[0]


def _text(attribute: Attribute) -> str:
    stream = StringIO()
    Printer(stream).print_attribute(attribute)
    return stream.getvalue()
