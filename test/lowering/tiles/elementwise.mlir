// RUN: tpu-opt %s -p vectors-to-tiles{target=v5e} | filecheck %s

!f32 = memref<16x256xf32, #tpu.tiled<(8,128),[2,1]>, #tpu.memory_space<vmem>>
!i32 = memref<16x256xi32, #tpu.tiled<(8,128),[2,1]>, #tpu.memory_space<vmem>>

// One operation serves any number of registers.
// CHECK-LABEL: func.func @one_operation(
// CHECK:       %s = arith.addf %a, %b : vector<2x2x8x128xf32>
func.func @one_operation(%x: !f32, %y: !f32, %o: !f32) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !f32, vector<16x256xf32>
  %b = vector.load %y[%c0, %c0] : !f32, vector<16x256xf32>
  %s = arith.addf %a, %b : vector<16x256xf32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !f32, vector<16x256xf32>,
  func.return
}

// CHECK-LABEL: func.func @constant_is_one_register(
// CHECK:       %two = arith.constant dense<2.000000e+00> : vector<1x1x8x128xf32>
// CHECK:       grid.broadcast {{.*}} -> vector<2x2x8x128xf32>
// CHECK-NEXT:  %s = arith.mulf %a
func.func @constant_is_one_register(%x: !f32, %o: !f32) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !f32, vector<16x256xf32>
  %two = arith.constant dense<2.0> : vector<16x256xf32>
  %s = arith.mulf %a, %two : vector<16x256xf32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !f32, vector<16x256xf32>,
  func.return
}

// The rows of the left operand begin in the fourth sublane.
// CHECK-LABEL: func.func @offsets_meet_at_zero(
// CHECK:       tpu.sublane_shuffle {{.*}}, [3, 4, 5, 6, 7, 0, 1, 2]
// CHECK:       arith.select
// CHECK:       %s = arith.addf %{{[0-9]+}}, %b : vector<1x1x8x128xf32>
func.func @offsets_meet_at_zero(%x: !f32, %y: !f32, %o: !f32) {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %a = vector.load %x[%c3, %c0] : !f32, vector<8x128xf32>
  %b = vector.load %y[%c0, %c0] : !f32, vector<8x128xf32>
  %s = arith.addf %a, %b : vector<8x128xf32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !f32, vector<8x128xf32>,
  func.return
}

// Positions of registers plus positions within one.
// CHECK-LABEL: func.func @iota(
// CHECK:       grid.position dim 1 step 128 : vector<1x2x8x128xi32>
// CHECK:       tpu.iota {dimensions = array<i32: 1>} : vector<8x128xi32>
// CHECK:       arith.addi
// CHECK:       grid.broadcast {{.*}} -> vector<2x2x8x128xi32>
func.func @iota(%o: !i32) {
  %c0 = arith.constant 0 : index
  %s = tpu.iota {dimensions = array<i32: 1>} : vector<16x256xi32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !i32, vector<16x256xi32>,
  func.return
}

// CHECK-LABEL: func.func @select(
// CHECK:       %m = arith.cmpf ogt, %a, {{.*}} : vector<2x2x8x128xf32>
// CHECK-NEXT:  %s = arith.select %m, %a, {{.*}} : vector<2x2x8x128xi1>
func.func @select(%x: !f32, %o: !f32) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !f32, vector<16x256xf32>
  %zero = arith.constant dense<0.0> : vector<16x256xf32>
  %m = arith.cmpf ogt, %a, %zero : vector<16x256xf32>
  %s = arith.select %m, %a, %zero : vector<16x256xi1>, vector<16x256xf32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !f32, vector<16x256xf32>,
  func.return
}

// A part of a value that lies across registers is put together before it is computed with.
// CHECK-LABEL: func.func @moved_first(
// CHECK:       %v = tpu.load {{.*}}, vector<1x2x8x128xf32>
// CHECK:       tpu.dynamic_rotate
// CHECK:       arith.addf {{.*}} : vector<1x1x8x128xf32>
// CHECK:       tpu.store
func.func @moved_first(%x: memref<8x256xf32, #tpu.tiled<(8,128),[2,1]>, #tpu.memory_space<vmem>>, %o: memref<8x128xf32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>) {
  %c0 = arith.constant 0 : index
  %c100 = arith.constant 100 : index
  %v = vector.load %x[%c0, %c100] : memref<8x256xf32, #tpu.tiled<(8,128),[2,1]>, #tpu.memory_space<vmem>>, vector<8x128xf32>
  %one = arith.constant dense<1.0> : vector<8x128xf32>
  %s = arith.addf %v, %one : vector<8x128xf32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : memref<8x128xf32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>, vector<8x128xf32>,
  func.return
}
