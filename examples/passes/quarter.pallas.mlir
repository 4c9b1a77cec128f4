// y = x / 4 in two blocks.
pallas.kernel @quarter grid (i = 2 parallel)
  input %x: tensor<256x128xf32> in vmem block (128, 128) at (i, 0)
  output %y: tensor<256x128xf32> in vmem block (128, 128) at (i, 0)
{
  %a = pallas.load %x[...] : memref<128x128xf32, #tpu.memory_space<vmem>>
  %four = arith.constant dense<4.0> : vector<128x128xf32>
  %b = arith.divf %a, %four : vector<128x128xf32>
  pallas.store %b, %y[...] : memref<128x128xf32, #tpu.memory_space<vmem>>
}
