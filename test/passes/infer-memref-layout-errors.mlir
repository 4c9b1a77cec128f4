// RUN: tpu-opt %s -p infer-memref-layout --split-input-file --verify-diagnostics | filecheck %s

// A word of bf16 holds two rows of a tile: rows of different matrices cannot share one.
// CHECK: error: tpu.memref_squeeze from memref<16x1x128xbf16, {{.*}}> to memref<16x128xbf16, {{.*}}> does not keep whole tiles together [view-layout]
func.func @squeezed_rows(%a: memref<16x1x128xbf16, #tpu.memory_space<vmem>>) {
  %0 = tpu.memref_squeeze %a : memref<16x1x128xbf16, #tpu.memory_space<vmem>> -> memref<16x128xbf16, #tpu.memory_space<vmem>>
  func.return
}
