"""Views of sizes that only the run knows, and copies of them, by both drivers."""

from __future__ import annotations

import numpy as np
import pytest

from pallasite.diagnostics import ExecutionError
from pallasite.interpreter.machine.order import Order

VMEM = "#tpu.memory_space<vmem>"
DMA = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>"
INT = {8: np.int8, 16: np.int16, 32: np.int32}


@pytest.mark.parametrize(("source", "result"), [(8, 32), (16, 32), (8, 16), (32, 8), (32, 32)])
def test_a_bitcast_rescales_the_rows_that_there_are(run, source, result):
    text = f"""
    func.func @main(%a: memref<32x128xi{source}, {VMEM}>, %b: memref<8x128xi32, {VMEM}>)
        -> (index, index, i{result}) {{
      %c0 = arith.constant 0 : i32
      %z = arith.constant 0 : index
      %one = arith.constant 1 : index
      %n = memref.load %b[%z, %z] : memref<8x128xi32, {VMEM}>
      %x = tpu.memref_slice %a[%c0, %c0] <%n>
        : memref<32x128xi{source}, {VMEM}> -> memref<?x128xi{source}, {VMEM}>
      %y = tpu.memref_bitcast %x
        : memref<?x128xi{source}, {VMEM}> -> memref<?x128xi{result}, {VMEM}>
      %rows = memref.dim %y, %z : memref<?x128xi{result}, {VMEM}>
      %columns = memref.dim %y, %one : memref<?x128xi{result}, {VMEM}>
      %v = vector.load %y[%z, %one] : memref<?x128xi{result}, {VMEM}>, vector<1x1xi{result}>
      %w = vector.extract %v[0, 0] : i{result} from vector<1x1xi{result}>
      return %rows, %columns, %w : index, index, i{result}
    }}"""
    a = (np.arange(32 * 128).reshape(32, 128) % 251 - 125).astype(INT[source])
    rows, columns, value = run(text, a, np.full((8, 128), 8))
    word = a[:4, 1].copy().view(INT[result])[0]
    assert (rows, columns, value) == (8 * source // result, 128, word)
    if source < result:
        with pytest.raises(ExecutionError) as error:
            run(text, a, np.full((8, 128), 7))
        assert error.value.code == "no-such-view"
        assert "7 rows of" in str(error.value)
        assert f"take a multiple of {result // source} rows" in str(error.value)


REINTERPRET = f"""
func.func @main(%a: memref<8x128xi32, {VMEM}>) -> (index, i32) {{
  %n = arith.constant ROWS : i32
  %f = arith.constant FIRST : i32
  %z = arith.constant 0 : index
  %y = tpu.reinterpret_cast %a %f <%n>
    : memref<8x128xi32, {VMEM}> -> memref<?x128xi32, {VMEM}>
  %rows = memref.dim %y, %z : memref<?x128xi32, {VMEM}>
  %v = memref.load %y[%z, %z] : memref<?x128xi32, {VMEM}>
  return %rows, %v : index, i32
}}"""


@pytest.mark.parametrize(("rows", "first"), [(8, 0), (4, 0), (4, 512), (1, 128)])
def test_a_reinterpret_cast_takes_its_size_and_offset_from_the_run(run, rows, first):
    text = REINTERPRET.replace("ROWS", str(rows)).replace("FIRST", str(first))
    assert run(text, np.arange(1024).reshape(8, 128)) == (rows, first)


@pytest.mark.parametrize(("rows", "first"), [(9, 0), (4, 640), (4, -128), (-1, 0)])
def test_a_reinterpret_cast_stays_within_its_memory(run, rows, first):
    text = REINTERPRET.replace("ROWS", str(rows)).replace("FIRST", str(first))
    with pytest.raises(ExecutionError) as error:
        run(text, np.arange(1024).reshape(8, 128))
    assert error.value.code == "no-such-view" and f"[{rows}, 128]" in str(error.value)


def test_the_dimension_of_a_size_must_be_there(run):
    text = f"""
    func.func @main(%a: memref<8x128xi32, {VMEM}>) -> (index, index) {{
      %d = arith.constant DIM : index
      %n = memref.dim %a, %d : memref<8x128xi32, {VMEM}>
      %r = "memref.rank"(%a) : (memref<8x128xi32, {VMEM}>) -> index
      return %n, %r : index, index
    }}"""
    assert run(text.replace("DIM", "1"), None) == (128, 2)
    for dim in ("2", "-1"):
        with pytest.raises(ExecutionError, match="of a memref of rank 2"):
            run(text.replace("DIM", dim), None)


COPY = f"""
func.func @main(%a: memref<16x128xi32, {VMEM}>, %b: memref<16x128xi32, {VMEM}>) {{
  %c0 = arith.constant 0 : i32
  %z = arith.constant 0 : index
  %c1 = arith.constant 1 : i32
  %n = arith.constant N : i32
  %m = arith.constant M : i32
  %x = tpu.memref_slice %a[%c0, %c0] <%n>
    : memref<16x128xi32, {VMEM}> -> memref<?x128xi32, {VMEM}>
  %y = tpu.memref_slice %TO[%c1, %c0] <%m>
    : memref<16x128xi32, {VMEM}> -> memref<?x128xi32, {VMEM}>
  memref.copy %x, %y : memref<?x128xi32, {VMEM}> to memref<?x128xi32, {VMEM}>
  %v = memref.load %y[%z, %z] : memref<?x128xi32, {VMEM}>
  return
}}"""


def copied(n, m, to):
    return COPY.replace("N :", f"{n} :").replace("M :", f"{m} :").replace("TO", to)


@pytest.mark.parametrize("checks", [(), ("init", "race", "sync")])
def test_a_copy_takes_all_rows_at_once(run, checks):
    a = np.arange(16 * 128).reshape(16, 128)
    run(copied(15, 15, "a"), a, None, checks=checks)
    np.testing.assert_array_equal(run.refs[0][0].read()[1:], a[:15])
    run(copied(3, 3, "b"), a, None, checks=checks)
    np.testing.assert_array_equal(run.refs[0][1].read()[1:4], a[:3])
    assert not run.machine.findings


def test_a_copy_of_nothing_written_leaves_its_target_so(run):
    run(copied(3, 3, "b"), None, None, checks=("init",))
    (finding,) = run.machine.findings
    assert finding.code == "uninitialised-read"


def test_a_copy_keeps_its_shape(run):
    with pytest.raises(ExecutionError) as error:
        run(copied(3, 4, "b"), np.zeros((16, 128)), None)
    assert error.value.code == "dma-shape"


@pytest.mark.parametrize("policy", ["eager", "on_wait"])
def test_the_old_wait_waits_for_the_target(run, policy):
    text = f"""
    func.func @main(%a: memref<8x128xf32, #tpu.memory_space<any>>, %b: memref<8x128xf32, {VMEM}>) {{
      %s = memref.alloca() : {DMA}
      tpu.enqueue_dma source(%a : memref<8x128xf32, #tpu.memory_space<any>>)
        target(%b : memref<8x128xf32, {VMEM}>) target_semaphore(%s : {DMA})
      tpu.wait_dma source(%a : memref<8x128xf32, #tpu.memory_space<any>>)
        target(%b : memref<8x128xf32, {VMEM}>) target_semaphore(%s : {DMA}) {{wait_target = true}}
      %z = arith.constant 0 : index
      %v = vector.load %b[%z, %z] : memref<8x128xf32, {VMEM}>, vector<8x128xf32>
      %w = arith.addf %v, %v : vector<8x128xf32>
      vector.store %w, %b[%z, %z] : memref<8x128xf32, {VMEM}>, vector<8x128xf32>
      return
    }}"""
    a = np.arange(1024, dtype=np.float32).reshape(8, 128)
    run(text, a, None, order=Order(policy), checks=("init", "race", "sync"))
    np.testing.assert_array_equal(run.refs[0][1].read(), 2 * a)
    assert not run.machine.findings


def test_what_nobody_looks_at_need_be_no_view(run):
    text = f"""
    func.func @main(%a: memref<8x128xi32, {VMEM}>) -> i32 {{
      %z = arith.constant 0 : index
      %x = tpu.memref_reshape %a : memref<8x128xi32, {VMEM}> -> memref<64x16xi32, {VMEM}>
      %v = memref.load %a[%z, %z] : memref<8x128xi32, {VMEM}>
      return %v : i32
    }}"""
    assert run(text, np.arange(5, 1029).reshape(8, 128)) == (5,)


@pytest.mark.parametrize("uses", [1, 2])
def test_a_squeezed_slice_begins_where_the_run_says(run, uses):
    other = "%y" if uses == 1 else "%x"
    kind = f"memref<{'128' if uses == 1 else '1x128'}xi32, {VMEM}>"
    index = "%z" if uses == 1 else "%z, %z"
    text = f"""
    func.func @main(%a: memref<8x128xi32, {VMEM}>, %b: memref<8x128xi32, {VMEM}>) -> (i32, i32) {{
      %c0 = arith.constant 0 : i32
      %z = arith.constant 0 : index
      %n = memref.load %b[%z, %z] : memref<8x128xi32, {VMEM}>
      %x = tpu.memref_slice %a[%n, %c0] : memref<8x128xi32, {VMEM}> -> memref<1x128xi32, {VMEM}>
      %y = tpu.memref_squeeze %x : memref<1x128xi32, {VMEM}> -> memref<128xi32, {VMEM}>
      %v = memref.load %y[%z] : memref<128xi32, {VMEM}>
      %w = memref.load {other}[{index}] : {kind}
      return %v, %w : i32, i32
    }}"""
    a = np.arange(8 * 128, dtype=np.int32).reshape(8, 128)
    for n in (5, 7):
        assert run(text, a, np.full((8, 128), n, np.int32)) == (a[n, 0], a[n, 0])
    with pytest.raises(ExecutionError, match=r"slice of shape \[1, 128\] at \[8, 0\] is outside"):
        run(text, a, np.full((8, 128), 8, np.int32))
