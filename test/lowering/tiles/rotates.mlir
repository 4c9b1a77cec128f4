// RUN: tpu-opt %s -p vectors-to-tiles{target=v5e} | filecheck %s

!f32 = memref<16x256xf32, #tpu.tiled<(8,128),[2,1]>, #tpu.memory_space<vmem>>
!wide = memref<8x512xf32, #tpu.tiled<(8,128),[4,1]>, #tpu.memory_space<vmem>>
!i32 = memref<16x256xi32, #tpu.tiled<(8,128),[2,1]>, #tpu.memory_space<vmem>>

// A known multiple of a register only renames.
// CHECK-LABEL: func.func @by_a_constant(
// CHECK:       grid.take {{.*}} [1, 0, 3, 2]
// CHECK-NOT:   dynamic_rotate
// CHECK:       tpu.store
func.func @by_a_constant(%x: !f32, %o: !f32) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !f32, vector<16x256xf32>
  %n = arith.constant 128 : i32
  %s = tpu.dynamic_rotate %a by %n dim 1 : vector<16x256xf32>, i32 -> vector<16x256xf32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !f32, vector<16x256xf32>,
  func.return
}

// Of two registers either one or the other, by the distance from where the element was.
// CHECK-LABEL: func.func @by_an_unknown_amount(
// CHECK:       tpu.dynamic_rotate %a by {{.*}} dim 3
// CHECK:       grid.concat {{.*}} dim 1
// CHECK:       arith.subi
// CHECK-NOT:   arith.divsi
// CHECK:       %s = arith.select
func.func @by_an_unknown_amount(%x: !f32, %o: !f32, %n: i32) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !f32, vector<16x256xf32>
  %s = tpu.dynamic_rotate %a by %n dim 1 : vector<16x256xf32>, i32 -> vector<16x256xf32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !f32, vector<16x256xf32>,
  func.return
}

// Within registers, into neighbours, then by whole registers, bit by bit.
// CHECK-LABEL: func.func @over_four_registers(
// CHECK:       tpu.dynamic_rotate %a by {{.*}} dim 3
// CHECK:       grid.concat {{.*}} dim 1
// CHECK:       arith.select
// CHECK:       arith.divsi
// CHECK:       grid.concat {{.*}} dim 1
// CHECK:       %s = arith.select
func.func @over_four_registers(%x: !wide, %o: !wide, %n: i32) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !wide, vector<8x512xf32>
  %s = tpu.dynamic_rotate %a by %n dim 1 : vector<8x512xf32>, i32 -> vector<8x512xf32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !wide, vector<8x512xf32>,
  func.return
}

// Equal elements may stay where they are.
// CHECK-LABEL: func.func @splat(
// CHECK-NOT:   dynamic_rotate
// CHECK:       tpu.store
func.func @splat(%x: f32, %o: !f32, %n: i32) {
  %c0 = arith.constant 0 : index
  %a = vector.broadcast %x : f32 to vector<16x256xf32>
  %s = tpu.dynamic_rotate %a by %n dim 1 : vector<16x256xf32>, i32 -> vector<16x256xf32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !f32, vector<16x256xf32>,
  func.return
}

// CHECK-LABEL: func.func @gather_lanes(
// CHECK:       %s = tpu.dynamic_gather {{.*}}[%b] in [3] : vector<1x1x8x128xf32>
func.func @gather_lanes(%x: !f32, %i: !i32, %o: !f32) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !f32, vector<8x128xf32>
  %b = vector.load %i[%c0, %c0] : !i32, vector<8x128xi32>
  %s = tpu.dynamic_gather %a[%b] in [1] : vector<8x128xf32>, vector<8x128xi32> -> vector<8x128xf32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !f32, vector<8x128xf32>,
  func.return
}
