"""An index into the padding of the last tile is out of bounds in every form, like any other."""

# ruff: noqa: E501 (MLIR)

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import pallasite
from pallasite.diagnostics import ExecutionError

FORMS = ("pallas", "mosaic", "dma", "tiles", "vreg")
DTYPES = {"f32": np.float32, "i32": np.int32, "bf16": ml_dtypes.bfloat16, "i8": np.int8}

CASES = {
    # name: (shape, element, where, multiple, the last index inside, one outside, box)
    "rows of 12": ("12x128", "i32", "ds(%m, 8), :", 1, 4, 5, "8x128"),
    "a tile of rows": ("12x256", "i32", "ds(%m, 8), :", 8, 0, 8, "8x256"),
    "one row": ("12x128", "f32", "ds(%m, 1), :", 1, 11, 12, "1x128"),
    "rows of the next column of tiles": ("16x128", "i32", "ds(%m, 4), :", 1, 12, 13, "4x128"),
    "rows of a matrix among others": ("3x13x128", "i32", "0, ds(%m, 8), :", 1, 5, 6, "8x128"),
    "matrices": ("3x8x128", "i32", "ds(%m, 2), :, :", 1, 1, 2, "2x8x128"),
    "packed rows": ("40x128", "bf16", "ds(%m, 16), :", 16, 16, 32, "16x128"),
    "bytes": ("33x128", "i8", "ds(%m, 32), :", 32, 0, 32, "32x128"),
    "lanes": ("8x200", "i32", ":, ds(%m, 128)", 128, 0, 128, "8x128"),
    "before the first lane": ("8x256", "i32", ":, ds(%m, 128)", 128, 128, -128, "8x128"),
    "every other row": ("24x128", "f32", "ds(%m, 8, 2), :", 1, 9, 10, "8x128"),
    "one dimension": ("3000", "i32", "ds(%m, 1024)", 1024, 1024, 2048, "1024"),
}  # fmt: skip


def _sizes(text: str) -> list[int]:
    return [int(n) for n in text.split("x")]


def kernel(name: str, stores: bool, part: bool = False) -> str:
    """Loads the box from, or stores it to, an array at an index that the kernel reads."""
    shape, element, where, multiple, _, _, box = CASES[name]
    whole = f"memref<{shape}x{element}, #tpu.memory_space<vmem>>"
    taken = f"memref<{box}x{element}, #tpu.memory_space<vmem>>"
    given, made = (box, shape) if stores else (shape, box)
    body = f"""
  %v = pallas.load %x[{where}] : {whole}
  pallas.store %v, %o[...] : {taken}
"""
    if stores:
        zero = "0.0" if "f" in element else "0"
        body = f"""
  %z = arith.constant dense<{zero}> : vector<{shape}x{element}>
  pallas.store %z, %o[...] : {whole}
  %v = pallas.load %x[...] : {taken}
  pallas.store %v, %o[{where}] : {whole}
"""
    return f"""
pallas.kernel @k
  input %n: tensor<1xi32> in smem
  input %x: tensor<{given}x{element}> in vmem
  output %o: tensor<{made}x{element}> in vmem
{{
  %i = pallas.load %n[0] : memref<1xi32, #tpu.memory_space<smem>>
  %m = tpu.assume_multiple %i, {multiple} : i32{body}}}
"""


@pytest.mark.parametrize("stores", [False, True], ids=["load", "store"])
@pytest.mark.parametrize("name", CASES)
def test_the_box_must_lie_inside(name: str, stores: bool) -> None:
    shape, element, *_, last, outside, box = CASES[name]
    module = pallasite.parse(kernel(name, stores), name="kernel.mlir")
    given = _sizes(box if stores else shape)
    x = np.random.default_rng(0).integers(-9, 9, given).astype(DTYPES[element])
    expected = None
    for form in FORMS:
        module = module if form == "pallas" else pallasite.lower(module, form=form)
        (result,) = pallasite.run(module, [np.array([last], np.int32), x], form=form)
        expected = result if expected is None else expected
        np.testing.assert_array_equal(result, expected)
        with pytest.raises(ExecutionError) as caught:
            pallasite.run(module, [np.array([outside], np.int32), x], form=form)
        assert caught.value.code == "out-of-bounds", form
        sizes = [1] * (len(_sizes(shape)) - len(_sizes(box))) + _sizes(box)
        if name != "every other row":
            assert f"of shape {sizes} at " in caught.value.message
        assert f"memref of shape {_sizes(shape)}" in caught.value.message
        where = caught.value.location
        assert where is not None
        assert "ds(%m" in kernel(name, stores).split("\n")[where.line - 1]


SLICED = """
pallas.kernel @k
  input %n: tensor<1xi32> in smem
  input %x: tensor<2x13x100xf32> in vmem
  output %o: tensor<1x2x57xf32> in vmem
{
  %i = pallas.load %n[0] : memref<1xi32, #tpu.memory_space<smem>>
  %m = tpu.assume_multiple %i, 8 : i32
  %v = pallas.load %x[ds(0, 1), ds(%m, 8), :] : memref<2x13x100xf32, #tpu.memory_space<vmem>>
  %w = vector.extract_strided_slice %v {offsets = [0, 2, 28], sizes = [1, 2, 57], strides = [1, 1, 1]} : vector<1x8x100xf32> to vector<1x2x57xf32>
  pallas.store %w, %o[...] : memref<1x2x57xf32, #tpu.memory_space<vmem>>
}
"""


@pytest.mark.parametrize("form", FORMS)
def test_what_is_not_used_of_a_load_must_lie_inside_too(form: str) -> None:
    x = np.arange(2600, dtype=np.float32).reshape(2, 13, 100)
    (result,) = pallasite.run(pallasite.parse(SLICED), [np.array([0], np.int32), x], form=form)
    np.testing.assert_array_equal(result, x[:1, 2:4, 28:85])
    with pytest.raises(ExecutionError, match=r"load of shape \[1, 8, 100\] at \[0, 8, 0\]"):
        pallasite.run(pallasite.parse(SLICED), [np.array([8], np.int32), x], form=form)


def test_an_index_that_stays_inside_needs_no_box() -> None:
    loop = """
pallas.kernel @k
  input %x: tensor<12x128xf32> in vmem
  output %o: tensor<12x128xf32> in vmem
{
  %0 = arith.constant 0 : i32
  %1 = arith.constant 1 : i32
  %12 = arith.constant END : i32
  scf.for %i = %0 to %12 step %1 : i32 {
    %v = pallas.load %x[ds(%i, 1), :] : memref<12x128xf32, #tpu.memory_space<vmem>>
    pallas.store %v, %o[ds(%i, 1), :] : memref<12x128xf32, #tpu.memory_space<vmem>>
  }
}
"""
    inside, outside = (
        str(pallasite.lower(pallasite.parse(loop.replace("END", end)), form="vreg"))
        for end in ("12", "13")
    )
    assert "tpu.box" not in inside and outside.count("tpu.box") == 2
