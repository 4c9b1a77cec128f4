"""Indices that are cast to narrow integers and back are cut, known to the compiler or not."""

from __future__ import annotations

import numpy as np
import pytest

import pallasite

from .memory_kernels import kernel


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("number", [300, -3, 70000])
@pytest.mark.parametrize("narrow", [np.int8, np.int16, np.int32])
def test_the_low_bits_come_back(narrow: type[np.signedinteger], number: int, known: bool) -> None:
    words, element = "vector<8x128xi32>", f"i{np.iinfo(narrow).bits}"
    given = (
        f"arith.constant {number} : i32" if known else f"vector.extract %x[0, 0] : i32 from {words}"
    )
    module = kernel(
        ["8x128xi32", "8x128xi32"],
        f"""%x = vector.load %a[%z, %z] : A, {words}
        %n = {given}
        %i = arith.index_cast %n : i32 to index
        %cut = arith.index_cast %i : index to {element}
        %j = arith.index_cast %cut : {element} to index
        %k = arith.index_cast %j : index to i32
        %r = vector.broadcast %k : i32 to {words}
        tpu.vector_store %b[%z, %z], %r {{strides = array<i32>}} : B, {words},""",
    )
    for form in ("mosaic", "vreg"):
        (found,) = pallasite.run(
            module, [np.full((8, 128), number, np.int32)], form=form, target="v5e"
        )
        assert np.asarray(found)[0, 0] == np.int64(number).astype(narrow), form


@pytest.mark.parametrize(
    "grown", ["addi %i, %one", "muli %i, %two", "shli %i, %one", "maxsi %i, %one"]
)
def test_an_index_beyond_words_is_cut_by_a_cast(grown: str) -> None:
    words = "vector<8x128xi32>"
    module = kernel(
        ["8x128xi32", "8x128xi32"],
        f"""%x = vector.load %a[%z, %z] : A, {words}
        %n = vector.extract %x[0, 0] : i32 from {words}
        %one = arith.constant 1 : index
        %two = arith.constant 2 : index
        %i = arith.index_cast %n : i32 to index
        %j = arith.{grown} : index
        %cut = arith.index_cast %j : index to i32
        %k = arith.index_cast %cut : i32 to index
        %positive = arith.cmpi sgt, %k, %z : index
        %p = arith.extui %positive : i1 to i32
        %r = vector.broadcast %p : i32 to {words}
        tpu.vector_store %b[%z, %z], %r {{strides = array<i32>}} : B, {words},""",
    )
    for form in ("mosaic", "vreg"):
        (found,) = pallasite.run(
            module, [np.full((8, 128), 2**31 - 1, np.int32)], form=form, target="v5e"
        )
        assert np.asarray(found)[0, 0] == (grown[:4] == "maxs"), form
