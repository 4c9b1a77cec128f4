// RUN: tpu-opt %s -p vectors-to-tiles{target=v5e} | filecheck %s

!bytes = memref<128x128xi8, #tpu.tiled<(32,128)(4,1),[1,1]>, #tpu.memory_space<vmem>>
!f32 = memref<16x256xf32, #tpu.tiled<(8,128),[2,1]>, #tpu.memory_space<vmem>>
!one = memref<8x128xf32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>
!narrow = memref<8x2xf32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>

// CHECK-LABEL: func.func @unit_dimension_is_free(
// CHECK:       %a = tpu.load
// CHECK-NEXT:  %b = grid.reshape %a
// CHECK-NEXT:  %s = grid.reshape %b
// CHECK-NEXT:  tpu.store
func.func @unit_dimension_is_free(%x: !f32, %o: !f32) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !f32, vector<16x256xf32>
  %b = vector.shape_cast %a : vector<16x256xf32> to vector<1x16x256xf32>
  %s = vector.shape_cast %b : vector<1x16x256xf32> to vector<16x256xf32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !f32, vector<16x256xf32>,
  func.return
}

// CHECK-LABEL: func.func @whole_blocks_are_renamed(
// CHECK:       %s = grid.slice %a [1, 1] [1, 1] [1, 1] : vector<2x2x8x128xf32> -> vector<1x1x8x128xf32>
// CHECK-NEXT:  tpu.store
func.func @whole_blocks_are_renamed(%x: !f32, %o: !f32) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !f32, vector<16x256xf32>
  %s = vector.extract_strided_slice %a {offsets = [8, 128], sizes = [8, 128], strides = [1, 1]} : vector<16x256xf32> to vector<8x128xf32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !f32, vector<8x128xf32>,
  func.return
}

// CHECK-LABEL: func.func @concatenate(
// CHECK:       grid.concat {{.*}} dim 0
// CHECK:       %s = grid.reshape {{.*}} -> vector<2x1x8x128xf32>
func.func @concatenate(%x: !f32, %o: !f32) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !f32, vector<8x128xf32>
  %c8 = arith.constant 8 : index
  %b = vector.load %x[%c8, %c0] : !f32, vector<8x128xf32>
  %s = tpu.concatenate %b, %a in 0 : vector<8x128xf32>, vector<8x128xf32> -> vector<16x128xf32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !f32, vector<16x128xf32>,
  func.return
}

// Blocks of 128 by 128 go through the cross-lane unit.
// CHECK-LABEL: func.func @transpose(
// CHECK:       %b = grid.transpose_blocks
// CHECK:       %d = arith.addf %b, %b
// CHECK:       grid.transpose_blocks %d
// CHECK:       %s = grid.reshape {{.*}} -> vector<1x1x8x128xf32>
func.func @transpose(%x: !f32, %o: !f32) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !f32, vector<8x128xf32>
  %b = tpu.transpose %a, [1, 0] : vector<8x128xf32> -> vector<128x8xf32>
  %d = arith.addf %b, %b : vector<128x8xf32>
  %s = tpu.transpose %d, [1, 0] : vector<128x8xf32> -> vector<8x128xf32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !f32, vector<8x128xf32>,
  func.return
}

// What a move undoes was never moved.
// CHECK-LABEL: func.func @transpose_back(
// CHECK:       %s = tpu.load
// CHECK-NEXT:  tpu.store %o[%c0, %c0], %s
func.func @transpose_back(%x: !f32, %o: !f32) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !f32, vector<8x128xf32>
  %b = tpu.transpose %a, [1, 0] : vector<8x128xf32> -> vector<128x8xf32>
  %s = tpu.transpose %b, [1, 0] : vector<128x8xf32> -> vector<8x128xf32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !f32, vector<8x128xf32>,
  func.return
}

// CHECK-LABEL: func.func @extract(
// CHECK:       grid.slice %a [0, 0] [1, 1]
// CHECK:       %e = vector.extract {{.*}}[0, 0] : f32 from vector<8x128xf32>
func.func @extract(%x: !f32, %o: !f32) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !f32, vector<16x256xf32>
  %e = vector.extract %a[0, 0] : f32 from vector<16x256xf32>
  %s = vector.broadcast %e : f32 to vector<16x256xf32>
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !f32, vector<16x256xf32>,
  func.return
}

// Bytes are transposed as half words, which need half the registers that words would.
// CHECK-LABEL: func.func @transpose_bytes
// CHECK-COUNT-2: tpu.unpack_subelements {{.*}} -> vector<4x1x8x128x2xi16>
// CHECK:       grid.transpose_blocks {{.*}} : vector<8x1x8x128x2xi16>
// CHECK:       tpu.pack_subelements {{.*}} -> vector<4x1x8x128x4xi8>
func.func @transpose_bytes(%x: !bytes, %o: !bytes) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0, %c0] : !bytes, vector<128x128xi8>
  %t = tpu.transpose %v, [1, 0] : vector<128x128xi8> -> vector<128x128xi8>
  tpu.vector_store %o[%c0, %c0], %t {strides = array<i32>} : !bytes, vector<128x128xi8>,
  func.return
}

// Maxima are in all lanes of their rows: each is chosen where it belongs, and none is rotated.
// CHECK-LABEL: func.func @reduced_columns(
// CHECK-COUNT-2: tpu.all_reduce
// CHECK-NOT:   tpu.dynamic_rotate
// CHECK:       arith.select
// CHECK-NOT:   tpu.dynamic_rotate
// CHECK:       tpu.store
func.func @reduced_columns(%a: !one, %o: !narrow) {
  %z = arith.constant 0 : index
  %x = vector.load %a[%z, %z] : !one, vector<8x128xf32>
  %low = arith.constant dense<0xff800000> : vector<8xf32>
  %high = arith.constant dense<0x7f800000> : vector<8xf32>
  %0 = vector.multi_reduction <maximumf>, %x, %low [1] : vector<8x128xf32> to vector<8xf32>
  %1 = vector.multi_reduction <minimumf>, %x, %high [1] : vector<8x128xf32> to vector<8xf32>
  %2 = vector.shape_cast %0 : vector<8xf32> to vector<8x1xf32>
  %3 = vector.shape_cast %1 : vector<8xf32> to vector<8x1xf32>
  %4 = tpu.concatenate %2, %3 in 1 : vector<8x1xf32>, vector<8x1xf32> -> vector<8x2xf32>
  tpu.vector_store %o[%z, %z], %4 {strides = array<i32>} : !narrow, vector<8x2xf32>,
  func.return
}
