// RUN: tpu-opt %s -p infer-memref-layout{target=v5e},fill-registers{target=v5e} | filecheck %s

// Tiles of two rows are seen as rows of memory, of which a register holds eight.
// CHECK-LABEL: func.func @few_rows(
// CHECK:       [[A:%\d+]] = tpu.reinterpret_cast %a : memref<2x384xf32, #tpu.tiled<(2,128),[3,1]>, {{.*}} -> memref<6x128xf32, #tpu.tiled<(1,128),[1,1]>
// CHECK-NEXT:  [[X:%\d+]] = vector.load [[A]][%c0, %c0] : {{.*}}, vector<6x128xf32>
// CHECK-NEXT:  [[Y:%\d+]] = arith.constant dense<2.000000e+00> : vector<6x128xf32>
// CHECK-NEXT:  [[Z:%\d+]] = arith.mulf [[X]], [[Y]] : vector<6x128xf32>
// CHECK-NEXT:  [[B:%\d+]] = tpu.reinterpret_cast %b
// CHECK-NEXT:  vector.store [[Z]], [[B]][%c0, %c0]
func.func @few_rows(%a: memref<2x384xf32, #tpu.memory_space<vmem>>, %b: memref<2x384xf32, #tpu.memory_space<vmem>>) {
  %c0 = arith.constant 0 : index
  %two = arith.constant dense<2.0> : vector<2x384xf32>
  %0 = vector.load %a[%c0, %c0] : memref<2x384xf32, #tpu.memory_space<vmem>>, vector<2x384xf32>
  %1 = arith.mulf %0, %two : vector<2x384xf32>
  vector.store %1, %b[%c0, %c0] : memref<2x384xf32, #tpu.memory_space<vmem>>, vector<2x384xf32>
  func.return
}

// Widths may differ, if tiles have as many rows.
// CHECK-LABEL: func.func @two_widths(
// CHECK:       arith.extf %{{.*}} : vector<32x128xbf16> to vector<32x128xf32>
func.func @two_widths(%a: memref<2x8x256xbf16, #tpu.memory_space<vmem>>, %b: memref<2x8x256xf32, #tpu.memory_space<vmem>>) {
  %c0 = arith.constant 0 : index
  %0 = vector.load %a[%c0, %c0, %c0] : memref<2x8x256xbf16, #tpu.memory_space<vmem>>, vector<2x8x256xbf16>
  %1 = arith.extf %0 : vector<2x8x256xbf16> to vector<2x8x256xf32>
  vector.store %1, %b[%c0, %c0, %c0] : memref<2x8x256xf32, #tpu.memory_space<vmem>>, vector<2x8x256xf32>
  func.return
}

// CHECK-LABEL: func.func @other_rows(
// CHECK:       arith.extf %{{.*}} : vector<16x256xbf16> to vector<16x256xf32>
func.func @other_rows(%a: memref<16x256xbf16, #tpu.memory_space<vmem>>, %b: memref<16x256xf32, #tpu.memory_space<vmem>>) {
  %c0 = arith.constant 0 : index
  %0 = vector.load %a[%c0, %c0] : memref<16x256xbf16, #tpu.memory_space<vmem>>, vector<16x256xbf16>
  %1 = arith.extf %0 : vector<16x256xbf16> to vector<16x256xf32>
  vector.store %1, %b[%c0, %c0] : memref<16x256xf32, #tpu.memory_space<vmem>>, vector<16x256xf32>
  func.return
}

// Arrays that lie row by row are reshaped by no operation.
// CHECK-LABEL: func.func @row_by_row(
// CHECK-NOT:   vector.shape_cast
// CHECK:       vector.store %{{.*}} : memref<16x128xf32
func.func @row_by_row(%a: memref<16x128xf32, #tpu.memory_space<vmem>>, %b: memref<1x2048xf32, #tpu.memory_space<vmem>>) {
  %c0 = arith.constant 0 : index
  %0 = vector.load %a[%c0, %c0] : memref<16x128xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>
  %1 = vector.shape_cast %0 : vector<16x128xf32> to vector<1x2048xf32>
  vector.store %1, %b[%c0, %c0] : memref<1x2048xf32, #tpu.memory_space<vmem>>, vector<1x2048xf32>
  func.return
}

// Whoever looks at more than one element keeps the shape.
// CHECK-LABEL: func.func @rotated(
// CHECK:       vector.load %{{.*}}, vector<2x384xf32>
func.func @rotated(%a: memref<2x384xf32, #tpu.memory_space<vmem>>, %b: memref<2x384xf32, #tpu.memory_space<vmem>>) {
  %c0 = arith.constant 0 : index
  %0 = vector.load %a[%c0, %c0] : memref<2x384xf32, #tpu.memory_space<vmem>>, vector<2x384xf32>
  %1 = tpu.rotate %0 by 3 dim 1 : vector<2x384xf32>
  vector.store %1, %b[%c0, %c0] : memref<2x384xf32, #tpu.memory_space<vmem>>, vector<2x384xf32>
  func.return
}

// The padding behind a part may hold another part.
// CHECK-LABEL: func.func @part_of_lanes(
// CHECK:       vector.store %{{.*}}, vector<8x200xbf16>
func.func @part_of_lanes(%a: memref<8x200xbf16, #tpu.memory_space<vmem>>, %b: memref<8x512xbf16, #tpu.memory_space<vmem>>) {
  %c0 = arith.constant 0 : index
  %i0 = arith.constant 0 : i32
  %0 = vector.load %a[%c0, %c0] : memref<8x200xbf16, #tpu.memory_space<vmem>>, vector<8x200xbf16>
  %1 = tpu.memref_slice %b[%i0, %i0] : memref<8x512xbf16, #tpu.memory_space<vmem>> -> memref<8x200xbf16, #tpu.memory_space<vmem>>
  vector.store %0, %1[%c0, %c0] : memref<8x200xbf16, #tpu.memory_space<vmem>>, vector<8x200xbf16>
  func.return
}

// A matrix of an array of higher rank is no array of its own, and elements that differ have places.
// CHECK-LABEL: func.func @left_alone(
// CHECK:       vector.load %{{.*}}, vector<2x384xf32>
// CHECK:       tpu.vector_store %{{.*}} : memref<4x2x384xf32{{.*}}, vector<2x384xf32>
// CHECK:       vector.store %{{.*}}, vector<1x256xi32>
func.func @left_alone(%a: memref<2x384xf32, #tpu.memory_space<vmem>>, %b: memref<4x2x384xf32, #tpu.memory_space<vmem>>, %c: memref<1x256xi32, #tpu.memory_space<vmem>>) {
  %c0 = arith.constant 0 : index
  %0 = vector.load %a[%c0, %c0] : memref<2x384xf32, #tpu.memory_space<vmem>>, vector<2x384xf32>
  tpu.vector_store %b[%c0, %c0, %c0], %0 {strides = array<i32>} : memref<4x2x384xf32, #tpu.memory_space<vmem>>, vector<2x384xf32>,
  %1 = vector.load %c[%c0, %c0] : memref<1x256xi32, #tpu.memory_space<vmem>>, vector<1x256xi32>
  %table = arith.constant dense<[[0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3]]> : vector<1x256xi32>
  %2 = arith.addi %1, %table : vector<1x256xi32>
  vector.store %2, %c[%c0, %c0] : memref<1x256xi32, #tpu.memory_space<vmem>>, vector<1x256xi32>
  func.return
}

// Whole matrices may move, be repeated and be carried, in registers of their own.
// CHECK-LABEL: func.func @matrices(
// CHECK:       [[A:%\d+]] = tpu.reinterpret_cast %a : {{.*}} -> memref<5x16x128xbf16, #tpu.tiled<(2,128)(2,1),[8,1,1]>
// CHECK-NEXT:  vector.load [[A]][%c0, {{.*}}] : {{.*}}, vector<5x16x128xbf16>
// CHECK:       vector.extract_strided_slice {{.*}} {offsets = [3 : i64], sizes = [2 : i64], strides = [1 : i64]} : vector<5x16x128xbf16> to vector<2x16x128xbf16>
// CHECK:       scf.for {{.*}} -> (vector<2x16x128xbf16>)
// CHECK:       tpu.concatenate {{.*}} -> vector<4x16x128xbf16>
// CHECK:       vector.store {{.*}}, vector<4x16x128xbf16>
func.func @matrices(%a: memref<5x8x200xbf16, #tpu.memory_space<vmem>>, %b: memref<4x8x200xbf16, #tpu.memory_space<vmem>>) {
  %c0 = arith.constant 0 : index
  %i0 = arith.constant 0 : i32
  %i1 = arith.constant 1 : i32
  %0 = vector.load %a[%c0, %c0, %c0] : memref<5x8x200xbf16, #tpu.memory_space<vmem>>, vector<5x8x200xbf16>
  %1 = vector.extract_strided_slice %0 {offsets = [3], sizes = [2], strides = [1]} : vector<5x8x200xbf16> to vector<2x8x200xbf16>
  %2 = scf.for %i = %i0 to %i1 step %i1 iter_args(%c = %1) -> (vector<2x8x200xbf16>) : i32 {
    %4 = arith.addf %c, %1 : vector<2x8x200xbf16>
    scf.yield %4 : vector<2x8x200xbf16>
  }
  %3 = tpu.concatenate %1, %2 in 0 : vector<2x8x200xbf16>, vector<2x8x200xbf16> -> vector<4x8x200xbf16>
  vector.store %3, %b[%c0, %c0, %c0] : memref<4x8x200xbf16, #tpu.memory_space<vmem>>, vector<4x8x200xbf16>
  func.return
}

// Rows of a matrix that move keep their shape.
// CHECK-LABEL: func.func @rows_move(
// CHECK:       vector.load {{.*}}, vector<5x8x256xbf16>
func.func @rows_move(%a: memref<5x8x256xbf16, #tpu.memory_space<vmem>>, %b: memref<5x4x256xbf16, #tpu.memory_space<vmem>>) {
  %c0 = arith.constant 0 : index
  %0 = vector.load %a[%c0, %c0, %c0] : memref<5x8x256xbf16, #tpu.memory_space<vmem>>, vector<5x8x256xbf16>
  %1 = vector.extract_strided_slice %0 {offsets = [0, 4], sizes = [5, 4], strides = [1, 1]} : vector<5x8x256xbf16> to vector<5x4x256xbf16>
  vector.store %1, %b[%c0, %c0, %c0] : memref<5x4x256xbf16, #tpu.memory_space<vmem>>, vector<5x4x256xbf16>
  func.return
}

// Buffers are tiled as in HBM where registers of rows are fewer: 5 of 8x256, not 3x2 of 16x128.
// CHECK-LABEL: func.func @copied(
// CHECK:       %b = memref.alloca() : memref<36x256xbf16, #tpu.tiled<(8,128)(2,1),[2,1]>, {{.*}}>
// CHECK:       [[B:%\d+]] = tpu.reinterpret_cast %b : {{.*}} -> memref<80x128xbf16, #tpu.tiled<(2,128)(2,1),[1,1]>
// CHECK-NEXT:  vector.load [[B]]{{.*}}, vector<80x128xbf16>
func.func @copied() {
  %c0 = arith.constant 0 : index
  %b = memref.alloca() : memref<36x256xbf16, #tpu.memory_space<vmem>>
  %0 = vector.load %b[%c0, %c0] : memref<36x256xbf16, #tpu.memory_space<vmem>>, vector<36x256xbf16>
  %1 = arith.addf %0, %0 : vector<36x256xbf16>
  vector.store %1, %b[%c0, %c0] : memref<36x256xbf16, #tpu.memory_space<vmem>>, vector<36x256xbf16>
  func.return
}

// Not where rows of one of them that end within a tile move.
// CHECK-LABEL: func.func @copied_in_part(
// CHECK-COUNT-2: memref.alloca() : memref<36x256xbf16, #tpu.tiled<(16,128)(2,1),[2,1]>, {{.*}}>
func.func @copied_in_part() {
  %c0 = arith.constant 0 : index
  %b = memref.alloca() : memref<36x256xbf16, #tpu.memory_space<vmem>>
  %d = memref.alloca() : memref<36x256xbf16, #tpu.memory_space<vmem>>
  %0 = vector.load %b[%c0, %c0] : memref<36x256xbf16, #tpu.memory_space<vmem>>, vector<36x256xbf16>
  vector.store %0, %d[%c0, %c0] : memref<36x256xbf16, #tpu.memory_space<vmem>>, vector<36x256xbf16>
  %1 = vector.load %d[%c0, %c0] : memref<36x256xbf16, #tpu.memory_space<vmem>>, vector<12x256xbf16>
  vector.store %1, %d[%c0, %c0] : memref<36x256xbf16, #tpu.memory_space<vmem>>, vector<12x256xbf16>
  func.return
}

// Columns of one row of tiles are cut from the beginning of a tile on.
// CHECK-LABEL: func.func @halves(
// CHECK:       vector.extract_strided_slice {{.*}} vector<12x128xf32> to vector<6x128xf32>
func.func @halves(%a: memref<2x768xf32, #tpu.memory_space<vmem>>, %b: memref<2x384xf32, #tpu.memory_space<vmem>>) {
  %c0 = arith.constant 0 : index
  %0 = vector.load %a[%c0, %c0] : memref<2x768xf32, #tpu.memory_space<vmem>>, vector<2x768xf32>
  %1 = vector.extract_strided_slice %0 {offsets = [0, 384], sizes = [2, 384], strides = [1, 1]} : vector<2x768xf32> to vector<2x384xf32>
  vector.store %1, %b[%c0, %c0] : memref<2x384xf32, #tpu.memory_space<vmem>>, vector<2x384xf32>
  func.return
}

// Not every other column of it.
// CHECK-LABEL: func.func @every_other(
// CHECK:       vector.extract_strided_slice {{.*}} vector<2x512xf32> to vector<2x256xf32>
func.func @every_other(%a: memref<2x512xf32, #tpu.memory_space<vmem>>, %b: memref<2x256xf32, #tpu.memory_space<vmem>>) {
  %c0 = arith.constant 0 : index
  %0 = vector.load %a[%c0, %c0] : memref<2x512xf32, #tpu.memory_space<vmem>>, vector<2x512xf32>
  %1 = vector.extract_strided_slice %0 {offsets = [0, 0], sizes = [2, 256], strides = [1, 2]} : vector<2x512xf32> to vector<2x256xf32>
  vector.store %1, %b[%c0, %c0] : memref<2x256xf32, #tpu.memory_space<vmem>>, vector<2x256xf32>
  func.return
}

// A number and a column are spread over rows of 128.
// CHECK-LABEL: func.func @spread(
// CHECK:       vector.broadcast {{.*}} : vector<1x1x1xf32> to vector<3x6x128xf32>
// CHECK:       vector.broadcast {{.*}} : vector<3x2x1xf32> to vector<3x2x128xf32>
// CHECK:       vector.store {{.*}}, vector<3x6x128xf32>
func.func @spread(%a: memref<3x2x384xf32, #tpu.memory_space<vmem>>, %b: memref<1x1x1xf32, #tpu.memory_space<vmem>>, %c: memref<3x2x1xf32, #tpu.memory_space<vmem>>) {
  %c0 = arith.constant 0 : index
  %0 = vector.load %a[%c0, %c0, %c0] : memref<3x2x384xf32, #tpu.memory_space<vmem>>, vector<3x2x384xf32>
  %1 = vector.load %b[%c0, %c0, %c0] : memref<1x1x1xf32, #tpu.memory_space<vmem>>, vector<1x1x1xf32>
  %2 = vector.broadcast %1 : vector<1x1x1xf32> to vector<3x2x384xf32>
  %3 = arith.addf %0, %2 : vector<3x2x384xf32>
  vector.store %3, %a[%c0, %c0, %c0] : memref<3x2x384xf32, #tpu.memory_space<vmem>>, vector<3x2x384xf32>
  %4 = vector.load %a[%c0, %c0, %c0] : memref<3x2x384xf32, #tpu.memory_space<vmem>>, vector<3x2x384xf32>
  %5 = vector.load %c[%c0, %c0, %c0] : memref<3x2x1xf32, #tpu.memory_space<vmem>>, vector<3x2x1xf32>
  %6 = vector.broadcast %5 : vector<3x2x1xf32> to vector<3x2x384xf32>
  %7 = arith.addf %4, %6 : vector<3x2x384xf32>
  vector.store %7, %a[%c0, %c0, %c0] : memref<3x2x384xf32, #tpu.memory_space<vmem>>, vector<3x2x384xf32>
  func.return
}

// As many registers, but none of them is reshaped.
// CHECK-LABEL: func.func @rows_of_a_flat_array(
// CHECK-NOT:   vector.shape_cast
// CHECK:       vector.store
func.func @rows_of_a_flat_array(%a: memref<2048xf32, #tpu.memory_space<vmem>>, %b: memref<16x128xf32, #tpu.memory_space<vmem>>) {
  %c0 = arith.constant 0 : index
  %0 = vector.load %a[%c0] : memref<2048xf32, #tpu.memory_space<vmem>>, vector<2048xf32>
  %1 = vector.shape_cast %0 : vector<2048xf32> to vector<16x128xf32>
  vector.store %1, %b[%c0, %c0] : memref<16x128xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>
  func.return
}

// Columns of several rows of tiles are not one below the other.
// CHECK-LABEL: func.func @columns_of_rows_of_tiles(
// CHECK:       tpu.concatenate {{.*}} -> vector<2x24x256xbf16>
func.func @columns_of_rows_of_tiles(%a: memref<2x24x128xbf16, #tpu.tiled<(8,128)(2,1),[3,1,1]>, #tpu.memory_space<vmem>>, %b: memref<2x24x256xbf16, #tpu.tiled<(8,128)(2,1),[6,2,1]>, #tpu.memory_space<vmem>>) {
  %c0 = arith.constant 0 : index
  %0 = vector.load %a[%c0, %c0, %c0] : memref<2x24x128xbf16, #tpu.tiled<(8,128)(2,1),[3,1,1]>, #tpu.memory_space<vmem>>, vector<2x24x128xbf16>
  %1 = tpu.concatenate %0, %0 in 2 : vector<2x24x128xbf16>, vector<2x24x128xbf16> -> vector<2x24x256xbf16>
  vector.store %1, %b[%c0, %c0, %c0] : memref<2x24x256xbf16, #tpu.tiled<(8,128)(2,1),[6,2,1]>, #tpu.memory_space<vmem>>, vector<2x24x256xbf16>
  func.return
}
