// Every device sends its block to the next one of a ring.
pallas.kernel @ring
  input %x: tensor<8x128xf32> in vmem
  output %o: tensor<8x128xf32> in vmem
  scratch %sent: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
  scratch %received: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
  params {collective_id = 0 : i32}
{
  %me = tpu.device_id : i32
  %1 = arith.constant 1 : i32
  %4 = arith.constant 4 : i32
  %next = arith.addi %me, %1 : i32
  %right = arith.remsi %next, %4 : i32
  %3 = arith.constant 3 : i32
  %before = arith.addi %me, %3 : i32
  %left = arith.remsi %before, %4 : i32
  %barrier = tpu.sem_barrier : memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>
  tpu.sem_signal %barrier, %1 device_id %left : memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>
  tpu.sem_wait %barrier, %1 : memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>
  tpu.enqueue_dma source(%x : memref<8x128xf32, #tpu.memory_space<vmem>>) target(%o : memref<8x128xf32, #tpu.memory_space<vmem>>) source_semaphore(%sent : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) target_semaphore(%received : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) device_id(%right)
  tpu.wait_dma2 semaphore(%sent : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%x : memref<8x128xf32, #tpu.memory_space<vmem>>) dst(%o : memref<8x128xf32, #tpu.memory_space<vmem>>)
  tpu.wait_dma2 semaphore(%received : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%x : memref<8x128xf32, #tpu.memory_space<vmem>>) dst(%o : memref<8x128xf32, #tpu.memory_space<vmem>>)
}
