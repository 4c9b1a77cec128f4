// RUN: tpu-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: 'pallas.kernel': expected 2 axes of a mesh of sc_vector_subcore, got 1
pallas.kernel @k mesh (c = 2 core_parallel) on sc_vector_subcore
  output %o: tensor<16xf32> in hbm
{
}

// -----

// CHECK: 'pallas.kernel': a mesh is of TensorCores if it does not say on what, got tc
pallas.kernel @k mesh (c = 2 core_parallel) on tc
  output %o: tensor<16xf32> in any
{
}

// -----

// CHECK: 'pallas.kernel': a kernel on sc_scalar_subcore has a mesh, not a grid
"pallas.kernel"() <{
  sym_name = "k", grid = array<i64: 2>, core_type = #tpu.core_type<sc_scalar_subcore>,
  operands = [#pallas.operand<output, tensor<16xf32>>]
}> ({
^bb0(%o: memref<16xf32, #tpu.memory_space<hbm>>):
  pallas.yield
}) : () -> ()

// -----

// CHECK: 'pallas.kernel': scratch 0 (%a): expected memory in vmem, smem, semaphore_mem, got memref<16xf32, #tpu.memory_space<vmem_shared>>
pallas.kernel @k mesh (c = 2 core_parallel)
  output %o: tensor<16xf32> in any
  scratch %a: memref<16xf32, #tpu.memory_space<vmem_shared>>
{
}

// -----

// CHECK: scratch 0 (%a): expected memory in vmem, smem, semaphore_mem, vmem_shared, got memref<16xf32, #tpu.memory_space<hbm>>
pallas.kernel @k mesh (c = 2 core_parallel, s = 16 subcore_parallel) on sc_vector_subcore
  output %o: tensor<16xf32> in hbm
  scratch %a: memref<16xf32, #tpu.memory_space<hbm>>
{
}

// -----

// CHECK: pallas.reduce is for TensorCores, got sc_vector_subcore
pallas.kernel @k mesh (c = 2 core_parallel, s = 16 subcore_parallel) on sc_vector_subcore
  output %o: tensor<16xf32> in hbm
  scratch %a: memref<16xf32, #tpu.memory_space<vmem>>
{
  %v = pallas.load %a[...] : memref<16xf32, #tpu.memory_space<vmem>>
  %s = pallas.reduce add %v axes [0] : vector<16xf32> -> f32
}
