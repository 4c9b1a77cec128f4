// The product of two matrices in bfloat16, summed in float32 in the output's block.
pallas.kernel @matmul grid (i = 2 parallel, j = 2 parallel, k = 3 arbitrary)
  input %x: tensor<256x384xbf16> in vmem block (128, 128) at (i, k)
  input %y: tensor<384x256xbf16> in vmem block (128, 128) at (k, j)
  output %o: tensor<256x256xf32> in vmem block (128, 128) at (i, j)
{
  %k = pallas.program_id 2
  %0 = arith.constant 0 : i32
  %first = arith.cmpi eq, %k, %0 : i32
  scf.if %first {
    %zeros = arith.constant dense<0.0> : vector<128x128xf32>
    pallas.store %zeros, %o[...] : memref<128x128xf32, #tpu.memory_space<vmem>>
  }
  %a = pallas.load %x[...] : memref<128x128xbf16, #tpu.memory_space<vmem>>
  %b = pallas.load %y[...] : memref<128x128xbf16, #tpu.memory_space<vmem>>
  %ab = pallas.dot %a, %b contracting [1] [0] : vector<128x128xbf16>, vector<128x128xbf16> -> vector<128x128xf32>
  %sum = pallas.load %o[...] : memref<128x128xf32, #tpu.memory_space<vmem>>
  %new = arith.addf %sum, %ab : vector<128x128xf32>
  pallas.store %new, %o[...] : memref<128x128xf32, #tpu.memory_space<vmem>>
}
