"""Vectors that loops and branches carry stay as reductions leave them, and right."""

from __future__ import annotations

import numpy as np
import pytest

import pallasite

from .memory_kernels import kernel

REDUCED = """%z32 = arith.constant dense<0.0> : vector<{n}xf32>
      %y = arith.mulf %v, %w : vector<{r}x256xf32>
      %s = vector.multi_reduction <add>, %y, %z32 [{dim}] : vector<{r}x256xf32> to vector<{n}xf32>
      %column = vector.shape_cast %s : vector<{n}xf32> to vector<{kept}xf32>
      %next = arith.addf %carried, %column : vector<{kept}xf32>"""


def looped(rows: int, dim: int) -> str:
    """Three turns that add up `%v` times what was carried, along dimension `dim`."""
    n = (256, rows)[dim]
    kept = (f"1x{n}", f"{n}x1")[dim]
    reduced = REDUCED.format(r=rows, n=n, dim=dim, kept=kept)
    return f"""%v = vector.load %a[%z, %z] : A, vector<{rows}x256xf32>
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %three = arith.constant 3 : i32
    %first = arith.constant dense<1.0> : vector<{kept}xf32>
    %last = scf.for %i = %zero to %three step %one iter_args(%carried = %first)
        -> (vector<{kept}xf32>) : i32 {{
      %w = vector.broadcast %carried : vector<{kept}xf32> to vector<{rows}x256xf32>
      {reduced}
      scf.yield %next : vector<{kept}xf32>
    }}
    %r = vector.broadcast %last : vector<{kept}xf32> to vector<{rows}x256xf32>
    tpu.vector_store %b[%z, %z], %r {{strides = array<i32>}} : B, vector<{rows}x256xf32>,"""


@pytest.mark.parametrize("form", ["tiles", "vreg"])
@pytest.mark.parametrize("rows", [16, 5])
@pytest.mark.parametrize("dim", [0, 1])
def test_sums_are_not_spread_at_every_turn(dim: int, rows: int, form: str) -> None:
    module = kernel([f"{rows}x256xf32"] * 2, looped(rows, dim))
    x = np.arange(rows * 256).reshape(rows, 256) % 7 / 256
    expected = np.ones((rows, 256))
    for _ in range(3):
        expected = expected + (x * expected).sum(dim, keepdims=True)
    lowered = pallasite.lower(module, form=form, target="v5e")
    (actual,) = pallasite.run(lowered, [x.astype(np.float32)], form=form, target="v5e")
    np.testing.assert_allclose(actual, expected, rtol=1e-5)
    text = str(lowered)
    assert not any(kind in text for kind in ("gather", "sublane_shuffle", "rotate"))


def test_bodies_are_longer_than_pythons_stack_is_deep() -> None:
    steps = [f"%s{k + 1} = arith.addf %s{k}, %s{k} : vector<16xf32>" for k in range(1200)]
    text = looped(16, 1).replace("%column = vector.shape_cast %s :", "\n".join((
        "%s0 = arith.mulf %s, %z32 : vector<16xf32>", *steps,
        "%column = vector.shape_cast %s1200 :",
    )))  # fmt: skip
    lowered = pallasite.lower(kernel(["16x256xf32"] * 2, text), form="tiles", target="v5e")
    (actual,) = pallasite.run(lowered, [np.ones((16, 256), np.float32)], form="tiles")
    assert (actual == 1).all()


FLAT = """%v = vector.load %a[%z, %z] : A, vector<16x128xf32>
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %three = arith.constant 3 : i32
    %first = arith.constant dense<-1.0e30> : vector<16xf32>
    %most = arith.constant dense<0xFF800000> : vector<16xf32>
    %last = scf.for %i = %zero to %three step %one iter_args(%carried = %first)
        -> (vector<16xf32>) : i32 {
      %c = vector.shape_cast %carried : vector<16xf32> to vector<16x1xf32>
      %w = vector.broadcast %c : vector<16x1xf32> to vector<16x128xf32>
      %y = arith.maximumf %v, %w : vector<16x128xf32>
      %m = vector.multi_reduction <maximumf>, %y, %most [1] : vector<16x128xf32> to vector<16xf32>
      %next = arith.addf %m, %m : vector<16xf32>
      scf.yield %next : vector<16xf32>
    }
    %c = vector.shape_cast %last : vector<16xf32> to vector<16x1xf32>
    %r = vector.broadcast %c : vector<16x1xf32> to vector<16x128xf32>
    tpu.vector_store %b[%z, %z], %r {strides = array<i32>} : B, vector<16x128xf32>,"""


def test_maxima_without_a_dimension_of_one_stay_on_their_sublanes() -> None:
    module = kernel(["16x128xf32"] * 2, FLAT)
    x = np.random.default_rng(0).integers(1, 9, (16, 128)).astype(np.float32)
    lowered = pallasite.lower(module, form="vreg", target="v6e", allow_beyond_reference=True)
    (actual,) = pallasite.run(lowered, [x], form="vreg", target="v6e")
    assert np.array_equal(actual, np.broadcast_to(8 * x.max(1, keepdims=True), x.shape))
    assert not any(kind in str(lowered) for kind in ("gather", "sublane_shuffle", "rotate"))


BRANCH = """%v = vector.load %a[%z, %z] : A, vector<8x128xf32>
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %four = arith.constant 4 : i32
    %none = arith.constant dense<0.0> : vector<8xf32>
    %first = vector.load %a[%z, %z] : A, vector<8x1xf32>
    %last = scf.for %i = %zero to %four step %one iter_args(%carried = %first)
        -> (vector<8x1xf32>) : i32 {
      %two = arith.constant 2 : i32
      %early = arith.cmpi slt, %i, %two : i32
      %next = scf.if %early -> (vector<8x1xf32>) {
        %w = vector.broadcast %carried : vector<8x1xf32> to vector<8x128xf32>
        %y = arith.mulf %v, %w : vector<8x128xf32>
        %s = vector.multi_reduction <add>, %y, %none [1] : vector<8x128xf32> to vector<8xf32>
        %column = vector.shape_cast %s : vector<8xf32> to vector<8x1xf32>
        scf.yield %column : vector<8x1xf32>
      } else {
        %loaded = vector.load %a[%z, %z] : A, vector<8x1xf32>
        %more = arith.addf %loaded, %carried : vector<8x1xf32>
        scf.yield %more : vector<8x1xf32>
      }
      scf.yield %next : vector<8x1xf32>
    }
    %w = vector.broadcast %last : vector<8x1xf32> to vector<8x128xf32>
    %r = arith.addf %v, %w : vector<8x128xf32>
    tpu.vector_store %b[%z, %z], %r {strides = array<i32>} : B, vector<8x128xf32>,"""


def test_branches_that_carry_other_columns_meet() -> None:
    module = kernel(["8x128xf32"] * 2, BRANCH)
    x = (np.random.default_rng(0).integers(0, 8, (8, 128)) / 64).astype(np.float32)
    c = x[:, :1]
    for turn in range(4):
        c = (x * c).sum(1, keepdims=True) if turn < 2 else x[:, :1] + c
    lowered = pallasite.lower(module, form="vreg", target="v5e", allow_beyond_reference=True)
    (actual,) = pallasite.run(lowered, [x], form="vreg", target="v5e")
    np.testing.assert_allclose(actual, x + c, rtol=1e-5)


SAME = """%v = vector.load %a[%z, %z] : A, vector<16x128xf32>
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %three = arith.constant 3 : i32
    %row = vector.load %a[%z, %z] : A, vector<1x128xf32>
    %first = vector.broadcast %row : vector<1x128xf32> to vector<16x128xf32>
    %r = scf.for %i = %zero to %three step %one iter_args(%carried = %first)
        -> (vector<16x128xf32>) : i32 {
      %next = arith.addf %carried, %v : vector<16x128xf32>
      scf.yield %next : vector<16x128xf32>
    }
    tpu.vector_store %b[%z, %z], %r {strides = array<i32>} : B, vector<16x128xf32>,"""


def test_what_is_the_same_in_all_rows_at_first_need_not_stay_so() -> None:
    module = kernel(["16x128xf32"] * 2, SAME)
    x = np.arange(2048, dtype=np.float32).reshape(16, 128)
    lowered = pallasite.lower(module, form="vreg", target="v5e")
    (actual,) = pallasite.run(lowered, [x], form="vreg", target="v5e")
    assert np.array_equal(actual, x[:1] + 3 * x)
