// RUN: %tpu_roundtrip
// RUN: %tpu_generic

// Text that Mosaic's parser accepts although it never prints it.

// CHECK-LABEL: func.func @blanks
func.func @blanks(%m: memref<64x128xf32, #tpu<memory_space<vmem>>>, %n: i32, %i: index) {
  // CHECK: tpu.memref_slice %{{.*}}[%{{.*}}, %{{.*}}] <%{{.*}}> : memref<64x128xf32, #tpu.memory_space<vmem>> -> memref<?x128xf32, #tpu.memory_space<vmem>>
  %0 = tpu.memref_slice %m [%n,%n]<%n>: memref<64x128xf32, #tpu.memory_space<vmem>> -> memref<?x128xf32, #tpu.memory_space<vmem>>
  // CHECK: tpu.create_mask[%{{.*}}, %{{.*}}] [%{{.*}}, %{{.*}}] : vector<8x128xi1>
  %1 = tpu.create_mask [%i, %i][%i, %i] : vector<8x128xi1>
  // CHECK: tpu.create_mask[] [] : vector<8x128xi1>
  %2 = tpu.create_mask[] [] : vector<8x128xi1>
  return
}

// CHECK-LABEL: func.func @unknown_attributes_stay
func.func @unknown_attributes_stay(%n: i32) {
  // CHECK: tpu.delay %{{.*}} {foo = 1 : i32}
  tpu.delay %n {foo = 1 : i32}
  // CHECK: tpu.yield {bar}
  "tpu.region"() ({
    tpu.yield {bar}
  }) : () -> ()
  return
}

// CHECK-LABEL: func.func @properties_among_the_attributes
func.func @properties_among_the_attributes(%m: memref<8x128xf32>, %v: vector<8x128xf32>, %i: index) {
  // CHECK: tpu.store %{{.*}}[%{{.*}}, %{{.*}}], %{{.*}} sublanes [true] {add = true}
  "tpu.store"(%v, %m, %i, %i) {operandSegmentSizes = array<i32: 1, 1, 2, 0>, sublane_mask = array<i1: true>, add = true} : (vector<8x128xf32>, memref<8x128xf32>, index, index) -> ()
  return
}
