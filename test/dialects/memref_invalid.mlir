// RUN: tpu-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: 'memref.transpose': (d0, d1) -> (d1, d1) does not permute 2 dimensions
%m = "test.op"() : () -> memref<8x128xf32>
%0 = memref.transpose %m (d0, d1) -> (d1, d1) : memref<8x128xf32> to memref<128x128xf32>

// -----

// CHECK: 'memref.transpose': expected shape [128, 8], got memref<8x128xf32>
%m = "test.op"() : () -> memref<8x128xf32>
%0 = memref.transpose %m (d0, d1) -> (d1, d0) : memref<8x128xf32> to memref<8x128xf32>

// -----

// CHECK: 'memref.copy': memref<8x128xf32> and memref<8x128xi32> differ in shape or element type
%m, %m1 = "test.op"() : () -> (memref<8x128xf32>, memref<8x128xi32>)
"memref.copy"(%m, %m1) : (memref<8x128xf32>, memref<8x128xi32>) -> ()
