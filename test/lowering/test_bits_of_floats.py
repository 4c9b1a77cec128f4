"""bf16 compared with a number by its bits: as floats compare, NaN, zeros, infinities included."""

from __future__ import annotations

from collections import Counter

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import pallasite

from .memory_kernels import kernel

EVERY = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16).reshape(512, 128)
"""Every bf16 that there is."""
COMPARES = {
    "oeq": np.equal, "one": np.not_equal, "ogt": np.greater, "oge": np.greater_equal,
    "olt": np.less, "ole": np.less_equal,
}  # fmt: skip


def lowered(predicate: str, number: str, swapped: bool, target: str = "v5e") -> ModuleOp:
    """A kernel that keeps what compares so with `number`, and has 7 elsewhere, in form `vreg`."""
    operands = "%n, %x" if swapped else "%x, %n"
    body = f"""%x = vector.load %a[%z, %z] : A, vector<512x128xbf16>
    %n = arith.constant dense<{number}> : vector<512x128xbf16>
    %m = arith.cmpf {predicate}, {operands} : vector<512x128xbf16>
    %e = arith.constant dense<7.0> : vector<512x128xbf16>
    %r = arith.select %m, %x, %e : vector<512x128xi1>, vector<512x128xbf16>
    tpu.vector_store %b[%z, %z], %r {{strides = array<i32>}} : B, vector<512x128xbf16>,"""
    return pallasite.lower(kernel(["512x128xbf16"] * 2, body), form="vreg", target=target)


@pytest.mark.parametrize("predicate", COMPARES)
@pytest.mark.parametrize("number", ["0.0", "-0.0", "2.5", "-3.0", "0x7F80", "0xFF80"])
@pytest.mark.parametrize("swapped", [False, True])
def test_every_number_compares_as_a_float(predicate: str, number: str, swapped: bool) -> None:
    (actual,) = pallasite.run(
        lowered(predicate, number, swapped), [EVERY], form="vreg", target="v5e"
    )
    bits = np.uint16(int(number, 16)).view(ml_dtypes.bfloat16) if "x" in number else float(number)
    x, n = EVERY.astype(np.float32), np.float32(bits)
    mask = COMPARES[predicate](n, x) if swapped else COMPARES[predicate](x, n)
    expected = np.where(mask, EVERY, ml_dtypes.bfloat16(7))
    assert np.array_equal(
        np.asarray(actual).view(np.uint16)[~np.isnan(x)], expected.view(np.uint16)[~np.isnan(x)]
    )
    assert np.array_equal(np.isnan(np.asarray(actual).astype(np.float32)), np.isnan(x) & mask)


@pytest.mark.parametrize("predicate", ["oeq", "one"])
def test_nothing_is_unpacked(predicate: str) -> None:
    kinds = Counter(op.name for op in lowered(predicate, "1.0", swapped=False).walk())
    assert not kinds["tpu.unpack_subelements"] and not kinds["tpu.pack_vmsk"]
    assert (kinds["tpu.bitcast_vreg"], kinds["arith.cmpi"], kinds["arith.andi"]) == (32, 32, 0)


def test_orders_are_found_in_f32() -> None:
    kinds = Counter(op.name for op in lowered("ogt", "1.0", swapped=False).walk())
    assert kinds["arith.cmpf"] == 64
