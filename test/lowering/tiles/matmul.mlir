// RUN: tpu-opt %s -p vectors-to-tiles{target=v5e} | filecheck %s

!a = memref<16x256xbf16, #tpu.tiled<(16,128)(2,1),[2,1]>, #tpu.memory_space<vmem>>
!b = memref<256x128xbf16, #tpu.tiled<(16,128)(2,1),[1,1]>, #tpu.memory_space<vmem>>
!f32 = memref<16x128xf32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>

// CHECK-LABEL: func.func @plain(
// CHECK:       %r = grid.matmul %a, %b, {{.*}} : vector<1x2x8x128x2xbf16>, vector<16x1x8x128x2xbf16>, vector<2x1x8x128xf32>
func.func @plain(%x: !a, %y: !b, %z: !f32) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !a, vector<16x256xbf16>
  %b = vector.load %y[%c0, %c0] : !b, vector<256x128xbf16>
  %c = vector.load %z[%c0, %c0] : !f32, vector<16x128xf32>
  %r = tpu.matmul %a, %b, %c {dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>, transpose_lhs_hint = false} : vector<16x256xbf16>, vector<256x128xbf16>, vector<16x128xf32> -> vector<16x128xf32>
  tpu.vector_store %z[%c0, %c0], %r {strides = array<i32>} : !f32, vector<16x128xf32>,
  func.return
}

// What lies behind the contracted elements is cleared in both operands.
// CHECK-LABEL: func.func @ragged_contraction(
// CHECK-COUNT-2: arith.select
// CHECK:       %r = grid.matmul
func.func @ragged_contraction(%x: !a, %y: !b, %z: !f32) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !a, vector<16x200xbf16>
  %b = vector.load %y[%c0, %c0] : !b, vector<200x128xbf16>
  %c = vector.load %z[%c0, %c0] : !f32, vector<16x128xf32>
  %r = tpu.matmul %a, %b, %c {dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>, transpose_lhs_hint = false} : vector<16x200xbf16>, vector<200x128xbf16>, vector<16x128xf32> -> vector<16x128xf32>
  tpu.vector_store %z[%c0, %c0], %r {strides = array<i32>} : !f32, vector<16x128xf32>,
  func.return
}
