// A pipeline with a size and an index map that read SMEM, a trivial window, and a ref in place.

pallas.kernel @pipeline
  prefetch %size: tensor<2xi32>
  input %x: tensor<40x256xf32> in any
  input %y: tensor<1x128xf32> in any
  output %o: tensor<40x256xf32> in any
  scratch %counts: memref<16x128xf32, #tpu.memory_space<vmem>>
{
  %n = pallas.load %size[0] : memref<2xi32, #tpu.memory_space<smem>>
  pallas.run_scoped (%unused: memref<8x128xf32, #tpu.memory_space<vmem>>) {
    pallas.emit_pipeline grid (%n arbitrary, 2 arbitrary)
      input %xb = %x: memref<40x256xf32, #tpu.memory_space<any>> in vmem block (16, 128) at (%i, %j) {
        %last = pallas.load %size[1] : memref<2xi32, #tpu.memory_space<smem>>
        %k = arith.subi %last, %i : i32
        pallas.yield %k, %j : i32, i32
      }
      input %yb = %y: memref<1x128xf32, #tpu.memory_space<any>> in vmem block (1, 128) at (0, 0)
      input %cb = %counts: memref<16x128xf32, #tpu.memory_space<vmem>> in vmem block (8, 128) at (d1, 0)
      output %ob = %o: memref<40x256xf32, #tpu.memory_space<any>> in vmem block (16, 128) at (d0, d1)
    {
      %i = pallas.program_id 0
      %f = arith.sitofp %i : i32 to f32
      %fs = vector.broadcast %f : f32 to vector<16x128xf32>
      pallas.store %fs, %counts[...] : memref<16x128xf32, #tpu.memory_space<vmem>>
      %part = pallas.load %cb[0, :] : memref<8x128xf32, #tpu.memory_space<vmem>>
      %spread = pallas.broadcast %part dims [1] : vector<128xf32> -> vector<16x128xf32>
      %a = pallas.load %xb[...] : memref<16x128xf32, #tpu.memory_space<vmem>>
      %b = pallas.load %yb[...] : memref<1x128xf32, #tpu.memory_space<vmem>>
      %bs = pallas.broadcast %b dims [0, 1] : vector<1x128xf32> -> vector<16x128xf32>
      %c = arith.addf %a, %bs : vector<16x128xf32>
      %d = arith.addf %c, %spread : vector<16x128xf32>
      pallas.store %d, %ob[...] : memref<16x128xf32, #tpu.memory_space<vmem>>
    }
  }
}
