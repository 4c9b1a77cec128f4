// Pipelines of other kinds: a dynamic grid that begins at an offset, an index map that reads a table,
// a ref that is in VMEM already and is seen in place, and a block that overruns its array.
pallas.kernel @pipeline_kinds
  prefetch %table: tensor<4xi32>
  input %x: tensor<4x40x128xf32> in any
  input %y: tensor<40x128xf32> in vmem
  output %o: tensor<40x128xf32> in any
{
  %0 = arith.constant 0 : i32
  %1 = arith.constant 1 : i32
  %row = pallas.load %table[0] : memref<4xi32, #tpu.memory_space<smem>>
  %first = arith.muli %row, %0 : i32
  %n = arith.addi %first, %1 : i32
  pallas.emit_pipeline grid (3 parallel, %n arbitrary) offset (%first, %1)
    input %xb = %x: memref<4x40x128xf32, #tpu.memory_space<any>> in vmem block (squeezed, 16, 128) at (%i, %j) {
      %page = pallas.load %table[%j] : memref<4xi32, #tpu.memory_space<smem>>
      pallas.yield %page, %i, %0 : i32, i32, i32
    } buffers 3
    input %yb = %y: memref<40x128xf32, #tpu.memory_space<vmem>> in vmem block (8, 128) at (d0, 0)
    output %ob = %o: memref<40x128xf32, #tpu.memory_space<any>> in vmem block (16, 128) at (d0, 0)
  {
    %i = pallas.program_id 0
    %k = pallas.program_id 1
    %m = pallas.num_programs 1
    %ki = arith.addi %k, %m : i32
    %f = arith.sitofp %ki : i32 to f32
    %fs = vector.broadcast %f : f32 to vector<16x128xf32>
    %a = pallas.load %xb[...] : memref<16x128xf32, #tpu.memory_space<vmem>>
    %b = pallas.load %yb[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
    %b2 = tpu.concatenate %b, %b in 0 : vector<8x128xf32>, vector<8x128xf32> -> vector<16x128xf32>
    %s = arith.addf %a, %b2 : vector<16x128xf32>
    %t = arith.addf %s, %fs : vector<16x128xf32>
    pallas.store %t, %ob[...] : memref<16x128xf32, #tpu.memory_space<vmem>>
  }
}
