"""What is computed of the same registers in the same way is computed once in a block."""

from __future__ import annotations

from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import pallasite
from pallasite.dialects.walking import operations

from .memory_kernels import kernel

TARGETS = ("v5e", "v6e")
FOUR = "4x16x128xbf16"
ROTATED = "4x8x128xf32"


def _lowered(refs: list[str], text: str, target: str) -> tuple[ModuleOp, Counter[str]]:
    module = pallasite.lower(kernel(refs, text), form="vreg", target=target)
    return module, Counter(op.name for op in operations(module))


def _run(module: ModuleOp, given: list[Any], target: str) -> Any:
    (result,) = pallasite.run(module, given, form="vreg", target=target)
    return result


def test_widened_parts_and_the_whole() -> None:
    """One matrix is widened to be negated, and then all of them to be added: on v5e, which adds
    bf16 in f32, each register is unpacked once, apart from what is packed in between."""
    text = f"""%x = vector.load %a[%z, %z, %z] : A, vector<{FOUR}>
    %last = vector.extract_strided_slice %x {{offsets = [3, 0, 0], sizes = [1, 16, 128],
      strides = [1, 1, 1]}} : vector<{FOUR}> to vector<1x16x128xbf16>
    %rest = vector.extract_strided_slice %x {{offsets = [0, 0, 0], sizes = [3, 16, 128],
      strides = [1, 1, 1]}} : vector<{FOUR}> to vector<3x16x128xbf16>
    %doubled = arith.addf %last, %last : vector<1x16x128xbf16>
    %turned = tpu.concatenate %doubled, %rest in 0
      : vector<1x16x128xbf16>, vector<3x16x128xbf16> -> vector<{FOUR}>
    %r = arith.addf %turned, %x : vector<{FOUR}>
    tpu.vector_store %b[%z, %z, %z], %r {{strides = array<i32>}} : B, vector<{FOUR}>,"""
    module, kinds = _lowered([FOUR, FOUR], text, "v5e")
    # Four registers and the doubled one, two halves of each.
    assert kinds["tpu.unpack_subelements"] == 10
    x = (np.arange(4 * 16 * 128).reshape(4, 16, 128) % 61 - 30).astype(ml_dtypes.bfloat16)
    expected = np.concatenate([2 * x[3:], x[:3]]) + x
    assert np.array_equal(_run(module, [x], "v5e"), expected)


@pytest.mark.parametrize("target", TARGETS)
def test_only_the_same_amount(target: str) -> None:
    """Rotations of the first matrix by 1 are shared, the one by 2 is not."""
    text = f"""%x = vector.load %a[%z, %z, %z] : A, vector<{ROTATED}>
    %one = arith.constant 1 : i32
    %two = arith.constant 2 : i32
    %first = vector.extract_strided_slice %x {{offsets = [0, 0, 0], sizes = [1, 8, 128],
      strides = [1, 1, 1]}} : vector<{ROTATED}> to vector<1x8x128xf32>
    %p = tpu.dynamic_rotate %first by %one dim 2 : vector<1x8x128xf32>, i32 -> vector<1x8x128xf32>
    %q = tpu.dynamic_rotate %first by %two dim 2 : vector<1x8x128xf32>, i32 -> vector<1x8x128xf32>
    %pq = arith.addf %p, %q : vector<1x8x128xf32>
    %all = vector.broadcast %pq : vector<1x8x128xf32> to vector<{ROTATED}>
    %y = tpu.dynamic_rotate %x by %one dim 2 : vector<{ROTATED}>, i32 -> vector<{ROTATED}>
    %r = arith.addf %all, %y : vector<{ROTATED}>
    tpu.vector_store %b[%z, %z, %z], %r {{strides = array<i32>}} : B, vector<{ROTATED}>,"""
    module, kinds = _lowered([ROTATED, ROTATED], text, target)
    assert kinds["tpu.dynamic_rotate"] == 5
    x = np.arange(4 * 8 * 128, dtype=np.float32).reshape(4, 8, 128)
    expected = np.roll(x[:1], 1, 2) + np.roll(x[:1], 2, 2) + np.roll(x, 1, 2)
    assert np.array_equal(_run(module, [x], target), expected)


@pytest.mark.parametrize("target", TARGETS)
def test_branches_keep_what_they_compute(target: str) -> None:
    """What one branch computes is unknown in the other and behind both, where it is shared."""
    text = f"""%x = vector.load %a[%z, %z, %z] : A, vector<{ROTATED}>
    %first = vector.extract_strided_slice %x {{offsets = [0, 0, 0], sizes = [1, 8, 128],
      strides = [1, 1, 1]}} : vector<{ROTATED}> to vector<1x8x128xf32>
    %w = vector.load %b[%z, %z, %z] : B, vector<1x8x128xf32>
    %n = vector.extract %w[0, 0, 0] : f32 from vector<1x8x128xf32>
    %zero = arith.constant 0.0 : f32
    %taken = arith.cmpf ogt, %n, %zero : f32
    %k = scf.if %taken -> (vector<1x8x128xf32>) {{
      %e = math.exp %first : vector<1x8x128xf32>
      scf.yield %e : vector<1x8x128xf32>
    }} else {{
      %e = math.exp %first : vector<1x8x128xf32>
      %f = arith.addf %e, %e : vector<1x8x128xf32>
      scf.yield %f : vector<1x8x128xf32>
    }}
    %y = math.exp %x : vector<{ROTATED}>
    %e1 = math.exp %first : vector<1x8x128xf32>
    %kept = arith.mulf %k, %e1 : vector<1x8x128xf32>
    %all = vector.broadcast %kept : vector<1x8x128xf32> to vector<{ROTATED}>
    %r = arith.addf %all, %y : vector<{ROTATED}>
    tpu.vector_store %c[%z, %z, %z], %r {{strides = array<i32>}} : C, vector<{ROTATED}>,"""
    refs = [ROTATED, "1x8x128xf32", ROTATED]
    module, kinds = _lowered(refs, text, target)
    assert kinds["math.exp"] == 6
    x = np.linspace(-1, 1, 4 * 8 * 128, dtype=np.float32).reshape(4, 8, 128)
    for sign, factor in ((1, 1), (-1, 2)):
        expected = factor * np.exp(x[:1]) ** 2 + np.exp(x)
        actual = _run(module, [x, np.full((1, 8, 128), sign, np.float32)], target)
        assert np.allclose(actual, expected, rtol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_operands_in_either_order(target: str) -> None:
    """Sums and products do not depend on the order, differences do."""
    text = """%x = vector.load %a[%z, %z] : A, vector<8x128xi32>
    %y = vector.load %b[%z, %z] : B, vector<8x128xi32>
    %p = arith.addi %x, %y : vector<8x128xi32>
    %q = arith.addi %y, %x : vector<8x128xi32>
    %s = arith.muli %p, %q : vector<8x128xi32>
    %d = arith.subi %x, %y : vector<8x128xi32>
    %e = arith.subi %y, %x : vector<8x128xi32>
    %t = arith.muli %d, %e : vector<8x128xi32>
    %r = arith.xori %s, %t : vector<8x128xi32>
    tpu.vector_store %c[%z, %z], %r {strides = array<i32>} : C, vector<8x128xi32>,"""
    module, kinds = _lowered(["8x128xi32"] * 3, text, target)
    assert (kinds["arith.addi"], kinds["arith.subi"]) == (1, 2)
    x, y = np.arange(2048, dtype=np.int32).reshape(2, 8, 128)[:, ::-1]
    assert np.array_equal(_run(module, [x, y], target), (x + y) ** 2 ^ -((x - y) ** 2))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("written", [False, True])
def test_loads_of_one_matrix_and_of_all(written: bool, target: str) -> None:
    """What is loaded twice is one load, unless something may have written memory in between."""
    store = f"""%k = arith.constant dense<7.0> : vector<{ROTATED}>
    tpu.vector_store %a[%z, %z, %z], %k {{strides = array<i32>}} : A, vector<{ROTATED}>,"""
    text = f"""%x = vector.load %a[%z, %z, %z] : A, vector<1x8x128xf32>
    {store if written else ""}
    %y = vector.load %a[%z, %z, %z] : A, vector<{ROTATED}>
    %all = vector.broadcast %x : vector<1x8x128xf32> to vector<{ROTATED}>
    %r = arith.addf %all, %y : vector<{ROTATED}>
    tpu.vector_store %b[%z, %z, %z], %r {{strides = array<i32>}} : B, vector<{ROTATED}>,"""
    module, kinds = _lowered([ROTATED, ROTATED], text, target)
    assert kinds["tpu.load"] == (5 if written else 4)
    x = np.arange(4 * 8 * 128, dtype=np.float32).reshape(4, 8, 128)
    expected = x[:1] + (np.full_like(x, 7) if written else x)
    assert np.array_equal(_run(module, [x], target), expected)


def test_words_that_become_bytes_and_words_again() -> None:
    """Bytes that rotate along rows and lanes, as words on v5e, are not seen as bytes between."""
    module, _ = _lowered(
        ["32x128xi8", "64x128xi8"],
        """%x = vector.load %a[%z, %z] : A, vector<32x128xi8>
        %i = arith.constant 5 : index
        %k = arith.constant dense<0> : vector<64x128xi8>
        tpu.vector_store %b[%z, %z], %k {strides = array<i32>} : B, vector<64x128xi8>,
        %p = arith.constant 9 : i32
        %y = tpu.dynamic_rotate %x by %p dim 1 : vector<32x128xi8>, i32 -> vector<32x128xi8>
        tpu.vector_store %b[%i, %z], %y {strides = array<i32>} : B, vector<32x128xi8>,""",
        "v5e",
    )
    for op in operations(module):
        if op.name == "tpu.bitcast_vreg":
            assert getattr(op.operands[0].owner, "name", "") != op.name
    x = (np.arange(32 * 128).reshape(32, 128) % 251 - 125).astype(np.int8)
    expected = np.zeros((64, 128), np.int8)
    expected[5:37] = np.roll(x, 9, 1)
    assert np.array_equal(_run(module, [x], "v5e"), expected)
