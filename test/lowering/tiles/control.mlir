// RUN: tpu-opt %s -p vectors-to-tiles{target=v5e} | filecheck %s

!f32 = memref<16x256xf32, #tpu.tiled<(8,128),[2,1]>, #tpu.memory_space<vmem>>

// CHECK-LABEL: func.func @carried_vector(
// CHECK:       %s = scf.for {{.*}} iter_args(%v = %a) -> (vector<2x2x8x128xf32>)
// CHECK-NEXT:  %w = arith.addf %v, %v : vector<2x2x8x128xf32>
// CHECK-NEXT:  scf.yield %w
func.func @carried_vector(%x: !f32, %o: !f32, %n: i32) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !f32, vector<16x256xf32>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %s = scf.for %i = %zero to %n step %one iter_args(%v = %a) -> (vector<16x256xf32>) : i32 {
    %w = arith.addf %v, %v : vector<16x256xf32>
    scf.yield %w : vector<16x256xf32>
  }
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !f32, vector<16x256xf32>,
  func.return
}

// CHECK-LABEL: func.func @branch(
// CHECK:       %s = scf.if %n -> (vector<2x2x8x128xf32>)
// CHECK:       scf.yield %w : vector<2x2x8x128xf32>
// CHECK:       scf.yield %a : vector<2x2x8x128xf32>
func.func @branch(%x: !f32, %o: !f32, %n: i1) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : !f32, vector<16x256xf32>
  %s = scf.if %n -> (vector<16x256xf32>) {
    %w = arith.addf %a, %a : vector<16x256xf32>
    scf.yield %w : vector<16x256xf32>
  } else {
    scf.yield %a : vector<16x256xf32>
  }
  tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : !f32, vector<16x256xf32>,
  func.return
}
