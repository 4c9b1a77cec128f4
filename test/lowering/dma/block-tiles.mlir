// RUN: tpu-opt %s -p windows-to-dma{target=v6e} | filecheck %s
// RUN: tpu-opt %s -p windows-to-dma{target=v5e} | filecheck %s --check-prefix=SMALL

// A body that takes 8 rows of a block at a place known at run time keeps the tiles of a block, where
// buffers of the kernel's own have larger ones; a block that is taken whole has them.

builtin.module attributes {tpu.call = {operands = [tensor<4xi32>, tensor<64x256xbf16>], results = [tensor<16x256xbf16>], aliases = array<i64>, settings = "{}"}} {
  func.func @rows(%i: i32, %n: memref<4xi32, #tpu.memory_space<smem>>, %x: memref<32x256xbf16, #tpu.memory_space<vmem>>, %o: memref<16x256xbf16, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 2>, window_params = [{transform_indices = @x, window_bounds = array<i64: 32, 256>}, {transform_indices = @o, window_bounds = array<i64: 16, 256>}], scalar_prefetch = 1 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>} {
    %c0 = arith.constant 0 : index
    %e = memref.load %n[%c0] : memref<4xi32, #tpu.memory_space<smem>>
    %row = tpu.assume_multiple %e, 8 : i32
    %k = arith.index_cast %row : i32 to index
    %v = vector.load %x[%k, %c0] : memref<32x256xbf16, #tpu.memory_space<vmem>>, vector<16x256xbf16>
    tpu.vector_store %o[%c0, %c0], %v {strides = array<i32>} : memref<16x256xbf16, #tpu.memory_space<vmem>>, vector<16x256xbf16>,
    func.return
  }
  func.func @x(%i: i32, %n: memref<4xi32, #tpu.memory_space<smem>>) -> (i32, i32) {
    %z = arith.constant 0 : i32
    func.return %i, %z : i32, i32
  }
  func.func @o(%i: i32, %n: memref<4xi32, #tpu.memory_space<smem>>) -> (i32, i32) {
    %z = arith.constant 0 : i32
    func.return %z, %z : i32, i32
  }
}

// CHECK:      [[HELD:%.+]] = memref.alloca() : memref<2x32x256xbf16, #tpu.tiled<(8,128)(2,1),[8,2,1]>, #tpu.memory_space<vmem>>
// CHECK-NEXT: %x_window = tpu.erase_memref_layout [[HELD]] : {{.*}} -> memref<2x32x256xbf16, #tpu.memory_space<vmem>>
// CHECK:      %o_window = memref.alloca() : memref<16x256xbf16, #tpu.memory_space<vmem>>

// SMALL: %x_window = memref.alloca() : memref<2x32x256xbf16, #tpu.memory_space<vmem>>
