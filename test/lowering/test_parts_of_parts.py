"""Parts of parts that begin anywhere are found in the array itself, where its tiles are known."""

from __future__ import annotations

import numpy as np
import pytest

import pallasite

ANY = "#tpu.memory_space<any>"
SMEM = "#tpu.memory_space<smem>"
SEMAPHORE = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>"


def row_of_rows(outer: str) -> str:
    """Copies the first row to row `j` of the eight rows from `k` on, in each matrix of `outer`."""
    zeros, array, rows, row, flat = (
        "%z, " * outer.count("x"),
        *(f"memref<{outer}{shape}xf32, {ANY}>" for shape in ("16x256", "8x256", "1x256")),
        f"memref<{outer}256xf32, {ANY}>",
    )
    tensor, table = f"tensor<{outer}16x256xf32>", f"memref<2xi32, {SMEM}>"
    return f"""
module attributes {{tpu.call = {{operands = [{tensor}, tensor<2xi32>], results = [{tensor}],
    aliases = array<i64>, settings = "{{}}"}}}} {{
func.func @main(%x: {array}, %t: {table}, %o: {array}) attributes {{dimension_semantics = [],
    scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>}} {{
  %z = arith.constant 0 : i32
  %i0 = arith.constant 0 : index
  %i1 = arith.constant 1 : index
  %k = memref.load %t[%i0] : {table}
  %j = memref.load %t[%i1] : {table}
  "tpu.region"() ({{
    %s = tpu.sem_alloc : {SEMAPHORE}
    tpu.enqueue_dma source(%x : {array}) target(%o : {array}) target_semaphore(%s : {SEMAPHORE})
    tpu.wait_dma2 semaphore(%s : {SEMAPHORE}) src(%x : {array}) dst(%o : {array})
    %a = tpu.memref_slice %o[{zeros}%k, %z] : {array} -> {rows}
    %b = tpu.memref_slice %a[{zeros}%j, %z] : {rows} -> {row}
    %c = tpu.memref_squeeze %b : {row} -> {flat}
    %d = tpu.memref_slice %x[{zeros}%z, %z] : {array} -> {row}
    %e = tpu.memref_squeeze %d : {row} -> {flat}
    tpu.enqueue_dma source(%e : {flat}) target(%c : {flat}) target_semaphore(%s : {SEMAPHORE})
    tpu.wait_dma2 semaphore(%s : {SEMAPHORE}) src(%e : {flat}) dst(%c : {flat})
    tpu.yield
  }}) : () -> ()
  return
}} }}"""


@pytest.mark.parametrize("outer", ["", "3x"])
@pytest.mark.parametrize("form", ["dma", "tiles", "vreg"])
def test_a_row_of_rows_that_begin_within_a_tile(form: str, outer: str) -> None:
    text = row_of_rows(outer)
    x = np.arange(16 * 256 * (3 if outer else 1), dtype=np.float32)
    x = x.reshape([*([3] if outer else []), 16, 256])
    for k, j in ((0, 3), (3, 2), (8, 1), (5, 7)):
        (found,) = pallasite.run(
            pallasite.parse(text),
            [x, np.array([k, j], np.int32)],
            form=form,
            allow_beyond_reference=True,
        )
        expected = x.copy()
        expected[..., k + j, :] = x[..., 0, :]
        assert np.array_equal(found, expected)
