"""The writer: our reader reads back the same module, and so does MLIR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from xdsl.dialects.builtin import (
    ArrayAttr,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    ModuleOp,
    NoneAttr,
    StringAttr,
)
from xdsl.parser import Parser

from pallasite.diagnostics import ReadError
from pallasite.dialects import make_context
from pallasite.frontend import expansion
from pallasite.frontend.bytecode_cursor import Cursor
from pallasite.frontend.bytecode_encode import signed, varint
from pallasite.frontend.bytecode_reader import read_bytecode
from pallasite.frontend.bytecode_writer import write_bytecode
from pallasite.frontend.versions import serialize, upgrade

Body = Callable[[str], bytes]

EVERY_ENCODING = """
"builtin.module"() ({
  %0 = "x.constants"() {
    array = [1 : i32, "text", unit, @symbol, @outer::@inner], dictionary = {a = f32, b = 1 : i1},
    small = -3 : i4, byte = -128 : i8, unsigned = 255 : ui8, signed = -1 : si32, big = -1 : i64,
    index = -7 : index, nothing = 0 : i0, wide = 1208925819614629174706177 : i100, truth = true,
    falsehood = false,
    half = 1.5 : bf16, tiny = 0.5 : f8E4M3FN, infinity = 0xFF800000 : f32, double = 0.1 : f64,
    dense_array = array<i32: 1, -2>, booleans = array<i1: true, false>, empty = array<i64>,
    floats = array<f32: 1.0, 2.0>, splat = dense<2.0> : vector<8x128xf32>,
    nibbles = dense<[-1, 7]> : vector<2xi4>, mask = dense<[true, false, true]> : vector<3xi1>,
    long = dense<[true, false, false, false, false, false, false, false, true]> : vector<9xi1>,
    all = dense<true> : vector<4xi1>, none = dense<false> : vector<16xi1>,
    one = dense<true> : vector<1xi1>,
    indices = dense<[0, 5]> : tensor<2xindex>, map = affine_map<(d0, d1) -> (d1)>,
    space = #tpu.memory_space<vmem>, type = (i32, vector<2xf32>) -> (index, none),
    more = [complex<f32>, tuple<i1, f16>, tensor<?x3xbf16>, memref<2x?xf32>,
            memref<4xf32, affine_map<(d0) -> (d0 + 1)>, #tpu.memory_space<smem>>,
            memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>, f6E2M3FN,
            tensor<4xf32, "dense">]
  } : () -> i32
  "x.loop"(%0) ({
  ^bb0(%1: i32, %2: f32):
    "x.branch"(%1)[^bb2] : (i32) -> ()
  ^bb1:
    "x.use"(%4) : (index) -> ()
  ^bb2:
    %3, %4 = "x.two"(%0, %2) : (i32, f32) -> (f32, index)
    "x.branch"()[^bb1] : () -> ()
  }, {
  }) : (i32) -> ()
}) {x.discardable} : () -> ()
"""


def _module(text: str) -> ModuleOp:
    return Parser(make_context(allow_unregistered=True), text).parse_module()


@pytest.mark.parametrize("value", [0, 1, 127, 128, 2**14 - 1, 2**14, 2**56 - 1, 2**56, 2**64 - 1])
def test_varint_is_read_back(value: int) -> None:
    encoded = varint(value)
    assert Cursor(encoded, "x").varint() == value
    assert len(encoded) == min(9, max(1, -(-value.bit_length() // 7)))


@pytest.mark.parametrize("value", [0, -1, 1, 63, -64, 64, 2**63 - 1, -(2**63)])
def test_signed_varint_is_read_back(value: int) -> None:
    assert Cursor(signed(value), "x").signed() == value


def test_every_encoding_is_read_back() -> None:
    module = _module(EVERY_ENCODING)
    for op in module.walk():
        op.attributes = dict(sorted(op.attributes.items()))
    assert str(read_bytecode(write_bytecode(module))) == str(module)


def test_attributes_that_share_too_much_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = "[[[1], [1]], [[1], [1]]]"
    shared = f'"builtin.module"() ({{}}) {{a = [{pair}, {pair}]}} : () -> ()'
    encoded = write_bytecode(_module(shared))
    read_bytecode(encoded)
    monkeypatch.setattr(expansion, "MOST_PARTS", 20)
    with pytest.raises(ReadError) as refused:
        read_bytecode(encoded)
    assert refused.value.code == "attribute-too-large"


@pytest.mark.jax
def test_mlir_reads_every_encoding(jaxlib: Any) -> None:
    written = jaxlib.parse(write_bytecode(_module(EVERY_ENCODING)))
    assert jaxlib.generic(written) == jaxlib.generic(jaxlib.parse(EVERY_ENCODING))


def test_fused_locations_are_read_back() -> None:
    module = _module("module {}")
    parts = ArrayAttr([FileLineColLoc(StringAttr("f.py"), IntAttr(n), IntAttr(1)) for n in (3, 5)])
    for metadata in (NoneAttr(), StringAttr("why")):
        module.location = FusedLoc(parts, metadata)
        assert read_bytecode(write_bytecode(module)).location == module.location


def test_kernel_is_read_back(kernel: str, body: Body) -> None:
    module = read_bytecode(body(kernel))
    again = read_bytecode(write_bytecode(module))
    assert str(again) == str(module)
    assert [op.location for op in again.walk()] == [op.location for op in module.walk()]


@pytest.mark.jax
def test_mlir_reads_the_same_kernel(kernel: str, body: Body, jaxlib: Any) -> None:
    original = body(kernel)
    written = write_bytecode(read_bytecode(original))
    expected = jaxlib.generic(jaxlib.parse(original), locations=True)
    assert jaxlib.generic(jaxlib.parse(written), locations=True) == expected


@pytest.mark.jax
def test_jaxlib_deserializes_what_we_serialize(kernel: str, body: Body, jaxlib: Any) -> None:
    original = body(kernel)
    module = read_bytecode(original)
    upgrade(module)
    written = write_bytecode(serialize(module))
    expected = jaxlib.generic(jaxlib.deserialize(original), locations=True)
    assert jaxlib.generic(jaxlib.deserialize(written), locations=True) == expected
