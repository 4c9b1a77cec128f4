"""Every spine kernel gives NumPy's answer in every form, and both drivers the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pallasite
from pallasite.dialects.kernel import form_of

from ..jaxlib_context import mosaic_context
from .spine import SPINE, Array, Spine

FORMS = ("mosaic", "dma", "tiles", "vreg")


def close(actual: Array, expected: Array, tolerance: float) -> bool:
    """Equal within `tolerance` of the largest magnitude."""
    if expected.dtype.kind == "i":
        return np.array_equal(actual, expected)
    one, other = actual.astype(np.float64), expected.astype(np.float64)
    return bool(np.abs(one - other).max() <= tolerance * np.abs(other).max())


@pytest.mark.parametrize("target", ["v5e", "v6e"])
@pytest.mark.parametrize("kernel", SPINE, ids=lambda k: k.name)
def test_all_forms(kernel: Spine, target: str) -> None:
    module = pallasite.parse(kernel.text)
    inputs = kernel.arrays()
    expected = kernel.answer(*inputs)
    for form in FORMS:
        lowered = pallasite.lower(module, form=form, target=target)
        lowered.verify()
        assert form_of(lowered) == form
        (actual,) = pallasite.run(lowered, inputs, form=form, target=target)
        assert actual.dtype == expected.dtype
        assert actual.shape == expected.shape
        assert close(actual, expected, kernel.tolerance), form


@pytest.mark.parametrize("kernel", SPINE, ids=lambda k: k.name)
def test_drivers_agree_bit_for_bit(kernel: Spine) -> None:
    from pallasite.interpreter.run import execute
    from pallasite.targets import get_target

    module = pallasite.parse(kernel.text)
    inputs = kernel.arrays(1)
    for form in FORMS:
        lowered = pallasite.lower(module, form=form, target="v5e")
        one, other = (
            execute(lowered, [inputs], target=get_target("v5e"), driver=driver).outputs[0]
            for driver in ("compiled", "reference")
        )
        for a, b in zip(one, other, strict=True):
            assert a.tobytes() == b.tobytes(), form


def matmul_module(block: int) -> str:
    """A bfloat16 product of square matrices, four times `block` on a side, in square blocks."""
    steps, side = 4, 4 * block
    ref = f"memref<{block}x{block}xbf16, #tpu.memory_space<vmem>>"
    acc = f"memref<{block}x{block}xf32, #tpu.memory_space<vmem>>"
    half, full = f"vector<{block}x{block}xbf16>", f"vector<{block}x{block}xf32>"
    array = f"tensor<{side}x{side}x{{}}>"
    call = (
        f"tpu.call = {{operands = [{array.format('bf16')}, {array.format('bf16')}], "
        f'results = [{array.format("f32")}], aliases = array<i64>, settings = "{{}}"}}'
    )
    windows = ", ".join(
        f"{{transform_indices = @transform_{i}, window_bounds = array<i64: {block}, {block}>}}"
        for i in range(3)
    )
    maps = "".join(
        f"""
  func.func @transform_{i}(%i: i32, %j: i32, %k: i32) -> (i32, i32) {{
    return {a}, {b} : i32, i32
  }}"""
        for i, (a, b) in enumerate((("%i", "%k"), ("%k", "%j"), ("%i", "%j")))
    )
    numbers = "#tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>"
    order = ", ".join("#tpu.dimension_semantics<arbitrary>" for _ in range(3))
    return f"""module attributes {{{call}}} {{
  func.func @matmul(%i: i32, %j: i32, %k: i32, %x: {ref}, %y: {ref}, %o: {acc})
      attributes {{dimension_semantics = [{order}],
                  iteration_bounds = array<i64: {steps}, {steps}, {steps}>,
                  scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
                  tpu.core_type = #tpu.core_type<tc>,
                  window_params = [{windows}]}} {{
    %c0 = arith.constant 0 : index
    %first = arith.constant 0 : i32
    %start = arith.cmpi eq, %k, %first : i32
    scf.if %start {{
      %zero = arith.constant dense<0.0> : {full}
      tpu.vector_store %o[%c0, %c0], %zero {{strides = array<i32>}} : {acc}, {full},
    }}
    %a = vector.load %x[%c0, %c0] : {ref}, {half}
    %b = vector.load %y[%c0, %c0] : {ref}, {half}
    %c = vector.load %o[%c0, %c0] : {acc}, {full}
    %r = tpu.matmul %a, %b, %c {{dimension_numbers = {numbers}, transpose_lhs_hint = false}}
        : {half}, {half}, {full} -> {full}
    tpu.vector_store %o[%c0, %c0], %r {{strides = array<i32>}} : {acc}, {full},
    return
  }}{maps}
}}
"""


@pytest.mark.parametrize("target", ["v5e", "v6e"])
def test_size_of_tiles_form_does_not_depend_on_the_block(target: str) -> None:
    counts = {
        block: sum(
            1
            for _ in pallasite.lower(
                pallasite.parse(matmul_module(block)), form="tiles", target=target
            ).walk()
        )
        for block in (256, 512, 1024)
    }
    assert len(set(counts.values())) == 1, counts


@pytest.mark.jax
@pytest.mark.parametrize("kernel", SPINE, ids=lambda k: k.name)
def test_jaxlib_verifies_what_we_print(kernel: Spine, tmp_path: Path) -> None:
    ir = pytest.importorskip("jaxlib.mlir.ir")
    context = mosaic_context()
    module = pallasite.parse(kernel.text)
    for target in ("v5e", "v6e"):
        for form in ("mosaic", "dma", "vreg"):
            text = str(pallasite.lower(module, form=form, target=target))
            with context, ir.Location.unknown():
                assert ir.Module.parse(text).operation.verify(), form
