// RUN: tpu-opt %s -p windows-to-dma --split-input-file | filecheck %s

// Without a grid, arrays in VMEM are copied once, before and after.

!vmem = memref<16x128xf32, #tpu.memory_space<vmem>>
!smem = memref<4xi32, #tpu.memory_space<smem>>

module attributes {tpu.call = {operands = [tensor<16x128xf32>, tensor<4xi32>], results = [tensor<16x128xf32>], aliases = array<i64>, settings = "{}"}} {
  func.func @copies(%x: !vmem, %s: !smem, %o: !vmem, %acc: !vmem,
      %sem: memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) attributes {
      dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 2 : i64,
      tpu.core_type = #tpu.core_type<tc>} {
    %c0 = arith.constant 0 : index
    %v = vector.load %x[%c0, %c0] : !vmem, vector<16x128xf32>
    tpu.vector_store %acc[%c0, %c0], %v {strides = array<i32>} : !vmem, vector<16x128xf32>,
    tpu.vector_store %o[%c0, %c0], %v {strides = array<i32>} : !vmem, vector<16x128xf32>,
    func.return
  }
}

// CHECK-LABEL: func.func @copies(
// CHECK-SAME:    %x: memref<16x128xf32, #tpu.memory_space<any>>, %s: memref<4xi32, #tpu.memory_space<smem>>, %o: memref<16x128xf32, #tpu.memory_space<any>>)
// CHECK-SAME:    scratch_operands = 0 : i64
// CHECK:         %acc = memref.alloca() : memref<16x128xf32, #tpu.memory_space<vmem>>
// CHECK-NEXT:    %sem = tpu.sem_alloc : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
// CHECK-NEXT:    %x_window = memref.alloca()
// CHECK-NEXT:    %o_window = memref.alloca()
// CHECK-NEXT:    %copied = tpu.sem_alloc : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
// CHECK-NEXT:    tpu.enqueue_dma source(%x {{.*}}) target(%x_window {{.*}}) target_semaphore(%copied
// CHECK-NEXT:    tpu.wait_dma2 semaphore(%copied {{.*}}) src(%x {{.*}}) dst(%x_window
// CHECK-NEXT:    arith.constant
// CHECK-NEXT:    vector.load %x_window
// CHECK-NEXT:    tpu.vector_store %acc
// CHECK-NEXT:    tpu.vector_store %o_window
// CHECK-NEXT:    tpu.enqueue_dma source(%o_window {{.*}}) target(%o
// CHECK-NEXT:    tpu.wait_dma2 semaphore(%copied
// CHECK-NEXT:    tpu.yield

// -----

// A kernel that moves its data itself keeps its form; its call need not be known.

!any = memref<16x128xf32, #tpu.memory_space<any>>
!sem = memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>

func.func @own(%x: !any, %o: !any) attributes {
    dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
    tpu.core_type = #tpu.core_type<tc>} {
  "tpu.region"() ({
    %s = tpu.sem_alloc : !sem
    tpu.enqueue_dma source(%x : !any) target(%o : !any) target_semaphore(%s : !sem)
    tpu.wait_dma2 semaphore(%s : !sem) src(%x : !any) dst(%o : !any)
    tpu.yield
  }) : () -> ()
  func.return
}

// CHECK-LABEL: func.func @own(%x: memref<16x128xf32, #tpu.memory_space<any>>
// CHECK-NEXT:    "tpu.region"() ({
// CHECK-NEXT:      %s = tpu.sem_alloc
// CHECK-NEXT:      tpu.enqueue_dma source(%x {{.*}}) target(%o
// CHECK-NEXT:      tpu.wait_dma2
// CHECK-NEXT:      tpu.yield
// CHECK-NEXT:    }) : () -> ()
// CHECK-NEXT:    func.return
