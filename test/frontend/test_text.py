"""The text reader against the traps of xDSL 0.74 (each was a wrong answer, a refusal or a hang)."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import FileLineColLoc, ModuleOp, UnknownLoc, VectorType, f32, i1
from xdsl.ir import Operation

import pallasite
from pallasite.diagnostics import (
    MOST_CHARACTERS,
    Diagnostic,
    ReadError,
    SourceLocation,
    VerifyError,
)
from pallasite.dialects import arith
from pallasite.dialects.locations import source_location
from pallasite.dialects.types import dense_array, splat, splat_value
from pallasite.dialects.verification import verify
from pallasite.frontend.text import read_text

DOUBLED = "#a0 = [1]\n" + "".join(f"#a{n + 1} = [#a{n}, #a{n}]\n" for n in range(60))
"""Sixty lines, 2^60 attributes."""


def first(module: ModuleOp) -> Operation:
    op = module.body.block.first_op
    assert op is not None
    return op


def constant(text: str) -> Any:
    op = first(read_text(f"%0 = arith.constant {text}"))
    assert isinstance(op, arith.ConstantOp)
    return op.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("dense<0xFF800000> : vector<4xf32>", -math.inf),
        ("dense<0xFF80> : vector<4xbf16>", -math.inf),
        ("dense<0x7C> : vector<4xf8E5M2>", math.inf),
        ("dense<0x3F800000> : vector<8x128xf32>", 1.0),
        ("dense<1> : vector<4xi8>", 1),
        ("dense<-1> : vector<4xi4>", -1),
        ("dense<true> : vector<4xi1>", 1),
        ("dense<0x10> : vector<4xi32>", 16),
        ('dense<"0x0000803F"> : vector<4xf32>', 1.0),
        ("dense<[2, 2, 2]> : vector<3xi32>", 2),
    ],
)
def test_splats_keep_their_value_and_one_element(text: str, value: float) -> None:
    attribute = constant(text)
    assert splat_value(attribute) == value
    assert len(attribute) == 1
    assert attribute == constant(str(attribute))


def test_splat_nan_is_the_nan_of_the_bits() -> None:
    value = splat_value(constant("dense<0x7FC00000> : vector<4xf32>"))
    assert value is not None and math.isnan(value)


def test_huge_splats_are_cheap() -> None:
    started = time.perf_counter()
    attribute = constant("dense<0.0> : vector<1048576x1048576xf32>")
    assert attribute.data.data == b"\0\0\0\0"
    assert str(attribute).startswith("dense<0.000000e+00> : vector<1048576x")
    assert time.perf_counter() - started < 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dense<[1.0, 0xFF800000]> : vector<2xf32>", np.array([1, -np.inf], np.float32)),
        ("dense<[[1, 2], [3, -4]]> : vector<2x2xi8>", np.array([[1, 2], [3, -4]], np.int8)),
        ("dense<[7, -8]> : vector<2xi4>", np.array([7, -8], np.int8)),
        ("dense<[true, false]> : vector<2xi1>", np.array([True, False])),
        ('dense<"0x0D01"> : vector<2xi4>', np.array([-3, 1], np.int8)),
        ('dense<"0x0501"> : vector<9xi1>', np.array([1, 0, 1, 0, 0, 0, 0, 0, 1], bool)),
        ('dense<"0x00FF"> : vector<2xi1>', np.array([False, True])),
        ("dense<5> : vector<2x3xi32>", np.full((2, 3), 5, np.int32)),
        ("dense<[1.5, 2.5]> : vector<2xbf16>", np.array([1.5, 2.5], np.float32)),
        ("dense<[1, 2]> : vector<2xindex>", np.array([1, 2], np.int64)),
    ],
)
def test_dense_constants_as_arrays(text: str, expected: np.ndarray[Any, Any]) -> None:
    array = dense_array(constant(text))
    assert array.dtype == expected.dtype
    np.testing.assert_array_equal(array, expected)


def test_expanded_and_held_splats_mean_the_same() -> None:
    kind = VectorType(f32, [2, 2])
    expanded = arith.ConstantOp.create(
        result_types=[kind], properties={"value": type(splat(kind, 1)).from_list(kind, [1.0])}
    ).value
    assert splat_value(expanded) == splat_value(splat(kind, 1.0)) == 1.0
    np.testing.assert_array_equal(dense_array(expanded), dense_array(splat(kind, 1.0)))
    assert str(expanded) == str(splat(kind, 1.0))


def test_vector_comparisons_and_selects_are_vectors() -> None:
    module = read_text(
        '%a = "test.op"() : () -> vector<8x128xf32>\n'
        "%m = arith.cmpf olt, %a, %a : vector<8x128xf32>\n"
        "%s = arith.select %m, %a, %a : vector<8x128xi1>, vector<8x128xf32>\n"
    )
    verify(module)
    _, compare, select = module.body.block.ops
    assert compare.results[0].type == VectorType(i1, [8, 128])
    assert select.results[0].type == VectorType(f32, [8, 128])


def test_aliases_may_follow_their_use_and_span_lines() -> None:
    module = read_text(
        '%a = "test.op"() {m = #map} : () -> !reg\n!reg = vector<\n  8x128xf32>\n'
        "#map = affine_map<(d0) -> (d0)>\n"
    )
    assert first(module).results[0].type == VectorType(f32, [8, 128])


def test_locations_nest_range_and_default_to_the_text() -> None:
    module = read_text(
        "%0 = arith.constant 0 : i32 loc(#loc1)\n"
        "%1 = arith.constant 0 : i32\n"
        "%2 = arith.constant 0 : i32 loc(unknown)\n"
        '%3 = arith.constant 0 : i32 loc(fused<#m>["f.py":1:2 to 3:4])\n'
        '#loc = loc("k.py":18:17 to :36)\n'
        '#loc1 = loc("add:"(callsite("f"(#loc) at "g"("k.py":3:1))))\n'
        '#m = "metadata"\n',
        "kernel.mlir",
    )
    named, bare, unknown, fused = module.body.block.ops
    assert source_location(named) == SourceLocation("k.py", 18, 17)
    assert source_location(bare) == SourceLocation("kernel.mlir", 2, 1)
    assert unknown.location == UnknownLoc()
    assert not isinstance(unknown.location, FileLineColLoc)
    assert source_location(fused) == SourceLocation("f.py", 1, 2)


@pytest.mark.parametrize(
    ("text", "error", "place"),
    [
        ("func.func @f(", ReadError, (1, 14)),
        ("%0 = nothing.here %1", ReadError, (1, 6)),
        ("\n  %0 = arith.constant dense<[1, 2]> : vector<3xi32>", ReadError, (2, 52)),
        ('\n%0 = arith.constant dense<"0x0g"> : vector<3xi8>', ReadError, None),
        ("%0 = arith.constant dense<0x1FFFF> : vector<2xbf16>", ReadError, (1, 27)),
        ("%0 = arith.constant dense<> : vector<2xi32>", ReadError, (1, 44)),
        ("%0 = arith.constant 0 : i32 loc(#missing)", ReadError, None),
        ("#a = #b\n#b = #a\n%0 = arith.constant 0 : i32 loc(#a)", ReadError, None),
        ("#a = 1\n#a = 2", ReadError, (2, 1)),
        (DOUBLED, ReadError, (19, 1)),
        ("%0 = arith.addi %1, %1 : i32", ReadError, (1, 17)),
        ("%0 = arith.constant " + "9" * 5000 + " : i32", ReadError, None),
        ("%0 = arith.constant 0 : i2147483648", ReadError, (1, 25)),
        ("%0 = arith.constant 300 : i8", VerifyError, None),
        ("func.func @f(%a: f32) {\n  %0 = arith.addi %a, %a : f32\n}", VerifyError, (2, 3)),
        ('"' + "a" * 100_000, ReadError, (1, 1)),
        ("/" * 100_001, ReadError, None),
        ("[" * 100_000, ReadError, (1, 1)),
        ('"test.op"() {a = ' + "[" * 100_000, ReadError, None),
        ('"test.op"() ({' * 5_000, ReadError, None),
        ("\0\1\2", ReadError, (1, 1)),
        ("", ReadError, (1, 1)),
    ],
)
def test_bad_text_is_refused_with_a_place(
    text: str, error: type[Diagnostic], place: tuple[int, int] | None
) -> None:
    started = time.perf_counter()
    with pytest.raises(error) as refused:
        read_text(text, "bad.mlir")
    assert time.perf_counter() - started < 5
    location = refused.value.location
    assert location is not None and location.file == "bad.mlir"
    if place is not None:
        assert (location.line, location.column) == place
    assert "\n" not in refused.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "func.func @f(%b: i32) {\n  %0 = arith.addi %b, %b : i32\n  func.return\n}\n"
            "func.func @g(%a: i32) {\n  %0 = arith.addi %a, %b : i32\n  func.return\n}",
            "k.mlir:6:23: error: %b is used and defined nowhere",
        ),
        (
            "func.func @f(%a: f32) {\n  func.return\n",
            "k.mlir:3:1: error: expected an operation, or '}' at the end of the region",
        ),
        (
            "func.func @f(%a: f32) {\n  %0 = arith.addi %a, %a : f32\n  func.return\n}",
            "k.mlir:2:3: error: 'arith.addi': it does not take f32",
        ),
        ("# a page\n", "k.mlir:1:1: error: expected a name or number behind the sign"),
    ],
)
def test_messages_name_the_culprit(text: str, message: str) -> None:
    with pytest.raises(Diagnostic) as refused:
        read_text(text, "k.mlir")
    assert str(refused.value).startswith(message)


def test_use_before_definition_is_refused() -> None:
    module = read_text(
        "func.func @f(%a: i32) {\n"
        "  %0 = arith.addi %1, %a : i32\n"
        "  %1 = arith.addi %a, %a : i32\n"
        "  func.return\n}",
        "late.mlir",
    )
    with pytest.raises(VerifyError) as refused:
        verify(module)
    assert refused.value.code == "use-before-definition"
    assert refused.value.location == SourceLocation("late.mlir", 2, 3)


def test_values_of_a_branch_do_not_reach_the_other() -> None:
    module = read_text(
        "func.func @f(%c: i1, %a: i32) {\n"
        "  cf.cond_br %c, ^bb1, ^bb2\n"
        "^bb1:\n  %0 = arith.addi %a, %a : i32\n  cf.br ^bb2\n"
        "^bb2:\n  %1 = arith.addi %0, %a : i32\n  func.return\n}"
    )
    with pytest.raises(VerifyError, match="before it is defined"):
        verify(module)


def test_types_are_parsed_once() -> None:
    lines = "".join(f"%{n} = arith.constant dense<0.0> : vector<8x128xf32>\n" for n in range(200))
    types = [op.results[0].type for op in read_text(lines).body.block.ops]
    assert all(t is types[0] for t in types)


def test_serialized_operations_are_read_for_upgrading() -> None:
    op = first(read_text('"stable_mosaic.tpu.sem_alloc"() : () -> i32'))
    assert op.name == "builtin.unregistered"


def test_numbers_in_lists_fit_their_type() -> None:
    text = "pallas.kernel @k grid (i = 1000000000000000000000) {}"
    with pytest.raises(ReadError, match="a number does not fit into the type of its list"):
        read_text(text)


@pytest.mark.parametrize("text", ["memref<{}xf32>", "memref<4xf32, {}>"])
def test_numbers_that_python_does_not_read(text: str) -> None:
    source = f"func.func @main(%a: {text.format('9' * 5000)}) {{ return }}"
    with pytest.raises(ReadError, match="a number has at most 4300 digits") as caught:
        read_text(source)
    assert caught.value.location is not None


@pytest.mark.parametrize(
    ("literal", "message"),
    [
        ("2.0e127 : f32", "too large for its type"),
        ("dense<[1.0, 2.0e127]> : vector<2xf32>", "too large for its type"),
        ("dense<-9223372036854775808> : vector<8xi32>", "is out of range for type i32"),
    ],
)
def test_numbers_beyond_their_type(literal: str, message: str) -> None:
    with pytest.raises(ReadError, match=message) as caught:
        read_text(f"%0 = arith.constant {literal}")
    assert "malformed" not in str(caught.value) and caught.value.location is not None


@pytest.mark.parametrize("blocks", ["", "^a: ^b:"])
def test_a_module_has_one_block(blocks: str) -> None:
    with pytest.raises(VerifyError, match="expected one block, got") as caught:
        pallasite.parse(f'"builtin.module"() ({{ {blocks} }}) : () -> ()')
    assert caught.value.location is not None


def test_characters_that_terminals_obey_are_spelt() -> None:
    with pytest.raises(ReadError) as caught:
        read_text("\x1b[2J")
    assert "\x1b" not in str(caught.value) and "\\x1b" in str(caught.value)


def test_endless_types_are_cut_short() -> None:
    endless = f"vector<{'1x' * 5000}i32>"
    text = f"func.func @main(%a: i32) {{ %b = arith.addi %a, %a : {endless}\n return }}"
    with pytest.raises(Diagnostic) as caught:
        pallasite.parse(text)
    assert len(caught.value.message) < MOST_CHARACTERS + 10 and " ... " in caught.value.message


@pytest.mark.parametrize("name", ["é", "\\C3\\A9", "a b", "\\22", "日本"])
def test_names_of_attributes_read_as_they_are_printed(name: str) -> None:
    module = pallasite.parse(f'module attributes {{"{name}" = 1 : i32}} {{}}')
    assert str(pallasite.parse(str(module))) == str(module)


def test_names_of_attributes_are_text() -> None:
    with pytest.raises(ReadError, match="expected UTF-8 in a name"):
        pallasite.parse(r'module attributes {"\FF" = 1 : i32} {}')
