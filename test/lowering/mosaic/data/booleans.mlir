// Booleans in and out, in VMEM and SMEM, and in scratch.

pallas.kernel @booleans
  input %x: tensor<16x128xf32> in vmem
  input %keep: tensor<16x128xi1> in vmem
  output %o: tensor<16x128xi1> in vmem
  output %flags: tensor<2xi1> in smem
  scratch %held: memref<16x128xi1, #tpu.memory_space<vmem>>
{
  %a = pallas.load %x[...] : memref<16x128xf32, #tpu.memory_space<vmem>>
  %k = pallas.load %keep[...] : memref<16x128xi1, #tpu.memory_space<vmem>>
  %zeros = arith.constant dense<0.0> : vector<16x128xf32>
  %positive = arith.cmpf ogt, %a, %zeros : vector<16x128xf32>
  pallas.store %positive, %held[...] : memref<16x128xi1, #tpu.memory_space<vmem>>
  %again = pallas.load %held[...] : memref<16x128xi1, #tpu.memory_space<vmem>>
  %both = arith.andi %again, %k : vector<16x128xi1>
  pallas.store %both, %o[...] : memref<16x128xi1, #tpu.memory_space<vmem>>
  %some = pallas.reduce or %both axes [0, 1] : vector<16x128xi1> -> i1
  %every = pallas.reduce and %both axes [0, 1] : vector<16x128xi1> -> i1
  pallas.store %some, %flags[0] : memref<2xi1, #tpu.memory_space<smem>>
  pallas.store %every, %flags[1] : memref<2xi1, #tpu.memory_space<smem>>
}
