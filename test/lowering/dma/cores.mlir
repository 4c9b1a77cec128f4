// RUN: tpu-opt %s -p windows-to-dma{target=v4} | filecheck %s
// RUN: tpu-opt %s -p windows-to-dma{target=v5e} | filecheck %s --check-prefix=ONE

// Two cores share five steps: the first takes three, the second two.

builtin.module attributes {tpu.call = {operands = [tensor<40x128xf32>], results = [tensor<40x128xf32>], aliases = array<i64>, settings = "{}"}} {
  func.func @double(%i: i32, %x: memref<8x128xf32, #tpu.memory_space<vmem>>, %o: memref<8x128xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<parallel>], iteration_bounds = array<i64: 5>, window_params = [{transform_indices = @t, window_bounds = array<i64: 8, 128>}, {transform_indices = @t, window_bounds = array<i64: 8, 128>}], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>} {
    %c = arith.constant 0 : index
    %v = vector.load %x[%c, %c] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
    tpu.vector_store %o[%c, %c], %v {strides = array<i32>} : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>,
    func.return
  }
  func.func @t(%i: i32) -> (i32, i32) {
    %z = arith.constant 0 : i32
    func.return %i, %z : i32, i32
  }
}

// CHECK:      func.func @double(%core: i32, {{.*}}) attributes {dimension_semantics = [#tpu.dimension_semantics<parallel>]
// CHECK-SAME: iteration_bounds = array<i64: 2>, window_params = [{}, {}]
// CHECK:      [[SHARE:%.*]] = arith.muli %core, %c2_i32 : i32
// CHECK:      [[REST:%.*]] = arith.minsi %core, %c1_i32 : i32
// CHECK:      [[START:%.*]] = arith.addi [[SHARE]], [[REST]] : i32
// CHECK:      [[FIRST:%.*]] = arith.cmpi slt, %core, %c1_i32 : i32
// CHECK:      [[STEPS:%.*]] = arith.select [[FIRST]], %c3_i32, %c2_i32 : i32
// CHECK:      scf.for %step = %c0_i32 to [[STEPS]]
// CHECK:        arith.addi %step, [[START]] : i32

// ONE-NOT: %core
// ONE:     scf.for %step = %c0_i32 to %c5_i32
