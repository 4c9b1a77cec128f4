"""The reader: real kernels, and bytes that are no module."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from pallasite.diagnostics import ReadError
from pallasite.dialects.locations import source_location
from pallasite.frontend import read
from pallasite.frontend.bytecode_encode import varint
from pallasite.frontend.bytecode_format import ALIGNED, PADDING
from pallasite.frontend.bytecode_reader import MAX_REGION_NESTING, read_bytecode
from pallasite.frontend.bytecode_writer import write_bytecode

Body = Callable[[str], bytes]


def _facts(op: Operation) -> tuple[object, ...]:
    """What structural equivalence leaves out."""
    return (
        op.name,
        op.result_types,
        [[a.type for a in b.args] for r in op.regions for b in r.blocks],
    )


def test_kernel_equals_its_text(kernel: str, body: Body, data: Path) -> None:
    module = read(body(kernel))
    text = read((data / f"{kernel}.mosaic.mlir").read_text())
    module.verify()
    assert module.is_structurally_equivalent(text)
    assert [_facts(op) for op in module.walk()] == [_facts(op) for op in text.walk()]
    assert [source_location(op) for op in module.walk()] == [
        source_location(op) for op in text.walk()
    ]


@pytest.mark.jax
def test_kernel_equals_what_mlir_reads(kernel: str, body: Body, jaxlib: Any) -> None:
    text = jaxlib.generic(jaxlib.parse(body(kernel)))
    assert jaxlib.generic(jaxlib.parse(str(read_bytecode(body(kernel))))) == text


def test_operations_know_their_source_line(body: Body) -> None:
    module = read(body("argmax_ax1_f32"))
    locations = {op.name: source_location(op) for op in module.walk()}
    assert str(locations["tpu.reduce_index"]) == "kernels.py:236:24"
    assert str(locations["tpu.vector_store"]) == "kernels.py:236:15"


def test_every_truncation_is_a_read_error(body: Body) -> None:
    whole = body("argmax_ax1_f32")
    for size in range(4, len(whole)):
        with pytest.raises(ReadError) as caught:
            read(whole[:size], "kernel.bin")
        assert caught.value.location is not None


@pytest.mark.parametrize("seed", range(4))
def test_random_corruption_is_a_diagnostic(seed: int, kernel: str, body: Body) -> None:
    generator = random.Random(f"{kernel} {seed}")
    whole = body(kernel)
    for _ in range(20):
        corrupt = bytearray(whole)
        for _ in range(generator.choice((1, 1, 2, 5))):
            corrupt[generator.randrange(4, len(corrupt))] = generator.randrange(256)
        try:
            read(bytes(corrupt)).verify()
        except (ReadError, VerifyException):
            pass


def _file(*, version: int = 0, strings: bytes = b"", table: bytes = b"", ir: bytes = b"") -> bytes:
    """A file with the string "builtin" and one attribute entry `table` of that dialect."""
    names = b"builtin\0module\0" + strings
    texts = [part + b"\0" for part in names.split(b"\0")[:-1]]
    sections = [
        varint(len(texts)) + b"".join(varint(len(t)) for t in reversed(texts)) + b"".join(texts),
        varint(1) + varint(0) + varint(0) + varint(1) + varint(1),
        table,
        varint(1) + varint(0) + varint(0) + varint(1) + varint(len(table) << 1 | 1),
        ir,
    ]
    body = b"".join(bytes([i]) + varint(len(s)) + s for i, s in enumerate(sections))
    return b"ML\xefR" + varint(version) + b"test\0" + body


MODULE = bytes([5, 1, 0x10, 1, 7, 3, 1, 1])
"""One module whose location is attribute 0, with one empty block."""
UNKNOWN = varint(15)


def test_smallest_module() -> None:
    module = read_bytecode(_file(table=UNKNOWN, ir=MODULE))
    assert isinstance(module, ModuleOp) and not list(module.ops)


def _aligned(alignment: int = 16, padding: int = PADDING) -> bytes:
    """The smallest module, whose last section begins behind padding."""
    whole = _file(table=UNKNOWN, ir=MODULE)
    header = bytes([4 | ALIGNED, *varint(len(MODULE)), *varint(alignment)])
    before = whole[: -len(MODULE) - 2] + header
    return before + bytes([padding]) * (-len(before) % 16) + MODULE


def test_sections_may_be_aligned() -> None:
    assert isinstance(read_bytecode(_aligned()), ModuleOp)
    for data, message in (
        (_aligned(alignment=12), "expected a power of two as alignment, got 12"),
        (_aligned(padding=0), "expected padding"),
    ):
        with pytest.raises(ReadError, match=message):
            read_bytecode(data)


@pytest.mark.parametrize("numbers, line, column", [((), 0, 0), ((7,), 7, 0), ((7, 3, 9, 1), 7, 3)])
def test_range_locations_keep_their_start(numbers: tuple[int, ...], line: int, column: int) -> None:
    data = _with_file_range(numbers)
    location = read_bytecode(data).location
    assert isinstance(location, FileLineColLoc)
    assert (location.line.data, location.column.data) == (line, column)


def _with_file_range(numbers: tuple[int, ...]) -> bytes:
    """A module located by attribute 0, a range in the file that attribute 1 names."""
    location = varint(22) + varint(1) + varint(len(numbers)) + b"".join(map(varint, numbers))
    file_name = varint(2) + varint(0)
    sizes = varint(len(location) << 1 | 1) + varint(len(file_name) << 1 | 1)
    data = bytearray(_file(table=location + file_name, ir=MODULE))
    old = varint(1) + varint(0) + varint(0) + varint(1)
    old += varint(len(location + file_name) << 1 | 1)
    start = data.rindex(bytes([3]) + varint(len(old)) + old)
    new = varint(2) + varint(0) + varint(0) + varint(2) + sizes
    data[start : start + 2 + len(old)] = bytes([3]) + varint(len(new)) + new
    return bytes(data)


@pytest.mark.parametrize(
    "data, message",
    [
        (_file(version=6), "expected MLIR bytecode version 0, got 6 at byte 4"),
        (b"ML\xefR\x01", "expected a zero byte that ends the producer at byte 5"),
        (_file(table=varint(99), ir=MODULE), "builtin attribute code 99 has no counterpart here"),
        (_file(table=varint(16), ir=MODULE), "attribute code 16 (dense_resource) has no"),
        (_file(table=varint(15) + b"\0", ir=MODULE), "1 bytes left over after"),
        (_file(table=varint(7), ir=MODULE), "expected a location, got unit"),
        (_file(table=varint(14) + varint(0) + varint(0), ir=MODULE), "contains itself"),
        (_file(table=UNKNOWN, ir=MODULE + b"\0"), "1 bytes left over after the module"),
        (_file(table=UNKNOWN, ir=b"\x01"), "expected one builtin.module at the top"),
        (_file(table=UNKNOWN, ir=MODULE[:-1]), "expected an integer, got the end"),
        (_file(table=UNKNOWN, ir=b"\x05\x01\x40\x01"), "got encoding mask 0x40"),
        (_file(table=UNKNOWN, ir=b"\x05\x09"), "expected the index of one of 1 operation names"),
        (_file(table=UNKNOWN, ir=b"\x05\x01\x04\x01\x03\x01"), "one of 0 values, got 0"),
        (_file(table=UNKNOWN, ir=b"\x05\x01\x10\x01\x07\xfe\x01"), "blocks, got"),
        (_file(table=UNKNOWN, strings=b"\xff\0", ir=MODULE), "expected UTF-8 in a string"),
    ],
)
def test_corruption_names_what_was_expected(data: bytes, message: str) -> None:
    with pytest.raises(ReadError) as caught:
        read_bytecode(data, "kernel.bin")
    assert message in caught.value.message
    assert str(caught.value.location) == "kernel.bin"


def test_text_attributes_that_do_not_parse_are_named(body: Body) -> None:
    broken = body("argmax_ax1_f32").replace(b"#tpu.core_type<tc>", b"#tpu.core_type<tx>")
    with pytest.raises(ReadError) as caught:
        read_bytecode(broken)
    assert "cannot parse attribute '#tpu.core_type<tx>'" in caught.value.message


def test_function_keeps_its_attributes(body: Body) -> None:
    module = read(body("flash_bf16"))
    func = next(op for op in module.walk() if isinstance(op, FuncOp))
    assert "iteration_bounds" in func.attributes and "sym_name" in func.properties


def test_regions_nest_up_to_a_limit() -> None:
    def nested(depth: int) -> bytes:
        module = ModuleOp([])
        for _ in range(depth - 1):
            module = ModuleOp([module])
        return write_bytecode(module)

    assert len(list(read_bytecode(nested(MAX_REGION_NESTING)).walk())) == MAX_REGION_NESTING
    with pytest.raises(ReadError, match=rf"nest more than {MAX_REGION_NESTING} deep at byte \d+"):
        read_bytecode(nested(MAX_REGION_NESTING + 1))
