// RUN: tpu-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: func_invalid.mlir:5:3: error: 'func.call': '@g' could not be found in symbol table
func.func @f() {
  func.call @g() : () -> ()
  func.return
}

// -----

// CHECK: func_invalid.mlir:14:3: error: 'func.call': incorrect number of operands for callee
func.func private @g(i32)
func.func @f() {
  func.call @g() : () -> ()
  func.return
}

// -----

// CHECK: func_invalid.mlir:23:3: error: 'func.call': result type mismatch: expected result type i32, but provided i64 for result number 0
func.func private @g() -> i32
func.func @f() {
  %0 = func.call @g() : () -> i64
  func.return
}

// -----

// CHECK: func_invalid.mlir:32:3: error: 'func.call': '@g' does not reference a valid function
memref.global "private" @g : memref<2xf32>
func.func @f() {
  func.call @g() : () -> ()
  func.return
}

// -----

// A name means what the nearest module says.
// CHECK: func_invalid.mlir:43:5: error: 'func.call': '@g' could not be found in symbol table
func.func private @g()
builtin.module {
  func.func @f() {
    func.call @g() : () -> ()
    func.return
  }
}
