"""Attributes and types in bytecode that no writer makes: what is wrong with them is said."""

from __future__ import annotations

import pytest

from pallasite.diagnostics import ReadError
from pallasite.frontend.bytecode_format import AttributeCode as A
from pallasite.frontend.bytecode_format import TypeCode as T
from pallasite.frontend.bytecode_reader import read_bytecode
from pallasite.frontend.bytecode_writer import varint

MODULE = bytes([5, 1, 0x10, 1, 7, 3, 1, 1])
"""One module whose location is attribute 0, with one empty block."""
I32 = (T.INTEGER, 32 << 2)
F32 = (5,)
INDEX = (T.INDEX,)


def numbers(*values: int) -> bytes:
    return b"".join(map(varint, values))


def signed(value: int) -> int:
    """`value` as sizes are stored."""
    return value << 1 ^ value >> 63


def file(attributes: list[bytes], types: list[bytes]) -> bytes:
    """A module that is located by the first attribute."""
    texts = [b"builtin\0", b"module\0", b"name\0"]
    offsets = [numbers(len(attributes), len(types))]
    for entries in (attributes, types):
        sizes = [len(entry) << 1 | 1 for entry in entries]
        offsets.append(numbers(0, len(entries), *sizes) if entries else b"")
    sections = [
        numbers(len(texts), *(len(t) for t in reversed(texts))) + b"".join(texts),
        numbers(1, 0, 0, 1, 1),
        b"".join([*attributes, *types]),
        b"".join(offsets),
        MODULE,
    ]
    body = b"".join(bytes([i]) + varint(len(s)) + s for i, s in enumerate(sections))
    return b"ML\xefR" + varint(0) + b"test\0" + body


STRING = numbers(A.STRING, 2)
ATTRIBUTES = {
    "integer of an index": ((A.INTEGER, 0, signed(5)), INDEX, "expected a location, got integer"),
    "integer of a float": ((A.INTEGER, 0, 2), F32, "expected an integer type, got f32"),
    "float of an integer": ((A.FLOAT, 0, 2), I32, "expected a floating-point type, got i32"),
    "five numbers": ((A.FILE_LINE_COL_RANGE, 1, 5, 1, 2, 3, 4, 5), I32, "at most 4 line and col"),
    "array of indices": ((A.DENSE_ARRAY, 0, 0, 0), INDEX, "integer or floating-point type, got in"),
    "array of nothing": ((A.DENSE_ARRAY, 0, 0, 0), (T.INTEGER, 0), "floating-point type, got i0"),
    "array cut off": ((A.DENSE_ARRAY, 0, 2, 1, 0), I32, "expected 2 elements of i32, got 1 bytes"),
    "elements of no vector": ((A.DENSE_ELEMENTS, 0, 0), I32, "vector or tensor type, got i32"),
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes(name: str) -> None:
    attribute, kind, message = ATTRIBUTES[name]
    with pytest.raises(ReadError) as caught:
        read_bytecode(file([numbers(*attribute), STRING], [numbers(*kind)]), "kernel.bin")
    assert message in caught.value.message
    assert str(caught.value.location) == "kernel.bin"


DYNAMIC = signed(-(1 << 63))
TYPES = {
    "three kinds of sign": ((T.INTEGER, 32 << 2 | 3), "invalid integer type of 32 bits, signed"),
    "integer too wide": ((T.INTEGER, 1 << 26), "invalid integer type of 16777216 bits"),
    "layout of a memref": ((T.MEMREF, 1, signed(8), 1, 1), "expected a memref layout, got string"),
    "vector of nothing": ((T.VECTOR, 1, 0, 1), "expected vector sizes of at least 1, got"),
    "vector without size": ((T.VECTOR, 1, DYNAMIC, 1), "expected vector sizes of at least 1, got"),
    "unranked memref": (
        (T.UNRANKED_MEMREF_WITH_SPACE, 1, 1),
        "expected a location, got unranked_memref",
    ),
}


@pytest.mark.parametrize("name", TYPES)
def test_types(name: str) -> None:
    kind, message = TYPES[name]
    types = [numbers(*kind), numbers(*I32)]
    with pytest.raises(ReadError) as caught:
        read_bytecode(file([numbers(A.TYPE, 0), STRING], types))
    assert message in caught.value.message


@pytest.mark.parametrize(
    "kind, sizes, data, message",
    [
        (
            T.TENSOR,
            (DYNAMIC,),
            (0,),
            "expected elements of fixed size and number, got tensor<?xi32>",
        ),
        (T.VECTOR, (signed(3),), (0, 0), "expected 4 or 12 bytes of vector<3xi32>, got 2"),
        (T.TENSOR, (0,), (0,), "expected 4 or 0 bytes of tensor<0xi32>, got 1"),
    ],
)
def test_elements(kind: T, sizes: tuple[int, ...], data: tuple[int, ...], message: str) -> None:
    elements = numbers(A.DENSE_ELEMENTS, 0, len(data)) + bytes(data)
    types = [numbers(kind, len(sizes), *sizes, 1), numbers(*I32)]
    with pytest.raises(ReadError) as caught:
        read_bytecode(file([elements, STRING], types))
    assert message in caught.value.message
