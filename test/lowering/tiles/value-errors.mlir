// RUN: tpu-opt %s -p vectors-to-tiles --split-input-file --verify-diagnostics | filecheck %s

!x = memref<8x128xf32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>
!i = memref<8x128xi32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>

// CHECK: error: a gather along [0, 1] of vector<8x128xf32> is not supported [gather-form]
func.func @gather_along_two_dimensions(%x: !x, %y: !i) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0, %c0] : !x, vector<8x128xf32>
  %i = vector.load %y[%c0, %c0] : !i, vector<8x128xi32>
  %r = tpu.dynamic_gather %v[%i] in [0, 1] : vector<8x128xf32>, vector<8x128xi32> -> vector<8x128xf32>
  tpu.vector_store %x[%c0, %c0], %r {strides = array<i32>} : !x, vector<8x128xf32>,
  func.return
}

// -----

!x = memref<16x128xbf16, #tpu.tiled<(16,128)(2,1),[1,1]>, #tpu.memory_space<vmem>>

// CHECK: error: a scalar of bf16 cannot be extracted from a vector [extract-width]
func.func @narrow_scalar(%x: !x) -> bf16 {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0, %c0] : !x, vector<16x128xbf16>
  %s = vector.extract %v[0, 0] : bf16 from vector<16x128xbf16>
  func.return %s : bf16
}

// -----

!x = memref<8x128xf32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>

// CHECK: error: vector.outerproduct cannot be lowered to registers [no-tile-rule]
func.func @no_rule(%x: !x, %y: memref<128xf32, #tpu.tiled<(128),[1]>, #tpu.memory_space<vmem>>) {
  %c0 = arith.constant 0 : index
  %v = vector.load %y[%c0] : memref<128xf32, #tpu.tiled<(128),[1]>, #tpu.memory_space<vmem>>, vector<128xf32>
  %r = vector.outerproduct %v, %v {kind = #vector.kind<mul>} : vector<128xf32>, vector<128xf32>
  func.return
}
