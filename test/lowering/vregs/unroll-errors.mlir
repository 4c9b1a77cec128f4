// RUN: tpu-opt %s -p tiles-to-vregs --split-input-file --verify-diagnostics | filecheck %s

!x = memref<16x128xf32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>

// A logical vector was left behind.
// CHECK: error: a load (vector.load) has no meaning on single registers [no-unroll-rule]
func.func @logical_load(%x: !x) -> vector<16x128xf32> {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0, %c0] : !x, vector<16x128xf32>
  func.return %v : vector<16x128xf32>
}

// -----

// Sums over registers are grid.reduce, and rotations along the grid have no name.
// CHECK: error: 'tpu.all_reduce': expected a dimension of the registers of vector<4x1x8x128xf32>, 2 or 3, got 1 [grid-dimension]
func.func @reduced_grid(%v: vector<4x1x8x128xf32>) -> vector<4x1x8x128xf32> {
  %r = tpu.all_reduce %v {dim = 1 : i64, kind = #tpu.reduction_kind<sum>} : vector<4x1x8x128xf32> -> vector<4x1x8x128xf32>
  func.return %r : vector<4x1x8x128xf32>
}

// -----

// CHECK: error: 'tpu.dynamic_rotate': expected a dimension of the registers of vector<4x1x8x128xf32>, 2 or 3, got 0 [grid-dimension]
func.func @rotated_grid(%v: vector<4x1x8x128xf32>, %n: i32) -> vector<4x1x8x128xf32> {
  %r = tpu.dynamic_rotate %v by %n dim 0 : vector<4x1x8x128xf32>, i32 -> vector<4x1x8x128xf32>
  func.return %r : vector<4x1x8x128xf32>
}

// -----

// CHECK: error: 'tpu.unpack_subelements': expected grids of one shape, got vector<2x1x8x128x2xbf16>, vector<1x1x8x128xf32> [register-count]
func.func @other_grid(%v: vector<2x1x8x128x2xbf16>) -> vector<1x1x8x128xf32> {
  %r = tpu.unpack_subelements %v, 0 {pack_format = #tpu.pack_format<compressed>} : vector<2x1x8x128x2xbf16> -> vector<1x1x8x128xf32>
  func.return %r : vector<1x1x8x128xf32>
}

// -----

// CHECK: error: expected registers of 8 x 128 x 2 elements, got vector<2x1x8x3x2xbf16> [not-registers]
func.func @packed_parts(%v: vector<2x1x8x128xf32>) -> vector<2x1x8x3x2xbf16> {
  %r = tpu.pack_subelements %v, %v {pack_format = #tpu.pack_format<compressed>, positions = array<i32: 0, 1>} : vector<2x1x8x128xf32>, vector<2x1x8x128xf32> -> vector<2x1x8x3x2xbf16>
  func.return %r : vector<2x1x8x3x2xbf16>
}

// -----

// CHECK: error: expected a grid of registers, got vector<16x128x2xbf16> [not-registers]
func.func @no_registers(%v: vector<16x128x2xbf16>) -> vector<8x128xf32> {
  %r = tpu.unpack_subelements %v, 0 {pack_format = #tpu.pack_format<compressed>} : vector<16x128x2xbf16> -> vector<8x128xf32>
  func.return %r : vector<8x128xf32>
}
