// Softmax along the rows, block by block; the last block overruns the array.
pallas.kernel @softmax grid (3)
  input %x: tensor<40x200xf32> in vmem block (16, 200) at (d0, 0)
  output %o: tensor<40x200xf32> in vmem block (16, 200) at (d0, 0)
  output %best: tensor<40x1xi32> in vmem block (16, 1) at (d0, 0)
{
  %a = pallas.load %x[...] : memref<16x200xf32, #tpu.memory_space<vmem>>
  %max = pallas.reduce max %a axes [1] : vector<16x200xf32> -> vector<16xf32>
  %maxes = pallas.broadcast %max dims [0] : vector<16xf32> -> vector<16x200xf32>
  %shifted = arith.subf %a, %maxes : vector<16x200xf32>
  %e = math.exp %shifted : vector<16x200xf32>
  %sum = pallas.reduce add %e axes [1] : vector<16x200xf32> -> vector<16xf32>
  %sums = pallas.broadcast %sum dims [0] : vector<16xf32> -> vector<16x200xf32>
  %p = arith.divf %e, %sums : vector<16x200xf32>
  pallas.store %p, %o[...] : memref<16x200xf32, #tpu.memory_space<vmem>>
  %at = pallas.arg_reduce max %a axis 1 : vector<16x200xf32> -> vector<16xi32>
  %column = vector.shape_cast %at : vector<16xi32> to vector<16x1xi32>
  pallas.store %column, %best[...] : memref<16x1xi32, #tpu.memory_space<vmem>>
}
