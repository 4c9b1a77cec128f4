"""Calls of functions, and regions that stand alone, in kernels: one answer in every form."""

from __future__ import annotations

import numpy as np
import pytest

import pallasite
from pallasite.diagnostics import Unsupported

REF = "memref<8x128xf32, #tpu.memory_space<vmem>>"
FORMS = ("mosaic", "dma", "tiles", "vreg")
DOUBLED = """
      %d = arith.addf %a, %a : vector<8x128xf32>
      scf.yield %d : vector<8x128xf32>"""
JUMPS = """
      cf.br ^next(%a : vector<8x128xf32>)
    ^next(%d: vector<8x128xf32>):
      scf.yield %d : vector<8x128xf32>"""
CALL = "func.call @twice(%a) : (vector<8x128xf32>) -> vector<8x128xf32>"


TWICE = """
  func.func private @twice(%a: vector<8x128xf32>) -> vector<8x128xf32> {
    %b = arith.addf %a, %a : vector<8x128xf32>
    return %b : vector<8x128xf32>
  }"""


def result(value: str, form: str, function: str = TWICE) -> np.ndarray:
    """What a kernel gives that stores `value` of `%a`, which it has loaded."""
    module = f"""module attributes {{stable_mosaic.version = 11 : i64}} {{
  func.func @main(%x: {REF}, %o: {REF}) attributes {{dimension_semantics = [],
      scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>}} {{
    %c0 = arith.constant 0 : index
    %a = vector.load %x[%c0, %c0] : {REF}, vector<8x128xf32>
    %v = {value}
    tpu.vector_store %o[%c0, %c0], %v {{strides = array<i32>}} : {REF}, vector<8x128xf32>,
    return
  }}
{function}}}"""
    shape = (8, 128)
    (out,) = pallasite.run(
        pallasite.parse(module), [np.ones(shape, np.float32)], form=form,
        results=[(shape, "float32")],
    )  # fmt: skip
    return out


@pytest.mark.parametrize("form", ["tiles", "vreg"])
def test_a_function_of_vectors_that_nobody_calls(form: str) -> None:
    with pytest.raises(Unsupported, match="@twice takes vectors") as caught:
        result("arith.negf %a : vector<8x128xf32>", form)
    assert caught.value.code == "function-call"


def region(body: str) -> str:
    return f"scf.execute_region -> vector<8x128xf32> {{{body}\n    }}"


@pytest.mark.parametrize("form", FORMS)
def test_a_region_of_one_block_is_what_is_in_it(form: str) -> None:
    assert (result(region(DOUBLED), form, "") == 2.0).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("value", "code", "instead"),
    [
        (region(JUMPS), "unstructured-region", "scf operations"),
        (CALL, "function-call", "in the place of the call"),
    ],
)
def test_what_is_refused_is_so_in_every_form(
    value: str, code: str, instead: str, form: str
) -> None:
    with pytest.raises(Unsupported, match=instead) as caught:
        result(value, form)
    assert caught.value.code == code
