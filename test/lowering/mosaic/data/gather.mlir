// Blocks chosen by a table, added up in an output that stays; scalars of the results in SMEM.

pallas.kernel @gather grid (6 arbitrary)
  prefetch %ids: tensor<6xi32>
  input %x: tensor<16x8x128xf32> in vmem block (squeezed, 8, 128) at (%i, %table) {
    %row = pallas.load %table[%i] : memref<6xi32, #tpu.memory_space<smem>>
    %zero = arith.constant 0 : i32
    pallas.yield %row, %zero, %zero : i32, i32, i32
  }
  output %o: tensor<8x128xf32> in vmem block (8, 128) at (0, 0)
  output %sums: tensor<6xf32> in smem
{
  %i = pallas.program_id 0
  %n = pallas.num_programs 0
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %a = pallas.load %x[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
  %first = arith.cmpi eq, %i, %zero : i32
  scf.if %first {
    %zeros = arith.constant dense<0.0> : vector<8x128xf32>
    pallas.store %zeros, %o[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
  }
  %old = pallas.load %o[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
  %new = arith.addf %old, %a : vector<8x128xf32>
  pallas.store %new, %o[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
  %rest = arith.subi %n, %i : i32
  %back = arith.subi %rest, %one : i32
  %row = pallas.load %x[%back, :] : memref<8x128xf32, #tpu.memory_space<vmem>>
  %sum = pallas.reduce add %row axes [0] : vector<128xf32> -> f32
  pallas.store %sum, %sums[%i] : memref<6xf32, #tpu.memory_space<smem>>
}
