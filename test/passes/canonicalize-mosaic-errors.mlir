// RUN: tpu-opt %s -p canonicalize-mosaic{target=v5e} --split-input-file --verify-diagnostics | filecheck %s

// CHECK:      :[[#]]:3: error: addition of i8 vectors is not supported [narrow-integer-add]
// CHECK-NEXT: note: the vector unit adds 32-bit (and, on some generations, 16-bit) integers
func.func @narrow_addition(%a: vector<32x128xi8>, %b: vector<32x128xi8>) -> vector<32x128xi8> {
  %0 = arith.addi %a, %b : vector<32x128xi8>
  func.return %0 : vector<32x128xi8>
}

// -----

// CHECK: error: a reduction of i16 is not supported [reduction-type]
func.func @narrow_reduction(%a: vector<16x128xi16>, %b: vector<16xi16>) -> vector<16xi16> {
  %0 = vector.multi_reduction <add>, %a, %b [1] : vector<16x128xi16> to vector<16xi16>
  func.return %0 : vector<16xi16>
}

// -----

// CHECK: error: float16 arithmetic is not supported [float16]
func.func @float16(%a: vector<16x128xf16>) -> vector<16x128xf16> {
  %0 = arith.mulf %a, %a : vector<16x128xf16>
  func.return %0 : vector<16x128xf16>
}

// -----

// CHECK: error: a product of i16 and i16 is not exact on v5e [matmul-types]
func.func @product_type(%a: vector<16x128xi16>, %b: vector<128x128xi16>, %c: vector<16x128xi32>) -> vector<16x128xi32> {
  %0 = tpu.matmul %a, %b, %c {dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>, transpose_lhs_hint = false} : vector<16x128xi16>, vector<128x128xi16>, vector<16x128xi32> -> vector<16x128xi32>
  func.return %0 : vector<16x128xi32>
}

// -----

// CHECK: error: only contractions of two matrices are supported [contract-form]
func.func @contraction_of_rows(%a: vector<16x128xf32>, %b: vector<128xf32>, %c: vector<16xf32>) -> vector<16xf32> {
  %0 = vector.contract {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"], kind = #vector.kind<add>} %a, %b, %c : vector<16x128xf32>, vector<128xf32> into vector<16xf32>
  func.return %0 : vector<16xf32>
}

// -----

// CHECK: error: vector.contract of kind maximumf is not supported [contract-kind]
func.func @maxima_of_products(%a: vector<16x128xf32>, %b: vector<128x128xf32>, %c: vector<16x128xf32>) -> vector<16x128xf32> {
  %0 = vector.contract {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<maximumf>} %a, %b, %c : vector<16x128xf32>, vector<128x128xf32> into vector<16x128xf32>
  func.return %0 : vector<16x128xf32>
}
