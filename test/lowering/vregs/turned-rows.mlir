// RUN: tpu-opt %s -p tiles-to-vregs | filecheck %s

!x = memref<8x128xf32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>
!r = vector<8x128xf32>

// A row that is spread and also spread from another lane on is spread once.
// CHECK-LABEL: func.func @once(
// CHECK:       [[V:%[0-9]+]] = tpu.load %x
// CHECK:       [[S:%[0-9]+]] = tpu.sublane_shuffle [[V]], [[V]], [3, 3, 3, 3, 3, 3, 3, 3]
// CHECK-NEXT:  [[T:%[0-9]+]] = tpu.dynamic_rotate [[S]] by %n dim 1
// CHECK-NEXT:  arith.addf [[S]], [[T]]
func.func @once(%x: !x, %o: !x, %n: i32) {
  %c0 = arith.constant 0 : index
  %v = tpu.load %x[%c0, %c0] sublanes [true, true, true, true, true, true, true, true] : !x, !r
  %s = tpu.sublane_shuffle %v, %v, [3, 3, 3, 3, 3, 3, 3, 3] : !r, !r -> !r
  %t = tpu.dynamic_rotate %v by %n dim 1 : !r, i32 -> !r
  %u = tpu.sublane_shuffle %t, %t, [3, 3, 3, 3, 3, 3, 3, 3] : !r, !r -> !r
  %w = arith.addf %s, %u : !r
  tpu.store %o[%c0, %c0], %w sublanes [true, true, true, true, true, true, true, true] : !x, !r,
  func.return
}

// Rows that turn by different amounts, others, or ones that are needed turned as they are, stay.
// CHECK-LABEL: func.func @others(
// CHECK:       [[A:%[0-9]+]] = tpu.dynamic_rotate {{%[0-9]+}} by %n dim 1 {stride = 1
// CHECK:       tpu.sublane_shuffle [[A]], [[A]], [3, 3, 3, 3, 3, 3, 3, 3]
// CHECK:       [[B:%[0-9]+]] = tpu.dynamic_rotate {{%[0-9]+}} by %n dim 0
// CHECK:       tpu.sublane_shuffle [[B]], [[B]], [3, 3, 3, 3, 3, 3, 3, 3]
// CHECK:       [[C:%[0-9]+]] = tpu.dynamic_rotate {{%[0-9]+}} by %m dim 1
// CHECK:       tpu.sublane_shuffle [[C]], [[C]], [2, 2, 2, 2, 2, 2, 2, 2]
// CHECK:       [[D:%[0-9]+]] = tpu.dynamic_rotate {{%[0-9]+}} by %n dim 1
// CHECK:       tpu.sublane_shuffle [[D]], [[D]], [3, 3, 3, 3, 3, 3, 3, 3]
// CHECK:       arith.addf {{%[0-9]+}}, [[D]]
func.func @others(%x: !x, %o: !x, %n: i32, %m: i32) {
  %c0 = arith.constant 0 : index
  %v = tpu.load %x[%c0, %c0] sublanes [true, true, true, true, true, true, true, true] : !x, !r
  %s = tpu.sublane_shuffle %v, %v, [3, 3, 3, 3, 3, 3, 3, 3] : !r, !r -> !r
  %a = tpu.dynamic_rotate %v by %n dim 1 {stride = 1 : si32, stride_dimension = 0 : si32} : !r, i32 -> !r
  %a3 = tpu.sublane_shuffle %a, %a, [3, 3, 3, 3, 3, 3, 3, 3] : !r, !r -> !r
  %b = tpu.dynamic_rotate %v by %n dim 0 : !r, i32 -> !r
  %b3 = tpu.sublane_shuffle %b, %b, [3, 3, 3, 3, 3, 3, 3, 3] : !r, !r -> !r
  %c = tpu.dynamic_rotate %v by %m dim 1 : !r, i32 -> !r
  %c2 = tpu.sublane_shuffle %c, %c, [2, 2, 2, 2, 2, 2, 2, 2] : !r, !r -> !r
  %d = tpu.dynamic_rotate %v by %n dim 1 : !r, i32 -> !r
  %d3 = tpu.sublane_shuffle %d, %d, [3, 3, 3, 3, 3, 3, 3, 3] : !r, !r -> !r
  %s0 = arith.addf %s, %a3 : !r
  %s1 = arith.addf %s0, %b3 : !r
  %s2 = arith.addf %s1, %c2 : !r
  %s3 = arith.addf %s2, %d3 : !r
  %s4 = arith.addf %s3, %d : !r
  tpu.store %o[%c0, %c0], %s4 sublanes [true, true, true, true, true, true, true, true] : !x, !r,
  func.return
}
