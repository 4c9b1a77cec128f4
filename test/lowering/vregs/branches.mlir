// RUN: tpu-opt %s -p tiles-to-vregs | filecheck %s

// The TPU compiler turns results that both branches pass on, or fold, into selects by a scalar,
// which it does not have for vectors.

!ref = memref<16x128xf32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>

// CHECK-LABEL: func.func @folding(
// CHECK:       %[[ONE:.*]] = arith.constant dense<1.0{{.*}}> : vector<8x128xf32>
// CHECK:       %[[A:.*]] = tpu.load
// CHECK:       %[[B:.*]] = tpu.load
// CHECK:       %[[W:.*]] = arith.mulf %[[A]], %[[ONE]]
// CHECK-NEXT:  %[[V:.*]] = arith.mulf %[[B]], %[[ONE]]
// CHECK-NEXT:  %[[U:.*]] = arith.maximumf
// CHECK-NEXT:  %[[BIT:.*]] = arith.extui %n : i1 to i32
// CHECK-NEXT:  %[[BITS:.*]] = vector.broadcast %[[BIT]]
// CHECK:       %[[MASK:.*]] = arith.cmpi ne, %[[BITS]], %{{.*}} : vector<8x128xi32>
// CHECK-NEXT:  %[[FIRST:.*]] = arith.select %[[MASK]], %[[W]], %[[U]]
// CHECK-NEXT:  %[[SECOND:.*]] = arith.select %[[MASK]], %[[V]], %[[U]]
// CHECK-NEXT:  tpu.store %o[{{.*}}], %[[FIRST]]
// CHECK-NEXT:  tpu.store %o[{{.*}}], %[[SECOND]]
func.func @folding(%x: !ref, %o: !ref, %n: i1) {
  %c0 = arith.constant 0 : index
  %a = tpu.load %x[%c0, %c0] sublanes [true, true, true, true, true, true, true, true] {grid.steps = array<i64: 8, 128>} : !ref, vector<2x1x8x128xf32>
  %s = scf.if %n -> (vector<2x1x8x128xf32>) {
    %one = arith.constant dense<1.0> : vector<8x128xf32>
    %ones = grid.broadcast %one : vector<8x128xf32> -> vector<2x1x8x128xf32>
    %w = arith.mulf %a, %ones : vector<2x1x8x128xf32>
    scf.yield %w : vector<2x1x8x128xf32>
  } else {
    %two = arith.constant dense<2.0> : vector<8x128xf32>
    %three = arith.constant dense<3.0> : vector<8x128xf32>
    %u = arith.maximumf %two, %three : vector<8x128xf32>
    %us = grid.broadcast %u : vector<8x128xf32> -> vector<2x1x8x128xf32>
    scf.yield %us : vector<2x1x8x128xf32>
  }
  tpu.store %o[%c0, %c0], %s sublanes [true, true, true, true, true, true, true, true] {grid.steps = array<i64: 8, 128>} : !ref, vector<2x1x8x128xf32>,
  func.return
}

// What one branch computes anew stays in it, register by register.
// CHECK-LABEL: func.func @computing(
// CHECK:       scf.if %n -> (vector<8x128xf32>, vector<8x128xf32>)
// CHECK:       arith.addf
// CHECK-NOT:   arith.select
// CHECK:       return
func.func @computing(%x: !ref, %o: !ref, %n: i1) {
  %c0 = arith.constant 0 : index
  %a = tpu.load %x[%c0, %c0] sublanes [true, true, true, true, true, true, true, true] {grid.steps = array<i64: 8, 128>} : !ref, vector<2x1x8x128xf32>
  %s = scf.if %n -> (vector<2x1x8x128xf32>) {
    %w = arith.addf %a, %a : vector<2x1x8x128xf32>
    scf.yield %w : vector<2x1x8x128xf32>
  } else {
    scf.yield %a : vector<2x1x8x128xf32>
  }
  tpu.store %o[%c0, %c0], %s sublanes [true, true, true, true, true, true, true, true] {grid.steps = array<i64: 8, 128>} : !ref, vector<2x1x8x128xf32>,
  func.return
}

// So does what gives a register from before when its constants are added up.
// CHECK-LABEL: func.func @cancelling(
// CHECK-NOT:   scf.yield
// CHECK:       arith.select
// CHECK-NEXT:  %[[SECOND:.*]] = arith.select
// CHECK-NEXT:  tpu.store
// CHECK-NEXT:  tpu.store %o[{{.*}}], %[[SECOND]]
!words = memref<16x128xi32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>
func.func @cancelling(%x: !words, %o: !words, %n: i1) {
  %c0 = arith.constant 0 : index
  %a = tpu.load %x[%c0, %c0] sublanes [true, true, true, true, true, true, true, true] {grid.steps = array<i64: 8, 128>} : !words, vector<2x1x8x128xi32>
  %b = tpu.load %o[%c0, %c0] sublanes [true, true, true, true, true, true, true, true] {grid.steps = array<i64: 8, 128>} : !words, vector<2x1x8x128xi32>
  %s = scf.if %n -> (vector<2x1x8x128xi32>) {
    %three = arith.constant dense<3> : vector<8x128xi32>
    %threes = grid.broadcast %three : vector<8x128xi32> -> vector<2x1x8x128xi32>
    %v = arith.addi %a, %threes : vector<2x1x8x128xi32>
    %w = arith.subi %v, %threes : vector<2x1x8x128xi32>
    scf.yield %w : vector<2x1x8x128xi32>
  } else {
    scf.yield %b : vector<2x1x8x128xi32>
  }
  tpu.store %o[%c0, %c0], %s sublanes [true, true, true, true, true, true, true, true] {grid.steps = array<i64: 8, 128>} : !words, vector<2x1x8x128xi32>,
  func.return
}
