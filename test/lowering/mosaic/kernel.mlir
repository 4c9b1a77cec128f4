// RUN: tpu-opt %s -p lower-to-mosaic | filecheck %s

// Squeezed dimensions come back with size 1, booleans are i32; the axis that vmap added is parallel
// and not counted; a block that is the whole array has one buffer; operands in HBM have no window.

"pallas.kernel"() <{
  sym_name = "rows",
  grid = array<i64: 2, 6>,
  mapped = array<i64: 0>,
  operands = [
    #pallas.operand<prefetch, tensor<6xi32>>,
    #pallas.operand<input, tensor<2x6x8x128xf32>, #pallas.window<[squeezed, squeezed, 8, 128], region 0>>,
    #pallas.operand<input, tensor<8x128xi1>, #pallas.window<[8, 128], affine_map<(d0, d1) -> (0, 0)>>>,
    #pallas.operand<input, tensor<64x128xf32>, #pallas.window<[element(16, 0, 8), element(128)], affine_map<(d0, d1) -> (d1 * 8, 0)>, buffers = 2>>,
    #pallas.operand<input, tensor<2x48x128xf32>>,
    #pallas.operand<output, tensor<2x48x128xf32>, #pallas.window<[squeezed, 8, 128], affine_map<(d0, d1) -> (d0, d1 mod 5, 0)>>>],
  aliases = array<i64: 4, 0>,
  params = {vmem_limit_bytes = 1048576 : i64, collective_id = 7 : i64}
}> ({
^bb0(%ids: memref<6xi32, #tpu.memory_space<smem>>, %x: memref<8x128xf32, #tpu.memory_space<vmem>>, %m: memref<8x128xi1, #tpu.memory_space<vmem>>, %y: memref<16x128xf32, #tpu.memory_space<vmem>>, %z: memref<2x48x128xf32, #tpu.memory_space<any>>, %o: memref<8x128xf32, #tpu.memory_space<vmem>>, %acc: memref<4xf32, #tpu.memory_space<smem>>):
  %i = pallas.program_id 0
  %n = pallas.num_programs 0
  %s = arith.addi %i, %n : i32
  tpu.trace_value %s, "s" : i32
  %a = pallas.load %x[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
  pallas.store %a, %o[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
  pallas.yield
}, {
^bb0(%b: i32, %i: i32, %ids: memref<6xi32, #tpu.memory_space<smem>>):
  %row = pallas.load %ids[%i] : memref<6xi32, #tpu.memory_space<smem>>
  %zero = arith.constant 0 : i32
  pallas.yield %b, %row, %zero, %zero : i32, i32, i32, i32
}) : () -> ()

// CHECK: builtin.module attributes {tpu.call = {operands = [tensor<6xi32>, tensor<2x6x8x128xf32>, tensor<8x128xi32>, tensor<64x128xf32>, tensor<2x48x128xf32>], results = [tensor<2x48x128xf32>], aliases = array<i64: 4, 0>
// CHECK-SAME: \22collective_id\22: 7
// CHECK-SAME: \22scoped_memory_configs\22: [{\22memory_space\22: 1, \22offset\22: 0, \22size\22: 1048576}]
// CHECK-SAME: tpu.form = "mosaic"
// CHECK-LABEL: func.func @rows(
// CHECK-SAME: [[B:%[0-9]+]]: i32, %i: i32, %ids: memref<6xi32, #tpu.memory_space<smem>>, %x: memref<1x1x8x128xf32, #tpu.memory_space<vmem>>, %m: memref<8x128xi32, #tpu.memory_space<vmem>>, %y: memref<16x128xf32
// CHECK-SAME: %o: memref<1x8x128xf32, #tpu.memory_space<vmem>>, %acc: memref<4xf32, #tpu.memory_space<smem>>)
// CHECK-SAME: dimension_semantics = [#tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<arbitrary>]
// CHECK-SAME: scalar_prefetch = 1 : i64, scratch_operands = 1 : i64, tpu.core_type = #tpu.core_type<tc>, iteration_bounds = array<i64: 2, 6>
// CHECK-SAME: {transform_indices = @transform_0, window_bounds = array<i64: 1, 1, 8, 128>}
// CHECK-SAME: {transform_indices = @transform_1, window_bounds = array<i64: 8, 128>, pipeline_mode = #tpu.pipeline_mode<synchronous>}
// CHECK-SAME: {transform_indices = @transform_2, window_bounds = array<i64: 16, 128>, window_kind = #tpu.element_window<[0, 0], [8, 0]>, pipeline_mode = #tpu.pipeline_mode<double_buffered>}, {},
// CHECK-SAME: {transform_indices = @transform_4, window_bounds = array<i64: 1, 8, 128>}]
// CHECK: %n = tpu.iteration_bound 1
// CHECK: arith.addi %i, %n
// CHECK: vector.load %x[{{.*}}] : memref<1x1x8x128xf32, {{.*}}>, vector<1x1x8x128xf32>
// CHECK: vector.shape_cast {{.*}} : vector<1x1x8x128xf32> to vector<8x128xf32>
// CHECK: func.func @transform_0(%b: i32, %i: i32, %ids: memref<6xi32, #tpu.memory_space<smem>>) -> (i32, i32, i32, i32)
// CHECK: %row = memref.load %ids[
// CHECK: func.return %b, %row, %zero, %zero
// CHECK: func.func @transform_1(
// CHECK: func.func @transform_2(
// CHECK-NOT: @transform_3
// CHECK: func.func @transform_4(
// CHECK: arith.remsi
