// RUN: tpu-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: 'memref.transpose': expected a permutation of 2 dimensions, got (d0, d1) -> (d1, d1)
%m = "test.op"() : () -> memref<8x128xf32>
%0 = memref.transpose %m (d0, d1) -> (d1, d1) : memref<8x128xf32> to memref<128x128xf32>

// -----

// CHECK: 'memref.transpose': expected shape [128, 8], got memref<8x128xf32>
%m = "test.op"() : () -> memref<8x128xf32>
%0 = memref.transpose %m (d0, d1) -> (d1, d0) : memref<8x128xf32> to memref<8x128xf32>

// -----

// CHECK: 'memref.copy': expected one shape and element type, got memref<8x128xf32> and memref<8x128xi32>
%m, %m1 = "test.op"() : () -> (memref<8x128xf32>, memref<8x128xi32>)
"memref.copy"(%m, %m1) : (memref<8x128xf32>, memref<8x128xi32>) -> ()
