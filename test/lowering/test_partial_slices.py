"""`vector.extract_strided_slice` may name leading dimensions only; the others are taken whole."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import pallasite

from .memory_kernels import kernel

FORMS = ("mosaic", "dma", "tiles", "vreg")
DTYPES = {"f32": np.float32, "i32": np.int32, "bf16": ml_dtypes.bfloat16}

CASES = {
    # name: (shape, element, offsets, sizes)
    "matrices": ((3, 8, 128), "f32", (1,), (2,)),
    "ragged matrices": ((3, 13, 200), "i32", (1,), (1,)),
    "rows of matrices": ((3, 24, 200), "f32", (1, 5), (2, 17)),
    "rows": ((24, 200), "bf16", (3,), (16,)),
    "of four dimensions": ((2, 3, 16, 128), "bf16", (0, 1), (1, 2)),
}


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_dimensions_not_named_are_whole(name: str, computed: bool) -> None:
    shape, element, offsets, sizes = CASES[name]
    taken = (*sizes, *shape[len(sizes) :])
    whole, part = ("x".join(str(n) for n in each) + f"x{element}" for each in (shape, taken))
    add = "arith.addi" if element == "i32" else "arith.addf"
    text = f"""
pallas.kernel @k
  input %x: tensor<{whole}> in vmem
  output %o: tensor<{part}> in vmem
{{
  %l = pallas.load %x[...] : memref<{whole}, #tpu.memory_space<vmem>>
  %v = {add} %l, %l : vector<{whole}>
  %t = vector.extract_strided_slice {"%v" if computed else "%l"} {{offsets = {list(offsets)},
    sizes = {list(sizes)}, strides = {[1] * len(sizes)}}} : vector<{whole}> to vector<{part}>
  pallas.store %t, %o[...] : memref<{part}, #tpu.memory_space<vmem>>
}}
"""
    x = (np.arange(np.prod(shape)) % 251).reshape(shape).astype(DTYPES[element])
    cut = tuple(slice(start, start + size) for start, size in zip(offsets, sizes, strict=True))
    expected = (np.add(x, x) if computed else x)[cut]
    for target in ("v5e", "v6e"):
        for form in FORMS:
            (result,) = pallasite.run(pallasite.parse(text), [x], form=form, target=target)
            np.testing.assert_array_equal(result, expected, err_msg=f"{form} {target}")


@pytest.mark.parametrize("target", ["v5e", "v6e"])
@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_rows_that_are_cut_out_stay_where_they_are(element: str, target: str) -> None:
    """Only the lanes turn: the rows are stored from where they lie in their registers."""
    row = 2 if element == "bf16" else 3
    kind, part = f"2x8x128x{element}", f"2x4x40x{element}"
    body = f"""%v = vector.load %a[%z, %z, %z] : A, vector<{kind}>
        %d = vector.load %b[%z, %z, %z] : B, vector<{kind}>
        %s = arith.maximumf %v, %d : vector<{kind}>
        %r = vector.extract_strided_slice %s {{offsets = [0, {row}, 70], sizes = [2, 4, 40],
          strides = [1, 1, 1]}} : vector<{kind}> to vector<{part}>
        tpu.vector_store %c[%z, %z, %z], %r {{strides = array<i32>}} : C, vector<{part}>,"""
    module = kernel([kind, kind, part], body)
    dtype = np.float32 if element == "f32" else ml_dtypes.bfloat16
    x = (np.arange(2048).reshape(2, 8, 128) % 255).astype(dtype)
    lowered = pallasite.lower(module, form="vreg", target=target)
    (actual,) = pallasite.run(lowered, [x, x[::-1]], form="vreg", target=target)
    assert np.array_equal(actual, np.maximum(x, x[::-1])[:, row : row + 4, 70:110])
    assert "sublane_shuffle" not in str(lowered)
