// RUN: tpu-opt %s -p tiles-to-vregs | filecheck %s

// Rows of a register that is only stored are stored from where they are, if that spares a mask.

!ref = memref<8x128xf32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>

// CHECK-LABEL: func.func @apart(
// CHECK-NOT:   tpu.create_mask
// CHECK-NOT:   arith.select
// CHECK:       %[[A:.*]] = tpu.load %x
// CHECK:       %[[B:.*]] = tpu.load %y
// CHECK-NEXT:  tpu.store %o[%{{.*}}, %{{.*}}], %[[A]] sublanes [true, true, false, false, true, true, false, false]
// CHECK-NEXT:  tpu.store %o[%{{.*}}, %{{.*}}], %[[B]] sublanes [false, false, true, true, false, false, false, false]
// CHECK-NEXT:  func.return
func.func @apart(%x: !ref, %y: !ref, %o: !ref) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c128 = arith.constant 128 : index
  %a = tpu.load %x[%c0, %c0] sublanes [true, true, true, true, true, true, true, true] : !ref, vector<8x128xf32>
  %b = tpu.load %y[%c0, %c0] sublanes [true, true, true, true, true, true, true, true] : !ref, vector<8x128xf32>
  %m = tpu.create_mask[%c2, %c0] [%c4, %c128] : vector<8x128xi1>
  %s = arith.select %m, %b, %a : vector<8x128xi1>, vector<8x128xf32>
  tpu.store %o[%c0, %c0], %s sublanes [true, true, true, true, true, true, false, false] : !ref, vector<8x128xf32>,
  func.return
}

// What else needs the mask, or the register, still needs it: no store is added.

// CHECK-LABEL: func.func @together(
// CHECK:       %[[M:.*]] = tpu.create_mask
// CHECK:       %[[S:.*]] = arith.select %[[M]]
// CHECK-NEXT:  %[[T:.*]] = arith.select %[[M]]
// CHECK-NEXT:  %[[U:.*]] = arith.addf %[[T]], %[[T]]
// CHECK-NEXT:  tpu.store %o[%{{.*}}, %{{.*}}], %[[S]] sublanes [true, true, true, true, true, true, true, true]
// CHECK-NEXT:  tpu.store %y[%{{.*}}, %{{.*}}], %[[U]] sublanes [true, true, true, true, true, true, true, true]
// CHECK-NEXT:  func.return
func.func @together(%x: !ref, %y: !ref, %o: !ref) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c128 = arith.constant 128 : index
  %a = tpu.load %x[%c0, %c0] sublanes [true, true, true, true, true, true, true, true] : !ref, vector<8x128xf32>
  %b = tpu.load %y[%c0, %c0] sublanes [true, true, true, true, true, true, true, true] : !ref, vector<8x128xf32>
  %m = tpu.create_mask[%c2, %c0] [%c4, %c128] : vector<8x128xi1>
  %s = arith.select %m, %b, %a : vector<8x128xi1>, vector<8x128xf32>
  %t = arith.select %m, %a, %b : vector<8x128xi1>, vector<8x128xf32>
  %u = arith.addf %t, %t : vector<8x128xf32>
  tpu.store %o[%c0, %c0], %s sublanes [true, true, true, true, true, true, true, true] : !ref, vector<8x128xf32>,
  tpu.store %y[%c0, %c0], %u sublanes [true, true, true, true, true, true, true, true] : !ref, vector<8x128xf32>,
  func.return
}

// Parts of sublanes, as lanes are, cannot be stored without a mask.

// CHECK-LABEL: func.func @lanes(
// CHECK:       arith.select
// CHECK-NEXT:  tpu.store
// CHECK-NEXT:  func.return
func.func @lanes(%x: !ref, %y: !ref, %o: !ref) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  %a = tpu.load %x[%c0, %c0] sublanes [true, true, true, true, true, true, true, true] : !ref, vector<8x128xf32>
  %b = tpu.load %y[%c0, %c0] sublanes [true, true, true, true, true, true, true, true] : !ref, vector<8x128xf32>
  %m = tpu.create_mask[%c0, %c0] [%c8, %c64] : vector<8x128xi1>
  %s = arith.select %m, %b, %a : vector<8x128xi1>, vector<8x128xf32>
  tpu.store %o[%c0, %c0], %s sublanes [true, true, true, true, true, true, true, true] : !ref, vector<8x128xf32>,
  func.return
}
