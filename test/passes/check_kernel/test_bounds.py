"""Accesses that certainly leave their refs are warned of, where a form could not tell."""

from __future__ import annotations

import warnings

import pytest

from pallasite import api
from pallasite.diagnostics import KernelWarning
from pallasite.frontend import read

from ..checking import kernel, memref

SHAPE = "72x50xf32"


def told(body: str) -> list[str]:
    text = kernel(f"%a: {memref(SHAPE)}, %o: {memref(SHAPE)}", body)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        api.lower(read(text), "mosaic")
    return [str(w.message) for w in caught if isinstance(w.message, KernelWarning)]


def load(index: str) -> str:
    return f"%x = vector.load %a[%c0, {index}] : {memref(SHAPE)}, vector<8x50xf32>\n"


def stored(index: str, mask: str = "") -> str:
    return f"""
    {load("%c0")}
    %at = arith.constant {index} : index
    %five = arith.constant dense<5> : vector<8x50xi32>
    %row = tpu.iota {{dimensions = array<i32: 0>}} : vector<8x50xi32>
    %m = arith.cmpi slt, %row, %five : vector<8x50xi32>
    tpu.vector_store %o[%at, %c0], %x {mask} {{strides = array<i32>}} :
      {memref(SHAPE)}, vector<8x50xf32>, {"vector<8x50xi1>" if mask else ""}"""


def test_a_store_behind_the_last_row():
    (message,) = told(stored("66"))
    assert "store to positions 66 to 73 of dimension 0, of which the ref has 72" in message
    assert "[outside-ref]" in message


@pytest.mark.parametrize("body", [stored("64"), stored("66", "masked %m")])
def test_accesses_inside_and_masked_ones(body: str):
    assert told(body) == []


def test_a_load_of_padding():
    body = "%at = arith.constant 16 : index\n" + load("%at")
    body += f"vector.store %x, %o[%c0, %c0] : {memref(SHAPE)}, vector<8x50xf32>"
    (message,) = told(body)
    assert "load of positions 16 to 65 of dimension 1, of which the ref has 50" in message


def test_a_single_row_behind_the_last_one():
    body = "%at = arith.constant 72 : index\n"
    body += f"%x = vector.load %a[%at, %c0] : {memref(SHAPE)}, vector<1x50xf32>\n"
    body += f"vector.store %x, %o[%c0, %c0] : {memref(SHAPE)}, vector<1x50xf32>"
    (message,) = told(body)
    assert "load of position 72 of dimension 0, of which the ref has 72" in message


def test_places_below_zero_are_counted_from_the_start():
    (message,) = told(stored("-8"))
    assert "store to positions -8 to -1 of dimension 0" in message
    assert "nothing is counted from the end: write 64 for -8" in message
