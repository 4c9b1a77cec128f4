"""Effects of ops, run from MLIR text by both drivers."""

from __future__ import annotations

import numpy as np
import pytest

from pallasite.diagnostics import ExecutionError
from pallasite.interpreter.machine.order import Order
from pallasite.interpreter.machine.views import Ref
from pallasite.targets import get_target

V5E = get_target("v5e")
VMEM, SMEM = "#tpu.memory_space<vmem>", "#tpu.memory_space<smem>"
SEMAPHORE = "memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>"
DMA = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>"


def matrix(rows: int, columns: int) -> np.ndarray:
    return np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)


def test_vector_load_and_masked_store(run):
    text = f"""
    func.func @main(%a: memref<16x256xf32, {VMEM}>, %b: memref<16x256xf32, {VMEM}>,
                    %m: memref<5x200xi32, {VMEM}>) -> vector<5x200xf32> {{
      %c0 = arith.constant 0 : index
      %c3 = arith.constant 3 : index
      %c7 = arith.constant 7 : index
      %x = vector.load %a[%c3, %c7] : memref<16x256xf32, {VMEM}>, vector<5x200xf32>
      %w = vector.load %m[%c0, %c0] : memref<5x200xi32, {VMEM}>, vector<5x200xi32>
      %z = arith.constant dense<0> : vector<5x200xi32>
      %p = arith.cmpi ne, %w, %z : vector<5x200xi32>
      tpu.vector_store %b[%c7, %c3], %x masked %p {{strides = array<i32>}}
        : memref<16x256xf32, {VMEM}>, vector<5x200xf32>, vector<5x200xi1>
      return %x : vector<5x200xf32>
    }}"""
    a = matrix(16, 256)
    mask = np.arange(1000).reshape(5, 200) % 3
    (x,) = run(text, a, np.zeros((16, 256)), mask)
    np.testing.assert_array_equal(x, a[3:8, 7:207])
    expected = np.zeros((16, 256), np.float32)
    expected[7:12, 3:203] = np.where(mask, x, 0)
    np.testing.assert_array_equal(run.refs[0][1].read(), expected)


def test_store_of_lower_rank_and_add(run):
    text = f"""
    func.func @main(%b: memref<4x128xf32, {VMEM}>) {{
      %c0 = arith.constant 0 : index
      %c2 = arith.constant 2 : index
      %x = arith.constant dense<1.0> : vector<128xf32>
      tpu.vector_store %b[%c2, %c0], %x {{strides = array<i32>, add = true}}
        : memref<4x128xf32, {VMEM}>, vector<128xf32>,
      return
    }}"""
    run(text, matrix(4, 128))
    expected = matrix(4, 128)
    expected[2] += 1
    np.testing.assert_array_equal(run.refs[0][0].read(), expected)


def test_strided_accesses(run):
    text = f"""
    func.func @main(%a: memref<32x128xf32, {VMEM}>, %b: memref<32x128xf32, {VMEM}>)
        -> vector<8x128xf32> {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %x = tpu.strided_load %a[%c1, %c0] {{strides = array<i32: 3, 1>}}
        : memref<32x128xf32, {VMEM}>, vector<8x128xf32>
      tpu.strided_store %b[%c0, %c0], %x {{strides = array<i32: 4, 1>}}
        : memref<32x128xf32, {VMEM}>, vector<8x128xf32>
      return %x : vector<8x128xf32>
    }}"""
    (x,) = run(text, matrix(32, 128), np.zeros((32, 128)))
    np.testing.assert_array_equal(x, matrix(32, 128)[1:25:3])
    np.testing.assert_array_equal(run.refs[0][1].read()[::4], x)


def test_register_loads_and_stores_through_views(run):
    tiled = f"memref<16x256xf32, #tpu.tiled<(8,128),[2,1]>, {VMEM}>"
    text = f"""
    func.func @main(%a: {tiled}, %b: {tiled}) -> vector<8x128xf32> {{
      %z = arith.constant 0 : i32
      %c0 = arith.constant 0 : index
      %c8 = arith.constant 8 : index
      %c128 = arith.constant 128 : index
      %s = tpu.memref_slice %a[%z, %z] : {tiled} -> {tiled}
      %e = tpu.erase_memref_layout %s : {tiled} -> memref<16x256xf32, {VMEM}>
      %x = tpu.load %e[%c8, %c128] sublanes [true, true, true, true, true, true, true, true]
        : memref<16x256xf32, {VMEM}>, vector<8x128xf32>
      %m = tpu.create_mask [%c0, %c0] [%c8, %c8] : vector<8x128xi1>
      tpu.store %b[%c0, %c0], %x masked %m
        sublanes [true, true, false, true, true, true, true, true] sublane_stride 1
        : {tiled}, vector<8x128xf32>, vector<8x128xi1>
      return %x : vector<8x128xf32>
    }}"""
    (x,) = run(text, matrix(16, 256), np.zeros((16, 256)))
    np.testing.assert_array_equal(x, matrix(16, 256)[8:, 128:])
    expected = np.zeros((16, 256), np.float32)
    expected[:8, :8] = x[:, :8]
    expected[2] = 0
    np.testing.assert_array_equal(run.refs[0][1].read(), expected)


def test_grids_of_registers(run):
    tiled = f"memref<32x256xbf16, #tpu.tiled<(16,128)(2,1),[2,1]>, {VMEM}>"
    text = f"""
    func.func @main(%a: {tiled}, %b: {tiled}) -> vector<2x2x8x128x2xbf16> {{
      %c0 = arith.constant 0 : index
      %x = tpu.load %a[%c0, %c0] sublanes [true, true, true, true, true, true, true, true]
        {{grid.steps = array<i64: 16, 128>}} : {tiled}, vector<2x2x8x128x2xbf16>
      tpu.store %b[%c0, %c0], %x sublanes [true, true, true, true, true, true, true, true]
        {{grid.steps = array<i64: 16, 128>}} : {tiled}, vector<2x2x8x128x2xbf16>,
      return %x : vector<2x2x8x128x2xbf16>
    }}"""
    a = matrix(32, 256) % 256
    (x,) = run(text, a)
    np.testing.assert_array_equal(x, a.reshape(2, 8, 2, 2, 128).transpose(0, 3, 1, 4, 2))
    np.testing.assert_array_equal(run.refs[0][1].read(), a)


def test_replicating_transfer_read(run):
    text = f"""
    func.func @main(%a: memref<8x128xf32, {VMEM}>) -> vector<8x128xf32> {{
      %c0 = arith.constant 0 : index
      %c5 = arith.constant 5 : index
      %p = arith.constant 0.0 : f32
      %x = vector.transfer_read %a[%c5, %c0], %p
        {{in_bounds = [true, true], permutation_map = affine_map<(d0, d1) -> (0, d1)>}}
        : memref<8x128xf32, {VMEM}>, vector<8x128xf32>
      return %x : vector<8x128xf32>
    }}"""
    (x,) = run(text, matrix(8, 128))
    np.testing.assert_array_equal(x, np.broadcast_to(matrix(8, 128)[5], (8, 128)))


def test_gather_and_scatter(run):
    text = f"""
    func.func @main(%a: memref<4x128xi32, {VMEM}>, %r: memref<16xi32, {VMEM}>,
                    %c: memref<16xi32, {VMEM}>, %b: memref<128xi32, {VMEM}>) -> vector<16xi32> {{
      %z = arith.constant 0 : index
      %i = vector.load %r[%z] : memref<16xi32, {VMEM}>, vector<16xi32>
      %j = vector.load %c[%z] : memref<16xi32, {VMEM}>, vector<16xi32>
      %x = tpu.vector_load_idx %a[%i, %j]
        : memref<4x128xi32, {VMEM}>[vector<16xi32>, vector<16xi32>], vector<16xi32>,
      tpu.vector_store_idx %b[%i], %x {{add = true}}
        : memref<128xi32, {VMEM}>[vector<16xi32>], vector<16xi32>,
      return %x : vector<16xi32>
    }}"""
    rows, columns = np.arange(16) % 4, np.arange(16) * 7
    a = np.arange(512, dtype=np.int32).reshape(4, 128)
    (x,) = run(text, a, rows, columns, np.zeros(128))
    np.testing.assert_array_equal(x, a[rows, columns])
    expected = np.zeros(128, np.int32)
    np.add.at(expected, rows, x)
    np.testing.assert_array_equal(run.refs[0][3].read(), expected)


def test_scalars_scopes_and_bounds(run):
    text = f"""
    func.func @main(%s: memref<3xi32, {SMEM}>) -> (i32, i32) {{
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : index
      %c3 = arith.constant 3 : i32
      %one = arith.constant 1 : i32
      %x = memref.load %s[%c1] : memref<3xi32, {SMEM}>
      scf.for %i = %c0 to %c3 step %one : i32 {{
        "tpu.region"() ({{
          %t = memref.alloca() : memref<1024x1024xf32, {VMEM}>
          %p = memref.alloca() : memref<1xi32, {SMEM}>
          %z = arith.constant 0 : index
          memref.store %i, %p[%z] : memref<1xi32, {SMEM}>
          %q = memref.load %p[%z] : memref<1xi32, {SMEM}>
          memref.store %q, %s[%z] : memref<3xi32, {SMEM}>
          tpu.yield
        }}) : () -> ()
      }}
      %b = tpu.iteration_bound 1 : i32
      return %x, %b : i32, i32
    }}"""
    assert run(text, [10, 20, 30]) == (20, 5)
    np.testing.assert_array_equal(run.refs[0][0].read(), [2, 20, 30])
    core = run.machine.cores[0]
    assert core.vmem.peak_bytes == 4 << 20 and core.vmem.used_bytes == 0


def test_out_of_bounds_has_the_location_of_the_op(run):
    text = f"""
    func.func @main(%a: memref<8x128xf32, {VMEM}>) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %x = vector.load %a[%c1, %c0] : memref<8x128xf32, {VMEM}>, vector<8x128xf32>
        loc("kernel.py":12:4)
      tpu.vector_store %a[%c0, %c0], %x {{strides = array<i32>}}
        : memref<8x128xf32, {VMEM}>, vector<8x128xf32>,
      return
    }}"""
    with pytest.raises(ExecutionError) as caught:
        run(text, matrix(8, 128))
    assert caught.value.code == "out-of-bounds"
    assert str(caught.value.location) == "kernel.py:12:4"


@pytest.mark.parametrize("policy", ["eager", "on_wait", "random"])
def test_copies_of_dynamic_size(run, policy):
    text = f"""
    func.func @main(%a: memref<64x128xf32, #tpu.memory_space<any>>, %b: memref<64x128xf32, {VMEM}>,
                    %n: memref<1xi32, {SMEM}>) {{
      %z = arith.constant 0 : i32
      %c0 = arith.constant 0 : index
      %c8 = arith.constant 8 : i32
      %size = memref.load %n[%c0] : memref<1xi32, {SMEM}>
      "tpu.region"() ({{
        %s = tpu.sem_alloc : {DMA}
        %from = tpu.memref_slice %a[%c8, %z] <%size>
          : memref<64x128xf32, #tpu.memory_space<any>> -> memref<?x128xf32, #tpu.memory_space<any>>
        %to = tpu.memref_slice %b[%z, %z] <%size>
          : memref<64x128xf32, {VMEM}> -> memref<?x128xf32, {VMEM}>
        tpu.enqueue_dma source(%from : memref<?x128xf32, #tpu.memory_space<any>>)
          target(%to : memref<?x128xf32, {VMEM}>) target_semaphore(%s : {DMA})
        tpu.wait_dma2 semaphore(%s : {DMA}) src(%from : memref<?x128xf32, #tpu.memory_space<any>>)
          dst(%to : memref<?x128xf32, {VMEM}>)
        tpu.yield
      }}) : () -> ()
      return
    }}"""
    run(text, matrix(64, 128), np.zeros((64, 128)), [24], order=Order(policy), checks=("sync",))
    result = run.refs[0][1].read()
    np.testing.assert_array_equal(result[:24], matrix(64, 128)[8:32])
    assert (result[24:] == 0).all() and run.machine.findings == []


def test_remote_signals_and_device_ids(run):
    text = f"""
    func.func @main() -> (i32, i32) {{
      %b = tpu.sem_barrier : {SEMAPHORE}
      %me = tpu.device_id : i32
      %one = arith.constant 1 : i32
      %four = arith.constant 4 : i32
      %next = arith.addi %me, %one : i32
      %peer = arith.remsi %next, %four : i32
      tpu.sem_signal %b, %four device_id %peer : {SEMAPHORE}
      tpu.sem_wait %b, %one : {SEMAPHORE}
      %left = tpu.sem_read %b : {SEMAPHORE} -> i32
      return %me, %left : i32, i32
    }}"""
    assert run(text, devices=4) == [(d, 3) for d in range(4)]


def test_polling_a_semaphore_makes_progress(run):
    text = f"""
    func.func @main(%a: memref<8x128xf32, #tpu.memory_space<any>>, %b: memref<8x128xf32, {VMEM}>) {{
      %bytes = arith.constant 4096 : i32
      %c0 = arith.constant 0 : i32
      %s = tpu.sem_alloc : {DMA}
      tpu.enqueue_dma source(%a : memref<8x128xf32, #tpu.memory_space<any>>)
        target(%b : memref<8x128xf32, {VMEM}>) target_semaphore(%s : {DMA})
      %r = scf.while (%i = %c0) : (i32) -> i32 {{
        %n = tpu.sem_read %s : {DMA} -> i32
        %again = arith.cmpi slt, %n, %bytes : i32
        scf.condition(%again) %n : i32
      }} do {{
      ^bb0(%i: i32):
        tpu.delay %c0
        scf.yield %i : i32
      }}
      tpu.wait_dma2 semaphore(%s : {DMA}) src(%a : memref<8x128xf32, #tpu.memory_space<any>>)
        dst(%b : memref<8x128xf32, {VMEM}>)
      return
    }}"""
    run(text, matrix(8, 128))
    np.testing.assert_array_equal(run.refs[0][1].read(), matrix(8, 128))


def test_random_bits_are_the_same_in_grid_form(run):
    def draw(type: str) -> np.ndarray:
        text = f"""
        func.func @main() -> vector<{type}> {{
          %s = arith.constant 7 : i32
          "tpu.prng_set_seed_32"(%s, %s) : (i32, i32) -> ()
          %x = "tpu.prng_random_bits"() : () -> vector<{type}>
          return %x : vector<{type}>
        }}"""
        return run(text)[0]

    logical, grid = draw("16x256xi32"), draw("2x2x8x128xi32")
    assert logical.dtype == np.int32
    np.testing.assert_array_equal(logical, grid.transpose(0, 2, 1, 3).reshape(16, 256))


def test_log_lines(run):
    text = f"""
    func.func @main(%a: memref<2x128xi32, {VMEM}>) {{
      %x = arith.constant 5 : i32
      %y = arith.constant 0.5 : f32
      tpu.log "x=$0 y=$1" {{formatted = true}} : [%x, %y] : i32, f32
      tpu.log "plain" : [%x] : i32
      tpu.log "nothing"
      tpu.log_buffer "buf " {{shape = array<i64: 1, 3>}} : %a : memref<2x128xi32, {VMEM}>
      return
    }}"""
    run(text, np.arange(256).reshape(2, 128))
    assert run.machine.cores[0].log == ["x=5 y=0.5", "plain s32[] 5", "nothing", "buf {{0, 1, 2}}"]


def test_assertions(run):
    text = """
    func.func @main() {
      %c = arith.constant false
      cf.assert %c, "row out of range"
      return
    }"""
    with pytest.raises(ExecutionError, match="assertion failed on core 0: row out of range"):
        run(text)


@pytest.mark.parametrize("row", [0, 8])
def test_a_load_that_nobody_uses_is_no_access(run, row, monkeypatch):
    """Lowering drops it, so no form has anything to say of it."""
    text = f"""
    func.func @main(%a: memref<8x128xf32, {VMEM}>) {{
      %c0 = arith.constant 0 : index
      %row = arith.constant {row} : index
      %x = arith.constant dense<1.0> : vector<8x128xf32>
      %dead = vector.load %a[%row, %c0] : memref<8x128xf32, {VMEM}>, vector<8x128xf32>
      tpu.vector_store %a[%c0, %c0], %x {{strides = array<i32>}}
        : memref<8x128xf32, {VMEM}>, vector<8x128xf32>,
      return
    }}"""
    monkeypatch.setattr(Ref, "load", None)
    run(text)


def test_init_check_ignores_dead_loads_and_blends(run):
    text = f"""
    func.func @main(%a: memref<8x128xf32, {VMEM}>, %b: memref<8x128xf32, {VMEM}>)
        -> vector<8x128xf32> {{
      %c0 = arith.constant 0 : index
      %x = arith.constant dense<1.0> : vector<8x128xf32>
      %dead = vector.load %a[%c0, %c0] : memref<8x128xf32, {VMEM}>, vector<8x128xf32>
      tpu.vector_store %a[%c0, %c0], %x {{strides = array<i32>}}
        : memref<8x128xf32, {VMEM}>, vector<8x128xf32>,
      %y = vector.load %a[%c0, %c0] : memref<8x128xf32, {VMEM}>, vector<8x128xf32>
      %z = tpu.load %b[%c0, %c0] sublanes [true, true, true, true, true, true, true, true]
        : memref<8x128xf32, {VMEM}>, vector<8x128xf32>
      %w = arith.addf %y, %z : vector<8x128xf32>
      return %w : vector<8x128xf32>
    }}"""
    run(text, checks=("init",))
    (finding,) = run.machine.findings
    assert finding.code == "uninitialised-read" and "1 of 1 registers of arg1" in finding.message


@pytest.mark.parametrize(
    ("kept", "chosen", "found"),
    [("%old", "%changed", 0), ("%old", "%difference", 1), ("%x", "%changed", 1)],
)
def test_init_check_ignores_choices_of_bits(run, kept, chosen, found):
    """`old ^ ((new ^ old) & mask)` keeps bits of `old`; `old ^ (new ^ old)` is not looked at, and
    anything else in the place of the first `old` mixes its bits with them."""
    sublanes = "sublanes [true, false, false, false, false, false, false, false]"
    text = f"""
    func.func @main(%a: memref<8x128xi32, {VMEM}>) -> vector<8x128xi32> {{
      %c0 = arith.constant 0 : index
      %x = arith.constant dense<1> : vector<8x128xi32>
      %mask = arith.constant dense<255> : vector<8x128xi32>
      %old = tpu.load %a[%c0, %c0] {sublanes} : memref<8x128xi32, {VMEM}>, vector<8x128xi32>
      %difference = arith.xori %x, %old : vector<8x128xi32>
      %changed = arith.andi %difference, %mask : vector<8x128xi32>
      %new = arith.xori {kept}, {chosen} : vector<8x128xi32>
      tpu.store %a[%c0, %c0], %new {sublanes}
        : memref<8x128xi32, {VMEM}>, vector<8x128xi32>,
      return %x : vector<8x128xi32>
    }}"""
    run(text, checks=("init",))
    assert len(run.machine.findings) == found


def test_init_check_ignores_blends_through_views(run):
    all_sublanes = "sublanes [true, true, true, true, true, true, true, true]"
    text = f"""
    func.func @main(%a: memref<8x128xf32, {VMEM}>) -> vector<8x128xi32> {{
      %c0 = arith.constant 0 : index
      %x = arith.constant dense<1> : vector<8x128xi32>
      %old = tpu.load %a[%c0, %c0] {all_sublanes} : memref<8x128xf32, {VMEM}>, vector<8x128xf32>
      %words = tpu.bitcast_vreg %old : vector<8x128xf32> -> vector<8x128xi32>
      %new = arith.ori %words, %x : vector<8x128xi32>
      %view = tpu.memref_bitcast %a : memref<8x128xf32, {VMEM}> -> memref<8x128xi32, {VMEM}>
      tpu.store %view[%c0, %c0], %new {all_sublanes}
        : memref<8x128xi32, {VMEM}>, vector<8x128xi32>,
      return %x : vector<8x128xi32>
    }}"""
    run(text, checks=("init",))
    assert not run.machine.findings
