// RUN: tpu-opt %s -p tiles-to-vregs{target=v5e} | filecheck %s

!a = memref<16x256xbf16, #tpu.tiled<(16,128)(2,1),[2,1]>, #tpu.memory_space<vmem>>
!b = memref<256x128xbf16, #tpu.tiled<(16,128)(2,1),[1,1]>, #tpu.memory_space<vmem>>
!f32 = memref<16x128xf32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>

// Two groups of 128 contracted elements; the first sum is the accumulator of the second.
// CHECK-LABEL: func.func @groups(
// CHECK:       [[L:%[0-9]+]] = tpu.roll_vectors {{.*}} -> vector<16x128xbf16>
// CHECK-NEXT:  [[R:%[0-9]+]] = tpu.roll_vectors {{.*}} -> vector<128x128xbf16>
// CHECK-NEXT:  [[C:%[0-9]+]] = tpu.roll_vectors {{.*}} -> vector<16x128xf32>
// CHECK-NEXT:  [[M:%[0-9]+]] = tpu.matmul [[L]], [[R]], [[C]]
// CHECK-NEXT:  [[P:%[0-9]+]], [[Q:%[0-9]+]] = tpu.unroll_vectors [[M]]
// CHECK:       [[D:%[0-9]+]] = tpu.roll_vectors [[P]], [[Q]]
// CHECK-NEXT:  tpu.matmul {{.*}}, [[D]]
// CHECK-NEXT:  tpu.unroll_vectors
func.func @groups(%x: !a, %y: !b, %z: !f32) {
  %c0 = arith.constant 0 : index
  %a = tpu.load %x[%c0, %c0] sublanes [true, true, true, true, true, true, true, true] {grid.steps = array<i64: 16, 128>} : !a, vector<1x2x8x128x2xbf16>
  %b = tpu.load %y[%c0, %c0] sublanes [true, true, true, true, true, true, true, true] {grid.steps = array<i64: 16, 128>} : !b, vector<16x1x8x128x2xbf16>
  %c = tpu.load %z[%c0, %c0] sublanes [true, true, true, true, true, true, true, true] {grid.steps = array<i64: 8, 128>} : !f32, vector<2x1x8x128xf32>
  %r = grid.matmul %a, %b, %c {transpose_rhs = false, contracting = 128 : i64, columns = 128 : i64} : vector<1x2x8x128x2xbf16>, vector<16x1x8x128x2xbf16>, vector<2x1x8x128xf32>
  tpu.store %z[%c0, %c0], %r sublanes [true, true, true, true, true, true, true, true] {grid.steps = array<i64: 8, 128>} : !f32, vector<2x1x8x128xf32>,
  func.return
}
