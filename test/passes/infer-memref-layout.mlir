// RUN: tpu-opt %s -p infer-memref-layout{target=v5e} | filecheck %s

// Fewer rows than a register has make a smaller tile.
// CHECK-LABEL: func.func @vmem_tiles_are_registers(%a: memref<2x32x256xbf16, #tpu.tiled<(16,128)(2,1),[4,2,1]>, {{.*}}, %b: memref<32x256xi8, #tpu.tiled<(32,128)(4,1),[2,1]>, {{.*}}, %c: memref<3x256xf32, #tpu.tiled<(4,128),[2,1]>
func.func @vmem_tiles_are_registers(%a: memref<2x32x256xbf16, #tpu.memory_space<vmem>>, %b: memref<32x256xi8, #tpu.memory_space<vmem>>, %c: memref<3x256xf32, #tpu.memory_space<vmem>>) {
  func.return
}

// Arrays outside VMEM keep the compiler's layouts.
// CHECK-LABEL: func.func @operands_of_the_call(%a: memref<20x300xf32, #tpu.tiled<(8,128),[3,1]>, {{.*}}, %b: memref<32x256xbf16, #tpu.tiled<(8,128)(2,1),[2,1]>, {{.*}}, %s: memref<6xi32, #tpu.tiled<(128),[1]>, {{.*}}, %m: memref<2x!tpu.dma_semaphore, #tpu.tiled<,[1]>
func.func @operands_of_the_call(%a: memref<20x300xf32, #tpu.memory_space<any>>, %b: memref<32x256xbf16, #tpu.memory_space<any>>, %s: memref<6xi32, #tpu.memory_space<smem>>, %m: memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) {
  func.return
}

// Rows that only the program knows need tiles of their own.
// CHECK-LABEL: func.func @rows_at_any_distance(%a: memref<32x128xf32, #tpu.tiled<(1,128),[1,1]>
func.func @rows_at_any_distance(%a: memref<32x128xf32, #tpu.memory_space<vmem>>, %i: index) -> vector<8x128xf32> {
  %c0 = arith.constant 0 : index
  %0 = vector.load %a[%i, %c0] : memref<32x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
  func.return %0 : vector<8x128xf32>
}

// CHECK-LABEL: func.func @views_follow(
// CHECK:       tpu.memref_slice {{.*}} -> memref<1x16x128xf32, #tpu.tiled<(8,128),[2,1,1]>
// CHECK-NEXT:  tpu.memref_squeeze {{.*}} -> memref<16x128xf32, #tpu.tiled<(8,128),[1,1]>
func.func @views_follow(%a: memref<4x16x128xf32, #tpu.memory_space<vmem>>, %i: i32) {
  %c0 = arith.constant 0 : i32
  %0 = tpu.memref_slice %a[%i, %c0, %c0] : memref<4x16x128xf32, #tpu.memory_space<vmem>> -> memref<1x16x128xf32, #tpu.memory_space<vmem>>
  %1 = tpu.memref_squeeze %0 : memref<1x16x128xf32, #tpu.memory_space<vmem>> -> memref<16x128xf32, #tpu.memory_space<vmem>>
  func.return
}

// CHECK-LABEL: func.func @one_dimension(%a: memref<200xf32, #tpu.tiled<(256),[1]>, {{.*}}, %b: memref<5000xbf16, #tpu.tiled<(1024)(128)(2,1),[1]>
func.func @one_dimension(%a: memref<200xf32, #tpu.memory_space<vmem>>, %b: memref<5000xbf16, #tpu.memory_space<vmem>>) {
  func.return
}
