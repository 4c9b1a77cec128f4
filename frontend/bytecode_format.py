"""The numbers of MLIR's bytecode encoding that its reader and writer share.

Version 0 is what JAX writes (spec/tpu_dialect.md section 4.4): a header, then the sections below;
operations carry every attribute in one dictionary, there are no dialect versions, no lazily loaded
regions, no use-list orders and no native properties. Only the builtin dialect has binary
encodings; attributes and types of other dialects are text in the attribute section.
"""

from __future__ import annotations

from enum import IntEnum

from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float4E2M1FNType,
    Float6E2M3FNType,
    Float6E3M2FNType,
    Float8E3M4Type,
    Float8E4M3B11FNUZType,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E4M3Type,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    Float80Type,
    Float128Type,
    FloatTF32Type,
    Signedness,
)

MAGIC = b"ML\xefR"
VERSION = 0
ALIGNED = 0x80
"""Flag on a section's id: an alignment and padding bytes follow its length."""
PADDING = 0xCB
DYNAMIC_SIZE = -(1 << 63)
"""How MLIR stores the size of a `?` dimension."""
INDEX_WIDTH = 64
MAX_INTEGER_WIDTH = (1 << 24) - 1


class Section(IntEnum):
    """Section ids."""

    STRING = 0
    DIALECT = 1
    ATTRIBUTE_TYPE = 2
    ATTRIBUTE_TYPE_OFFSET = 3
    IR = 4
    RESOURCE = 5
    RESOURCE_OFFSET = 6


class OpMask(IntEnum):
    """Which optional parts follow an operation's name and location."""

    ATTRIBUTES = 0x01
    RESULTS = 0x02
    OPERANDS = 0x04
    SUCCESSORS = 0x08
    REGIONS = 0x10
    USE_LIST_ORDERS = 0x20
    PROPERTIES = 0x40


class AttributeCode(IntEnum):
    """Builtin attributes with a binary encoding."""

    ARRAY = 0
    DICTIONARY = 1
    STRING = 2
    TYPED_STRING = 3
    FLAT_SYMBOL_REF = 4
    SYMBOL_REF = 5
    TYPE = 6
    UNIT = 7
    INTEGER = 8
    FLOAT = 9
    CALL_SITE_LOC = 10
    FILE_LINE_COL_LOC = 11
    FUSED_LOC = 12
    FUSED_LOC_WITH_METADATA = 13
    NAME_LOC = 14
    UNKNOWN_LOC = 15
    DENSE_RESOURCE = 16
    DENSE_ARRAY = 17
    DENSE_ELEMENTS = 18
    DENSE_STRING_ELEMENTS = 19
    SPARSE_ELEMENTS = 20
    DISTINCT = 21
    FILE_LINE_COL_RANGE = 22


class TypeCode(IntEnum):
    """Builtin types with a binary encoding, floats excepted."""

    INTEGER = 0
    INDEX = 1
    FUNCTION = 2
    COMPLEX = 9
    MEMREF = 10
    MEMREF_WITH_SPACE = 11
    NONE = 12
    TENSOR = 13
    TENSOR_WITH_ENCODING = 14
    TUPLE = 15
    UNRANKED_MEMREF = 16
    UNRANKED_MEMREF_WITH_SPACE = 17
    UNRANKED_TENSOR = 18
    VECTOR = 19
    VECTOR_SCALABLE = 20


FLOAT_TYPES: dict[int, type[AnyFloat]] = {
    3: BFloat16Type,
    4: Float16Type,
    5: Float32Type,
    6: Float64Type,
    7: Float80Type,
    8: Float128Type,
    21: FloatTF32Type,
    22: Float8E5M2Type,
    23: Float8E4M3Type,
    24: Float8E4M3FNType,
    25: Float8E5M2FNUZType,
    26: Float8E4M3FNUZType,
    27: Float8E4M3B11FNUZType,
    28: Float8E3M4Type,
    29: Float4E2M1FNType,
    30: Float6E2M3FNType,
    31: Float6E3M2FNType,
    32: Float8E8M0FNUType,
}

SIGNEDNESS = (Signedness.SIGNLESS, Signedness.SIGNED, Signedness.UNSIGNED)
