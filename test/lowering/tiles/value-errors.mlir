// RUN: tpu-opt %s -p vectors-to-tiles --split-input-file --verify-diagnostics | filecheck %s

!x = memref<8x128xf32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>
!i = memref<8x128xi32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>

// CHECK: error: a gather along [0, 1] of vector<8x128xf32> is not supported [gather-form]
// CHECK-NEXT: note: registers gather along lanes or sublanes
// CHECK-NEXT: note: gather along one of the last two dimensions, one at a time
func.func @gather_along_two_dimensions(%x: !x, %y: !i) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0, %c0] : !x, vector<8x128xf32>
  %i = vector.load %y[%c0, %c0] : !i, vector<8x128xi32>
  %r = tpu.dynamic_gather %v[%i] in [0, 1] : vector<8x128xf32>, vector<8x128xi32> -> vector<8x128xf32>
  tpu.vector_store %x[%c0, %c0], %r {strides = array<i32>} : !x, vector<8x128xf32>,
  func.return
}

// -----

!x = memref<16x128xbf16, #tpu.tiled<(16,128)(2,1),[1,1]>, #tpu.memory_space<vmem>>

// CHECK: error: a scalar of bf16 cannot be extracted from a vector [extract-width]
// CHECK-NEXT: note: scalar registers hold 32 bits
// CHECK-NEXT: note: convert the vector to a 32-bit type first
func.func @narrow_scalar(%x: !x) -> bf16 {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0, %c0] : !x, vector<16x128xbf16>
  %s = vector.extract %v[0, 0] : bf16 from vector<16x128xbf16>
  func.return %s : bf16
}

// -----

!x = memref<8x128xf32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>

// CHECK: error: an outer product (vector.outerproduct) cannot be lowered to registers [no-tile-rule]
func.func @no_rule(%x: !x, %y: memref<128xf32, #tpu.tiled<(128),[1]>, #tpu.memory_space<vmem>>) {
  %c0 = arith.constant 0 : index
  %v = vector.load %y[%c0] : memref<128xf32, #tpu.tiled<(128),[1]>, #tpu.memory_space<vmem>>, vector<128xf32>
  %r = vector.outerproduct %v, %v {kind = #vector.kind<mul>} : vector<128xf32>, vector<128xf32>
  func.return
}

// -----

!x = memref<8x128xi32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>

// CHECK: error: a cast (arith.trunci) to booleans has no register form [cast-to-mask]
// CHECK-NEXT: note: compare with zero instead
func.func @number_to_mask(%x: !x) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0, %c0] : !x, vector<8x128xi32>
  %m = arith.trunci %v : vector<8x128xi32> to vector<8x128xi1>
  func.return
}

// -----

// CHECK: error: a vector constant whose elements differ is not supported [register-constant]
// CHECK-NEXT: note: the TPU has no instruction that loads an arbitrary register constant
// CHECK-NEXT: note: pass the array to the kernel as an input, or compute it from iota
func.func @constant() {
  %v = arith.constant dense<[1.0, 2.0]> : vector<2xf32>
  func.return
}

// -----

// CHECK: error: random bits of i16 are not supported, only of i32 [random-width]
// CHECK-NEXT: note: the generator fills words
// CHECK-NEXT: note: draw 32-bit words and convert them
func.func @random_halves() {
  %v = "tpu.prng_random_bits"() : () -> vector<16x128xi16>
  func.return
}

// -----

!x = memref<8x128xf32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>

// CHECK: error: a reduction to a scalar must keep a unit dimension [scalar-reduction]
func.func @to_a_scalar(%x: !x) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %v = vector.load %x[%c0, %c0] : !x, vector<8x128xf32>
  %s = vector.multi_reduction <add>, %v, %zero [0, 1] : vector<8x128xf32> to f32
  func.return
}

// -----

!x = memref<8x128xi32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>
!b = memref<64x128xi4, #tpu.tiled<(64,128)(8,1),[1,1]>, #tpu.memory_space<vmem>>
!h = memref<64x128xi16, #tpu.tiled<(16,128)(2,1),[1,1]>, #tpu.memory_space<vmem>>

// CHECK: error: a mask of 16-bit data cannot govern 4-bit data [mask-width]
// CHECK-NEXT: note: mask registers hold one bit per element of one width
// CHECK-NEXT: note: compute the mask from data of the width it governs, or widen the data first
func.func @mask_of_halves(%x: !h, %y: !b) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0, %c0] : !h, vector<64x128xi16>
  %w = vector.load %y[%c0, %c0] : !b, vector<64x128xi4>
  %m = arith.cmpi eq, %v, %v : vector<64x128xi16>
  %r = arith.select %m, %w, %w : vector<64x128xi1>, vector<64x128xi4>
  tpu.vector_store %y[%c0, %c0], %r {strides = array<i32>} : !b, vector<64x128xi4>,
  func.return
}

// -----

!h = memref<16x128xbf16, #tpu.tiled<(16,128)(2,1),[1,1]>, #tpu.memory_space<vmem>>
!x = memref<16x128xi32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>

// CHECK: error: a power (math.fpowi) meets values of [16, 32] bits in one register [mixed-widths]
// CHECK-NEXT: note: wide elements do not fit packed registers
// CHECK-NEXT: note: convert the operands to one width first
func.func @powers(%x: !h, %y: !x) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0, %c0] : !h, vector<16x128xbf16>
  %n = vector.load %y[%c0, %c0] : !x, vector<16x128xi32>
  %r = math.fpowi %v, %n : vector<16x128xbf16>, vector<16x128xi32>
  func.return
}

// -----

!x = memref<8x128xi32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>

// CHECK: error: multiplication (arith.mulsi_extended) cannot be lowered to registers [no-tile-rule]
func.func @two_results(%x: !x) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0, %c0] : !x, vector<8x128xi32>
  %low, %high = arith.mulsi_extended %v, %v : vector<8x128xi32>
  func.return
}

// -----

!x = memref<8x128xf32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>

// CHECK: error: only products of two matrices contracting the left operand's columns can be lowered to registers [matmul-form]
// CHECK-NEXT: note: run canonicalize-mosaic first
func.func @left_transposed(%x: !x) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0, %c0] : !x, vector<8x128xf32>
  %acc = arith.constant dense<0.0> : vector<128x128xf32>
  %r = tpu.matmul %v, %v, %acc {dimension_numbers = #tpu.dot_dimension_numbers<[0], [0], [1], [1], [0, 1, 1, 1], [], []>, transpose_lhs_hint = false} : vector<8x128xf32>, vector<8x128xf32>, vector<128x128xf32> -> vector<128x128xf32>
  func.return
}

// -----

!x = memref<16x128xf32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>

// CHECK: error: a gather of positions [3, 0] of vector<16x128xf32> is not supported [static-gather]
// CHECK-NEXT: note: a shuffle moves rows of 32-bit elements inside one register
// CHECK-NEXT: note: slice the rows and concatenate them
func.func @rows_of_two_registers(%x: !x) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0, %c0] : !x, vector<16x128xf32>
  %r = tpu.gather %v[[3, 0]] in 0 : vector<16x128xf32> -> vector<2x128xf32>
  func.return
}

// -----

!x = memref<8x128xbf16, #tpu.tiled<(8,128)(2,1),[1,1]>, #tpu.memory_space<vmem>>

// CHECK: error: a gather of positions [3, 0] of vector<8x128xbf16> is not supported [static-gather]
func.func @rows_of_halves(%x: !x) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0, %c0] : !x, vector<8x128xbf16>
  %r = tpu.gather %v[[3, 0]] in 0 : vector<8x128xbf16> -> vector<2x128xbf16>
  func.return
}

// -----

!x = memref<8x128xf32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>

// CHECK: error: a gather of positions [3, 0] of vector<8x128xf32> is not supported [static-gather]
func.func @lanes(%x: !x) {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0, %c0] : !x, vector<8x128xf32>
  %r = tpu.gather %v[[3, 0]] in 1 : vector<8x128xf32> -> vector<8x2xf32>
  func.return
}
