// Blocks chosen by a table, squeezed; batch axes that vmap added; an aliased output that keeps
// what no step visits.
pallas.kernel @gather grid (2 mapped parallel, 3 arbitrary)
  prefetch %ids: tensor<3xi32>
  input %x: tensor<2x6x8x128xf32> in vmem block (squeezed, squeezed, 8, 128) at (%b, %i, %table) {
    %row = pallas.load %table[%i] : memref<3xi32, #tpu.memory_space<smem>>
    %0 = arith.constant 0 : i32
    pallas.yield %b, %row, %0, %0 : i32, i32, i32, i32
  }
  input %z: tensor<2x40x128xf32> in any
  output %o: tensor<2x40x128xf32> in vmem block (squeezed, 8, 128) at (d0, d1 + 1, 0) aliasing %z
{
  %i = pallas.program_id 0
  %a = pallas.load %x[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
  %id = pallas.load %ids[%i] : memref<3xi32, #tpu.memory_space<smem>>
  %f = arith.sitofp %id : i32 to f32
  %fs = vector.broadcast %f : f32 to vector<8x128xf32>
  %sum = arith.addf %a, %fs : vector<8x128xf32>
  pallas.store %sum, %o[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
}
