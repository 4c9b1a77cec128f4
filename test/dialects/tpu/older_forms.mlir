// RUN: %tpu_roundtrip
// RUN: %tpu_generic

// What the old C++ layout passes print is read, and printed as operations of today.

// CHECK-LABEL: func.func @rotate_by_a_constant
func.func @rotate_by_a_constant(%v: vector<8x128xi32>) {
  // CHECK: tpu.rotate %{{.*}} by 123 dim 1 : vector<8x128xi32>
  %0 = tpu.rotate %v by 123 dim 1 : vector<8x128xi32>
  // CHECK: tpu.rotate %{{.*}} by 6 dim 0 {stride = 1 : si32, stride_dimension = 1 : si32} : vector<8x128xi32>
  %1 = tpu.rotate %v by 6 dim 0 {stride = 1 : si32, stride_dimension = 1 : si32} : vector<8x128xi32>
  return
}

// CHECK-LABEL: func.func @sign_extended_is_integer_extended
func.func @sign_extended_is_integer_extended(%v: vector<8x128x4xi8>) {
  // CHECK: tpu.unpack_subelements %{{.*}}, 2 {integer_extended = false, pack_format = #tpu.pack_format<compressed>}
  %0 = tpu.unpack_subelements %v, 2 {pack_format = #tpu.pack_format<compressed>, sign_extended = false} : vector<8x128x4xi8> -> vector<8x128xi32>
  // CHECK: tpu.unpack_subelements %{{.*}}, 3 {pack_format = #tpu.pack_format<compressed>}
  %1 = "tpu.unpack_subelements"(%v) <{index = 3 : i32, pack_format = #tpu.pack_format<compressed>, sign_extended = true}> : (vector<8x128x4xi8>) -> vector<8x128xi32>
  return
}

// CHECK-LABEL: func.func @masks_are_packed_in_order
func.func @masks_are_packed_in_order(%m: vector<8x128xi1>) {
  // CHECK: tpu.pack_vmsk %{{.*}}, %{{.*}} {positions = array<i32: 0, 1>} : vector<8x128xi1>, vector<8x128xi1> -> vector<8x128x2xi1>
  %0 = tpu.pack_vmsk %m, %m, : vector<8x128xi1>, vector<8x128xi1> -> vector<8x128x2xi1>
  // CHECK: tpu.pack_vmsk %{{.*}}, %{{.*}} {positions = array<i32: 0, 1>}
  %1 = "tpu.pack_vmsk"(%m, %m) : (vector<8x128xi1>, vector<8x128xi1>) -> vector<8x128x2xi1>
  return
}

// CHECK-LABEL: func.func @matmul_without_hint
func.func @matmul_without_hint(%v: vector<128x128xf32>) {
  // CHECK: tpu.matmul %{{.*}}, %{{.*}}, %{{.*}} {dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>, transpose_lhs_hint = false}
  %0 = tpu.matmul %v, %v, %v {dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>} : vector<128x128xf32>, vector<128x128xf32>, vector<128x128xf32> -> vector<128x128xf32>
  return
}

// CHECK-LABEL: func.func @explicit_defaults_disappear
func.func @explicit_defaults_disappear(%m: memref<8x128xf32, #tpu.memory_space<vmem>>, %i: index) {
  // CHECK: tpu.load %{{.*}}[%{{.*}}, %{{.*}}] sublanes [true, true, true, true, true, true, true, false] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
  %0 = tpu.load %m[%i, %i] sublanes [true, true, true, true, true, true, true, false] sublane_stride 1 : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
  // CHECK: tpu.reciprocal %{{.*}} {approx = true} : vector<8x128xf32> -> vector<8x128xf32>
  %1 = tpu.reciprocal %0 {approx = true, full_range = true} : vector<8x128xf32> -> vector<8x128xf32>
  return
}

// CHECK-LABEL: func.func @layouts_are_kept
func.func @layouts_are_kept(%v: vector<8x128xf32>) {
  // CHECK: tpu.roll_vectors %{{.*}}, %{{.*}} {out_layout = [#tpu.vpad<"32,{0,0},(8,128)">]}
  %0 = tpu.roll_vectors %v, %v {out_layout = [#tpu.vpad<"32,{0,0},(8,128)">]} : vector<8x128xf32>, vector<8x128xf32> -> vector<16x128xf32>
  // CHECK: tpu.sem_alloc {in_layout = []} : memref<2x!tpu.dma_semaphore, #tpu.tiled<,[1]>, #tpu.memory_space<semaphore_mem>>
  %1 = tpu.sem_alloc {in_layout = []} : memref<2x!tpu.dma_semaphore, #tpu.tiled<,[1]>, #tpu.memory_space<semaphore_mem>>
  // CHECK: tpu.relayout %{{.*}} {in_layout = [#tpu.vpad<"none">], out_layout = [#tpu.vpad<"32,{*,0},(8,128)">]} : vector<8x128xf32> -> vector<8x128xf32>
  %2 = tpu.relayout %v {in_layout = [#tpu.vpad<"none">], out_layout = [#tpu.vpad<"32,{*,0},(8,128)">]} : vector<8x128xf32> -> vector<8x128xf32>
  return
}
