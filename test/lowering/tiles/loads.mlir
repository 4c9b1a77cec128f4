// RUN: tpu-opt %s -p vectors-to-tiles | filecheck %s

!f32 = memref<20x300xf32, #tpu.tiled<(8,128),[3,1]>, #tpu.memory_space<vmem>>
!rows = memref<20x128xf32, #tpu.tiled<(1,128),[1,1]>, #tpu.memory_space<vmem>>
!bf16 = memref<3x32x128xbf16, #tpu.tiled<(16,128)(2,1),[2,1,1]>, #tpu.memory_space<vmem>>
!flat = memref<1000xf32, #tpu.tiled<(1024),[1]>, #tpu.memory_space<vmem>>
!short = memref<200xf32, #tpu.tiled<(256),[1]>, #tpu.memory_space<vmem>>

// A tile of memory is a register, whatever the size.
// CHECK-LABEL: func.func @whole
// CHECK:       %v = tpu.load %x[%c0, %c0] {{.*}} {grid.steps = array<i64: 8, 128>} : {{.*}}, vector<3x3x8x128xf32>
// CHECK-NEXT:  tpu.store %o[%c0, %c0], %v {{.*}} {grid.steps = array<i64: 8, 128>}
func.func @whole(%x: !f32, %o: !f32) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0, %c0] : !f32, vector<20x300xf32>
  tpu.vector_store %o[%c0, %c0], %v {strides = array<i32>} : !f32, vector<20x300xf32>,
  func.return
}

// An unaligned start is an offset of the layout: the access begins at the tile.
// CHECK-LABEL: func.func @offset
// CHECK:       [[TILE:%[0-9]+]] = arith.constant 8 : index
// CHECK-NEXT:  %v = tpu.load %x[[[TILE]], %c0] {{.*}}, vector<1x1x8x128xf32>
// CHECK-NEXT:  tpu.store %o[[[TILE]], %c0], %v sublanes [false, true, true, true, true, false, false, false]
func.func @offset(%x: !f32, %o: !f32) {
  %c0 = arith.constant 0 : index
  %c9 = arith.constant 9 : index
  %v = vector.load %x[%c9, %c0] : !f32, vector<4x128xf32>
  tpu.vector_store %o[%c9, %c0], %v {strides = array<i32>} : !f32, vector<4x128xf32>,
  func.return
}

// Rows with tiles of their own begin anywhere, even where only the program knows.
// CHECK-LABEL: func.func @dynamic_row
// CHECK:       tpu.load %x[%row, %c0] {{.*}}, vector<1x1x8x128xf32>
func.func @dynamic_row(%x: !rows, %o: !rows, %i: i32) {
  %c0 = arith.constant 0 : index
  %row = arith.index_cast %i : i32 to index
  %v = vector.load %x[%row, %c0] : !rows, vector<8x128xf32>
  tpu.vector_store %o[%c0, %c0], %v {strides = array<i32>} : !rows, vector<8x128xf32>,
  func.return
}

// CHECK-LABEL: func.func @packed
// CHECK:       tpu.load %x[%c1, %c0, %c0] {{.*}} {grid.steps = array<i64: 1, 16, 128>} : {{.*}}, vector<2x2x1x8x128x2xbf16>
func.func @packed(%x: !bf16, %o: !bf16) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %v = vector.load %x[%c1, %c0, %c0] : !bf16, vector<2x32x128xbf16>
  tpu.vector_store %o[%c0, %c0, %c0], %v {strides = array<i32>} : !bf16, vector<2x32x128xbf16>,
  func.return
}

// CHECK-LABEL: func.func @flat
// CHECK:       tpu.load %x[%c0] {{.*}} {grid.steps = array<i64: 1024>} : {{.*}}, vector<1x8x128xf32>
func.func @flat(%x: !flat, %o: !flat) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0] : !flat, vector<1000xf32>
  tpu.vector_store %o[%c0], %v {strides = array<i32>} : !flat, vector<1000xf32>,
  func.return
}

// A buffer of two rows of 128 is not read beyond them.
// CHECK-LABEL: func.func @short
// CHECK:       tpu.load %x[%c0] sublanes [true, true, false, false, false, false, false, false]
func.func @short(%x: !short, %o: !short) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0] : !short, vector<200xf32>
  tpu.vector_store %o[%c0], %v {strides = array<i32>} : !short, vector<200xf32>,
  func.return
}
