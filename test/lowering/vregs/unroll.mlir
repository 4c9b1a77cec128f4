// RUN: tpu-opt %s -p tiles-to-vregs | filecheck %s

!x = memref<16x256xf32, #tpu.tiled<(8,128),[2,1]>, #tpu.memory_space<vmem>>
!g = vector<2x2x8x128xf32>

// One load, product and store per register; they share the constant.
// CHECK-LABEL: func.func @registers(
// CHECK:       dense<2.000000e+00> : vector<8x128xf32>
// CHECK:       [[A:%[0-9]+]] = tpu.load %x[%0, %0]
// CHECK:       tpu.load %x[%0, %2]
// CHECK:       tpu.load %x[%1, %0]
// CHECK:       tpu.load %x[%1, %2]
// CHECK:       [[B:%[0-9]+]] = arith.mulf [[A]], %3 : vector<8x128xf32>
// CHECK:       tpu.store %o[%0, %0], [[B]]
// CHECK:       tpu.store %o[%0, %2]
// CHECK:       tpu.store %o[%1, %0]
// CHECK:       tpu.store %o[%1, %2]
// CHECK-NEXT:  func.return
func.func @registers(%x: !x, %o: !x) {
  %c0 = arith.constant 0 : index
  %v = tpu.load %x[%c0, %c0] sublanes [true, true, true, true, true, true, true, true] {grid.steps = array<i64: 8, 128>} : !x, !g
  %two = arith.constant dense<2.0> : !g
  %w = arith.mulf %v, %two : !g
  tpu.store %o[%c0, %c0], %w sublanes [true, true, true, true, true, true, true, true] {grid.steps = array<i64: 8, 128>} : !x, !g,
  func.return
}

// CHECK-LABEL: func.func @equal_operands_share(
// CHECK:       [[E:%[0-9]+]] = math.exp
// CHECK-NOT:   math.exp
// CHECK:       tpu.store %o[%1, %2], [[E]]
func.func @equal_operands_share(%x: !x, %o: !x, %s: f32) {
  %c0 = arith.constant 0 : index
  %r = vector.broadcast %s : f32 to vector<8x128xf32>
  %g = grid.broadcast %r : vector<8x128xf32> -> !g
  %e = math.exp %g : !g
  tpu.store %o[%c0, %c0], %e sublanes [true, true, true, true, true, true, true, true] {grid.steps = array<i64: 8, 128>} : !x, !g,
  func.return
}

// CHECK-LABEL: func.func @renaming_costs_nothing(
// CHECK:       [[A:%[0-9]+]] = tpu.load %x[%0, %0]
// CHECK-NEXT:  [[B:%[0-9]+]] = tpu.load %x[%0, %2]
// CHECK-NEXT:  [[C:%[0-9]+]] = tpu.load %x[%1, %0]
// CHECK-NEXT:  [[D:%[0-9]+]] = tpu.load %x[%1, %2]
// CHECK-NEXT:  tpu.store %o[%0, %0], [[B]]
// CHECK-NEXT:  tpu.store %o[%0, %2], [[D]]
// CHECK-NEXT:  tpu.store %o[%1, %0], [[A]]
// CHECK-NEXT:  tpu.store %o[%1, %2], [[C]]
func.func @renaming_costs_nothing(%x: !x, %o: !x) {
  %c0 = arith.constant 0 : index
  %v = tpu.load %x[%c0, %c0] sublanes [true, true, true, true, true, true, true, true] {grid.steps = array<i64: 8, 128>} : !x, !g
  %t = grid.transpose %v [1, 0] : !g -> !g
  %a = grid.slice %t [0, 0] [1, 2] [1, 1] : !g -> vector<1x2x8x128xf32>
  %b = grid.slice %t [1, 0] [1, 2] [1, 1] : !g -> vector<1x2x8x128xf32>
  %c = grid.concat %b, %a dim 0 : vector<1x2x8x128xf32>, vector<1x2x8x128xf32> -> !g
  tpu.store %o[%c0, %c0], %c sublanes [true, true, true, true, true, true, true, true] {grid.steps = array<i64: 8, 128>} : !x, !g,
  func.return
}

// CHECK-LABEL: func.func @left_fold(
// CHECK:       [[A:%[0-9]+]] = tpu.load %x[%0, %0]
// CHECK-NEXT:  [[B:%[0-9]+]] = tpu.load %x[%0, %2]
// CHECK-NEXT:  [[C:%[0-9]+]] = tpu.load %x[%1, %0]
// CHECK-NEXT:  [[D:%[0-9]+]] = tpu.load %x[%1, %2]
// CHECK-NEXT:  arith.addf [[A]], [[C]]
// CHECK-NEXT:  arith.addf [[B]], [[D]]
func.func @left_fold(%x: !x, %o: !x) {
  %c0 = arith.constant 0 : index
  %v = tpu.load %x[%c0, %c0] sublanes [true, true, true, true, true, true, true, true] {grid.steps = array<i64: 8, 128>} : !x, !g
  %r = grid.reduce %v dim 0 kind "arith.addf" : !g -> vector<1x2x8x128xf32>
  tpu.store %o[%c0, %c0], %r sublanes [true, true, true, true, true, true, true, true] {grid.steps = array<i64: 8, 128>} : !x, vector<1x2x8x128xf32>,
  func.return
}

// CHECK-LABEL: func.func @positions(
// CHECK:       arith.constant dense<0> : vector<8x128xi32>
// CHECK-NEXT:  arith.constant dense<128> : vector<8x128xi32>
func.func @positions(%o: memref<16x256xi32, #tpu.tiled<(8,128),[2,1]>, #tpu.memory_space<vmem>>) {
  %c0 = arith.constant 0 : index
  %p = grid.position dim 1 step 128 : vector<2x2x8x128xi32>
  tpu.store %o[%c0, %c0], %p sublanes [true, true, true, true, true, true, true, true] {grid.steps = array<i64: 8, 128>} : memref<16x256xi32, #tpu.tiled<(8,128),[2,1]>, #tpu.memory_space<vmem>>, vector<2x2x8x128xi32>,
  func.return
}

// CHECK-LABEL: func.func @carried_registers(
// CHECK:       scf.for {{.*}} -> (vector<8x128xf32>, vector<8x128xf32>)
// CHECK:       scf.yield {{.*}} : vector<8x128xf32>, vector<8x128xf32>
func.func @carried_registers(%x: !x, %o: !x, %n: i32) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %v = tpu.load %x[%c0, %c0] sublanes [true, true, true, true, true, true, true, true] {grid.steps = array<i64: 8, 128>} : !x, vector<1x2x8x128xf32>
  %r = scf.for %i = %zero to %n step %one iter_args(%a = %v) -> (vector<1x2x8x128xf32>) : i32 {
    %b = arith.addf %a, %a : vector<1x2x8x128xf32>
    scf.yield %b : vector<1x2x8x128xf32>
  }
  tpu.store %o[%c0, %c0], %r sublanes [true, true, true, true, true, true, true, true] {grid.steps = array<i64: 8, 128>} : !x, vector<1x2x8x128xf32>,
  func.return
}

// CHECK-LABEL: func.func @poison_is_not_packed(
// CHECK:       tpu.pack_subelements %{{[0-9]+}} {{.*}}positions = array<i32: 0>} : vector<8x128xf32> -> vector<8x128x2xbf16>
func.func @poison_is_not_packed(%x: !x, %o: memref<16x128xbf16, #tpu.tiled<(16,128)(2,1),[1,1]>, #tpu.memory_space<vmem>>) {
  %c0 = arith.constant 0 : index
  %v = tpu.load %x[%c0, %c0] sublanes [true, true, true, true, true, true, true, true] {grid.steps = array<i64: 8, 128>} : !x, vector<1x1x8x128xf32>
  %p = grid.poison : vector<1x1x8x128xf32>
  %r = tpu.pack_subelements %v, %p {pack_format = #tpu.pack_format<compressed>, positions = array<i32: 0, 1>} : vector<1x1x8x128xf32>, vector<1x1x8x128xf32> -> vector<1x1x8x128x2xbf16>
  tpu.store %o[%c0, %c0], %r sublanes [true, true, true, true, false, false, false, false] {grid.steps = array<i64: 16, 128>} : memref<16x128xbf16, #tpu.tiled<(16,128)(2,1),[1,1]>, #tpu.memory_space<vmem>>, vector<1x1x8x128x2xbf16>,
  func.return
}

// What says where the kernel's access lies is said of a register alone as of the first of a grid.
// CHECK-LABEL: func.func @boxes(
// CHECK:       tpu.load %x[%0, %0] {{.*}} {tpu.box = array<i64: 2, 3, 4, 5, 16, 256>}
// CHECK:       tpu.load %x[%0, %0] {{.*}} {tpu.box = array<i64: 2, 3, 4, 5, 16, 256>}
// CHECK:       tpu.load %x[%0, %{{[0-9]+}}] {{.*}} {tpu.box = array<i64: 2, -125, 4, 5, 16, 256>}
func.func @boxes(%x: !x, %o: !x) {
  %c0 = arith.constant 0 : index
  %v = tpu.load %x[%c0, %c0] sublanes [true, true, true, true, true, true, true, true] {tpu.box = array<i64: 2, 3, 4, 5, 16, 256>} : !x, vector<8x128xf32>
  %g = tpu.load %x[%c0, %c0] sublanes [true, true, true, true, true, true, true, true] {grid.steps = array<i64: 8, 128>, tpu.box = array<i64: 2, 3, 4, 5, 16, 256>} : !x, vector<1x2x8x128xf32>
  tpu.store %o[%c0, %c0], %v sublanes [true, true, true, true, true, true, true, true] : !x, vector<8x128xf32>,
  tpu.store %o[%c0, %c0], %g sublanes [true, true, true, true, true, true, true, true] {grid.steps = array<i64: 8, 128>} : !x, vector<1x2x8x128xf32>,
  func.return
}
