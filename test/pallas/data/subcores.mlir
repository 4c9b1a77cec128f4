// Every vector subcore gathers eight rows and adds them to the rows of a table that its SparseCore
// shares; the scalar subcore has filled the table, and writes it out when all are done.

!row = memref<64x128xi32, #tpu.memory_space<hbm>>
!some = memref<8x128xi32, #tpu.memory_space<hbm>>
!table = memref<8x128xi32, #tpu.memory_space<vmem_shared>>
!dma = memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>

pallas.kernel @filling mesh (core = 2 core_parallel) on sc_scalar_subcore
  input %rows: tensor<64x128xi32> in hbm
  input %from: tensor<256xi32> in hbm
  input %to: tensor<256xi32> in hbm
  output %sums: tensor<16x128xi32> in hbm
  output %totals: tensor<32x16xi32> in hbm
  scratch %table: !table
  scratch %ready: memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem, sc_vector_subcore>>
  scratch %done: memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem, sc_scalar_subcore>>
  scratch %taken: memref<8xi32, #tpu.memory_space<vmem, sc_vector_subcore>>
  scratch %given: memref<8xi32, #tpu.memory_space<vmem, sc_vector_subcore>>
  scratch %mine: memref<8x128xi32, #tpu.memory_space<vmem, sc_vector_subcore>>
{
  %core = pallas.axis_index "core"
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %eight = arith.constant 8 : i32
  %all = arith.constant 16 : i32
  pallas.run_scoped (%there: !dma) {
    %first = pallas.at %rows[ds(0, 8), :] : !row
    tpu.enqueue_dma source(%first : !some) target(%table : !table) target_semaphore(%there : !dma)
    tpu.wait_dma2 semaphore(%there : !dma) src(%first : !some) dst(%table : !table)
  }
  scf.for %subcore = %zero to %all step %one : i32 {
    tpu.sem_signal %ready, %one core_id %core subcore_id %subcore : memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem, sc_vector_subcore>>
  }
  tpu.sem_wait %done, %all : memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem, sc_scalar_subcore>>
  %start = arith.muli %core, %eight : i32
  pallas.run_scoped (%there: !dma) {
    %place = pallas.at %sums[ds(%start, 8), :] : memref<16x128xi32, #tpu.memory_space<hbm>>
    tpu.enqueue_dma source(%table : !table) target(%place : !some) target_semaphore(%there : !dma)
    tpu.wait_dma2 semaphore(%there : !dma) src(%table : !table) dst(%place : !some)
  }
}

pallas.kernel @adding mesh (core = 2 core_parallel, subcore = 16 subcore_parallel) on sc_vector_subcore
  input %rows: tensor<64x128xi32> in hbm
  input %from: tensor<256xi32> in hbm
  input %to: tensor<256xi32> in hbm
  output %sums: tensor<16x128xi32> in hbm
  output %totals: tensor<32x16xi32> in hbm
  scratch %table: !table
  scratch %ready: memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>
  scratch %done: memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem, sc_scalar_subcore>>
  scratch %taken: memref<8xi32, #tpu.memory_space<vmem>>
  scratch %given: memref<8xi32, #tpu.memory_space<vmem>>
  scratch %mine: memref<8x128xi32, #tpu.memory_space<vmem>>
  params {needs_layout_passes = false}
{
  %core = pallas.axis_index "core"
  %subcore = pallas.axis_index "subcore"
  %one = arith.constant 1 : i32
  %eight = arith.constant 8 : i32
  %sixteen = arith.constant 16 : i32
  %before = arith.muli %core, %sixteen : i32
  %number = arith.addi %before, %subcore : i32
  %start = arith.muli %number, %eight : i32
  pallas.run_scoped (%there: !dma) {
    %some = pallas.at %from[ds(%start, 8)] : memref<256xi32, #tpu.memory_space<hbm>>
    tpu.enqueue_dma source(%some : memref<8xi32, #tpu.memory_space<hbm>>) target(%taken : memref<8xi32, #tpu.memory_space<vmem>>) target_semaphore(%there : !dma)
    tpu.wait_dma2 semaphore(%there : !dma) src(%some : memref<8xi32, #tpu.memory_space<hbm>>) dst(%taken : memref<8xi32, #tpu.memory_space<vmem>>)
    %others = pallas.at %to[ds(%start, 8)] : memref<256xi32, #tpu.memory_space<hbm>>
    tpu.enqueue_dma source(%others : memref<8xi32, #tpu.memory_space<hbm>>) target(%given : memref<8xi32, #tpu.memory_space<vmem>>) target_semaphore(%there : !dma)
    tpu.wait_dma2 semaphore(%there : !dma) src(%others : memref<8xi32, #tpu.memory_space<hbm>>) dst(%given : memref<8xi32, #tpu.memory_space<vmem>>)
    tpu.enqueue_indirect_dma source(%rows : !row) target(%mine : memref<8x128xi32, #tpu.memory_space<vmem>>) offsets(%taken : memref<8xi32, #tpu.memory_space<vmem>>) semaphore(%there : !dma)
    tpu.wait_indirect_dma semaphore(%there : !dma) src(%rows : !row) dst(%mine : memref<8x128xi32, #tpu.memory_space<vmem>>)
    tpu.sem_wait %ready, %one : memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.enqueue_indirect_dma source(%mine : memref<8x128xi32, #tpu.memory_space<vmem>>) target(%table : !table) offsets(%given : memref<8xi32, #tpu.memory_space<vmem>>) semaphore(%there : !dma) {add = true}
    tpu.wait_indirect_dma semaphore(%there : !dma) src(%mine : memref<8x128xi32, #tpu.memory_space<vmem>>) dst(%table : !table)
  }
  tpu.sem_signal %done, %one core_id %core : memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem, sc_scalar_subcore>>
  %whole = arith.constant dense<true> : vector<16xi1>
  %left = pallas.load %mine[3, ds(0, 16)] : memref<8x128xi32, #tpu.memory_space<vmem>>
  %running = tpu.scan <sum>, %left masked %whole : vector<16xi32>, vector<16xi1> -> vector<16xi32>
  pallas.run_scoped (%there: !dma, %line: memref<16xi32, #tpu.memory_space<vmem>>) {
    pallas.store %running, %line[...] : memref<16xi32, #tpu.memory_space<vmem>>
    %place = pallas.at %totals[%number, :] : memref<32x16xi32, #tpu.memory_space<hbm>>
    tpu.enqueue_dma source(%line : memref<16xi32, #tpu.memory_space<vmem>>) target(%place : memref<16xi32, #tpu.memory_space<hbm>>) target_semaphore(%there : !dma)
    tpu.wait_dma2 semaphore(%there : !dma) src(%line : memref<16xi32, #tpu.memory_space<vmem>>) dst(%place : memref<16xi32, #tpu.memory_space<hbm>>)
  }
}
