// RUN: tpu-opt %s -p vectors-to-tiles | filecheck %s

!bf16 = memref<32x256xbf16, #tpu.tiled<(16,128)(2,1),[2,1]>, #tpu.memory_space<vmem>>
!i16 = memref<32x256xi16, #tpu.tiled<(16,128)(2,1),[2,1]>, #tpu.memory_space<vmem>>
!f32 = memref<32x256xf32, #tpu.tiled<(8,128),[2,1]>, #tpu.memory_space<vmem>>
!i32 = memref<32x256xi32, #tpu.tiled<(8,128),[2,1]>, #tpu.memory_space<vmem>>
!column = memref<32x1xbf16, #tpu.tiled<(16,128)(2,1),[1,1]>, #tpu.memory_space<vmem>>
!square = memref<128x128xbf16, #tpu.tiled<(16,128)(2,1),[1,1]>, #tpu.memory_space<vmem>>
!words = memref<64x128xi32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>
!row = memref<1x256xbf16, #tpu.tiled<(2,128)(2,1),[2,1]>, #tpu.memory_space<vmem>>

// A cast register is loaded as what it becomes, and nothing is cast.
// CHECK-LABEL: func.func @load_as_words
// CHECK:       [[VIEW:%[0-9]+]] = tpu.memref_bitcast %x : {{.*}} -> memref<32x256xi32, #tpu.tiled<(8,128),[2,1]>
// CHECK-NEXT:  [[V:%.+]] = tpu.load [[VIEW]][%c0, %c0] {{.*}}, vector<4x2x8x128xi32>
// CHECK-NEXT:  tpu.store %o[%c0, %c0], [[V]]
func.func @load_as_words(%x: !f32, %o: !i32) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0, %c0] : !f32, vector<32x256xf32>
  %w = tpu.bitcast %v : vector<32x256xf32> -> vector<32x256xi32>
  tpu.vector_store %o[%c0, %c0], %w {strides = array<i32>} : !i32, vector<32x256xi32>,
  func.return
}

// Somebody else wants the value as it was: the store alone goes through a view.
// CHECK-LABEL: func.func @store_as_before
// CHECK:       %s = arith.addf
// CHECK:       [[VIEW:%[0-9]+]] = tpu.memref_bitcast %o : {{.*}} -> memref<32x256xf32, #tpu.tiled<(8,128),[2,1]>
// CHECK-NEXT:  tpu.store [[VIEW]][%c0, %c0], %s {{.*}}, vector<4x2x8x128xf32>
// CHECK:       tpu.store %x[%c0, %c0], %s
func.func @store_as_before(%x: !f32, %o: !i32) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0, %c0] : !f32, vector<32x256xf32>
  %s = arith.addf %v, %v : vector<32x256xf32>
  %w = tpu.bitcast %s : vector<32x256xf32> -> vector<32x256xi32>
  tpu.vector_store %o[%c0, %c0], %w {strides = array<i32>} : !i32, vector<32x256xi32>,
  tpu.vector_store %x[%c0, %c0], %s {strides = array<i32>} : !f32, vector<32x256xf32>,
  func.return
}

// A cast value that is computed with keeps its cast.
// CHECK-LABEL: func.func @both
// CHECK:       %w = tpu.bitcast_vreg
// CHECK-NEXT:  %s = arith.addi %w, %w
// CHECK-NEXT:  tpu.store %o[%c0, %c0], %w
func.func @both(%x: !f32, %o: !i32) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0, %c0] : !f32, vector<32x256xf32>
  %a = arith.addf %v, %v : vector<32x256xf32>
  %w = tpu.bitcast %a : vector<32x256xf32> -> vector<32x256xi32>
  %s = arith.addi %w, %w : vector<32x256xi32>
  tpu.vector_store %o[%c0, %c0], %w {strides = array<i32>} : !i32, vector<32x256xi32>,
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !i32, vector<32x256xi32>,
  func.return
}

// Two rows of bf16 are one of words: a column spread over lanes is never bf16 in a register, and
// one grid of words is renamed before it is stored.
// CHECK-LABEL: func.func @spread_column
// CHECK-NOT:   tpu.bitcast_vreg
// CHECK:       tpu.load {{.*}} {grid.steps = array<i64: 8, 128>} : memref<16x1xi32, {{.*}}, vector<2x1x8x128xi32>
// CHECK:       tpu.dynamic_gather
// CHECK:       grid.broadcast {{.*}} -> vector<2x2x8x128xi32>
// CHECK:       tpu.store {{.*}} {grid.steps = array<i64: 8, 128>} : memref<16x256xi32
func.func @spread_column(%x: !column, %o: !bf16) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0, %c0] : !column, vector<32x1xbf16>
  %w = vector.broadcast %v : vector<32x1xbf16> to vector<32x256xbf16>
  tpu.vector_store %o[%c0, %c0], %w {strides = array<i32>} : !bf16, vector<32x256xbf16>,
  func.return
}

// An odd number of rows fills its last word in an allocation, whose tiles are whole.
// CHECK-LABEL: func.func @odd_rows
// CHECK:       tpu.reinterpret_cast %x : {{.*}} -> memref<2x256xbf16
// CHECK-NEXT:  tpu.memref_bitcast {{.*}} -> memref<1x256xi32, #tpu.tiled<(1,128),[2,1]>
// CHECK-NOT:   tpu.bitcast_vreg
func.func @odd_rows(%o: !bf16) {
  %c0 = arith.constant 0 : index
  %x = memref.alloca() : !row
  %v = vector.load %x[%c0, %c0] : !row, vector<1x256xbf16>
  %w = vector.broadcast %v : vector<1x256xbf16> to vector<32x256xbf16>
  tpu.vector_store %o[%c0, %c0], %w {strides = array<i32>} : !bf16, vector<32x256xbf16>,
  func.return
}

// A view needs the row of words, which nobody knows here: the store goes through one instead.
// CHECK-LABEL: func.func @unknown_row
// CHECK:       %v = tpu.load %x[%row, %c0] {{.*}}, vector<1x2x8x128x2xbf16>
// CHECK-NEXT:  [[VIEW:%[0-9]+]] = tpu.memref_bitcast %o : {{.*}} -> memref<64x256xbf16, #tpu.tiled<(16,128)(2,1),[2,1]>
// CHECK-NEXT:  tpu.store [[VIEW]][%c0, %c0], %v
func.func @unknown_row(%x: !bf16, %o: !i32, %i: i32) {
  %c0 = arith.constant 0 : index
  %at = arith.index_cast %i : i32 to index
  %row = tpu.assume_multiple %at, 16 : index
  %v = vector.load %x[%row, %c0] : !bf16, vector<16x256xbf16>
  %w = tpu.bitcast %v : vector<16x256xbf16> -> vector<8x256xi32>
  tpu.vector_store %o[%c0, %c0], %w {strides = array<i32>} : !i32, vector<8x256xi32>,
  func.return
}

// Transposing elements of 16 bits is not transposing words.
// CHECK-LABEL: func.func @transposed
// CHECK:       grid.transpose_blocks {{.*}} : vector<8x1x8x128x2xbf16>
// CHECK:       tpu.bitcast_vreg
func.func @transposed(%x: !square, %o: !words) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0, %c0] : !square, vector<128x128xbf16>
  %t = tpu.transpose %v, [1, 0] : vector<128x128xbf16> -> vector<128x128xbf16>
  %w = tpu.bitcast %t : vector<128x128xbf16> -> vector<64x128xi32>
  %s = arith.addi %w, %w : vector<64x128xi32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !words, vector<64x128xi32>,
  func.return
}

// The box that the kernel accesses counts rows of the view, from where the view is loaded.
// CHECK-LABEL: func.func @box_of_a_view
// CHECK:       [[ROW:%[0-9]+]] = arith.constant 16 : index
// CHECK:       tpu.load {{%[0-9]+}}[%n, [[ROW]], %c0] {{.*}} tpu.box = array<i64: 0, 0, 0, 1, 16, 128, 3, 32, 128>}
func.func @box_of_a_view(%n: index, %x: memref<3x16x128xf32, #tpu.tiled<(8,128),[2,1,1]>, #tpu.memory_space<vmem>>, %o: memref<1x16x128xbf16, #tpu.tiled<(16,128)(2,1),[1,1,1]>, #tpu.memory_space<vmem>>) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %v = vector.load %x[%n, %c8, %c0] : memref<3x16x128xf32, #tpu.tiled<(8,128),[2,1,1]>, #tpu.memory_space<vmem>>, vector<1x8x128xf32>
  %w = tpu.bitcast %v : vector<1x8x128xf32> -> vector<1x16x128xbf16>
  tpu.vector_store %o[%c0, %c0, %c0], %w {strides = array<i32>} : memref<1x16x128xbf16, #tpu.tiled<(16,128)(2,1),[1,1,1]>, #tpu.memory_space<vmem>>, vector<1x16x128xbf16>,
  func.return
}
