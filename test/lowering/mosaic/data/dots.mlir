// A batched product, a matrix times a vector, and positions of maxima.

pallas.kernel @dots
  input %x: tensor<2x16x128xbf16> in vmem
  input %r: tensor<1x128xbf16> in vmem
  output %batched: tensor<2x16x16xf32> in vmem
  output %column: tensor<16x1xf32> in vmem
  output %largest: tensor<16xi32> in vmem
{
  %a = pallas.load %x[...] : memref<2x16x128xbf16, #tpu.memory_space<vmem>>
  %p = pallas.dot %a, %a contracting [2] [2] batch [0] [0] : vector<2x16x128xbf16>, vector<2x16x128xbf16> -> vector<2x16x16xf32>
  pallas.store %p, %batched[...] : memref<2x16x16xf32, #tpu.memory_space<vmem>>
  %m = pallas.load %x[1, :, :] : memref<2x16x128xbf16, #tpu.memory_space<vmem>>
  %v = pallas.load %r[...] : memref<1x128xbf16, #tpu.memory_space<vmem>>
  %mv = pallas.dot %m, %v contracting [1] [1] : vector<16x128xbf16>, vector<1x128xbf16> -> vector<16x1xf32>
  pallas.store %mv, %column[...] : memref<16x1xf32, #tpu.memory_space<vmem>>
  %first = vector.extract_strided_slice %p {offsets = [0, 0, 0], sizes = [1, 16, 16], strides = [1, 1, 1]} : vector<2x16x16xf32> to vector<1x16x16xf32>
  %square = vector.shape_cast %first : vector<1x16x16xf32> to vector<16x16xf32>
  %at = pallas.arg_reduce max %square axis 1 : vector<16x16xf32> -> vector<16xi32>
  pallas.store %at, %largest[...] : memref<16xi32, #tpu.memory_space<vmem>>
}
