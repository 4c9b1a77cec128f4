// Several batch dimensions, in any place, several contracted ones, and none.

pallas.kernel @products
  input %x: tensor<2x3x16x64xf32> in vmem
  input %y: tensor<3x2x64x24xf32> in vmem
  output %heads: tensor<2x3x16x24xf32> in vmem
  output %inner: tensor<16x24xf32> in vmem
  output %outer: tensor<16x24xf32> in vmem
{
  %a = pallas.load %x[...] : memref<2x3x16x64xf32, #tpu.memory_space<vmem>>
  %b = pallas.load %y[...] : memref<3x2x64x24xf32, #tpu.memory_space<vmem>>
  %p = pallas.dot %a, %b contracting [3] [2] batch [0, 1] [1, 0] : vector<2x3x16x64xf32>, vector<3x2x64x24xf32> -> vector<2x3x16x24xf32>
  pallas.store %p, %heads[...] : memref<2x3x16x24xf32, #tpu.memory_space<vmem>>
  %q = pallas.dot %a, %b contracting [0, 1, 3] [1, 0, 2] : vector<2x3x16x64xf32>, vector<3x2x64x24xf32> -> vector<16x24xf32>
  pallas.store %q, %inner[...] : memref<16x24xf32, #tpu.memory_space<vmem>>
  %c = vector.extract_strided_slice %a {offsets = [0, 0, 0, 5], sizes = [1, 1, 16, 1], strides = [1, 1, 1, 1]} : vector<2x3x16x64xf32> to vector<1x1x16x1xf32>
  %d = vector.shape_cast %c : vector<1x1x16x1xf32> to vector<16xf32>
  %e = vector.extract_strided_slice %b {offsets = [0, 0, 5, 0], sizes = [1, 1, 1, 24], strides = [1, 1, 1, 1]} : vector<3x2x64x24xf32> to vector<1x1x1x24xf32>
  %f = vector.shape_cast %e : vector<1x1x1x24xf32> to vector<24xf32>
  %r = pallas.dot %d, %f contracting [] [] : vector<16xf32>, vector<24xf32> -> vector<16x24xf32>
  pallas.store %r, %outer[...] : memref<16x24xf32, #tpu.memory_space<vmem>>
}
