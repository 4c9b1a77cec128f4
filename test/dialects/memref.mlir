// RUN: %tpu_roundtrip
// RUN: %tpu_generic

// CHECK: memref.global "private" constant @table : memref<4xf32> = dense<[0.000000e+00, 1.000000e+00, 2.000000e+00, 3.000000e+00]>
memref.global "private" constant @table : memref<4xf32> = dense<[0.0, 1.0, 2.0, 3.0]>
// CHECK: memref.global @declared : memref<4xf32>
memref.global @declared : memref<4xf32>
// CHECK: memref.global "private" @empty : memref<4xf32> = uninitialized {alignment = 64 : i64}
memref.global "private" @empty : memref<4xf32> = uninitialized {alignment = 64 : i64}

%ref, %x = "test.op"() : () -> (memref<8x128xf32>, index)
// CHECK: memref.cast %ref : memref<8x128xf32> to memref<?x128xf32>
%0 = memref.cast %ref : memref<8x128xf32> to memref<?x128xf32>
// CHECK: memref.copy %ref, %ref : memref<8x128xf32> to memref<8x128xf32>
memref.copy %ref, %ref : memref<8x128xf32> to memref<8x128xf32>
// CHECK: memref.transpose %ref (d0, d1) -> (d1, d0) : memref<8x128xf32> to memref<128x8xf32, strided<[1, 128]>>
%1 = memref.transpose %ref (d0, d1) -> (d1, d0) : memref<8x128xf32> to memref<128x8xf32, strided<[1, 128]>>
// CHECK: memref.memory_space_cast %ref : memref<8x128xf32> to memref<8x128xf32, #tpu.memory_space<vmem>>
%2 = memref.memory_space_cast %ref : memref<8x128xf32> to memref<8x128xf32, #tpu.memory_space<vmem>>
// CHECK: memref.load %ref[%x, %x] : memref<8x128xf32>
%3 = memref.load %ref[%x, %x] : memref<8x128xf32>

// -----

// CHECK: memref<16x256xbf16, #tpu.tiled<(8,128)(2,1),[2,1]>, #tpu.memory_space<vmem>>
%0 = "test.op"() : () -> memref<16x256xbf16, #tpu.tiled<(8,128)(2,1),[2,1]>, #tpu.memory_space<vmem>>
