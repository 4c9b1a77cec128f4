// RUN: tpu-opt %s -p tiles-to-vregs --split-input-file --verify-diagnostics | filecheck %s

!x = memref<16x128xf32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>

// A logical vector was left behind.
// CHECK: error: vector.load has no meaning on single registers [no-unroll-rule]
func.func @logical_load(%x: !x) -> vector<16x128xf32> {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0, %c0] : !x, vector<16x128xf32>
  func.return %v : vector<16x128xf32>
}
