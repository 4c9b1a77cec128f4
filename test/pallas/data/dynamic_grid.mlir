// As many steps as the program says; booleans in and out; element blocks with padding.
pallas.kernel @dynamic_grid grid (steps = ? arbitrary)
  input %x: tensor<32x128xf32> in vmem block (8, 128) at (steps, 0)
  input %m: tensor<32x128xi1> in vmem block (8, 128) at (steps, 0)
  input %z: tensor<32x128xi1> in any
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (steps, 0)
  output %p: tensor<32x128xi1> in vmem block (8, 128) at (steps, 0) aliasing %z
  scratch %seen: memref<1xi32, #tpu.memory_space<smem>>
{
  %i = pallas.program_id 0
  %n = pallas.num_programs 0
  pallas.store %i, %seen[0] : memref<1xi32, #tpu.memory_space<smem>>
  %j = pallas.load %seen[0] : memref<1xi32, #tpu.memory_space<smem>>
  %left = arith.subi %n, %j : i32
  %f = arith.sitofp %left : i32 to f32
  %fs = vector.broadcast %f : f32 to vector<8x128xf32>
  %a = pallas.load %x[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
  %mask = pallas.load %m[...] : memref<8x128xi1, #tpu.memory_space<vmem>>
  %s = arith.select %mask, %a, %fs : vector<8x128xi1>, vector<8x128xf32>
  pallas.store %s, %o[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
  %any = pallas.reduce or %mask axes [0, 1] : vector<8x128xi1> -> i1
  %anys = vector.broadcast %any : i1 to vector<8x128xi1>
  %both = arith.xori %mask, %anys : vector<8x128xi1>
  pallas.store %both, %p[...] : memref<8x128xi1, #tpu.memory_space<vmem>>
}
