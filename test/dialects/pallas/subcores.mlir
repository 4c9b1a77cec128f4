// RUN: %tpu_roundtrip
// RUN: %tpu_generic

// Rows that 32 vector subcores gather, by numbers of their own.

// CHECK-LABEL: pallas.kernel @gather mesh (c = 2 core_parallel, s = 16 subcore_parallel) on sc_vector_subcore
// CHECK: scratch %table: memref<8x16xf32, #tpu.memory_space<vmem_shared>>
// CHECK: params {needs_layout_passes = false}
pallas.kernel @gather mesh (c = 2 core_parallel, s = 16 subcore_parallel) on sc_vector_subcore
  input %x: tensor<100x16xf32> in hbm
  input %i: tensor<256xi32> in hbm
  output %o: tensor<256x16xf32> in hbm
  scratch %table: memref<8x16xf32, #tpu.memory_space<vmem_shared>>
  scratch %where: memref<8xi32, #tpu.memory_space<vmem>>
  scratch %rows: memref<8x16xf32, #tpu.memory_space<vmem>>
  scratch %there: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
  params {needs_layout_passes = false}
{
  // CHECK: pallas.axis_index "c"
  %core = pallas.axis_index "c"
  %number = pallas.axis_index "s"
  %zero = arith.constant 0 : index
  tpu.barrier barrier_id(%zero)
  tpu.enqueue_indirect_dma source(%x : memref<100x16xf32, #tpu.memory_space<hbm>>) target(%rows : memref<8x16xf32, #tpu.memory_space<vmem>>) offsets(%where : memref<8xi32, #tpu.memory_space<vmem>>) semaphore(%there : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
  tpu.wait_indirect_dma semaphore(%there : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%x : memref<100x16xf32, #tpu.memory_space<hbm>>) dst(%rows : memref<8x16xf32, #tpu.memory_space<vmem>>)
  // CHECK: %row = pallas.load %rows[3, :]
  %row = pallas.load %rows[3, :] : memref<8x16xf32, #tpu.memory_space<vmem>>
  %all = arith.constant dense<true> : vector<16xi1>
  // CHECK: %sums = tpu.scan <sum>, %row masked %all
  %sums = tpu.scan <sum>, %row masked %all : vector<16xf32>, vector<16xi1> -> vector<16xf32>
  pallas.store %sums, %rows[3, :] : memref<8x16xf32, #tpu.memory_space<vmem>>
}

// CHECK-LABEL: pallas.kernel @scalars mesh (c = 2 core_parallel) on sc_scalar_subcore
pallas.kernel @scalars mesh (c = 2 core_parallel) on sc_scalar_subcore
  output %o: tensor<4xi32> in hbm
  scratch %ready: memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem, sc_vector_subcore>>
{
  %one = arith.constant 1 : i32
  // CHECK: tpu.sem_signal %ready, %one core_id %one subcore_id %one
  tpu.sem_signal %ready, %one core_id %one subcore_id %one : memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem, sc_vector_subcore>>
}
