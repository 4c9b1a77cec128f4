// A product accumulated in scratch over the last grid axis, with an activation at its end.
pallas.kernel @matmul grid (i = 2 parallel, j = 2 parallel, k = 3 arbitrary)
  input %x: tensor<256x384xf32> in vmem block (128, 128) at (i, k)
  input %y: tensor<384x256xbf16> in vmem block (128, 128) at (k, j)
  output %o: tensor<256x256xf32> in vmem block (128, 128) at (i, j)
  scratch %acc: memref<128x128xf32, #tpu.memory_space<vmem>>
{
  %k = pallas.program_id 2
  %0 = arith.constant 0 : i32
  %first = arith.cmpi eq, %k, %0 : i32
  scf.if %first {
    %zeros = arith.constant dense<0.0> : vector<128x128xf32>
    pallas.store %zeros, %acc[...] : memref<128x128xf32, #tpu.memory_space<vmem>>
  }
  %a = pallas.load %x[...] : memref<128x128xf32, #tpu.memory_space<vmem>>
  %b = pallas.load %y[...] : memref<128x128xbf16, #tpu.memory_space<vmem>>
  %old = pallas.load %acc[...] : memref<128x128xf32, #tpu.memory_space<vmem>>
  %ab = pallas.dot %a, %b contracting [1] [0] : vector<128x128xf32>, vector<128x128xbf16> -> vector<128x128xf32>
  %new = arith.addf %old, %ab : vector<128x128xf32>
  pallas.store %new, %acc[...] : memref<128x128xf32, #tpu.memory_space<vmem>>
  %n = pallas.num_programs 2
  %1 = arith.constant 1 : i32
  %end = arith.subi %n, %1 : i32
  %last = arith.cmpi eq, %k, %end : i32
  scf.if %last {
    %sum = pallas.load %acc[...] : memref<128x128xf32, #tpu.memory_space<vmem>>
    %floor = arith.constant dense<0.0> : vector<128x128xf32>
    %kept = arith.maximumf %sum, %floor : vector<128x128xf32>
    pallas.store %kept, %o[...] : memref<128x128xf32, #tpu.memory_space<vmem>>
  }
}
