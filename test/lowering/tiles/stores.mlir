// RUN: tpu-opt %s -p vectors-to-tiles | filecheck %s

!f32 = memref<32x384xf32, #tpu.tiled<(8,128),[3,1]>, #tpu.memory_space<vmem>>
!bf16 = memref<32x128xbf16, #tpu.tiled<(16,128)(2,1),[1,1]>, #tpu.memory_space<vmem>>

// A box that ends inside registers takes a store for the interior, the ragged column, the ragged
// row of blocks and the corner, however large it is.
// CHECK-LABEL: func.func @ragged
// CHECK:       tpu.store {{.*}}, vector<2x2x8x128xf32>
// CHECK:       [[LANES:%[0-9]+]] = tpu.create_mask[%c0, %c0]
// CHECK:       tpu.store {{.*}} masked {{.*}}, vector<2x1x8x128xf32>, vector<2x1x8x128xi1>
// CHECK:       tpu.store {{.*}} sublanes [true, true, true, true, false, false, false, false] {{.*}}, vector<1x2x8x128xf32>
// CHECK:       tpu.store {{.*}} masked {{.*}} sublanes [true, true, true, true, false, false, false, false] {{.*}}, vector<1x1x8x128xf32>, vector<1x1x8x128xi1>
// CHECK-NEXT:  func.return
func.func @ragged(%x: !f32, %o: !f32) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0, %c0] : !f32, vector<20x300xf32>
  tpu.vector_store %o[%c0, %c0], %v {strides = array<i32>} : !f32, vector<20x300xf32>,
  func.return
}

// Rows that share words with other rows are merged with what memory holds.
// CHECK-LABEL: func.func @half_words
// CHECK:       [[OLD:%[0-9]+]] = tpu.load %o[%c0, %c0] sublanes [true, true, true, false, false, false, false, false]
// CHECK:       tpu.create_subelement_mask 0, 5 : vector<8x128x2xi1>
// CHECK:       [[BOTH:%[0-9]+]] = arith.select {{.*}}, %v, [[OLD]]
// CHECK:       tpu.store %o[%c0, %c0], [[BOTH]] sublanes [true, true, true, false, false, false, false, false]
func.func @half_words(%x: !bf16, %o: !bf16) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0, %c0] : !bf16, vector<5x128xbf16>
  tpu.vector_store %o[%c0, %c0], %v {strides = array<i32>} : !bf16, vector<5x128xbf16>,
  func.return
}

// CHECK-LABEL: func.func @masked
// CHECK:       %m = arith.cmpf olt
// CHECK-NEXT:  tpu.store %o[%c0, %c0], %v masked %m
func.func @masked(%x: !f32, %o: !f32) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0, %c0] : !f32, vector<32x384xf32>
  %zero = arith.constant dense<0.0> : vector<32x384xf32>
  %m = arith.cmpf olt, %v, %zero : vector<32x384xf32>
  tpu.vector_store %o[%c0, %c0], %v masked %m {strides = array<i32>} : !f32, vector<32x384xf32>, vector<32x384xi1>
  func.return
}
