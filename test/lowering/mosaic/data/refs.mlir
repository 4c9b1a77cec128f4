// Strides, single elements, masks, and a swap.

pallas.kernel @refs
  input %x: tensor<32x128xf32> in vmem
  output %o: tensor<16x128xf32> in vmem
{
  %odd = pallas.load %x[ds(1, 16, 2), :] : memref<32x128xf32, #tpu.memory_space<vmem>>
  pallas.store %odd, %o[...] : memref<16x128xf32, #tpu.memory_space<vmem>>
  %one = pallas.load %x[3, 5] : memref<32x128xf32, #tpu.memory_space<vmem>>
  %ones = vector.broadcast %one : f32 to vector<8x128xf32>
  %part = pallas.load %x[ds(8, 8), :] : memref<32x128xf32, #tpu.memory_space<vmem>>
  %mask = arith.cmpf olt, %part, %ones : vector<8x128xf32>
  pallas.store %ones, %o[ds(8, 8), :] mask %mask : memref<16x128xf32, #tpu.memory_space<vmem>>
  %row = pallas.load %x[7, :] : memref<32x128xf32, #tpu.memory_space<vmem>>
  %was = pallas.swap %row, %o[0, :] : memref<16x128xf32, #tpu.memory_space<vmem>>
  pallas.store %was, %o[1, :] : memref<16x128xf32, #tpu.memory_space<vmem>>
}
