// RUN: tpu-opt %s -p vectors-to-tiles{target=v5e} | filecheck %s

!f32 = memref<16x256xf32, #tpu.tiled<(8,128),[2,1]>, #tpu.memory_space<vmem>>
!col = memref<16x1xf32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>
!row = memref<1x256xf32, #tpu.tiled<(8,128),[2,1]>, #tpu.memory_space<vmem>>

// Registers first, then within one register.
// CHECK-LABEL: func.func @over_rows(
// CHECK:       grid.reduce %a dim 0 kind "arith.addf" : vector<2x2x8x128xf32> -> vector<1x2x8x128xf32>
// CHECK-NEXT:  tpu.all_reduce {{.*}} {dim = 2 : i64, kind = #tpu.reduction_kind<sum>}
func.func @over_rows(%x: !f32, %o: !row) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !f32, vector<16x256xf32>
  %zero = arith.constant dense<0.0> : vector<256xf32>
  %r = vector.multi_reduction <add>, %a, %zero [0] : vector<16x256xf32> to vector<256xf32>
  %s = vector.shape_cast %r : vector<256xf32> to vector<1x256xf32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !row, vector<1x256xf32>,
  func.return
}

// CHECK-LABEL: func.func @over_lanes(
// CHECK:       grid.reduce %a dim 1 kind "arith.maximumf"
// CHECK-NEXT:  tpu.all_reduce {{.*}} {dim = 3 : i64, kind = #tpu.reduction_kind<max>}
func.func @over_lanes(%x: !f32, %o: !col) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !f32, vector<16x256xf32>
  %low = arith.constant dense<0xFF800000> : vector<16xf32>
  %r = vector.multi_reduction <maximumf>, %a, %low [1] : vector<16x256xf32> to vector<16xf32>
  %s = vector.shape_cast %r : vector<16xf32> to vector<16x1xf32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !col, vector<16x1xf32>,
  func.return
}

// Only the registers that have padding are masked.
// CHECK-LABEL: func.func @padding_is_neutral(
// CHECK:       tpu.create_mask
// CHECK:       arith.select {{.*}} : vector<1x2x8x128xi1>, vector<1x2x8x128xf32>
// CHECK:       grid.concat {{.*}} -> vector<2x2x8x128xf32>
// CHECK:       grid.reduce
func.func @padding_is_neutral(%x: !f32, %o: !row) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !f32, vector<13x256xf32>
  %zero = arith.constant dense<0.0> : vector<256xf32>
  %r = vector.multi_reduction <add>, %a, %zero [0] : vector<13x256xf32> to vector<256xf32>
  %s = vector.shape_cast %r : vector<256xf32> to vector<1x256xf32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !row, vector<1x256xf32>,
  func.return
}

// A maximum ignores what it has met: its load repeats the last row behind the data.
// CHECK-LABEL: func.func @padding_repeats_a_row(
// CHECK:       [[TAIL:%[0-9]+]] = tpu.shuffled_load {{.*}} sublane_offsets = array<i32: 0, 1, 2, 3, 4, 4, 4, 4>{{.*}}, vector<1x2x8x128xf32>
// CHECK-NEXT:  [[HEAD:%[0-9]+]] = tpu.load {{.*}}, vector<1x2x8x128xf32>
// CHECK-NEXT:  [[ALL:%[0-9]+]] = grid.concat [[HEAD]], [[TAIL]] dim 0
// CHECK-NEXT:  grid.reduce [[ALL]] dim 0 kind "arith.maximumf"
func.func @padding_repeats_a_row(%x: !f32, %o: !row) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !f32, vector<13x256xf32>
  %low = arith.constant dense<0xFF800000> : vector<256xf32>
  %r = vector.multi_reduction <maximumf>, %a, %low [0] : vector<13x256xf32> to vector<256xf32>
  %s = vector.shape_cast %r : vector<256xf32> to vector<1x256xf32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !row, vector<1x256xf32>,
  func.return
}

// The last block of lanes counts where it has data; no neutral element is needed.
// CHECK-LABEL: func.func @ragged_lanes(
// CHECK:       [[LAST:%[0-9]+]] = grid.slice %a [0, 1] [2, 1] [1, 1]
// CHECK-NEXT:  [[BOTH:%[0-9]+]] = arith.minimumf [[FIRST:%[0-9]+]], [[LAST]]
// CHECK:       arith.select {{.*}}, [[BOTH]], [[FIRST]]
// CHECK-NEXT:  tpu.all_reduce
func.func @ragged_lanes(%x: !f32, %o: !col) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !f32, vector<16x200xf32>
  %high = arith.constant dense<0x7F800000> : vector<16xf32>
  %r = vector.multi_reduction <minimumf>, %a, %high [1] : vector<16x200xf32> to vector<16xf32>
  %s = vector.shape_cast %r : vector<16xf32> to vector<16x1xf32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !col, vector<16x1xf32>,
  func.return
}

// Over rows and lanes, all registers are folded onto one before its sublanes and its lanes are.
// CHECK-LABEL: func.func @rows_and_lanes(
// CHECK:       grid.reduce
// CHECK-NEXT:  [[ONE:%[0-9]+]] = grid.reduce {{.*}} -> vector<1x1x1x8x128xf32>
// CHECK-NEXT:  [[ROW:%[0-9]+]] = tpu.all_reduce [[ONE]] {dim = 3 : i64
// CHECK-NEXT:  tpu.all_reduce [[ROW]] {dim = 4 : i64
func.func @rows_and_lanes(%x: memref<16x384xf32, #tpu.tiled<(8,128),[3,1]>, #tpu.memory_space<vmem>>, %o: memref<1x1xf32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>) {
  %z = arith.constant 0 : index
  %a = vector.load %x[%z, %z] : memref<16x384xf32, #tpu.tiled<(8,128),[3,1]>, #tpu.memory_space<vmem>>, vector<16x384xf32>
  %b = vector.shape_cast %a : vector<16x384xf32> to vector<1x16x384xf32>
  %none = arith.constant dense<0.0> : vector<1xf32>
  %s = vector.multi_reduction <add>, %b, %none [1, 2] : vector<1x16x384xf32> to vector<1xf32>
  %r = vector.shape_cast %s : vector<1xf32> to vector<1x1xf32>
  tpu.vector_store %o[%z, %z], %r {strides = array<i32>} : memref<1x1xf32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>, vector<1x1xf32>,
  func.return
}
