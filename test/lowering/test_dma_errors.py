"""What `windows-to-dma` refuses, and what it says."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import pallasite
from pallasite.diagnostics import UsageError
from pallasite.dialects import make_context
from pallasite.frontend import read
from pallasite.lowering.pipelines import LowerToDmaPass
from pallasite.lowering.windows_to_dma import WindowsToDmaPass
from pallasite.passes.registry import get_all_passes

KERNEL = """
!block = memref<8x128xf32, #tpu.memory_space<vmem>>
module attributes {tpu.call = {operands = [tensor<32x128xf32>], results = [tensor<32x128xf32>],
    aliases = array<i64>, settings = "{}"}} {
  func.func @kernel(%i: i32, %x: !block, %o: !block) attributes {
      dimension_semantics = [#tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 4>,
      scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>,
      window_params = [{transform_indices = @map, window_bounds = array<i64: 8, 128>},
                       {transform_indices = @map, window_bounds = array<i64: 8, 128>}]} {
    %c0 = arith.constant 0 : index
    %v = vector.load %x[%c0, %c0] : !block, vector<8x128xf32>
    tpu.vector_store %o[%c0, %c0], %v {strides = array<i32>} : !block, vector<8x128xf32>,
    func.return
  }
  func.func @map(%i: i32) -> (i32, i32) {
    %c0 = arith.constant 0 : i32
    func.return %i, %c0 : i32, i32
  }
}
"""

CASES = {
    # code: (what to replace, by what, words of the message)
    "missing-call": ("module attributes {tpu.call = {operands = [tensor<32x128xf32>], results = "
                     "[tensor<32x128xf32>],\n    aliases = array<i64>, settings = \"{}\"}}",
                     "module", "does not record its call"),
    "call-mismatch": ("operands = [tensor<32x128xf32>]", "operands = []",
                      "2 inputs and outputs, 0 scalar-prefetch operands and 0 dynamic bounds"),
    "index-map": ("transform_indices = @map", "transform_indices = @nowhere", "@nowhere"),
    "window-bounds": ("array<i64: 8, 128>", "array<i64: 0, 128>", "got (0, 128)"),
    "window-space": ("#tpu.memory_space<vmem>", "#tpu.memory_space<any>", "got any"),
    "revisit-mode": (
        "transform_indices = @map, window_bounds",
        "pipeline_mode = #tpu.pipeline_mode<double_buffered>, "
        "revisit_mode = #tpu.revisit_mode<any>, transform_indices = @map, window_bounds",
        "got 2",
    ),
    "kernel-signature": ("scratch_operands = 0", "scratch_operands = 3", "3 scratch"),
    "no-tensorcore-kernel": (", tpu.core_type = #tpu.core_type<tc>", "", "main"),
    "scratch-space": (
        "%o: !block) attributes {",
        "%o: !block, %s: memref<8xf32, #tpu.memory_space<hbm>>) attributes {scratch_operands = "
        "1 : i64,", "must be in VMEM",
    ),
}  # fmt: skip


@pytest.mark.parametrize("code", CASES)
def test_refusals(code: str) -> None:
    old, new, words = CASES[code]
    text = KERNEL.replace(old, new)
    if code == "scratch-space":
        text = text.replace("scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,", "")
    assert text != KERNEL
    module = read(text)  # not verified: the pass must not rely on rules that nobody checks
    with pytest.raises(pallasite.Diagnostic) as caught:
        WindowsToDmaPass().apply(make_context(), module)
    assert caught.value.code == code
    assert words in caught.value.message


@pytest.mark.parametrize("form", ["mosaic", "dma"])
@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ("-1", "0 to 2147483646, got -1"),
        ("2147483647", "0 to 2147483646, got 2147483647"),
        ("1099511627776", "0 to 2147483646, got 1099511627776"),
        ("32768, 32768, 2", "got 2147483648 in 3 axes"),
        ("32768, 65536, 0", "got 2147483648 in 2 axes"),
    ],
)
def test_grids_that_nobody_counts(bounds: str, words: str, form: str) -> None:
    """libtpu was asked about these (v5e); it takes 32768, 16384, 2."""
    axes = bounds.count(",") + 1
    module = read(many_axes(bounds, axes))
    with pytest.raises(pallasite.Diagnostic, match=words) as caught:
        pallasite.lower(module, form)
    assert caught.value.code == "kernel-signature" and caught.value.location is not None


def many_axes(bounds: str, axes: int) -> str:
    """`KERNEL` with a grid of these sizes."""
    kinds = ", ".join(["#tpu.dimension_semantics<arbitrary>"] * axes)
    text = KERNEL.replace("array<i64: 4>", f"array<i64: {bounds}>")
    text = re.sub(r"semantics = \[.*?\]", f"semantics = [{kinds}]", text)
    return text.replace("%i: i32", "%i: i32" + "".join(f", %i{n}: i32" for n in range(1, axes)))


def test_the_largest_grid_that_is_counted() -> None:
    pallasite.lower(read(many_axes("32768, 16384, 2", 3)), "dma")


def test_a_block_has_the_shape_of_the_ref() -> None:
    module = pallasite.parse(KERNEL.replace("array<i64: 8, 128>", "array<i64: 8, 64>", 1))
    with pytest.raises(pallasite.Diagnostic, match=r"block is \(8, 64\), .* shape \(8, 128\)"):
        WindowsToDmaPass().apply(make_context(), module)


def test_ranks_must_agree() -> None:
    module = pallasite.parse(KERNEL.replace("tensor<32x128xf32>", "tensor<4x8x128xf32>"))
    with pytest.raises(pallasite.Diagnostic, match="one block size and one index per dimension"):
        WindowsToDmaPass().apply(make_context(), module)


BOUNDS = {
    "body": ("%c0 = arith.constant 0 : index", "", ""),
    "map": ("%c0 = arith.constant 0 : i32\n    func.return %i,", "", ""),
    "branch": ("%c0 = arith.constant 0 : i32\n    func.return %i,", "scf.if %true {", "}"),
}
"""Where the size of a grid dimension is asked for: what is there, and what goes around."""


@pytest.mark.parametrize("dim", [1, -1])
@pytest.mark.parametrize("place", BOUNDS)
def test_grid_dimensions_that_there_are_not(place: str, dim: int) -> None:
    line, before, after = BOUNDS[place]
    asked = f"%true = arith.constant true {before} %n = tpu.iteration_bound {dim} : i32 {after}"
    module = pallasite.parse(KERNEL.replace(line, f"{asked}\n    {line}"))
    with pytest.raises(pallasite.Diagnostic, match=f"must be below 1, got {dim}") as caught:
        WindowsToDmaPass().apply(make_context(), module)
    assert caught.value.code == "iteration-bound" and caught.value.location is not None


def test_an_index_map_asks_for_the_size_of_the_grid_in_a_branch() -> None:
    before, body = KERNEL.rsplit("func.return %i,", 1)
    text = f"""{before}%last = arith.constant 3 : i32
    %early = arith.cmpi slt, %i, %last : i32
    %at = scf.if %early -> (i32) {{
      %n = tpu.iteration_bound 0 : i32
      %m = arith.subi %n, %i : i32
      %one = arith.constant 1 : i32
      %p = arith.subi %m, %one : i32
      scf.yield %p : i32
    }} else {{
      scf.yield %c0 : i32
    }}
    func.return %at,{body}"""
    text = text.replace("transform_indices = @map", "transform_indices = @same", 1)
    same = """func.func @same(%i: i32) -> (i32, i32) {
    %c = arith.constant 0 : i32
    func.return %i, %c : i32, i32
  }"""
    text = text.replace("  func.func @map", f"  {same}\n  func.func @map")
    value = np.arange(32 * 128, dtype=np.float32).reshape(32, 128)
    expected = np.concatenate(np.split(value, 4)[::-1])
    for form in ("mosaic", "dma", "vreg"):
        (result,) = pallasite.run(pallasite.parse(text), [value], form=form, target="v5e")
        assert np.array_equal(np.asarray(result), expected), form


@pytest.mark.parametrize(
    "name",
    ["check-kernel", "lower-to-mosaic", "windows-to-dma", "lower-to-dma", "infer-memref-layout",
     "canonicalize-mosaic", "vectors-to-tiles"],
)  # fmt: skip
def test_unknown_target(name: str) -> None:
    kind: Any = get_all_passes()[name]()
    with pytest.raises(UsageError, match=r"expected a target of v4, v5e, .*, got 'v3'"):
        kind(target="v3").apply(make_context(), pallasite.parse(KERNEL))


def test_lowering_twice_changes_nothing() -> None:
    module = pallasite.parse(KERNEL)
    LowerToDmaPass().apply(make_context(), module)
    once = str(module)
    LowerToDmaPass().apply(make_context(), module)
    WindowsToDmaPass().apply(make_context(), module)
    assert str(module) == once


def test_lowering_back_is_refused() -> None:
    module = pallasite.parse(
        KERNEL.replace("module attributes {", 'module attributes {tpu.form = "vreg", ')
    )
    with pytest.raises(pallasite.Diagnostic, match="below form dma"):
        LowerToDmaPass().apply(make_context(), module)
