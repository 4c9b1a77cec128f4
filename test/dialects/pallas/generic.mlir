// RUN: %tpu_roundtrip
// RUN: tpu-opt %s --print-op-generic | filecheck %s --check-prefix GENERIC

// The generic text of a kernel, with everything that the properties hold.

// CHECK: pallas.kernel @gather grid (i = 6 arbitrary)
// CHECK-NEXT: prefetch %ids: tensor<6xi32>
// CHECK-NEXT: input %x: tensor<16x8x128xf32> in vmem block (squeezed, 8, 128) at (%i, %{{.*}}) {
// CHECK: output %o: tensor<48x128xf32> in vmem block (8, 128) at (i, 0)

// GENERIC: "pallas.kernel"() <{grid = array<i64: 6>, grid_names = ["i"],
// GENERIC-SAME: operands = [#pallas.operand<prefetch, tensor<6xi32>>,
// GENERIC-SAME: #pallas.operand<input, tensor<16x8x128xf32>, #pallas.window<[squeezed, 8, 128], region 0>>,
// GENERIC-SAME: #pallas.operand<output, tensor<48x128xf32>, #pallas.window<[8, 128], affine_map<(d0) -> (d0, 0)>, buffers = 1, revisits>>],
// GENERIC-SAME: semantics = [#tpu.dimension_semantics<arbitrary>], sym_name = "gather"}>
"pallas.kernel"() <{
  sym_name = "gather",
  grid = array<i64: 6>,
  grid_names = ["i"],
  semantics = [#tpu.dimension_semantics<arbitrary>],
  operands = [
    #pallas.operand<prefetch, tensor<6xi32>>,
    #pallas.operand<input, tensor<16x8x128xf32>, #pallas.window<[squeezed, 8, 128], region 0>>,
    #pallas.operand<output, tensor<48x128xf32>, #pallas.window<[8, 128], affine_map<(d0) -> (d0, 0)>, buffers = 1, revisits>>]
}> ({
^bb0(%ids: memref<6xi32, #tpu.memory_space<smem>>, %x: memref<8x128xf32, #tpu.memory_space<vmem>>, %o: memref<8x128xf32, #tpu.memory_space<vmem>>):
  %a = pallas.load %x[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
  pallas.store %a, %o[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
  pallas.yield
}, {
^bb0(%i: i32, %ids: memref<6xi32, #tpu.memory_space<smem>>):
  %row = pallas.load %ids[%i] : memref<6xi32, #tpu.memory_space<smem>>
  %zero = arith.constant 0 : i32
  pallas.yield %row, %zero, %zero : i32, i32, i32
}) : () -> ()
