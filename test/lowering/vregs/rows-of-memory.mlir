// RUN: tpu-opt %s -p tiles-to-vregs | filecheck %s

!rows = memref<32x128xf32, #tpu.tiled<(1,128),[1,1]>, #tpu.memory_space<vmem>>

// Rows that are only wanted in another order are loaded so, from one memory also of two registers.

// CHECK-LABEL: func.func @ordered(
// CHECK:       %[[A:.*]] = tpu.shuffled_load %x[%{{.*}}, %{{.*}}] {{.*}}sublane_offsets = array<i32: 0, 9, 1, 0, 0, 9, 1, 0>
// CHECK-NEXT:  tpu.store %o[%{{.*}}, %{{.*}}], %[[A]]
// CHECK-NEXT:  func.return
func.func @ordered(%x: !rows, %o: !rows) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c11 = arith.constant 11 : index
  %a = tpu.load %x[%c2, %c0] sublanes [true, true, false, false, false, false, false, false] : !rows, vector<8x128xf32>
  %b = tpu.load %x[%c11, %c0] sublanes [true, false, false, false, false, false, false, false] : !rows, vector<8x128xf32>
  %s = tpu.sublane_shuffle %a, %b, [0, 1, 2, 3, 8, 9, 10, 11] : vector<8x128xf32>, vector<8x128xf32> -> vector<8x128xf32>
  %t = tpu.sublane_shuffle %s, %s, [0, 4, 1, 0, 0, 4, 1, 0] : vector<8x128xf32>, vector<8x128xf32> -> vector<8x128xf32>
  tpu.store %o[%c0, %c0], %t sublanes [true, true, true, true, true, true, true, true] : !rows, vector<8x128xf32>,
  func.return
}

// Not if something else wants the register, memory is written in between, or rows are too far away.

// CHECK-LABEL: func.func @unordered(
// CHECK-NOT:   tpu.shuffled_load
// CHECK:       func.return
func.func @unordered(%x: !rows, %o: !rows) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c18 = arith.constant 18 : index
  %a = tpu.load %x[%c0, %c0] sublanes [true, true, true, true, true, true, true, true] : !rows, vector<8x128xf32>
  %s = tpu.sublane_shuffle %a, %a, [0, 4, 1, 0, 0, 4, 1, 0] : vector<8x128xf32>, vector<8x128xf32> -> vector<8x128xf32>
  %t = arith.addf %a, %s : vector<8x128xf32>
  %b = tpu.load %x[%c1, %c0] sublanes [true, true, true, true, true, true, true, true] : !rows, vector<8x128xf32>
  tpu.store %x[%c0, %c0], %t sublanes [true, true, true, true, true, true, true, true] : !rows, vector<8x128xf32>,
  %c = tpu.load %x[%c8, %c0] sublanes [true, true, true, true, true, true, true, true] : !rows, vector<8x128xf32>
  %d = tpu.sublane_shuffle %b, %c, [0, 1, 2, 3, 8, 9, 10, 11] : vector<8x128xf32>, vector<8x128xf32> -> vector<8x128xf32>
  tpu.store %o[%c0, %c0], %d sublanes [true, true, true, true, true, true, true, true] : !rows, vector<8x128xf32>,
  %e = tpu.load %x[%c18, %c0] sublanes [true, true, true, true, true, true, true, true] : !rows, vector<8x128xf32>
  %f = tpu.load %x[%c1, %c0] sublanes [true, true, true, true, true, true, true, true] : !rows, vector<8x128xf32>
  %g = tpu.sublane_shuffle %f, %e, [0, 1, 2, 3, 8, 9, 10, 11] : vector<8x128xf32>, vector<8x128xf32> -> vector<8x128xf32>
  tpu.store %o[%c8, %c0], %g sublanes [true, true, true, true, true, true, true, true] : !rows, vector<8x128xf32>,
  func.return
}

// Neighbouring rows that are only stored are loaded together; the second store begins earlier.

// CHECK-LABEL: func.func @joined(
// CHECK-DAG:   %[[EARLIER:.*]] = arith.constant -2 : index
// CHECK:       %[[A:.*]] = tpu.load %x[%{{.*}}, %{{.*}}] sublanes [true, true, true, true, true, true, true, true]
// CHECK-NEXT:  tpu.store %o[%[[EARLIER]], %{{.*}}], %[[A]] sublanes [false, false, true, true, true, true, true, true]
// CHECK-NEXT:  tpu.store %o[%{{.*}}, %{{.*}}], %[[A]] sublanes [true, true, false, false, false, false, false, false]
// CHECK-NEXT:  func.return
func.func @joined(%x: !rows, %o: !rows) {
  %c0 = arith.constant 0 : index
  %c24 = arith.constant 24 : index
  %c26 = arith.constant 26 : index
  %c30 = arith.constant 30 : index
  %a = tpu.load %x[%c26, %c0] sublanes [true, true, true, true, true, true, false, false] : !rows, vector<8x128xf32>
  %b = tpu.load %x[%c24, %c0] sublanes [true, true, false, false, false, false, false, false] : !rows, vector<8x128xf32>
  tpu.store %o[%c0, %c0], %a sublanes [true, true, true, true, true, true, false, false] : !rows, vector<8x128xf32>,
  tpu.store %o[%c30, %c0], %b sublanes [true, true, false, false, false, false, false, false] : !rows, vector<8x128xf32>,
  func.return
}
