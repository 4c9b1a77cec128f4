"""Verification costs no more than a few walks over the module."""

from __future__ import annotations

import re

import pytest
from xdsl.ir import Operation
from xdsl.traits import SymbolTable

import pallasite
from pallasite.diagnostics import VerifyError
from pallasite.dialects import verification


def test_callees_are_found_by_one_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    walks: list[Operation] = []
    symbols_in = verification.symbols_in

    def counted(table: Operation) -> dict[str, Operation]:
        walks.append(table)
        return symbols_in(table)

    def refused(*_: object) -> None:
        raise AssertionError("a walk for a single symbol")

    monkeypatch.setattr(verification, "symbols_in", counted)
    monkeypatch.setattr(SymbolTable, "lookup_symbol", refused)
    functions = "\n".join(f"func.func @f{n}() {{ func.return }}" for n in range(20))
    calls = "\n".join(f"func.call @f{n}() : () -> ()" for n in range(20))
    module = pallasite.parse(f"{functions} func.func @main() {{ {calls} func.return }}")
    assert walks == [module]


VMEM = "#tpu.memory_space<vmem>"
REF = f"memref<8x128xf32, {VMEM}>"
LOAD = f"tpu.load %m[%i, %i] sublanes [true] {{steps}} : {REF}, vector<2x1x8x128xf32>"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("vector<32x0xi32>", "vectors have positive sizes, got vector<32x0xi32>"),
        (f"memref<2x8x128xf32, #tpu.tiled<(128),[1]>, {VMEM}>", "expected 3 strides in"),
        ("memref<2x!tpu.semaphore, #tpu.tiled<,[]>>", "expected 1 strides in"),
        (f"memref<8x128xf32, #tpu.tiled<(0,128),[1,1]>, {VMEM}>", "tiles have positive sizes"),
        (f"memref<8x128xf32, #tpu.tiled<(8,-128),[1,1]>, {VMEM}>", "tiles have positive sizes"),
        (f"memref<8x128xf32, #tpu.tiled<(2,128)(4,1),[1,1]>, {VMEM}>", "whole smaller ones"),
        (f"memref<8x128xf32, #tpu.tiled<(8,128)(3,1),[1,1]>, {VMEM}>", "whole smaller ones"),
        (f"memref<8x128xf32, #tpu.tiled<(1,8,128),[1,1]>, {VMEM}>", "as many dimensions"),
        ("vector<8x128x!tpu.semaphore>", "vectors have elements that are numbers"),
    ],
)
def test_types_of_values(argument: str, message: str) -> None:
    with pytest.raises(VerifyError, match=re.escape(message)) as caught:
        pallasite.parse(f"func.func @f(%a: {argument}) {{ func.return }}")
    assert caught.value.location is not None


def test_a_broken_type_is_told_where_a_verifier_stumbles_on_it() -> None:
    ref = f"memref<16x256x1xf32, #tpu.tiled<(1,128),[2,1]>, {VMEM}>"
    flat = f"memref<32x128xf32, #tpu.tiled<(1,128),[1,1]>, {VMEM}>"
    body = f"%r = tpu.memref_reshape %a : {ref} -> {flat}"
    with pytest.raises(VerifyError, match="expected 3 strides in"):
        pallasite.parse(f"func.func @f(%a: {ref}) {{ {body} func.return }}")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('%r = "tpu.region"() ({ "tpu.yield"(%i) : (index) -> () }) : () -> i32', "to yield (i32)"),
        ('"tpu.region"() ({ "tpu.yield"(%i) : (index) -> () }) : () -> ()', "got (index)"),
        ('%r = "tpu.region"() ({}) : () -> i32', "to yield (i32), got ()"),
        (
            '"tpu.trace"() <{message = "a", level = 1 : i32}> ({ "tpu.yield"(%i) : (index) -> () })'
            " : () -> ()",
            "to yield (), got (index)",
        ),
        (f"%r = tpu.load %m[%i] sublanes [true] : {REF}, vector<8x128xf32>", "expected 2 indices"),
        (
            f"tpu.store %m[%i], %v sublanes [true] : {REF}, vector<8x128xf32>,",
            "expected 2 indices",
        ),
        (f"%r = {LOAD.format(steps='{grid.steps = 8 : i64}')}", "expected grid.steps as array"),
        (
            f"%r = {LOAD.format(steps='{grid.steps = array<i64: 8>}')}",
            "2 of each, got 2 and 1",
        ),
        (f"%r = vector.load %m[%i, %i] : {REF}, vector<2x8x128xf32>", "at most the rank"),
        (f"vector.store %w, %m[%i, %i] : {REF}, vector<2x8x128xf32>", "at most the rank"),
        (
            f"tpu.vector_store %m[%i, %i], %w {{strides = array<i32>}} : {REF}, "
            "vector<2x8x128xf32>,",
            "at most the rank",
        ),
        (
            "%r = tpu.unpack_subelements %v, 0 {pack_format = #tpu.pack_format<compressed>}"
            " : vector<8x128xf32> -> vector<8x128xf32>",
            "expected a source of narrower elements",
        ),
    ],
)
def test_what_would_have_no_meaning(body: str, message: str) -> None:
    arguments = f"%m: {REF}, %v: vector<8x128xf32>, %w: vector<2x8x128xf32>, %i: index"
    with pytest.raises(VerifyError, match=re.escape(message)):
        pallasite.parse(f"func.func @f({arguments}) {{\n{body}\nfunc.return }}")


def test_names_that_are_defined_out_of_sight() -> None:
    text = """func.func @f(%m: memref<4xi32>) {
  %a = arith.constant 0 : i32
  scf.for %i = %a to %n step %a : i32 {
    %n = arith.constant 4 : i32
    scf.yield
  }
  func.return
}"""
    with pytest.raises(VerifyError, match="operand 1 is used before it is defined"):
        pallasite.parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '"func.func"() <{function_type = i4, sym_name = "f"}> ({ func.return }) : () -> ()',
            "'func.func': expected a function type as function_type, got i4",
        ),
        (
            '"func.func"() <{sym_name = "f"}> ({ func.return }) : () -> ()',
            "'func.func': expected a function type as function_type, got None",
        ),
        (
            "func.func @f(%m: memref<4xi32>) {\n"
            '%x = "memref.load"(%m) : (memref<4xi32>) -> i32\nfunc.return }',
            "'memref.load': expected an index for each dimension",
        ),
    ],
)
def test_what_verifiers_stumble_on(text: str, message: str) -> None:
    with pytest.raises(VerifyError, match=re.escape(message)):
        pallasite.parse(text)


def test_what_has_no_place_is_put_down_to_what_is_inside_it() -> None:
    with pytest.raises(VerifyError, match="terminates block") as caught:
        pallasite.parse("""
          func.func @f() {
            "tpu.region"() ({
              %a = arith.constant 0 : index loc("kernel.py":3:2)
              "tpu.yield"() : () -> () loc("kernel.py":4:2)
            }) : () -> () loc(unknown)
          } loc(unknown)""")
    assert str(caught.value.location) == "kernel.py:3:2"


def test_kinds_of_attributes_have_their_names_without_pythons_modules() -> None:
    kernel = '"pallas.kernel"() <{operands = 1 : i64, sym_name = "k"}> ({pallas.yield}) : () -> ()'
    with pytest.raises(VerifyError, match="expected ArrayAttr attribute, but got IntegerAttr"):
        pallasite.parse(kernel)
