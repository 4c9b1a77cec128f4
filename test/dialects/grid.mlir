// RUN: %tpu_roundtrip
// RUN: %tpu_generic

%a, %p = "test.op"() : () -> (vector<4x2x8x128xf32>, vector<4x2x8x128x2xbf16>)
%m = "test.op"() : () -> vector<8x128xi1>

// CHECK: grid.slice %a [1, 0] [2, 1] [1, 1] : vector<4x2x8x128xf32> -> vector<2x1x8x128xf32>
%0 = grid.slice %a [1, 0] [2, 1] [1, 1] : vector<4x2x8x128xf32> -> vector<2x1x8x128xf32>
// CHECK: grid.slice %p [0, 0] [2, 2] [2, 1] : vector<4x2x8x128x2xbf16> -> vector<2x2x8x128x2xbf16>
%1 = grid.slice %p [0, 0] [2, 2] [2, 1] : vector<4x2x8x128x2xbf16> -> vector<2x2x8x128x2xbf16>
// CHECK: grid.concat %a, %a dim 0 : vector<4x2x8x128xf32>, vector<4x2x8x128xf32> -> vector<8x2x8x128xf32>
%2 = grid.concat %a, %a dim 0 : vector<4x2x8x128xf32>, vector<4x2x8x128xf32> -> vector<8x2x8x128xf32>
// CHECK: grid.reshape %a : vector<4x2x8x128xf32> -> vector<8x8x128xf32>
%3 = grid.reshape %a : vector<4x2x8x128xf32> -> vector<8x8x128xf32>
// CHECK: grid.transpose %a [1, 0] : vector<4x2x8x128xf32> -> vector<2x4x8x128xf32>
%4 = grid.transpose %a [1, 0] : vector<4x2x8x128xf32> -> vector<2x4x8x128xf32>
// CHECK: grid.broadcast %m : vector<8x128xi1> -> vector<4x2x8x128xi1>
%5 = grid.broadcast %m : vector<8x128xi1> -> vector<4x2x8x128xi1>
// CHECK: grid.poison : vector<3x8x128xf32>
%6 = grid.poison : vector<3x8x128xf32>
// CHECK: grid.position dim 0 step 8 : vector<4x2x8x128xi32>
%7 = grid.position dim 0 step 8 : vector<4x2x8x128xi32>
// CHECK: grid.take %a [7, -1, 0] : vector<4x2x8x128xf32> -> vector<3x8x128xf32>
%8 = grid.take %a [7, -1, 0] : vector<4x2x8x128xf32> -> vector<3x8x128xf32>
// CHECK: grid.reduce %a dim 1 kind "arith.addf" : vector<4x2x8x128xf32> -> vector<4x1x8x128xf32>
%9 = grid.reduce %a dim 1 kind "arith.addf" : vector<4x2x8x128xf32> -> vector<4x1x8x128xf32>
// CHECK: grid.matmul %p, %{{.*}}, %{{.*}} {contracting = 128 : i64, columns = 128 : i64, transpose_rhs = false} : vector<4x2x8x128x2xbf16>, vector<16x1x8x128x2xbf16>, vector<8x1x8x128xf32>
%10, %11 = "test.op"() : () -> (vector<16x1x8x128x2xbf16>, vector<8x1x8x128xf32>)
%12 = grid.matmul %p, %10, %11 {contracting = 128 : i64, columns = 128 : i64, transpose_rhs = false} : vector<4x2x8x128x2xbf16>, vector<16x1x8x128x2xbf16>, vector<8x1x8x128xf32>
// CHECK: grid.transpose_blocks %a : vector<4x2x8x128xf32> -> vector<32x1x8x128xf32>
%13 = grid.transpose_blocks %a : vector<4x2x8x128xf32> -> vector<32x1x8x128xf32>
// CHECK: grid.first_extremum %a dim 0 step 8 kind "arith.maximumf" : vector<4x2x8x128xf32> -> vector<1x2x8x128xf32>, vector<1x2x8x128xi32>
%14, %15 = grid.first_extremum %a dim 0 step 8 kind "arith.maximumf" : vector<4x2x8x128xf32> -> vector<1x2x8x128xf32>, vector<1x2x8x128xi32>
// CHECK: grid.first_extremum %a dim 1 step 128 kind "arith.minimumf" {numbers} : vector<4x2x8x128xf32> -> vector<4x1x8x128xf32>, vector<4x1x8x128xi32>
%16, %17 = grid.first_extremum %a dim 1 step 128 kind "arith.minimumf" {numbers} : vector<4x2x8x128xf32> -> vector<4x1x8x128xf32>, vector<4x1x8x128xi32>
