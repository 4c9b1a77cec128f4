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

// Nothing changes the tiling on the way to scalars: whole registers where they divide the rows.
// CHECK-LABEL: func.func @scalar_bytes(%a: memref<64x100xi8, #tpu.tiled<(32,128)(4,1),[1,1]>, {{.*}}, %b: memref<30x100xi8, #tpu.tiled<(8,128)(4,1),[1,1]>, {{.*}}, %c: memref<64x100xi4, #tpu.tiled<(64,128)(8,1),[1,1]>
func.func @scalar_bytes(%a: memref<64x100xi8, #tpu.memory_space<smem>>, %b: memref<30x100xi8, #tpu.memory_space<smem>>, %c: memref<64x100xi4, #tpu.memory_space<smem>>) {
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

// CHECK-LABEL: func.func @one_dimension(%a: memref<200xf32, #tpu.tiled<(128),[1]>, {{.*}}, %b: memref<5000xbf16, #tpu.tiled<(256)(128)(2,1),[1]>, {{.*}}, %c: memref<5000xbf16, #tpu.tiled<(256)(128)(2,1),[1]>
func.func @one_dimension(%a: memref<200xf32, #tpu.memory_space<vmem>>, %b: memref<5000xbf16, #tpu.memory_space<vmem>>, %c: memref<5000xbf16, #tpu.memory_space<any>>) {
  func.return
}

// Registers are loaded from whole tiles; DMAs see the array's own size.
// CHECK-LABEL: func.func @flat_buffers_are_whole_tiles(
// CHECK:       %b = memref.alloca() {tpu.extent = 100 : i64} : memref<128xf32, #tpu.tiled<(128),[1]>, #tpu.memory_space<vmem>>
// CHECK-NEXT:  [[VIEW:%.+]] = tpu.reinterpret_cast %b : {{.*}} -> memref<100xf32, #tpu.tiled<(128),[1]>, #tpu.memory_space<vmem>>
// CHECK:       tpu.enqueue_dma source(%a : {{.*}}) target([[VIEW]] :
// CHECK:       vector.load %b[
func.func @flat_buffers_are_whole_tiles(%a: memref<100xf32, #tpu.memory_space<any>>, %s: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> vector<100xf32> {
  %c0 = arith.constant 0 : index
  %b = memref.alloca() : memref<100xf32, #tpu.memory_space<vmem>>
  tpu.enqueue_dma source(%a : memref<100xf32, #tpu.memory_space<any>>) target(%b : memref<100xf32, #tpu.memory_space<vmem>>) target_semaphore(%s : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
  %0 = vector.load %b[%c0] : memref<100xf32, #tpu.memory_space<vmem>>, vector<100xf32>
  func.return %0 : vector<100xf32>
}

// A transfer of fewer rows than a tile goes through a view with smaller tiles of the same memory.
// CHECK-LABEL: func.func @some_rows_of_a_tile(
// CHECK:       tpu.memref_slice {{.*}} -> memref<1x8x256xf32, #tpu.tiled<(8,128),[2,2,1]>
// CHECK-NEXT:  tpu.reinterpret_cast {{.*}} -> memref<1x4x256xf32, #tpu.tiled<(4,128),[4,4,2]>
// CHECK-NEXT:  tpu.memref_squeeze {{.*}} -> memref<4x256xf32, #tpu.tiled<(4,128),[4,2]>
func.func @some_rows_of_a_tile(%i: i32) {
  %c0 = arith.constant 0 : i32
  %b = memref.alloca() : memref<2x8x256xf32, #tpu.memory_space<vmem>>
  %0 = tpu.memref_slice %b[%i, %c0, %c0] : memref<2x8x256xf32, #tpu.memory_space<vmem>> -> memref<1x4x256xf32, #tpu.memory_space<vmem>>
  %1 = tpu.memref_squeeze %0 : memref<1x4x256xf32, #tpu.memory_space<vmem>> -> memref<4x256xf32, #tpu.memory_space<vmem>>
  func.return
}

// CHECK-LABEL: func.func @some_columns_of_some_rows_of_a_tile(
// CHECK:       tpu.memref_slice {{.*}} <%{{.*}}> : {{.*}} -> memref<16x?xi16, #tpu.tiled<(16,128)(2,1),[2,1]>
// CHECK-NEXT:  tpu.reinterpret_cast {{.*}}<%{{.*}}> : {{.*}} -> memref<2x?xi16, #tpu.tiled<(2,128)(2,1),[16,8]>
func.func @some_columns_of_some_rows_of_a_tile(%n: i32) {
  %c0 = arith.constant 0 : i32
  %b = memref.alloca() : memref<16x256xi16, #tpu.memory_space<vmem>>
  %0 = tpu.memref_slice %b[%c0, %c0] <%n> : memref<16x256xi16, #tpu.memory_space<vmem>> -> memref<2x?xi16, #tpu.memory_space<vmem>>
  func.return
}

// Tiles of one column follow each other: any rows of words are whole tiles of one row.
// CHECK-LABEL: func.func @rows_of_one_column(
// CHECK:       tpu.reinterpret_cast %a : {{.*}} -> memref<3x37x128xf32, #tpu.tiled<(1,128),[40,1,1]>
// CHECK-NEXT:  tpu.memref_slice {{.*}} -> memref<1x12x128xf32, #tpu.tiled<(1,128),[40,1,1]>
// CHECK:       tpu.reinterpret_cast %b : {{.*}} -> memref<40x64xbf16, #tpu.tiled<(2,128)(2,1),[1,1]>
// CHECK-NEXT:  tpu.memref_slice {{.*}} -> memref<4x64xbf16, #tpu.tiled<(2,128)(2,1),[1,1]>
func.func @rows_of_one_column(%a: memref<3x37x128xf32, #tpu.memory_space<any>>, %b: memref<40x64xbf16, #tpu.memory_space<any>>, %i: i32) {
  %c0 = arith.constant 0 : i32
  %c6 = arith.constant 6 : i32
  %0 = tpu.memref_slice %a[%i, %i, %c0] : memref<3x37x128xf32, #tpu.memory_space<any>> -> memref<1x12x128xf32, #tpu.memory_space<any>>
  %1 = tpu.memref_slice %b[%c6, %c0] : memref<40x64xbf16, #tpu.memory_space<any>> -> memref<4x64xbf16, #tpu.memory_space<any>>
  func.return
}

// Rows within a tile of several columns are found among rows of words.
// CHECK-LABEL: func.func @rows_within_a_tile(
// CHECK:       tpu.reinterpret_cast %a : {{.*}} -> memref<5x8x256xbf16, #tpu.tiled<(2,128)(2,1),[8,1,4]>
// CHECK:       tpu.memref_slice {{.*}} -> memref<1x4x256xbf16, #tpu.tiled<(2,128)(2,1),[8,1,4]>
// CHECK-NEXT:  tpu.memref_squeeze {{.*}} -> memref<4x256xbf16, #tpu.tiled<(2,128)(2,1),[1,4]>
func.func @rows_within_a_tile(%a: memref<40x256xbf16, #tpu.memory_space<any>>) {
  %c0 = arith.constant 0 : i32
  %c10 = arith.constant 10 : i32
  %0 = tpu.memref_slice %a[%c10, %c0] : memref<40x256xbf16, #tpu.memory_space<any>> -> memref<4x256xbf16, #tpu.memory_space<any>>
  func.return
}

// The end of an array is cut from its padding.
// CHECK-LABEL: func.func @ends_of_arrays(
// CHECK:       tpu.reinterpret_cast %a : {{.*}} -> memref<40x256xf32, #tpu.tiled<(8,128),[2,1]>
// CHECK-NEXT:  tpu.memref_slice {{.*}} -> memref<16x128xf32, #tpu.tiled<(8,128),[2,1]>
// CHECK-NEXT:  tpu.reinterpret_cast {{.*}} -> memref<13x72xf32, #tpu.tiled<(8,128),[2,1]>
func.func @ends_of_arrays(%a: memref<37x200xf32, #tpu.memory_space<any>>) {
  %c24 = arith.constant 24 : i32
  %c128 = arith.constant 128 : i32
  %0 = tpu.memref_slice %a[%c24, %c128] : memref<37x200xf32, #tpu.memory_space<any>> -> memref<13x72xf32, #tpu.memory_space<any>>
  func.return
}

// The last word of packed rows is cut from the padding that shares it.
// CHECK-LABEL: func.func @ends_of_packed_rows(
// CHECK:       tpu.reinterpret_cast %a : {{.*}} -> memref<24x256xbf16, #tpu.tiled<(8,128)(2,1),[2,1]>
// CHECK-NEXT:  tpu.reinterpret_cast {{.*}} -> memref<3x8x256xbf16, #tpu.tiled<(2,128)(2,1),[8,1,4]>
// CHECK:       tpu.memref_slice {{.*}} -> memref<1x4x256xbf16, #tpu.tiled<(2,128)(2,1),[8,1,4]>
// CHECK-NEXT:  tpu.memref_squeeze {{.*}} -> memref<4x256xbf16, #tpu.tiled<(2,128)(2,1),[1,4]>
// CHECK-NEXT:  tpu.reinterpret_cast {{.*}} -> memref<3x256xbf16, #tpu.tiled<(2,128)(2,1),[1,4]>
func.func @ends_of_packed_rows(%a: memref<23x256xbf16, #tpu.memory_space<any>>) {
  %c0 = arith.constant 0 : i32
  %c20 = arith.constant 20 : i32
  %0 = tpu.memref_slice %a[%c20, %c0] : memref<23x256xbf16, #tpu.memory_space<any>> -> memref<3x256xbf16, #tpu.memory_space<any>>
  func.return
}

// Rows of the only tile, or of one tile, may begin at a place known at run time.
// CHECK-LABEL: func.func @rows_of_one_tile_at_any_place(
// CHECK:       tpu.reinterpret_cast %a : {{.*}} -> memref<1x8x256xf32, #tpu.tiled<(1,128),[16,1,8]>
// CHECK-NEXT:  [[ZERO:%.+]] = arith.constant 0 : i32
// CHECK-NEXT:  tpu.memref_slice {{.*}}[[[ZERO]], %i, {{.*}} -> memref<1x3x256xf32, {{.*}}
// CHECK:       [[ROW:%.+]] = arith.remui %j
// CHECK-NEXT:  [[WORD:%.+]] = tpu.assume_multiple [[ROW]], 2 : i32
// CHECK-NEXT:  tpu.memref_slice {{.*}}, [[WORD]], {{.*}} -> memref<1x4x256xbf16, {{.*}}
func.func @rows_of_one_tile_at_any_place(%a: memref<7x256xf32, #tpu.memory_space<any>>, %b: memref<64x256xbf16, #tpu.memory_space<any>>, %i: i32, %k: i32) {
  %c0 = arith.constant 0 : i32
  %j = tpu.assume_multiple %k, 4 : i32
  %0 = tpu.memref_slice %a[%i, %c0] : memref<7x256xf32, #tpu.memory_space<any>> -> memref<3x256xf32, #tpu.memory_space<any>>
  %1 = tpu.memref_slice %b[%j, %c0] : memref<64x256xbf16, #tpu.memory_space<any>> -> memref<4x256xbf16, #tpu.memory_space<any>>
  func.return
}

// A transfer of packed rows within a tile wants rows of words; loads shift them.
// CHECK-LABEL: func.func @packed_rows_of_a_transfer(
// CHECK:       memref.alloca() : memref<32x256xbf16, #tpu.tiled<(2,128)(2,1),[2,1]>
// CHECK:       tpu.memref_slice {{.*}} -> memref<8x256xbf16, #tpu.tiled<(2,128)(2,1),[2,1]>
func.func @packed_rows_of_a_transfer(%a: memref<8x256xbf16, #tpu.memory_space<any>>, %s: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) {
  %c0 = arith.constant 0 : i32
  %c8 = arith.constant 8 : i32
  %b = memref.alloca() : memref<32x256xbf16, #tpu.memory_space<vmem>>
  %0 = tpu.memref_slice %b[%c8, %c0] : memref<32x256xbf16, #tpu.memory_space<vmem>> -> memref<8x256xbf16, #tpu.memory_space<vmem>>
  tpu.enqueue_dma source(%a : memref<8x256xbf16, #tpu.memory_space<any>>) target(%0 : memref<8x256xbf16, #tpu.memory_space<vmem>>) target_semaphore(%s : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
  func.return
}

// Sizes that are constants are part of the type, at both ends of a transfer or at neither.
// CHECK-LABEL: func.func @sizes_that_are_constants(
// CHECK:       [[A:%.+]] = tpu.memref_slice %a[%c8, %c0] : {{.*}} -> memref<8x128xf32,
// CHECK-NEXT:  [[B:%.+]] = tpu.memref_slice %b[%c8, %c0] : {{.*}} -> memref<8x128xf32,
// CHECK-NEXT:  tpu.enqueue_dma source([[A]] : {{.*}}) target([[B]] :
// CHECK:       tpu.memref_slice %a[%c8, %c0] <%c8> : {{.*}} -> memref<?x128xf32,
// CHECK:       tpu.memref_slice {{.*}}[%c8, %c0] <%n> : {{.*}} -> memref<?x128xf32,
func.func @sizes_that_are_constants(%a: memref<32x128xf32, #tpu.memory_space<any>>, %b: memref<32x128xf32, #tpu.memory_space<any>>, %s: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c8 = arith.constant 8 : i32
  %0 = tpu.memref_slice %a[%c8, %c0] <%c8> : memref<32x128xf32, #tpu.memory_space<any>> -> memref<?x128xf32, #tpu.memory_space<any>>
  %1 = tpu.memref_slice %b[%c8, %c0] <%c8> : memref<32x128xf32, #tpu.memory_space<any>> -> memref<?x128xf32, #tpu.memory_space<any>>
  tpu.enqueue_dma source(%0 : memref<?x128xf32, #tpu.memory_space<any>>) target(%1 : memref<?x128xf32, #tpu.memory_space<any>>) target_semaphore(%s : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
  %2 = tpu.memref_slice %a[%c8, %c0] <%c8> : memref<32x128xf32, #tpu.memory_space<any>> -> memref<?x128xf32, #tpu.memory_space<any>>
  %3 = tpu.memref_slice %b[%c8, %c0] <%n> : memref<32x128xf32, #tpu.memory_space<any>> -> memref<?x128xf32, #tpu.memory_space<any>>
  tpu.enqueue_dma source(%2 : memref<?x128xf32, #tpu.memory_space<any>>) target(%3 : memref<?x128xf32, #tpu.memory_space<any>>) target_semaphore(%s : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
  func.return
}

// A scalar of a part that cuts tiles is one of the array.
// CHECK-LABEL: func.func @scalars_of_parts(
// CHECK-NEXT:  [[ROW:%.+]] = arith.index_cast %i : i32 to index
// CHECK-NEXT:  [[COLUMN:%.+]] = arith.constant 133 : index
// CHECK-NEXT:  memref.load %a[[[ROW]], [[COLUMN]]] : memref<4x300xi32,
func.func @scalars_of_parts(%a: memref<4x300xi32, #tpu.memory_space<smem>>, %i: i32) -> i32 {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %c130 = arith.constant 130 : i32
  %0 = tpu.memref_slice %a[%i, %c130] : memref<4x300xi32, #tpu.memory_space<smem>> -> memref<1x100xi32, #tpu.memory_space<smem>>
  %1 = tpu.memref_squeeze %0 : memref<1x100xi32, #tpu.memory_space<smem>> -> memref<100xi32, #tpu.memory_space<smem>>
  %2 = memref.load %1[%c3] : memref<100xi32, #tpu.memory_space<smem>>
  func.return %2 : i32
}

// Rows of words in one column of tiles follow each other, and are cut anew.
// CHECK-LABEL: func.func @rows_are_cut_anew(
// CHECK:       [[ROWS:%.+]] = tpu.reinterpret_cast %a : {{.*}} -> memref<16x128xf32, #tpu.tiled<(1,128),[1,1]>, {{.*}}
// CHECK-NEXT:  tpu.memref_reshape [[ROWS]] : {{.*}} -> memref<2x1024xf32, #tpu.tiled<(1,128),[8,1]>,
// CHECK:       memref.alloca() : memref<2x5x128xi32, #tpu.tiled<(1,128),[5,1,1]>, #tpu.memory_space<smem>>
func.func @rows_are_cut_anew(%a: memref<16x128xf32, #tpu.memory_space<any>>) {
  %0 = tpu.memref_reshape %a : memref<16x128xf32, #tpu.memory_space<any>> -> memref<2x1024xf32, #tpu.memory_space<any>>
  %b = memref.alloca() : memref<2x5x128xi32, #tpu.memory_space<smem>>
  %1 = tpu.memref_reshape %b : memref<2x5x128xi32, #tpu.memory_space<smem>> -> memref<10x128xi32, #tpu.memory_space<smem>>
  func.return
}

// Half in one tile and half in the next: pieces of tiles at a known distance.
// CHECK-LABEL: func.func @rows_of_two_tiles(
// CHECK:       [[PIECES:%.+]] = tpu.reinterpret_cast %a : {{.*}} -> memref<2x4x4x256xf32, #tpu.tiled<(2,128),[8,1,5,4]>, {{.*}}
// CHECK:       [[PART:%.+]] = tpu.memref_slice [[PIECES]][{{.*}}] : {{.*}} -> memref<1x1x4x256xf32,
// CHECK-NEXT:  tpu.memref_squeeze [[PART]] : {{.*}} -> memref<4x256xf32, #tpu.tiled<(2,128),[5,4]>,
func.func @rows_of_two_tiles(%a: memref<24x256xf32, #tpu.memory_space<any>>) {
  %c0 = arith.constant 0 : i32
  %c6 = arith.constant 6 : i32
  %0 = tpu.memref_slice %a[%c6, %c0] : memref<24x256xf32, #tpu.memory_space<any>> -> memref<4x256xf32, #tpu.memory_space<any>>
  func.return
}

// So do those of words that rows of halves share.
// CHECK-LABEL: func.func @rows_of_words_are_cut_anew(
// CHECK:       [[ROWS:%.+]] = tpu.reinterpret_cast %a : {{.*}} -> memref<10x8xi16, #tpu.tiled<(2,128)(2,1),[1,1]>, {{.*}}
// CHECK-NEXT:  tpu.memref_reshape [[ROWS]] : {{.*}} -> memref<5x2x8xi16, #tpu.tiled<(2,128)(2,1),[1,1,1]>,
func.func @rows_of_words_are_cut_anew(%a: memref<10x8xi16, #tpu.memory_space<any>>) {
  %0 = tpu.memref_reshape %a : memref<10x8xi16, #tpu.memory_space<any>> -> memref<5x2x8xi16, #tpu.memory_space<any>>
  func.return
}

// Vectors of parts that cut registers are vectors of the array.
// CHECK-LABEL: func.func @vectors_of_parts(
// CHECK-NOT:   tpu.memref_slice
// CHECK:       [[TEN:%.+]] = arith.constant 10 : index
// CHECK:       vector.load %a[[[TEN]], {{.*}}] : memref<24x128xbf16, {{.*}}>, vector<2x128xbf16>
// CHECK:       [[ROW:%.+]] = arith.constant 9 : index
// CHECK:       vector.load %a[[[ROW]], {{.*}}] : memref<24x128xbf16, {{.*}}>, vector<1x128xbf16>
// CHECK-NEXT:  vector.shape_cast {{.*}} : vector<1x128xbf16> to vector<128xbf16>
// CHECK:       vector.load %b[{{.*}}] : memref<2x24x128xbf16, {{.*}}>, vector<2x1x128xbf16>
// CHECK-NEXT:  vector.shape_cast {{.*}} : vector<2x1x128xbf16> to vector<2x128xbf16>
// CHECK-NOT:   tpu.memref_slice
func.func @vectors_of_parts(%a: memref<24x128xbf16, #tpu.memory_space<vmem>>, %b: memref<2x24x128xbf16, #tpu.memory_space<vmem>>) -> (vector<2x128xbf16>, vector<128xbf16>, vector<2x128xbf16>) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %i0 = arith.constant 0 : i32
  %i1 = arith.constant 1 : i32
  %i8 = arith.constant 8 : i32
  %i9 = arith.constant 9 : i32
  %0 = tpu.memref_slice %a[%i8, %i0] : memref<24x128xbf16, #tpu.memory_space<vmem>> -> memref<8x128xbf16, #tpu.memory_space<vmem>>
  %1 = vector.load %0[%c2, %c0] : memref<8x128xbf16, #tpu.memory_space<vmem>>, vector<2x128xbf16>
  %2 = tpu.memref_slice %0[%i1, %i0] : memref<8x128xbf16, #tpu.memory_space<vmem>> -> memref<1x128xbf16, #tpu.memory_space<vmem>>
  %3 = tpu.memref_squeeze %2 : memref<1x128xbf16, #tpu.memory_space<vmem>> -> memref<128xbf16, #tpu.memory_space<vmem>>
  %4 = vector.load %3[%c0] : memref<128xbf16, #tpu.memory_space<vmem>>, vector<128xbf16>
  %5 = tpu.memref_slice %b[%i0, %i9, %i0] : memref<2x24x128xbf16, #tpu.memory_space<vmem>> -> memref<2x1x128xbf16, #tpu.memory_space<vmem>>
  %6 = tpu.memref_squeeze %5 : memref<2x1x128xbf16, #tpu.memory_space<vmem>> -> memref<2x128xbf16, #tpu.memory_space<vmem>>
  %7 = vector.load %6[%c0, %c0] : memref<2x128xbf16, #tpu.memory_space<vmem>>, vector<2x128xbf16>
  func.return %1, %4, %7 : vector<2x128xbf16>, vector<128xbf16>, vector<2x128xbf16>
}

// So are those of parts with one dimension, whose arrays are padded to whole registers.
// CHECK-LABEL: func.func @flat_parts(
// CHECK:       [[BUFFER:%.+]] = memref.alloca() {{.*}} : memref<512xbf16, #tpu.tiled<(256)(128)(2,1),[1]>, {{.*}}
// CHECK:       [[START:%.+]] = arith.constant 256 : index
// CHECK:       vector.load [[BUFFER]][[[START]]] : memref<512xbf16, {{.*}}>, vector<44xbf16>
func.func @flat_parts() -> vector<44xbf16> {
  %c0 = arith.constant 0 : index
  %i256 = arith.constant 256 : i32
  %a = memref.alloca() : memref<300xbf16, #tpu.memory_space<vmem>>
  %0 = tpu.memref_slice %a[%i256] : memref<300xbf16, #tpu.memory_space<vmem>> -> memref<44xbf16, #tpu.memory_space<vmem>>
  %1 = vector.load %0[%c0] : memref<44xbf16, #tpu.memory_space<vmem>>, vector<44xbf16>
  func.return %1 : vector<44xbf16>
}

// Buffers whose tiles nobody sees get others.
// CHECK-LABEL: func.func @erased_tiles(
// CHECK:       memref.alloca() : memref<32x256xbf16, #tpu.tiled<(16,128)(2,1),[2,1]>, {{.*}}
// CHECK-NOT:   tpu.erase_memref_layout
func.func @erased_tiles() {
  %c0 = arith.constant 0 : index
  %a = memref.alloca() : memref<32x256xbf16, #tpu.tiled<(8,128)(2,1),[2,1]>, #tpu.memory_space<vmem>>
  %0 = tpu.erase_memref_layout %a : memref<32x256xbf16, #tpu.tiled<(8,128)(2,1),[2,1]>, #tpu.memory_space<vmem>> -> memref<32x256xbf16, #tpu.memory_space<vmem>>
  %1 = vector.load %0[%c0, %c0] : memref<32x256xbf16, #tpu.memory_space<vmem>>, vector<32x256xbf16>
  func.return
}

// Bytes in scalar memory lie as XLA puts them there: fewer than 16 columns in small tiles.
// CHECK-LABEL: func.func @bytes_in_scalar_memory(%a: memref<32x8xi8, #tpu.tiled<(8,128)(4,1),[1,1]>, {{.*}}, %b: memref<32x16xi8, #tpu.tiled<(32,128)(4,1),[1,1]>,
// CHECK:       memref.alloca() : memref<32x8xi8, #tpu.tiled<(32,128)(4,1),[1,1]>,
func.func @bytes_in_scalar_memory(%a: memref<32x8xi8, #tpu.memory_space<smem>>, %b: memref<32x16xi8, #tpu.memory_space<smem>>) {
  %s = memref.alloca() : memref<32x8xi8, #tpu.memory_space<smem>>
  func.return
}

// A part that begins within a register is copied from rows of words, also where it is seen as another type.
// CHECK-LABEL: func.func @copied_parts_of_recast_rows(
// CHECK:       tpu.memref_bitcast {{.*}} -> memref<64x128xbf16, #tpu.tiled<(2,128)(2,1),[1,1]>
// CHECK:       tpu.memref_bitcast {{.*}} -> memref<128x128xi8, #tpu.tiled<(4,128)(4,1),[1,1]>
func.func @copied_parts_of_recast_rows(%o: memref<8x128xbf16, #tpu.memory_space<hbm>>, %p: memref<16x128xi8, #tpu.memory_space<hbm>>, %s: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) {
  %c0 = arith.constant 0 : i32
  %c42 = arith.constant 42 : i32
  %c84 = arith.constant 84 : i32
  %a = memref.alloca() : memref<64x128xi16, #tpu.memory_space<vmem>>
  %b = memref.alloca() : memref<64x128xi16, #tpu.memory_space<vmem>>
  %0 = tpu.memref_bitcast %a : memref<64x128xi16, #tpu.memory_space<vmem>> -> memref<64x128xbf16, #tpu.memory_space<vmem>>
  %1 = tpu.memref_slice %0[%c42, %c0] : memref<64x128xbf16, #tpu.memory_space<vmem>> -> memref<8x128xbf16, #tpu.memory_space<vmem>>
  tpu.enqueue_dma source(%1 : memref<8x128xbf16, #tpu.memory_space<vmem>>) target(%o : memref<8x128xbf16, #tpu.memory_space<hbm>>) target_semaphore(%s : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
  %2 = tpu.memref_bitcast %b : memref<64x128xi16, #tpu.memory_space<vmem>> -> memref<128x128xi8, #tpu.memory_space<vmem>>
  %3 = tpu.memref_slice %2[%c84, %c0] : memref<128x128xi8, #tpu.memory_space<vmem>> -> memref<16x128xi8, #tpu.memory_space<vmem>>
  tpu.enqueue_dma source(%3 : memref<16x128xi8, #tpu.memory_space<vmem>>) target(%p : memref<16x128xi8, #tpu.memory_space<hbm>>) target_semaphore(%s : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
  func.return
}
