// RUN: tpu-opt %s -p windows-to-dma | filecheck %s

!block = memref<8x128xf32, #tpu.memory_space<vmem>>

module attributes {tpu.call = {operands = [tensor<32x128xf32>], results = [tensor<32x128xf32>], aliases = array<i64>, settings = "{}"}} {
  func.func @double(%i: i32, %x: !block, %o: !block) attributes {
      dimension_semantics = [#tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 4>,
      scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>,
      window_params = [{transform_indices = @transform_0, window_bounds = array<i64: 8, 128>},
                       {transform_indices = @transform_1, window_bounds = array<i64: 8, 128>}]} {
    %c0 = arith.constant 0 : index
    %v = vector.load %x[%c0, %c0] : !block, vector<8x128xf32>
    %w = arith.addf %v, %v : vector<8x128xf32>
    %dead = vector.load %o[%c0, %c0] : !block, vector<8x128xf32>
    tpu.vector_store %o[%c0, %c0], %w {strides = array<i32>} : !block, vector<8x128xf32>,
    func.return
  }
  func.func @transform_0(%i: i32) -> (i32, i32) {
    %c0 = arith.constant 0 : i32
    func.return %i, %c0 : i32, i32
  }
  func.func @transform_1(%i: i32) -> (i32, i32) {
    %c0 = arith.constant 0 : i32
    func.return %i, %c0 : i32, i32
  }
}

// CHECK:       tpu.form = "dma"
// CHECK-LABEL: func.func @double(
// CHECK-SAME:    %x: memref<32x128xf32, #tpu.memory_space<any>>, %o: memref<32x128xf32, #tpu.memory_space<any>>)
// CHECK-SAME:    dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64
// CHECK-NOT:   transform_
// CHECK:       "tpu.region"() ({
// CHECK:         %x_window = memref.alloca() : memref<2x8x128xf32, #tpu.memory_space<vmem>>
// CHECK-NEXT:    %x_sems = tpu.sem_alloc : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
// CHECK-NEXT:    %o_window = memref.alloca() : memref<2x8x128xf32, #tpu.memory_space<vmem>>
// CHECK-NEXT:    %o_sems = tpu.sem_alloc : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>

// The first block is fetched ahead of the loop.
// CHECK:         tpu.memref_slice %x[%c0_i32, %c0_i32] : memref<32x128xf32, #tpu.memory_space<any>> -> memref<8x128xf32, #tpu.memory_space<any>>
// CHECK:         tpu.enqueue_dma source(%{{.*}} : memref<8x128xf32, #tpu.memory_space<any>>) target(%{{.*}} : memref<8x128xf32, #tpu.memory_space<vmem>>) target_semaphore(
// CHECK:         scf.for %step = %c0_i32 to %c4_i32 step %c1_i32 iter_args(%slot = %c0_i32, %slot_1 = %c0_i32)
// CHECK:           [[NOT_FIRST:%[a-z_0-9]+]] = arith.cmpi ne, %step, %c0_i32
// CHECK:           [[NOT_LAST:%[a-z_0-9]+]] = arith.cmpi ne, %step, %c3_i32
// CHECK:           [[NEXT:%[0-9]+]] = arith.addi %step, %c1_i32

// A: the next block goes into the other slot.
// CHECK:           scf.if [[NOT_LAST]] {
// CHECK:             tpu.enqueue_dma
// CHECK-NEXT:      }
// B: this step's block arrives.
// CHECK:           tpu.wait_dma2
// CHECK-NOT:       tpu.enqueue_dma
// C: the body, without the load that nobody reads.
// CHECK:           vector.load
// CHECK-NEXT:      arith.addf
// CHECK-NEXT:      tpu.vector_store
// D: the block is stored at once.
// CHECK:           tpu.enqueue_dma source(%{{.*}} : memref<8x128xf32, #tpu.memory_space<vmem>>) target(%{{.*}} : memref<8x128xf32, #tpu.memory_space<any>>)
// E: the previous store has finished.
// CHECK:           scf.if [[NOT_FIRST]] {
// CHECK:             tpu.wait_dma2
// CHECK-NEXT:      }
// CHECK:           scf.yield
// CHECK:         tpu.wait_dma2
// CHECK-NEXT:    tpu.yield
