// RUN: tpu-opt %s --split-input-file --verify-diagnostics | filecheck %s

%a = "test.op"() : () -> vector<4x8x128xf32>
// CHECK: 'grid.slice': offset 3, size 2, stride 1 leave a grid of size 4
%0 = grid.slice %a [3] [2] [1] : vector<4x8x128xf32> -> vector<2x8x128xf32>

// -----

%a = "test.op"() : () -> vector<4x8x128xf32>
// CHECK: 'grid.slice': expected vector<2x8x128xf32>, got vector<2x8x128xi32>
%0 = grid.slice %a [0] [2] [1] : vector<4x8x128xf32> -> vector<2x8x128xi32>

// -----

%a = "test.op"() : () -> vector<4x8x64xf32>
// CHECK: 'grid.reshape': expected a grid of registers, got vector<4x8x64xf32>
%0 = grid.reshape %a : vector<4x8x64xf32> -> vector<4x8x64xf32>

// -----

%a = "test.op"() : () -> vector<4x8x128xf32>
// CHECK: 'grid.reshape': expected 4 registers, got 3
%0 = grid.reshape %a : vector<4x8x128xf32> -> vector<3x8x128xf32>

// -----

%a = "test.op"() : () -> vector<4x8x128xf32>
// CHECK: 'grid.broadcast': grid [4] does not broadcast to [4, 2]
%0 = grid.broadcast %a : vector<4x8x128xf32> -> vector<4x2x8x128xf32>

// -----

%a = "test.op"() : () -> vector<4x8x128xf32>
// CHECK: 'grid.take': index 4 is not one of 4 registers
%0 = grid.take %a [4] : vector<4x8x128xf32> -> vector<1x8x128xf32>

// -----

%a = "test.op"() : () -> vector<4x8x128xf32>
// CHECK: 'grid.reduce': arith.select is no elementwise binary operation
%0 = grid.reduce %a dim 0 kind "arith.select" : vector<4x8x128xf32> -> vector<1x8x128xf32>

// -----

%a = "test.op"() : () -> vector<4x8x128xf32>
// CHECK: 'grid.first_extremum': expected a maximum or minimum of floats, got arith.addf
%0, %1 = grid.first_extremum %a dim 0 step 1 kind "arith.addf" : vector<4x8x128xf32> -> vector<1x8x128xf32>, vector<1x8x128xi32>

// -----

%a = "test.op"() : () -> vector<4x8x128xi32>
// CHECK: 'grid.first_extremum': expected registers of f32, got vector<4x8x128xi32>
%0, %1 = grid.first_extremum %a dim 0 step 1 kind "arith.maximumf" : vector<4x8x128xi32> -> vector<1x8x128xi32>, vector<1x8x128xi32>

// -----

%a = "test.op"() : () -> vector<4x8x128xf32>
// CHECK: 'grid.first_extremum': expected places vector<1x8x128xi32>, got vector<1x8x128xf32>
%0, %1 = grid.first_extremum %a dim 0 step 1 kind "arith.maximumf" : vector<4x8x128xf32> -> vector<1x8x128xf32>, vector<1x8x128xf32>

// -----

%a = "test.op"() : () -> vector<4x2x8x128xf32>
// CHECK: 'grid.matmul': contraction differ: 256 and 32 elements
%0 = grid.matmul %a, %a, %a {contracting = 128 : i64, columns = 128 : i64} : vector<4x2x8x128xf32>, vector<4x2x8x128xf32>, vector<4x2x8x128xf32>

// -----

%a = "test.op"() : () -> vector<4x2x8x128xf32>
// CHECK: 'grid.transpose_blocks': vector<4x2x8x128xf32> does not hold vector<4x2x8x128xf32> transposed
%0 = grid.transpose_blocks %a : vector<4x2x8x128xf32> -> vector<4x2x8x128xf32>

// -----

// CHECK: 'grid.slice': expected 2 offsets, sizes and strides, got 1, 1 and 1
%a = "test.op"() : () -> vector<4x2x8x128xf32>
%0 = "grid.slice"(%a) <{offsets = array<i64: 0>, sizes = array<i64: 1>, strides = array<i64: 1>}> : (vector<4x2x8x128xf32>) -> vector<1x2x8x128xf32>

// -----

// CHECK: 'grid.concat': expected at least one part
%0 = "grid.concat"() <{dim = 0 : i64}> : () -> vector<1x8x128xf32>

// -----

// CHECK: 'grid.concat': dimension 2 is out of range for a grid [4, 2]
%a = "test.op"() : () -> vector<4x2x8x128xf32>
%0 = "grid.concat"(%a, %a) <{dim = 2 : i64}> : (vector<4x2x8x128xf32>, vector<4x2x8x128xf32>) -> vector<8x2x8x128xf32>

// -----

// CHECK: 'grid.transpose': [0, 0] is no permutation of 2 grid dimensions
%a = "test.op"() : () -> vector<4x2x8x128xf32>
%0 = "grid.transpose"(%a) <{permutation = array<i64: 0, 0>}> : (vector<4x2x8x128xf32>) -> vector<4x4x8x128xf32>

// -----

// CHECK: 'grid.take': expected 2 indices, got 1
%a = "test.op"() : () -> vector<4x8x128xf32>
%0 = grid.take %a [1] : vector<4x8x128xf32> -> vector<2x8x128xf32>

// -----

// CHECK: 'grid.reduce': dimension 2 is out of range for a grid [4, 2]
%a = "test.op"() : () -> vector<4x2x8x128xf32>
%0 = grid.reduce %a dim 2 kind "arith.addf" : vector<4x2x8x128xf32> -> vector<1x2x8x128xf32>

// -----

// CHECK: 'grid.matmul': expected a matrix of registers, got vector<4x8x128xf32>
%b = "test.op"() : () -> vector<4x8x128xf32>
%0 = grid.matmul %b, %b, %b {contracting = 128 : i64, columns = 128 : i64} : vector<4x8x128xf32>, vector<4x8x128xf32>, vector<4x8x128xf32>

// -----

// CHECK: 'grid.transpose_blocks': expected matrices of registers, got vector<4x8x128xf32>
%b = "test.op"() : () -> vector<4x8x128xf32>
%0 = grid.transpose_blocks %b : vector<4x8x128xf32> -> vector<4x8x128xf32>

// -----

// CHECK: 'grid.matmul': expected 32-bit accumulators, got vector<1x1x8x128x2xbf16>
%l, %r, %acc = "test.op"() : () -> (vector<1x1x8x128xf32>, vector<16x1x8x128xf32>, vector<1x1x8x128x2xbf16>)
%0 = grid.matmul %l, %r, %acc {contracting = 128 : i64, columns = 128 : i64} : vector<1x1x8x128xf32>, vector<16x1x8x128xf32>, vector<1x1x8x128x2xbf16>

// -----

// CHECK: 'grid.matmul': group size 100 is no positive multiple of 128
%l, %r = "test.op"() : () -> (vector<1x1x8x128xf32>, vector<16x1x8x128xf32>)
%0 = grid.matmul %l, %r, %l {contracting = 100 : i64, columns = 128 : i64} : vector<1x1x8x128xf32>, vector<16x1x8x128xf32>, vector<1x1x8x128xf32>

// -----

// CHECK: 'grid.position': expected registers of i32, got vector<4x8x128xf32>
%0 = grid.position dim 0 step 1 : vector<4x8x128xf32>

// -----

// CHECK: 'grid.position': dimension 1 is out of range for a grid [4]
%0 = grid.position dim 1 step 1 : vector<4x8x128xi32>

// -----

// CHECK: 'tpu.store': expected a mask of type vector<2x8x128xi1>, got vector<2x1x8x128xi1>
%m, %i, %v, %k = "test.op"() : () -> (memref<16xf32, #tpu.memory_space<vmem>>, index, vector<2x8x128xf32>, vector<2x1x8x128xi1>)
tpu.store %m[%i], %v masked %k sublanes [true] {grid.steps = array<i64: 8>} : memref<16xf32, #tpu.memory_space<vmem>>, vector<2x8x128xf32>, vector<2x1x8x128xi1>
