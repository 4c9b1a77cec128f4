// RUN: tpu-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: 'scf.if': an scf.if with results needs an else region
%c, %s = "test.op"() : () -> (i1, f32)
%0 = "scf.if"(%c) ({
  scf.yield %s : f32
}, {
}) : (i1) -> f32

// -----

// CHECK: 'scf.if': expected an else region of one block
%c = "test.op"() : () -> i1
"scf.if"(%c) ({
  scf.yield
}, {
^bb0:
  scf.yield
^bb1:
  scf.yield
}) : (i1) -> ()

// -----

// CHECK: 'scf.for': expected results of types (f32)
%i, %s = "test.op"() : () -> (i32, f32)
%0 = "scf.for"(%i, %i, %i, %s) ({
^bb0(%k: i32, %y: f32):
  scf.yield %y : f32
}) : (i32, i32, i32, f32) -> i32

// -----

// CHECK: 'scf.for': expected a body with arguments (i32, f32), got (i32, i32)
%i, %s = "test.op"() : () -> (i32, f32)
%0 = "scf.for"(%i, %i, %i, %s) ({
^bb0(%k: i32, %y: i32):
  scf.yield %s : f32
}) : (i32, i32, i32, f32) -> f32

// -----

// CHECK: 'scf.for': expected the body to yield (f32), got (i32)
%i, %s = "test.op"() : () -> (i32, f32)
%0 = "scf.for"(%i, %i, %i, %s) ({
^bb0(%k: i32, %y: f32):
  scf.yield %k : i32
}) : (i32, i32, i32, f32) -> f32

// -----

// CHECK: expected a result type for each of 1 arguments
%i, %s = "test.op"() : () -> (i32, f32)
%0 = scf.for %k = %i to %i step %i iter_args(%y = %s) -> (f32, f32) : i32 {
  scf.yield %y : f32
}

// -----

// CHECK: expected a type for each of 1 operands
%c, %s = "test.op"() : () -> (i1, f32)
%0 = scf.while (%y = %s) : (f32, f32) -> f32 {
  scf.condition(%c) %y : f32
} do {
^bb0(%z: f32):
  scf.yield %z : f32
}

// -----

// CHECK: 'scf.while': expected a region with arguments (f32), got (i32)
%c, %s = "test.op"() : () -> (i1, f32)
%0 = "scf.while"(%s) ({
^bb0(%y: i32):
  "scf.condition"(%c, %s) : (i1, f32) -> ()
}, {
^bb0(%z: f32):
  scf.yield %z : f32
}) : (f32) -> f32

// -----

// CHECK: 'scf.while': expected an scf.condition that passes on (f32)
%c, %s = "test.op"() : () -> (i1, f32)
%0 = "scf.while"(%s) ({
^bb0(%y: f32):
  "scf.condition"(%c, %c) : (i1, i1) -> ()
}, {
^bb0(%z: f32):
  scf.yield %z : f32
}) : (f32) -> f32

// -----

// CHECK: 'scf.index_switch': expected 2 regions, got 1
%x = "test.op"() : () -> index
"scf.index_switch"(%x) <{cases = array<i64: 1, 2>}> ({
  scf.yield
}, {
  scf.yield
}) : (index) -> ()

// -----

// CHECK: 'scf.index_switch': a case occurs twice in [1, 1]
%x = "test.op"() : () -> index
"scf.index_switch"(%x) <{cases = array<i64: 1, 1>}> ({
  scf.yield
}, {
  scf.yield
}, {
  scf.yield
}) : (index) -> ()

// -----

// CHECK: 'scf.execute_region': expected a region with at least one block
"scf.execute_region"() ({
}) : () -> ()

// -----

// CHECK: 'scf.for': expected the body to end in scf.yield
%i, %s = "test.op"() : () -> (i32, f32)
%0 = "scf.for"(%i, %i, %i, %s) ({
^bb0(%k: i32, %y: f32):
  tpu.yield %y : f32
}) : (i32, i32, i32, f32) -> f32
