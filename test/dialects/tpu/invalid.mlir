// RUN: tpu-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// Messages name the rule and the value; test_verifiers.py has every rule.

// CHECK: expected 2 indices for memref<8x128xf32>, got 1
func.func @too_few_indices(%m: memref<8x128xf32>, %v: vector<8x128xf32>, %i: index) {
  tpu.vector_store %m[%i], %v {strides = array<i32>} : memref<8x128xf32>, vector<8x128xf32>,
  return
}

// -----

// The comma before an absent mask's type is not optional.
// CHECK: expected ','
func.func @no_dangling_comma(%m: memref<8x128xf32>, %v: vector<8x128xf32>, %i: index) {
  tpu.vector_store %m[%i, %i], %v {strides = array<i32>} : memref<8x128xf32>, vector<8x128xf32>
  return
}

// -----

// CHECK: expected a pattern of 8 sublanes, got 2
func.func @short_pattern(%v: vector<3x8x128xf32>) {
  %0 = tpu.sublane_shuffle %v, %v, [0, 1] : vector<3x8x128xf32>, vector<3x8x128xf32> -> vector<3x8x128xf32>
  return
}

// -----

// CHECK: expected one shape, got memref<8x128xf32, #tpu.memory_space<hbm>> and memref<4x128xf32, #tpu.memory_space<vmem>>
func.func @dma_of_two_shapes(%a: memref<8x128xf32, #tpu.memory_space<hbm>>, %b: memref<4x128xf32, #tpu.memory_space<vmem>>, %s: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) {
  tpu.enqueue_dma source(%a : memref<8x128xf32, #tpu.memory_space<hbm>>) target(%b : memref<4x128xf32, #tpu.memory_space<vmem>>) target_semaphore(%s : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
  return
}

// -----

// CHECK: constant 12 is no multiple of 8
func.func @broken_promise() {
  %c12 = arith.constant 12 : i32
  %0 = tpu.assume_multiple %c12, 8 : i32
  return
}

// -----

// CHECK: tpu.scan runs on sc_vector_subcore only, got core tc
func.func @scan_on_a_tensor_core(%v: vector<16xf32>) attributes {tpu.core_type = #tpu.core_type<tc>} {
  %0 = tpu.scan <sum>, %v : vector<16xf32>,  -> vector<16xf32>
  return
}

// -----

// CHECK: expected a vector of i32, got vector<8x128xf32>
func.func @random_bits_are_integers(%v: vector<8x128xf32>) {
  %0 = "tpu.stochastic_convert"(%v, %v) : (vector<8x128xf32>, vector<8x128xf32>) -> vector<8x128xbf16>
  return
}
