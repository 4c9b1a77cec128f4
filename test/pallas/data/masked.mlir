// Loads, stores and swaps under masks, whole and of one row: what a mask leaves out stays in memory,
// and is chosen away in registers.
pallas.kernel @masked
  input %x: tensor<16x256xf32> in vmem
  input %m: tensor<16x256xi1> in vmem
  output %o: tensor<16x256xf32> in vmem
  output %p: tensor<16x256xf32> in vmem
{
  %zeros = arith.constant dense<0.0> : vector<16x256xf32>
  %m0 = pallas.load %m[...] : memref<16x256xi1, #tpu.memory_space<vmem>>
  %x0 = pallas.load %x[...] mask %m0 : memref<16x256xf32, #tpu.memory_space<vmem>>
  %kept = arith.select %m0, %x0, %zeros : vector<16x256xi1>, vector<16x256xf32>
  pallas.store %kept, %o[...] : memref<16x256xf32, #tpu.memory_space<vmem>>
  pallas.store %zeros, %p[...] : memref<16x256xf32, #tpu.memory_space<vmem>>
  pallas.store %x0, %p[...] mask %m0 : memref<16x256xf32, #tpu.memory_space<vmem>>
  %m1 = pallas.load %m[3, :] : memref<16x256xi1, #tpu.memory_space<vmem>>
  %x1 = pallas.load %x[5, :] mask %m1 : memref<16x256xf32, #tpu.memory_space<vmem>>
  %old = pallas.swap %x1, %o[9, :] mask %m1 : memref<16x256xf32, #tpu.memory_space<vmem>>
  pallas.store %old, %p[2, :] mask %m1 : memref<16x256xf32, #tpu.memory_space<vmem>>
}
