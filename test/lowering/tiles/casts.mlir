// RUN: tpu-opt %s -p vectors-to-tiles{target=v5e} | filecheck %s

!f32 = memref<16x256xf32, #tpu.tiled<(8,128),[2,1]>, #tpu.memory_space<vmem>>
!i32 = memref<16x256xi32, #tpu.tiled<(8,128),[2,1]>, #tpu.memory_space<vmem>>
!bf16 = memref<16x256xbf16, #tpu.tiled<(16,128)(2,1),[2,1]>, #tpu.memory_space<vmem>>
!i8 = memref<16x256xi8, #tpu.tiled<(32,128)(4,1),[2,1]>, #tpu.memory_space<vmem>>

// A packed register has the rows of two blocks.
// CHECK-LABEL: func.func @widen(
// CHECK:       tpu.unpack_subelements %a, 0 {{.*}}compressed{{.*}} -> vector<1x2x8x128xf32>
// CHECK:       tpu.unpack_subelements %a, 1
// CHECK:       grid.concat {{.*}} dim 1
// CHECK:       %s = grid.reshape {{.*}} -> vector<2x2x8x128xf32>
func.func @widen(%x: !bf16, %o: !f32) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !bf16, vector<16x256xbf16>
  %s = tpu.extf %a : vector<16x256xbf16> -> vector<16x256xf32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !f32, vector<16x256xf32>,
  func.return
}

// CHECK-LABEL: func.func @narrow(
// CHECK:       %s = tpu.pack_subelements {{.*}}positions = array<i32: 0, 1>{{.*}} -> vector<1x2x8x128x2xbf16>
func.func @narrow(%x: !f32, %o: !bf16) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !f32, vector<16x256xf32>
  %s = tpu.truncf %a {rounding_mode = #tpu.rounding_mode<to_nearest_even>} : vector<16x256xf32> -> vector<16x256xbf16>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !bf16, vector<16x256xbf16>,
  func.return
}

// Sixteen rows fill half of a register of i8.
// CHECK-LABEL: func.func @unsigned(
// CHECK:       tpu.unpack_subelements %a, 0 {{.*}}unsigned_integers = true
// CHECK:       %s = grid.slice {{.*}} [0, 0] [2, 2]
func.func @unsigned(%x: !i8, %o: !i32) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !i8, vector<16x256xi8>
  %s = arith.extui %a : vector<16x256xi8> to vector<16x256xi32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !i32, vector<16x256xi32>,
  func.return
}

// CHECK-LABEL: func.func @mask_to_number(
// CHECK:       %s = arith.extui %m : vector<2x2x8x128xi1> to vector<2x2x8x128xi32>
func.func @mask_to_number(%x: !i32, %o: !i32) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !i32, vector<16x256xi32>
  %m = arith.cmpi slt, %a, %a : vector<16x256xi32>
  %s = arith.extui %m : vector<16x256xi1> to vector<16x256xi32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !i32, vector<16x256xi32>,
  func.return
}

// A bitcast to the same type is the same registers, of masks as well.
// CHECK-LABEL: func.func @bitcast_of_a_mask(
// CHECK:       [[MASK:%[a-z]+]] = arith.cmpi {{.*}} : vector<2x2x8x128xi32>
// CHECK-NEXT:  %s = arith.select [[MASK]],
func.func @bitcast_of_a_mask(%x: !i32, %o: !i32) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !i32, vector<16x256xi32>
  %b = vector.load %o[%c0, %c0] : !i32, vector<16x256xi32>
  %m = arith.cmpi eq, %a, %b : vector<16x256xi32>
  %n = tpu.bitcast %m : vector<16x256xi1> -> vector<16x256xi1>
  %s = arith.select %n, %a, %b : vector<16x256xi1>, vector<16x256xi32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !i32, vector<16x256xi32>,
  func.return
}

// CHECK-LABEL: func.func @bitcast(
// CHECK:       %s = tpu.bitcast_vreg %b : vector<2x2x8x128xf32> -> vector<2x2x8x128xi32>
func.func @bitcast(%x: !f32, %o: !i32) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !f32, vector<16x256xf32>
  %b = arith.addf %a, %a : vector<16x256xf32>
  %s = arith.bitcast %b : vector<16x256xf32> to vector<16x256xi32>
  %t = arith.addi %s, %s : vector<16x256xi32>
  tpu.vector_store %o[%c0, %c0], %t {strides = array<i32>} : !i32, vector<16x256xi32>,
  func.return
}
