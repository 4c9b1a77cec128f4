"""Rows that are loaded together are stored where each belongs, also in matrices of one row."""

from __future__ import annotations

import numpy as np

import pallasite

from .memory_kernels import kernel

VIEW = "memref<3x2x2x1x128xi32, #tpu.memory_space<vmem>>"


def test_stored_beside_where_they_were_loaded() -> None:
    module = kernel(
        ["3x4x1x128xi32", "3x4x1x128xi32"],
        f"""%one = arith.constant 1 : index
        %whole = vector.load %a[%z, %z, %z, %z] : A, vector<3x4x1x128xi32>
        tpu.vector_store %b[%z, %z, %z, %z], %whole {{strides = array<i32>}}
          : B, vector<3x4x1x128xi32>,
        %v = tpu.memref_reshape %b : B -> {VIEW}
        %x = vector.load %v[%z, %z, %z, %z, %z] : {VIEW}, vector<3x1x2x1x128xi32>
        tpu.strided_store %v[%z, %one, %z, %z, %z], %x {{strides = array<i32: 1, 3, 1, 3, 1>}}
          : {VIEW}, vector<3x1x2x1x128xi32>""",
    )
    given = np.arange(3 * 4 * 128, dtype=np.int32).reshape(3, 4, 1, 128)
    want = given[:, [0, 1, 0, 1]]
    for form in ("mosaic", "vreg"):
        (out,) = pallasite.run(module, [given], form=form, target="v6e")
        np.testing.assert_array_equal(out, want)
