// A pipeline inside a kernel: a product whose last axis accumulates in the output's block.
pallas.kernel @pipeline
  input %x: tensor<256x384xbf16> in any
  input %y: tensor<384x128xbf16> in any
  output %o: tensor<256x128xf32> in any
{
  pallas.emit_pipeline grid (2, 1, 3)
    input %xb = %x: memref<256x384xbf16, #tpu.memory_space<any>> in vmem block (128, 128) at (d0, d2)
    input %yb = %y: memref<384x128xbf16, #tpu.memory_space<any>> in vmem block (128, 128) at (d2, d1)
    output %ob = %o: memref<256x128xf32, #tpu.memory_space<any>> in vmem block (128, 128) at (d0, d1)
  {
    %k = pallas.program_id 2
    %0 = arith.constant 0 : i32
    %first = arith.cmpi eq, %k, %0 : i32
    scf.if %first {
      %zeros = arith.constant dense<0.0> : vector<128x128xf32>
      pallas.store %zeros, %ob[...] : memref<128x128xf32, #tpu.memory_space<vmem>>
    }
    %a = pallas.load %xb[...] : memref<128x128xbf16, #tpu.memory_space<vmem>>
    %b = pallas.load %yb[...] : memref<128x128xbf16, #tpu.memory_space<vmem>>
    %old = pallas.load %ob[...] : memref<128x128xf32, #tpu.memory_space<vmem>>
    %ab = pallas.dot %a, %b contracting [1] [0] : vector<128x128xbf16>, vector<128x128xbf16> -> vector<128x128xf32>
    %new = arith.addf %old, %ab : vector<128x128xf32>
    pallas.store %new, %ob[...] : memref<128x128xf32, #tpu.memory_space<vmem>>
  }
}
