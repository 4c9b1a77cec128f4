// RUN: %tpu_roundtrip
// RUN: %tpu_generic

// A product of two matrices, accumulated over the last grid axis.

// CHECK: sym_name = "matmul"
"pallas.kernel"() <{
  sym_name = "matmul",
  grid = array<i64: 4, 2, 3>,
  grid_names = ["i", "j", "k"],
  semantics = [#tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<arbitrary>],
  operands = [
    #pallas.operand<input, tensor<512x384xbf16>, #pallas.window<[128, 128], affine_map<(d0, d1, d2) -> (d0, d2)>>>,
    #pallas.operand<input, tensor<384x256xbf16>, #pallas.window<[128, 128], affine_map<(d0, d1, d2) -> (d2, d1)>>>,
    #pallas.operand<output, tensor<512x256xf32>, #pallas.window<[128, 128], affine_map<(d0, d1, d2) -> (d0, d1)>>>]
}> ({
^bb0(%x: memref<128x128xbf16, #tpu.memory_space<vmem>>, %y: memref<128x128xbf16, #tpu.memory_space<vmem>>, %o: memref<128x128xf32, #tpu.memory_space<vmem>>, %acc: memref<128x128xf32, #tpu.memory_space<vmem>>):
  %k = pallas.program_id 2
  %zero = arith.constant 0 : i32
  %first = arith.cmpi eq, %k, %zero : i32
  scf.if %first {
    %zeros = arith.constant dense<0.0> : vector<128x128xf32>
    pallas.store %zeros, %acc[...] : memref<128x128xf32, #tpu.memory_space<vmem>>
  }
  %a = pallas.load %x[...] : memref<128x128xbf16, #tpu.memory_space<vmem>>
  %b = pallas.load %y[...] : memref<128x128xbf16, #tpu.memory_space<vmem>>
  %old = pallas.load %acc[...] : memref<128x128xf32, #tpu.memory_space<vmem>>
  %ab = pallas.dot %a, %b contracting [1] [0] : vector<128x128xbf16>, vector<128x128xbf16> -> vector<128x128xf32>
  %new = arith.addf %old, %ab : vector<128x128xf32>
  pallas.store %new, %acc[...] : memref<128x128xf32, #tpu.memory_space<vmem>>
  %two = arith.constant 2 : i32
  %last = arith.cmpi eq, %k, %two : i32
  scf.if %last {
    %sum = pallas.load %acc[...] : memref<128x128xf32, #tpu.memory_space<vmem>>
    pallas.store %sum, %o[...] : memref<128x128xf32, #tpu.memory_space<vmem>>
  }
  pallas.yield
}) : () -> ()

// Rows chosen by a table in SMEM; squeezed, element and single-buffered blocks.

// CHECK: sym_name = "gather"
"pallas.kernel"() <{
  sym_name = "gather",
  grid = array<i64: 6>,
  operands = [
    #pallas.operand<prefetch, tensor<6xi32>>,
    #pallas.operand<input, tensor<16x8x128xf32>, #pallas.window<[squeezed, 8, 128], region 0>>,
    #pallas.operand<input, tensor<64x128xf32>, #pallas.window<[element(16, 1, 2), element(128)], affine_map<(d0) -> (d0 * 8, 0)>, buffers = 1>>,
    #pallas.operand<input, tensor<64x128xf32>>,
    #pallas.operand<output, tensor<48x128xf32>, #pallas.window<[8, 128], affine_map<(d0) -> (d0, 0)>, revisits>>],
  aliases = array<i64: 3, 0>,
  params = {vmem_limit_bytes = 1048576 : i64}
}> ({
^bb0(%ids: memref<6xi32, #tpu.memory_space<smem>>, %x: memref<8x128xf32, #tpu.memory_space<vmem>>, %y: memref<16x128xf32, #tpu.memory_space<vmem>>, %z: memref<64x128xf32, #tpu.memory_space<any>>, %o: memref<8x128xf32, #tpu.memory_space<vmem>>):
  %a = pallas.load %x[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
  pallas.store %a, %o[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
  pallas.yield
}, {
^bb0(%i: i32, %ids: memref<6xi32, #tpu.memory_space<smem>>):
  %row = pallas.load %ids[%i] : memref<6xi32, #tpu.memory_space<smem>>
  %zero = arith.constant 0 : i32
  pallas.yield %row, %zero, %zero : i32, i32, i32
}) : () -> ()

// A pipeline inside a kernel that sees its operands where they are.

// CHECK: sym_name = "add"
"pallas.kernel"() <{
  sym_name = "add",
  operands = [#pallas.operand<input, tensor<512x128xf32>>, #pallas.operand<output, tensor<512x128xf32>>]
}> ({
^bb0(%x: memref<512x128xf32, #tpu.memory_space<any>>, %o: memref<512x128xf32, #tpu.memory_space<any>>):
  "pallas.emit_pipeline"(%x, %o) <{
    grid = array<i64: 4>,
    windows = [
      #pallas.window<[128, 128], affine_map<(d0) -> (d0, 0)>, buffers = 3, lookahead>,
      #pallas.window<[128, 128], affine_map<(d0) -> (d0, 0)>>],
    operandSegmentSizes = array<i32: 1, 1, 0, 0>
  }> ({
  ^bb0(%xb: memref<128x128xf32, #tpu.memory_space<vmem>>, %ob: memref<128x128xf32, #tpu.memory_space<vmem>>):
    %a = pallas.load %xb[...] : memref<128x128xf32, #tpu.memory_space<vmem>>
    %b = arith.addf %a, %a : vector<128x128xf32>
    pallas.store %b, %ob[...] : memref<128x128xf32, #tpu.memory_space<vmem>>
    pallas.yield
  }) : (memref<512x128xf32, #tpu.memory_space<any>>, memref<512x128xf32, #tpu.memory_space<any>>) -> ()
  pallas.yield
}) : () -> ()
