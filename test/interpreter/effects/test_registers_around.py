"""Registers beyond a part of an array, which the passes of Mosaic in C++ name by constants."""

from __future__ import annotations

import numpy as np
import pytest

from pallasite.diagnostics import ExecutionError

TILED = "#tpu.tiled<(8,128),[2,1]>, #tpu.memory_space<vmem>"
WHOLE, PART = f"memref<32x256xf32, {TILED}>", f"memref<8x128xf32, {TILED}>"
PLAIN = "memref<8x128xf32, #tpu.memory_space<vmem>>"
REGISTER = "vector<8x128xf32>"
SUBLANES = "sublanes [true, true, true, true, true, true, true, true] sublane_stride 1"


def copy(load: str, store: str) -> str:
    """One register from a part of an array, that begins at row 8, to such a part of another."""
    return f"""
    func.func @main(%a: {WHOLE}, %b: {WHOLE}) {{
      %c0 = arith.constant 0 : index
      %c8 = arith.constant 8 : index
      %c24 = arith.constant 24 : index
      %c128 = arith.constant 128 : index
      %run = arith.addi %c0, %c8 : index
      %row = arith.constant 8 : i32
      %lane = arith.constant 0 : i32
      %1 = tpu.memref_slice %a[%row, %lane] : {WHOLE} -> {PART}
      %2 = tpu.erase_memref_layout %1 : {PART} -> {PLAIN}
      %3 = tpu.load %2[{load}] {SUBLANES} : {PLAIN}, {REGISTER}
      %4 = tpu.memref_slice %b[%row, %lane] : {WHOLE} -> {PART}
      %5 = tpu.erase_memref_layout %4 : {PART} -> {PLAIN}
      tpu.store %5[{store}], %3 {SUBLANES} : {PLAIN}, {REGISTER},
      return
    }}"""


def test_constants_reach_the_array_around(run) -> None:
    a = np.arange(32 * 256, dtype=np.float32).reshape(32, 256)
    run(copy("%c8, %c128", "%c0, %c128"), a, np.zeros((32, 256)))
    expected = np.zeros((32, 256), np.float32)
    expected[8:16, 128:] = a[16:24, 128:]
    np.testing.assert_array_equal(run.refs[0][1].read(), expected)


@pytest.mark.parametrize(
    "load, store", [("%c24, %c0", "%c0, %c0"), ("%c0, %c0", "%c24, %c0"), ("%run, %c0", "%c0, %c0")]
)
def test_not_more_and_not_at_run_time(run, load: str, store: str) -> None:
    with pytest.raises(ExecutionError, match="is outside memref of shape"):
        run(copy(load, store), np.zeros((32, 256)), np.zeros((32, 256)))
