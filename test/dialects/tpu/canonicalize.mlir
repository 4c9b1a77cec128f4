// RUN: tpu-opt %s -p canonicalize | filecheck %s

// CHECK-LABEL: func.func @views_of_the_same_type
// CHECK-NEXT: func.return %{{.*}}, %{{.*}}, %{{.*}} : memref<8x128xf32>, vector<8x128xf32>, memref<8x128xf32>
func.func @views_of_the_same_type(%m: memref<8x128xf32>, %v: vector<8x128xf32>) -> (memref<8x128xf32>, vector<8x128xf32>, memref<8x128xf32>) {
  %c0 = arith.constant 0 : i32
  %0 = tpu.erase_memref_layout %m : memref<8x128xf32> -> memref<8x128xf32>
  %1 = tpu.bitcast_vreg %v : vector<8x128xf32> -> vector<8x128xi32>
  %2 = tpu.bitcast_vreg %1 : vector<8x128xi32> -> vector<8x128xf32>
  %3 = tpu.memref_slice %m[%c0, %c0] : memref<8x128xf32> -> memref<8x128xf32>
  return %0, %2, %3 : memref<8x128xf32>, vector<8x128xf32>, memref<8x128xf32>
}

// CHECK-LABEL: func.func @constant_sizes_become_static
// CHECK: %[[S:.*]] = tpu.memref_slice %{{.*}}[%{{.*}}, %{{.*}}] <%{{.*}}> : memref<64x256xf32> -> memref<8x?xf32>
// CHECK-NEXT: memref.cast %[[S]] : memref<8x?xf32> to memref<?x?xf32>
func.func @constant_sizes_become_static(%m: memref<64x256xf32>, %i: i32) -> memref<?x?xf32> {
  %c8 = arith.constant 8 : i32
  %0 = tpu.memref_slice %m[%i, %i] <%c8, %i> : memref<64x256xf32> -> memref<?x?xf32>
  return %0 : memref<?x?xf32>
}

// CHECK-LABEL: func.func @squeeze_before_the_cast
// CHECK: %[[S:.*]] = tpu.memref_squeeze %{{.*}} : memref<1x8x128xf32> -> memref<8x128xf32>
// CHECK-NEXT: memref.cast %[[S]] : memref<8x128xf32> to memref<?x128xf32>
func.func @squeeze_before_the_cast(%m: memref<1x8x128xf32>) -> memref<?x128xf32> {
  %0 = memref.cast %m : memref<1x8x128xf32> to memref<1x?x128xf32>
  %1 = tpu.memref_squeeze %0 : memref<1x?x128xf32> -> memref<?x128xf32>
  return %1 : memref<?x128xf32>
}

// CHECK-LABEL: func.func @reshapes
// CHECK: tpu.reshape %{{.*}} : vector<8x128xf32> -> vector<4x256xf32>
// CHECK-NEXT: arith.constant dense<1.000000e+00> : vector<128x8xf32>
func.func @reshapes(%v: vector<8x128xf32>) -> (vector<4x256xf32>, vector<128x8xf32>) {
  %0 = tpu.reshape %v : vector<8x128xf32> -> vector<1024xf32>
  %1 = tpu.reshape %0 : vector<1024xf32> -> vector<4x256xf32>
  %ones = arith.constant dense<1.0> : vector<8x128xf32>
  %2 = tpu.reshape %ones : vector<8x128xf32> -> vector<128x8xf32>
  return %1, %2 : vector<4x256xf32>, vector<128x8xf32>
}

// CHECK-LABEL: func.func @unroll_of_roll
// CHECK-NEXT: func.return %{{.*}}, %{{.*}} : vector<8x128xf32>, vector<8x128xf32>
func.func @unroll_of_roll(%a: vector<8x128xf32>, %b: vector<8x128xf32>) -> (vector<8x128xf32>, vector<8x128xf32>) {
  %0 = tpu.roll_vectors %a, %b : vector<8x128xf32>, vector<8x128xf32> -> vector<16x128xf32>
  %1:2 = tpu.unroll_vectors %0 : vector<16x128xf32> -> vector<8x128xf32>, vector<8x128xf32>
  return %1#0, %1#1 : vector<8x128xf32>, vector<8x128xf32>
}

// CHECK-LABEL: func.func @consecutive_rows
// CHECK: tpu.load %{{.*}}[%{{.*}}, %{{.*}}] sublanes [true, true] :
// CHECK-NEXT: tpu.store %{{.*}}[%{{.*}}, %{{.*}}], %{{.*}} sublanes [true, false] :
func.func @consecutive_rows(%m: memref<8x128xf32>, %i: index) {
  %0 = tpu.shuffled_load %m[%i, %i] {sublane_mask = array<i1: true, true>, sublane_offsets = array<i32: 0, 1>} : memref<8x128xf32>, vector<2x128xf32>
  tpu.shuffled_store %m[%i, %i], %0 {sublane_mask = array<i1: true, false>, sublane_offsets = array<i32: 0, 1>} : memref<8x128xf32>, vector<2x128xf32>
  return
}

// CHECK-LABEL: func.func @gather_of_one
// CHECK-NEXT: vector.broadcast %{{.*}} : vector<1x128xf32> to vector<8x128xf32>
func.func @gather_of_one(%v: vector<1x128xf32>, %i: vector<8x128xi32>) -> vector<8x128xf32> {
  %0 = tpu.dynamic_gather %v[%i] in [0] : vector<1x128xf32>, vector<8x128xi32> -> vector<8x128xf32>
  return %0 : vector<8x128xf32>
}

// CHECK-LABEL: func.func @conversions
// CHECK: tpu.fptosi %{{.*}} {rounding_mode = #tpu.rounding_mode<to_nearest_even>}
// CHECK: tpu.truncf %{{.*}} {rounding_mode = #tpu.rounding_mode<to_nearest_even>} : f32 -> bf16
// CHECK: arith.constant 1.500000e+00 : bf16
func.func @conversions(%v: vector<8x128xf32>) -> (vector<8x128xi32>, bf16, bf16) {
  %0 = math.roundeven %v : vector<8x128xf32>
  %1 = tpu.fptosi %0 {rounding_mode = #tpu.rounding_mode<towards_zero>} : vector<8x128xf32> -> vector<8x128xi32>
  %inexact = arith.constant 1.1 : f32
  %2 = tpu.truncf %inexact {rounding_mode = #tpu.rounding_mode<to_nearest_even>} : f32 -> bf16
  %exact = arith.constant 1.5 : f32
  %3 = tpu.truncf %exact {rounding_mode = #tpu.rounding_mode<to_nearest_even>} : f32 -> bf16
  return %1, %2, %3 : vector<8x128xi32>, bf16, bf16
}

// CHECK-LABEL: func.func @unpack_of_pack
// CHECK-NEXT: func.return
func.func @unpack_of_pack(%a: vector<8x128xi32>, %b: vector<8x128xi32>) -> vector<8x128xi32> {
  %0 = tpu.pack_subelements %a, %b {pack_format = #tpu.pack_format<interleaved>, positions = array<i32: 1, 0>} : vector<8x128xi32>, vector<8x128xi32> -> vector<8x128x2xi16>
  %1 = tpu.unpack_subelements %0, 1 {integer_extended = false, pack_format = #tpu.pack_format<interleaved>} : vector<8x128x2xi16> -> vector<8x128xi32>
  return %1 : vector<8x128xi32>
}

// CHECK-LABEL: func.func @extension_that_nobody_sees
// CHECK: tpu.unpack_subelements %{{.*}}, 0 {integer_extended = false,
func.func @extension_that_nobody_sees(%a: vector<8x128x2xi16>) -> vector<8x128x4xi8> {
  %0 = tpu.unpack_subelements %a, 0 {pack_format = #tpu.pack_format<interleaved>} : vector<8x128x2xi16> -> vector<8x128xi32>
  %1 = tpu.pack_subelements %0 {pack_format = #tpu.pack_format<interleaved>, positions = array<i32: 0>} : vector<8x128xi32> -> vector<8x128x4xi8>
  return %1 : vector<8x128x4xi8>
}
