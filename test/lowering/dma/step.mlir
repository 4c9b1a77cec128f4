// RUN: tpu-opt %s -p windows-to-dma | filecheck %s

// One step needs no loop. The first window is trivial, so it is copied synchronously; the output has
// one buffer, so its store is awaited at once.

!block = memref<8x128xf32, #tpu.memory_space<vmem>>

module attributes {tpu.call = {operands = [tensor<8x128xf32>, tensor<24x128xf32>], results = [tensor<16x128xf32>], aliases = array<i64>, settings = "{}"}} {
  func.func @step(%i: i32, %x: !block, %y: !block, %o: !block) attributes {
      dimension_semantics = [#tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 1>,
      scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>,
      window_params = [{pipeline_mode = #tpu.pipeline_mode<synchronous>, transform_indices = @transform_0, window_bounds = array<i64: 8, 128>},
                       {transform_indices = @transform_1, window_bounds = array<i64: 8, 128>},
                       {pipeline_mode = #tpu.pipeline_mode<synchronous>, transform_indices = @transform_1, window_bounds = array<i64: 8, 128>}]} {
    %c0 = arith.constant 0 : index
    %v = vector.load %x[%c0, %c0] : !block, vector<8x128xf32>
    %w = vector.load %y[%c0, %c0] : !block, vector<8x128xf32>
    %s = arith.addf %v, %w : vector<8x128xf32>
    tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !block, vector<8x128xf32>,
    func.return
  }
  func.func @transform_0(%i: i32) -> (i32, i32) {
    %c0 = arith.constant 0 : i32
    func.return %i, %c0 : i32, i32
  }
  func.func @transform_1(%i: i32) -> (i32, i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %1 = arith.addi %i, %c1 : i32
    func.return %1, %c0 : i32, i32
  }
}

// CHECK-LABEL: func.func @step(
// CHECK-NOT:   scf.
// CHECK:       tpu.enqueue_dma source(%x {{.*}}) target(%x_window {{.*}}) target_semaphore(%copied
// CHECK:       tpu.wait_dma2 semaphore(%copied
// CHECK:       tpu.memref_slice %y[%c8_i32, %c0_i32]
// CHECK:       tpu.enqueue_dma
// CHECK:       tpu.wait_dma2
// CHECK:       vector.load
// CHECK:       tpu.vector_store %o_window
// CHECK:       tpu.memref_slice %o[%c8_i32, %c0_i32]
// CHECK-NEXT:  tpu.enqueue_dma source(%o_window {{.*}}) target_semaphore(%o_sems
// CHECK-NEXT:  tpu.wait_dma2 semaphore(%o_sems
// CHECK-NOT:   scf.
