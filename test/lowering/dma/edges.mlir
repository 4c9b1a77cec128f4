// RUN: tpu-opt %s -p windows-to-dma | filecheck %s

// A block that overruns its array is cut to whole tiles: 40 rows in blocks of 32 leave 8.

!block = memref<32x128xf32, #tpu.memory_space<vmem>>

module attributes {tpu.call = {operands = [tensor<40x128xf32>], results = [tensor<64x128xf32>], aliases = array<i64>, settings = "{}"}} {
  func.func @edges(%i: i32, %x: !block, %o: !block) attributes {
      dimension_semantics = [#tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 2>,
      scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>,
      window_params = [{transform_indices = @transform_0, window_bounds = array<i64: 32, 128>},
                       {transform_indices = @transform_0, window_bounds = array<i64: 32, 128>}]} {
    %c0 = arith.constant 0 : index
    %v = vector.load %x[%c0, %c0] : !block, vector<32x128xf32>
    tpu.vector_store %o[%c0, %c0], %v {strides = array<i32>} : !block, vector<32x128xf32>,
    func.return
  }
  func.func @transform_0(%i: i32) -> (i32, i32) {
    %c0 = arith.constant 0 : i32
    func.return %i, %c0 : i32, i32
  }
}

// CHECK-LABEL: func.func @edges(
// CHECK:       %x_window = memref.alloca() {tpu.unspecified} : memref<2x32x128xf32
// CHECK:       %o_window = memref.alloca() : memref<2x32x128xf32
// CHECK:       scf.for
// The masks tell the compiler that the block and the slot exist.
// CHECK:         [[BLOCK:%[0-9]+]] = arith.andi %step, %c1_i32 : i32
// CHECK:         [[SLOT:%[0-9]+]] = arith.andi %slot, %c1_i32 : i32
// CHECK:         [[LAST:%[0-9]+]] = arith.cmpi eq, [[BLOCK]], %c1_i32 : i32
// CHECK-NEXT:    [[SIZE:%[0-9]+]] = arith.select [[LAST]], %c8_i32, %c32_i32 : i32
// CHECK-NEXT:    tpu.memref_slice %x[%{{.*}}, %c0_i32] <[[SIZE]]> : memref<40x128xf32, #tpu.memory_space<any>> -> memref<?x128xf32, #tpu.memory_space<any>>
// CHECK-NEXT:    tpu.memref_slice %x_window[[[SLOT]], %c0_i32, %c0_i32] <[[SIZE]]> : memref<2x32x128xf32, #tpu.memory_space<vmem>> -> memref<1x?x128xf32, #tpu.memory_space<vmem>>
// CHECK-NEXT:    tpu.memref_squeeze {{.*}} -> memref<?x128xf32, #tpu.memory_space<vmem>>
// CHECK:         tpu.wait_dma2 {{.*}} src(%{{.*}} : memref<?x128xf32, #tpu.memory_space<any>>) dst(%{{.*}} : memref<?x128xf32, #tpu.memory_space<vmem>>)

// The output's array is a whole number of blocks: nothing is dynamic.
// CHECK:         tpu.enqueue_dma source(%{{.*}} : memref<32x128xf32, #tpu.memory_space<vmem>>) target(%{{.*}} : memref<32x128xf32, #tpu.memory_space<any>>)
