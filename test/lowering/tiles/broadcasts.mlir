// RUN: tpu-opt %s -p vectors-to-tiles{target=v5e} | filecheck %s

!f32 = memref<16x256xf32, #tpu.tiled<(8,128),[2,1]>, #tpu.memory_space<vmem>>
!col = memref<16x1xf32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>
!row = memref<1x256xf32, #tpu.tiled<(8,128),[2,1]>, #tpu.memory_space<vmem>>

// CHECK-LABEL: func.func @scalar(
// CHECK:       vector.broadcast %x : f32 to vector<8x128xf32>
// CHECK:       grid.broadcast {{.*}} -> vector<2x2x8x128xf32>
func.func @scalar(%x: f32, %o: !f32) {
  %c0 = arith.constant 0 : index
  %s = vector.broadcast %x : f32 to vector<16x256xf32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !f32, vector<16x256xf32>,
  func.return
}

// A row is loaded into every sublane.
// CHECK-LABEL: func.func @row(
// CHECK:       tpu.load %x[%c0, %c0] {{.*}} sublane_stride 0 {{.*}}, vector<1x2x8x128xf32>
// CHECK-NOT:   sublane_shuffle
// CHECK:       %s = arith.addf
func.func @row(%x: !row, %y: !f32, %o: !f32) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !row, vector<1x256xf32>
  %r = vector.broadcast %a : vector<1x256xf32> to vector<16x256xf32>
  %b = vector.load %y[%c0, %c0] : !f32, vector<16x256xf32>
  %s = arith.addf %r, %b : vector<16x256xf32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !f32, vector<16x256xf32>,
  func.return
}

// A column is spread over the lanes once per register.
// CHECK-LABEL: func.func @column(
// CHECK:       tpu.dynamic_gather {{.*}} in [2] : vector<2x8x128xf32>
// CHECK:       grid.broadcast {{.*}} -> vector<2x2x8x128xf32>
// CHECK:       %s = arith.addf
func.func @column(%x: !col, %y: !f32, %o: !f32) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !col, vector<16x1xf32>
  %r = vector.broadcast %a : vector<16x1xf32> to vector<16x256xf32>
  %b = vector.load %y[%c0, %c0] : !f32, vector<16x256xf32>
  %s = arith.addf %r, %b : vector<16x256xf32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !f32, vector<16x256xf32>,
  func.return
}
