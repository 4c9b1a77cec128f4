// RUN: tpu-opt %s --canonicalize | filecheck %s

// CHECK-LABEL: func.func @constant_condition
// CHECK-NEXT: func.return %a : f32
func.func @constant_condition(%a: f32, %b: f32) -> f32 {
  %c = arith.constant true
  %r = scf.if %c -> f32 { scf.yield %a : f32 } else { scf.yield %b : f32 }
  func.return %r : f32
}

// CHECK-LABEL: func.func @no_iteration
// CHECK-NEXT: func.return %a : f32
func.func @no_iteration(%a: f32) -> f32 {
  %0 = arith.constant 4 : i32
  %1 = arith.constant 1 : i32
  %r = scf.for %k = %0 to %0 step %1 iter_args(%x = %a) -> f32 : i32 {
    %y = arith.addf %x, %x : f32
    scf.yield %y : f32
  }
  func.return %r : f32
}

// CHECK-LABEL: func.func @one_iteration
// CHECK-NEXT: arith.addf %a, %a : f32
// CHECK-NEXT: func.return
func.func @one_iteration(%a: f32) -> f32 {
  %0 = arith.constant 0 : i32
  %1 = arith.constant 1 : i32
  %r = scf.for %k = %0 to %1 step %1 iter_args(%x = %a) -> f32 : i32 {
    %y = arith.addf %x, %x : f32
    scf.yield %y : f32
  }
  func.return %r : f32
}

// CHECK-LABEL: func.func @signed_and_unsigned
// CHECK-DAG: %[[t:.*]] = arith.constant true
// CHECK-DAG: %[[f:.*]] = arith.constant false
// CHECK: func.return
func.func @signed_and_unsigned() -> (i1, i1) {
  %0 = arith.constant -1 : i32
  %1 = arith.constant 1 : i32
  %s = arith.cmpi slt, %0, %1 : i32
  %u = arith.cmpi ult, %0, %1 : i32
  func.return %s, %u : i1, i1
}
