// RUN: tpu-opt %s -p canonicalize,cse | filecheck %s
// RUN: tpu-opt %s --canonicalize --cse | filecheck %s
// RUN: tpu-opt %s -canonicalize -p cse | filecheck %s
// RUN: tpu-opt %s --pass-pipeline='builtin.module(func.func(canonicalize),cse)' | filecheck %s
// RUN: tpu-opt %s --pass-pipeline 'builtin.module(canonicalize,cse)' --target v6e | filecheck %s
// RUN: tpu-opt %s --mlir-print-op-generic | filecheck %s --check-prefix GENERIC
// RUN: tpu-opt %s -mlir-print-op-generic | filecheck %s --check-prefix GENERIC
// RUN: tpu-opt %s --print-op-generic -o - | filecheck %s --check-prefix GENERIC
// RUN: tpu-opt %s --mlir-print-debuginfo | filecheck %s --check-prefix DEBUG
// RUN: tpu-opt - -t mlir < %s | filecheck %s --check-prefix PLAIN

// CHECK-LABEL: func.func @once
// CHECK-NEXT: %[[sum:.*]] = arith.addf %a, %a : f32
// CHECK-NEXT: func.return %[[sum]], %[[sum]] : f32, f32
// GENERIC: "arith.addf"(%{{.*}}, %{{.*}}) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
// DEBUG: arith.addf %a, %a : f32 loc("{{.*}}opt_spellings.mlir":20:3)
// PLAIN: arith.addf %a, %a : f32
// PLAIN-NEXT: arith.addf %a, %a : f32
func.func @once(%a: f32) -> (f32, f32) {
  %0 = arith.addf %a, %a : f32
  %1 = arith.addf %a, %a : f32
  func.return %0, %1 : f32, f32
}
