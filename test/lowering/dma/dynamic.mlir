// RUN: tpu-opt %s -p windows-to-dma | filecheck %s

// A dynamic bound is a scalar argument in SMEM, ahead of the prefetched table that the index map
// reads; without steps nothing is copied.

!block = memref<8x128xf32, #tpu.memory_space<vmem>>
!table = memref<4xi32, #tpu.memory_space<smem>>

module attributes {tpu.call = {operands = [tensor<i32>, tensor<4xi32>, tensor<32x128xf32>], results = [tensor<32x128xf32>], aliases = array<i64>, settings = "{}"}} {
  func.func @dynamic(%i: i32, %t: !table, %x: !block, %o: !block) attributes {
      dimension_semantics = [#tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: -9223372036854775808>,
      scalar_prefetch = 1 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>,
      window_params = [{transform_indices = @transform_0, window_bounds = array<i64: 8, 128>},
                       {transform_indices = @transform_1, window_bounds = array<i64: 8, 128>}]} {
    %c0 = arith.constant 0 : index
    %n = tpu.iteration_bound 0 : i32
    %v = vector.load %x[%c0, %c0] : !block, vector<8x128xf32>
    tpu.trace_value %n, "n" : i32
    tpu.vector_store %o[%c0, %c0], %v {strides = array<i32>} : !block, vector<8x128xf32>,
    func.return
  }
  func.func @transform_0(%i: i32, %t: !table) -> (i32, i32) {
    %c0 = arith.constant 0 : i32
    %j = arith.index_cast %i : i32 to index
    %row = memref.load %t[%j] : !table
    func.return %row, %c0 : i32, i32
  }
  func.func @transform_1(%i: i32, %t: !table) -> (i32, i32) {
    %c0 = arith.constant 0 : i32
    func.return %i, %c0 : i32, i32
  }
}

// CHECK-LABEL: func.func @dynamic(
// CHECK-SAME:    %bound0: memref<i32, #tpu.memory_space<smem>>, %t: memref<4xi32, #tpu.memory_space<smem>>, %x: memref<32x128xf32, #tpu.memory_space<any>>
// CHECK-SAME:    scalar_prefetch = 2 : i64
// CHECK:       %size0 = memref.load %bound0[]
// CHECK:       [[ANY:%[0-9]+]] = arith.cmpi slt, %c0_i32, %size0
// CHECK-NEXT:  scf.if [[ANY]] {
// CHECK:         memref.load %t[%c0]
// CHECK:         scf.for %step = %c0_i32 to %size0
// CHECK:           tpu.trace_value %size0
