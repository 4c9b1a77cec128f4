// RUN: tpu-opt %s -p vectors-to-tiles --split-input-file --verify-diagnostics | filecheck %s

!x = memref<32x256xf32, #tpu.tiled<(8,128),[2,1]>, #tpu.memory_space<vmem>>

// CHECK:      error: cannot prove that a dynamic lane index is a multiple of 128 [unaligned-lane]
// CHECK:      note: promise it with pl.multiple_of(index, 128), or load an aligned block and use pltpu.roll
func.func @unknown_lane(%x: !x, %i: index) -> vector<8x128xf32> {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0, %i] : !x, vector<8x128xf32>
  func.return %v : vector<8x128xf32>
}

// -----

!x = memref<32x256xf32, #tpu.tiled<(8,128),[2,1]>, #tpu.memory_space<vmem>>

// CHECK: error: cannot prove that a dynamic sublane index is a multiple of 8 [unaligned-sublane]
func.func @unknown_row(%x: !x, %i: index) -> vector<8x128xf32> {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%i, %c0] : !x, vector<8x128xf32>
  func.return %v : vector<8x128xf32>
}

// -----

// CHECK: error: memref<8x128xf32, #tpu.memory_space<vmem>> has no tiled layout [untiled-memref]
func.func @untiled(%x: memref<8x128xf32, #tpu.memory_space<vmem>>) -> vector<8x128xf32> {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
  func.return %v : vector<8x128xf32>
}
