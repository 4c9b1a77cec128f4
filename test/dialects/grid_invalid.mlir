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
