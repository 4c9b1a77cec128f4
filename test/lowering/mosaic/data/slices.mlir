// A pipeline over ragged slices, three buffers, an offset, and blocks by elements and by number.

pallas.kernel @slices
  prefetch %starts: tensor<4xi32>
  input %x: tensor<64x256xf32> in any
  input %y: tensor<40x128xf32> in any
  output %o: tensor<64x256xf32> in any
{
  %one = arith.constant 1 : i32
  %zero = arith.constant 0 : i32
  pallas.emit_pipeline grid (2, 2) offset (%one, %zero)
    input %xb = %x: memref<64x256xf32, #tpu.memory_space<any>> in vmem block (bounded(32), 128) at (%i, %j) {
      %next = arith.addi %i, %one : i32
      %start = pallas.load %starts[%i] : memref<4xi32, #tpu.memory_space<smem>>
      %from = tpu.assume_multiple %start, 8 : i32
      %to = pallas.load %starts[%next] : memref<4xi32, #tpu.memory_space<smem>>
      %size = arith.subi %to, %from : i32
      pallas.yield %from, %size, %j : i32, i32, i32
    } buffers 3
    input %yb = %y: memref<40x128xf32, #tpu.memory_space<any>> in vmem block (element(8), 128) at (d0 * 16, 0)
    output %ob = %o: memref<64x256xf32, #tpu.memory_space<any>> in vmem block (bounded(32), 128) at (%i, %j) {
      %next = arith.addi %i, %one : i32
      %start = pallas.load %starts[%i] : memref<4xi32, #tpu.memory_space<smem>>
      %from = tpu.assume_multiple %start, 8 : i32
      %to = pallas.load %starts[%next] : memref<4xi32, #tpu.memory_space<smem>>
      %size = arith.subi %to, %from : i32
      pallas.yield %from, %size, %j : i32, i32, i32
    }
  {
    %i = pallas.program_id 0
    %f = arith.sitofp %i : i32 to f32
    %fs = vector.broadcast %f : f32 to vector<32x128xf32>
    %a = pallas.load %xb[...] : memref<32x128xf32, #tpu.memory_space<vmem>>
    %row = pallas.load %yb[0, :] : memref<8x128xf32, #tpu.memory_space<vmem>>
    %rows = pallas.broadcast %row dims [1] : vector<128xf32> -> vector<32x128xf32>
    %b = arith.addf %a, %rows : vector<32x128xf32>
    %c = arith.addf %b, %fs : vector<32x128xf32>
    pallas.store %c, %ob[...] : memref<32x128xf32, #tpu.memory_space<vmem>>
  }
}
