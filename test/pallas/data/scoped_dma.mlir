// Rows copied by hand through a scoped buffer, with a masked and a strided access, and a sum kept
// in SMEM.
pallas.kernel @scoped_dma
  input %x: tensor<32x128xf32> in any
  output %o: tensor<16x128xf32> in vmem
  output %count: tensor<2xi32> in smem
{
  %0 = arith.constant 0 : i32
  %1 = arith.constant 1 : i32
  %2 = arith.constant 2 : i32
  %8 = arith.constant 8 : i32
  pallas.store %0, %count[0] : memref<2xi32, #tpu.memory_space<smem>>
  %total = pallas.run_scoped (%buf: memref<16x128xf32, #tpu.memory_space<vmem>>, %sems: memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> (f32) {
    scf.for %i = %0 to %2 step %1 : i32 {
      %row = arith.muli %i, %8 : i32
      %far = pallas.at %x[ds(%row, 8), :] : memref<32x128xf32, #tpu.memory_space<any>>
      %near = pallas.at %buf[ds(%row, 8), :] : memref<16x128xf32, #tpu.memory_space<vmem>>
      %sem = pallas.at %sems[%i] : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%far : memref<8x128xf32, #tpu.memory_space<any>>) target(%near : memref<8x128xf32, #tpu.memory_space<vmem>>) target_semaphore(%sem : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
      tpu.wait_dma2 semaphore(%sem : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%far : memref<8x128xf32, #tpu.memory_space<any>>) dst(%near : memref<8x128xf32, #tpu.memory_space<vmem>>)
      %old = pallas.load %count[0] : memref<2xi32, #tpu.memory_space<smem>>
      %new = arith.addi %old, %8 : i32
      %was = pallas.swap %new, %count[0] : memref<2xi32, #tpu.memory_space<smem>>
      pallas.store %was, %count[1] : memref<2xi32, #tpu.memory_space<smem>>
    }
    %v = pallas.load %buf[...] : memref<16x128xf32, #tpu.memory_space<vmem>>
    pallas.store %v, %o[...] : memref<16x128xf32, #tpu.memory_space<vmem>>
    %even = pallas.load %buf[ds(0, 8, 2), :] : memref<16x128xf32, #tpu.memory_space<vmem>>
    %zero = arith.constant dense<0.0> : vector<8x128xf32>
    %positive = arith.cmpf ogt, %even, %zero : vector<8x128xf32>
    pallas.store %even, %o[ds(8, 8), :] mask %positive : memref<16x128xf32, #tpu.memory_space<vmem>>
    %sum = pallas.reduce add %v axes [0, 1] : vector<16x128xf32> -> f32
    pallas.yield %sum : f32
  }
  %totals = vector.broadcast %total : f32 to vector<1x128xf32>
  pallas.store %totals, %o[ds(3, 1), :] : memref<16x128xf32, #tpu.memory_space<vmem>>
}
