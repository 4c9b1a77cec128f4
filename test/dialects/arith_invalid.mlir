// RUN: tpu-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: arith_invalid.mlir:5:1: error: 'arith.cmpi': {{.*}}expected type vector<8x128xi1>, got i1
%v = "test.op"() : () -> vector<8x128xi32>
%0 = "arith.cmpi"(%v, %v) <{predicate = 0 : i64}> : (vector<8x128xi32>, vector<8x128xi32>) -> i1

// -----

// CHECK: arith_invalid.mlir:11:21: error: expected a predicate, one of eq, ne
%v = "test.op"() : () -> vector<8x128xi32>
%0 = arith.cmpi less, %v, %v : vector<8x128xi32>

// -----

// CHECK: arith_invalid.mlir:17:1: error: 'arith.select': expected a condition of type i1 or vector<8x128xi1>, got vector<4xi1>
%v, %m = "test.op"() : () -> (vector<8x128xi32>, vector<4xi1>)
%0 = arith.select %m, %v, %v : vector<4xi1>, vector<8x128xi32>

// -----

// CHECK: error: 'arith.extsi': expected a result wider than vector<4xi32>, got vector<4xi16>
%v = "test.op"() : () -> vector<4xi32>
%0 = arith.extsi %v : vector<4xi32> to vector<4xi16>

// -----

// CHECK: error: 'arith.sitofp': expected types of one shape, got vector<4xi32> and f32
%v = "test.op"() : () -> vector<4xi32>
%0 = arith.sitofp %v : vector<4xi32> to f32

// -----

// CHECK: error: 'arith.addi': operand 0 is used before it is defined
func.func @early(%a: i32) {
  %0 = "arith.addi"(%1, %a) : (i32, i32) -> i32
  %1 = "arith.addi"(%a, %a) : (i32, i32) -> i32
  func.return
}

// -----

// CHECK: error: 'arith.fptosi': expected a float-like type, got memref<8x128xbf16>
%m = "test.op"() : () -> memref<8x128xbf16>
%0 = "arith.fptosi"(%m) : (memref<8x128xbf16>) -> memref<8x128xi32>

// -----

// CHECK: error: 'arith.bitcast': expected an integer or float-like type, got index
%i = "test.op"() : () -> index
%0 = arith.bitcast %i : index to f32

// -----

// CHECK: error: 'arith.bitcast': expected elements of one width, got vector<4xf32> and vector<4xi16>
%v = "test.op"() : () -> vector<4xf32>
%0 = arith.bitcast %v : vector<4xf32> to vector<4xi16>

// -----

// CHECK: error: 'arith.convertf': expected elements of one width, got f32 and bf16
%f = "test.op"() : () -> f32
%0 = arith.convertf %f : f32 to bf16

// -----

// CHECK: error: 'arith.index_cast': expected types of one shape, got tensor<4xi32> and vector<4xindex>
%t = "test.op"() : () -> tensor<4xi32>
%0 = arith.index_cast %t : tensor<4xi32> to vector<4xindex>

// -----

// CHECK: 'arith.index_cast': expected exactly one index type, got index and index
%x = "test.op"() : () -> index
%0 = arith.index_cast %x : index to index

// -----

// CHECK: 'arith.cmpi': expected a predicate from 0 to 9, got 12
%i = "test.op"() : () -> i32
%0 = "arith.cmpi"(%i, %i) <{predicate = 12 : i64}> : (i32, i32) -> i1

// -----

// CHECK: 'arith.truncf': expected a rounding mode below 5, got 9
%s = "test.op"() : () -> f32
%0 = "arith.truncf"(%s) <{roundingmode = 9 : i32}> : (f32) -> bf16
