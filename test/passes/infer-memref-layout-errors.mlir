// RUN: tpu-opt %s -p infer-memref-layout --split-input-file --verify-diagnostics | filecheck %s

// A word of bf16 holds two rows of a tile: rows of different matrices cannot share one.
// CHECK: error: tpu.memref_squeeze from memref<16x1x128xbf16, {{.*}}> to memref<16x128xbf16, {{.*}}> does not keep whole tiles together [view-layout]
func.func @squeezed_rows(%a: memref<16x1x128xbf16, #tpu.memory_space<vmem>>) {
  %0 = tpu.memref_squeeze %a : memref<16x1x128xbf16, #tpu.memory_space<vmem>> -> memref<16x128xbf16, #tpu.memory_space<vmem>>
  func.return
}

// -----

// Columns of a row of halves, seen without its row.
// CHECK: error: tpu.memref_squeeze from memref<1x4096xbf16, {{.*}}> to memref<4096xbf16, {{.*}}> does not keep whole tiles together [view-layout]
func.func @columns_of_a_row(%a: memref<32x4096xbf16, #tpu.memory_space<vmem>>, %row: i32) {
  %zero = arith.constant 0 : i32
  %0 = tpu.memref_slice %a[%row, %zero] : memref<32x4096xbf16, #tpu.memory_space<vmem>> -> memref<1x4096xbf16, #tpu.memory_space<vmem>>
  %1 = tpu.memref_squeeze %0 : memref<1x4096xbf16, #tpu.memory_space<vmem>> -> memref<4096xbf16, #tpu.memory_space<vmem>>
  %2 = tpu.memref_slice %1[%zero] : memref<4096xbf16, #tpu.memory_space<vmem>> -> memref<1024xbf16, #tpu.memory_space<vmem>>
  func.return
}
