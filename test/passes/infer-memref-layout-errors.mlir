// RUN: tpu-opt %s -p infer-memref-layout --split-input-file --verify-diagnostics | filecheck %s

// CHECK: error: tpu.memref_squeeze from memref<16x1x128xf32, {{.*}}> to memref<16x128xf32, {{.*}}> does not keep whole tiles together [view-layout]
func.func @squeezed_rows(%a: memref<16x16x128xf32, #tpu.memory_space<vmem>>) {
  %c0 = arith.constant 0 : i32
  %c8 = arith.constant 8 : i32
  %0 = tpu.memref_slice %a[%c0, %c8, %c0] : memref<16x16x128xf32, #tpu.memory_space<vmem>> -> memref<16x1x128xf32, #tpu.memory_space<vmem>>
  %1 = tpu.memref_squeeze %0 : memref<16x1x128xf32, #tpu.memory_space<vmem>> -> memref<16x128xf32, #tpu.memory_space<vmem>>
  func.return
}
