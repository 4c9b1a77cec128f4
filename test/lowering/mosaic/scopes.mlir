// RUN: tpu-opt %s -p lower-to-mosaic | filecheck %s

// CHECK-LABEL: func.func @scopes
"pallas.kernel"() <{sym_name = "scopes", operands = []}> ({
^bb0:
  // CHECK: %sum = "tpu.region"() ({
  // CHECK-NEXT: %buf = memref.alloca() : memref<8x128xi32, #tpu.memory_space<vmem>>
  // CHECK-NEXT: %sem = tpu.sem_alloc : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
  // CHECK: [[ONE:%[0-9]+]] = tpu.memref_slice %sem[
  // CHECK: %s = tpu.memref_squeeze [[ONE]]
  // CHECK: tpu.yield %v : i1
  %sum = pallas.run_scoped (%buf: memref<8x128xi1, #tpu.memory_space<vmem>>, %sem: memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> (i1) {
    %s = pallas.at %sem[1] : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    "test.op"(%s) : (memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> ()
    %v = pallas.load %buf[0, 0] : memref<8x128xi1, #tpu.memory_space<vmem>>
    pallas.yield %v : i1
  }
  pallas.yield
}) : () -> ()
