// RUN: not tpu-opt %s 2>&1 | filecheck %s
// RUN: not tpu-opt %s -o %t 2>&1 | filecheck %s
// RUN: not tpu-opt %s --pass-pipeline='builtin.module(nothing)' 2>&1 | filecheck %s --check-prefix PASS
// RUN: not tpu-opt %s --target v1 2>&1 | filecheck %s --check-prefix TARGET
// RUN: not tpu-opt %s.missing 2>&1 | filecheck %s --check-prefix MISSING

// CHECK: opt_errors.mlir:13:3: error: 'arith.addi': {{.*}} [invalid-operation]
// CHECK-NOT: Traceback
// PASS: error: no pass is called 'nothing' [unknown-pass]
// TARGET: error: expected a TPU generation of v4, v5e, v5p, v6e, v7x, got 'v1' [unknown-target]
// MISSING: error: cannot read {{.*}}opt_errors.mlir.missing: No such file or directory [unreadable-file]
func.func @wrong(%a: i32) {
  %0 = "arith.addi"(%a, %a) : (i32, i32) -> i64
  func.return
}
