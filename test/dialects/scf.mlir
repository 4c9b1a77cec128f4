// RUN: %tpu_roundtrip
// RUN: %tpu_generic

%i, %x, %s, %c = "test.op"() : () -> (i32, index, f32, i1)

// CHECK: scf.for %{{.*}} = %i to %i step %i iter_args(%{{.*}} = %s) -> (f32) : i32 {
// CHECK: } {note}
%0 = scf.for %k = %i to %i step %i iter_args(%y = %s) -> (f32) : i32 {
  %z = arith.addf %y, %y : f32
  scf.yield %z : f32
} {note}
// CHECK: scf.for unsigned %{{.*}} = %i to %i step %i : i32 {
// CHECK-NEXT: }
scf.for unsigned %k = %i to %i step %i : i32 {
}
// CHECK: scf.if %c {
// CHECK-NEXT: } else {
// CHECK-NEXT: }
scf.if %c {
} else {
}
// CHECK: scf.if %c -> (f32) {
%1 = scf.if %c -> f32 {
  scf.yield %s : f32
} else {
  scf.yield %s : f32
}
// CHECK: scf.while (%{{.*}} = %s) : (f32) -> (f32, index) {
// CHECK: scf.condition(%c) %{{.*}}, %x : f32, index
// CHECK: } do {
// CHECK-NEXT: ^bb0(%{{.*}}: f32, %{{.*}}: index):
// CHECK: } attributes {note}
%2, %3 = scf.while (%y = %s) : (f32) -> (f32, index) {
  scf.condition(%c) %y, %x : f32, index
} do {
^bb0(%y: f32, %z: index):
  scf.yield %y : f32
} attributes {note}
// CHECK: scf.while : () -> () {
scf.while : () -> () {
  scf.condition(%c)
} do {
  scf.yield
}
// CHECK: scf.index_switch %x -> f32
// CHECK-NEXT: case 1 {
// CHECK: default {
%4 = scf.index_switch %x -> f32 case 1 { scf.yield %s : f32 } default { scf.yield %s : f32 }
// CHECK: scf.execute_region -> (f32) {
%5 = scf.execute_region -> f32 { scf.yield %s : f32 }
