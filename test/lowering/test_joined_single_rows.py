"""Rows that are loaded together are stored where each belongs, also in matrices of one row.

The reference compiler refuses to see rows of a tile so.
"""

from __future__ import annotations

import numpy as np

import pallasite

from .memory_kernels import module_of

HALVES = "memref<4x8x128xi16, #tpu.memory_space<vmem>>"
WORDS = "memref<4x4x128xi32, #tpu.memory_space<vmem>>"
SOME = "memref<3x4x128xi32, #tpu.memory_space<vmem>>"
ROWS = "memref<3x2x2x1x128xi32, #tpu.memory_space<vmem>>"


def test_stored_beside_where_they_were_loaded() -> None:
    body = f"""%one = arith.constant 1 : index
        %n = arith.constant 0 : i32
        %words = tpu.memref_bitcast %b : {HALVES} -> {WORDS}
        %some = tpu.memref_slice %words[%n, %n, %n] : {WORDS} -> {SOME}
        %rows = tpu.memref_reshape %some : {SOME} -> {ROWS}
        %x = vector.load %rows[%z, %z, %z, %z, %z] : {ROWS}, vector<3x1x2x1x128xi32>
        tpu.strided_store %rows[%z, %one, %z, %z, %z], %x {{strides = array<i32: 1, 3, 1, 3, 1>}}
          : {ROWS}, vector<3x1x2x1x128xi32>"""
    module = module_of(["a", "b"], ["4x8x128xi16"] * 2, body, aliases=(0, 0))
    given = np.arange(4 * 8 * 128, dtype=np.int16).reshape(4, 8, 128)
    want = given.copy()
    want[:3, 4:] = given[:3, :4]
    for form in ("mosaic", "tiles", "vreg"):
        (out,) = pallasite.run(
            module, [given], form=form, target="v6e", allow_beyond_reference=True
        )
        np.testing.assert_array_equal(out, want)
