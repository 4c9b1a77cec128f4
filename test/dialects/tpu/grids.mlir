// RUN: %tpu_roundtrip
// RUN: %tpu_generic

// Operations on whole grids of registers, as the `tiles` form has them.

// CHECK-LABEL: func.func @words
func.func @words(%v: vector<4x2x8x128xf32>, %n: i32) {
  // CHECK: tpu.sublane_shuffle %{{.*}}, %{{.*}}, [0, 1, 2, 3, 8, 9, 10, 11]
  %0 = tpu.sublane_shuffle %v, %v, [0, 1, 2, 3, 8, 9, 10, 11] : vector<4x2x8x128xf32>, vector<4x2x8x128xf32> -> vector<4x2x8x128xf32>
  // CHECK: tpu.dynamic_rotate %{{.*}} by %{{.*}} dim 3
  %1 = tpu.dynamic_rotate %v by %n dim 3 : vector<4x2x8x128xf32>, i32 -> vector<4x2x8x128xf32>
  // CHECK: tpu.all_reduce %{{.*}} {dim = 2 : i64, kind = #tpu.reduction_kind<sum>}
  %2 = tpu.all_reduce %v {dim = 2 : i64, kind = #tpu.reduction_kind<sum>} : vector<4x2x8x128xf32> -> vector<4x2x8x128xf32>
  // CHECK: tpu.bitcast_vreg %{{.*}} : vector<4x2x8x128xf32> -> vector<4x2x8x128x2xbf16>
  %3 = tpu.bitcast_vreg %v : vector<4x2x8x128xf32> -> vector<4x2x8x128x2xbf16>
  return
}

// CHECK-LABEL: func.func @packed
func.func @packed(%v: vector<3x8x128xf32>, %m: vector<3x8x128xi1>) {
  // CHECK: tpu.pack_subelements %{{.*}}, %{{.*}} {pack_format = #tpu.pack_format<compressed>, positions = array<i32: 0, 1>} : vector<3x8x128xf32>, vector<3x8x128xf32> -> vector<3x8x128x2xbf16>
  %0 = tpu.pack_subelements %v, %v {pack_format = #tpu.pack_format<compressed>, positions = array<i32: 0, 1>} : vector<3x8x128xf32>, vector<3x8x128xf32> -> vector<3x8x128x2xbf16>
  // CHECK: tpu.unpack_subelements %{{.*}}, 1
  %1 = tpu.unpack_subelements %0, 1 {pack_format = #tpu.pack_format<compressed>} : vector<3x8x128x2xbf16> -> vector<3x8x128xf32>
  // CHECK: tpu.pack_vmsk
  %2 = tpu.pack_vmsk %m, %m {positions = array<i32: 0, 1>} : vector<3x8x128xi1>, vector<3x8x128xi1> -> vector<3x8x128x2xi1>
  // CHECK: tpu.mask_cast
  %3 = tpu.mask_cast %m : vector<3x8x128xi1> -> vector<3x8x128x4xi1>
  return
}

// CHECK-LABEL: func.func @memory
func.func @memory(%r: memref<32x256xf32, #tpu.memory_space<vmem>>, %i: index, %m: vector<4x2x8x128xi1>) {
  // CHECK: tpu.load %{{.*}} {grid.steps = array<i64: 8, 128>} : memref<32x256xf32, #tpu.memory_space<vmem>>, vector<4x2x8x128xf32>
  %0 = tpu.load %r[%i, %i] sublanes [true, true, true, true, true, true, true, true] {grid.steps = array<i64: 8, 128>} : memref<32x256xf32, #tpu.memory_space<vmem>>, vector<4x2x8x128xf32>
  // CHECK: tpu.store %{{.*}} masked %{{.*}} {grid.steps = array<i64: 8, 128>} : memref<32x256xf32, #tpu.memory_space<vmem>>, vector<4x2x8x128xf32>, vector<4x2x8x128xi1>
  tpu.store %r[%i, %i], %0 masked %m sublanes [true, true, true, true, true, true, true, true] {grid.steps = array<i64: 8, 128>} : memref<32x256xf32, #tpu.memory_space<vmem>>, vector<4x2x8x128xf32>, vector<4x2x8x128xi1>
  return
}
