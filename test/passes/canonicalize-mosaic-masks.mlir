// RUN: tpu-opt %s -p canonicalize-mosaic{target=v5e} | filecheck %s
// RUN: tpu-opt %s -p canonicalize-mosaic{target=v6e} | filecheck %s --check-prefix V6E

// What casts make of a mask is one of two constants, which the mask chooses.
// CHECK-LABEL: func.func @number_of_a_mask(
// CHECK:       [[M:%[0-9]+]] = arith.cmpf ogt, %a, %b : vector<16x128xf32>
// CHECK:       arith.constant dense<1.000000e+00> : vector<16x128xbf16>
// CHECK-NEXT:  arith.constant dense<0.000000e+00> : vector<16x128xbf16>
// CHECK-NEXT:  [[R:%[0-9]+]] = arith.select [[M]], {{.*}} : vector<16x128xi1>, vector<16x128xbf16>
// CHECK-NEXT:  func.return [[R]]
func.func @number_of_a_mask(%a: vector<16x128xf32>, %b: vector<16x128xf32>) -> vector<16x128xbf16> {
  %0 = arith.cmpf ogt, %a, %b : vector<16x128xf32>
  %1 = arith.extui %0 : vector<16x128xi1> to vector<16x128xi32>
  %2 = arith.sitofp %1 : vector<16x128xi32> to vector<16x128xf32>
  %3 = arith.truncf %2 : vector<16x128xf32> to vector<16x128xbf16>
  func.return %3 : vector<16x128xbf16>
}

// Bytes are compared as they are where their mask becomes bytes: unsigned ones with zero, found equal.
// CHECK-LABEL: func.func @bytes_of_bytes(
// CHECK:       [[M:%[0-9]+]] = arith.cmpi ne, %a, {{.*}} : vector<32x128xi8>
// CHECK:       [[R:%[0-9]+]] = arith.select [[M]], {{.*}} : vector<32x128xi1>, vector<32x128xi8>
// CHECK-NEXT:  func.return [[R]]
func.func @bytes_of_bytes(%a: vector<32x128xi8>) -> vector<32x128xi8> {
  %zero = arith.constant dense<0> : vector<32x128xi8>
  %0 = arith.cmpi ugt, %a, %zero : vector<32x128xi8>
  %1 = arith.extui %0 : vector<32x128xi1> to vector<32x128xi32>
  %2 = arith.trunci %1 : vector<32x128xi32> to vector<32x128xi8>
  func.return %2 : vector<32x128xi8>
}

// Words by a narrow mask are chosen as narrow, and widened.
// V6E-LABEL:   func.func @words_by_half_words(
// V6E:         [[M:%[0-9]+]] = arith.cmpf ogt, %a, %b : vector<16x128xbf16>
// V6E:         [[S:%[0-9]+]] = arith.select [[M]], {{.*}} : vector<16x128xi1>, vector<16x128xbf16>
// V6E-NEXT:    tpu.extf [[S]] : vector<16x128xbf16> -> vector<16x128xf32>
func.func @words_by_half_words(%a: vector<16x128xbf16>, %b: vector<16x128xbf16>) -> vector<16x128xf32> {
  %one = arith.constant dense<1.0> : vector<16x128xf32>
  %two = arith.constant dense<-2.0> : vector<16x128xf32>
  %0 = arith.cmpf ogt, %a, %b : vector<16x128xbf16>
  %1 = arith.select %0, %one, %two : vector<16x128xi1>, vector<16x128xf32>
  func.return %1 : vector<16x128xf32>
}

// Integers that a mask chooses are not clamped.
// CHECK-LABEL: func.func @chosen_and_truncated(
// CHECK:       [[S:%[0-9]+]] = arith.select {{.*}} : vector<32x128xi1>, vector<32x128xi32>
// CHECK-NEXT:  arith.trunci [[S]] : vector<32x128xi32> to vector<32x128xi8>
func.func @chosen_and_truncated(%a: vector<32x128xf32>, %b: vector<32x128xf32>) -> vector<32x128xi8> {
  %one = arith.constant dense<1.0> : vector<32x128xf32>
  %two = arith.constant dense<-2.0> : vector<32x128xf32>
  %0 = arith.cmpf ogt, %a, %b : vector<32x128xf32>
  %1 = arith.select %0, %one, %two : vector<32x128xi1>, vector<32x128xf32>
  %2 = arith.fptosi %1 : vector<32x128xf32> to vector<32x128xi8>
  func.return %2 : vector<32x128xi8>
}

// A number that the result does not hold is converted.
// CHECK-LABEL: func.func @rounded(
// CHECK:       tpu.fptosi
func.func @rounded(%a: vector<32x128xf32>, %b: vector<32x128xf32>) -> vector<32x128xi8> {
  %half = arith.constant dense<1.5> : vector<32x128xf32>
  %many = arith.constant dense<200.0> : vector<32x128xf32>
  %0 = arith.cmpf ogt, %a, %b : vector<32x128xf32>
  %1 = arith.select %0, %half, %many : vector<32x128xi1>, vector<32x128xf32>
  %2 = arith.fptosi %1 : vector<32x128xf32> to vector<32x128xi8>
  func.return %2 : vector<32x128xi8>
}

// With another mask, a comparison of two chooses between them packed: no extremum is made of it.
// CHECK-LABEL: func.func @one_of_two_comparisons(
// CHECK-NEXT:  arith.cmpi sgt, %a, %b : vector<16x128xi16>
// CHECK-NEXT:  arith.cmpi eq, %a, %c : vector<16x128xi16>
// CHECK-NEXT:  arith.ori
// CHECK-NEXT:  arith.select {{.*}}, %a, %b : vector<16x128xi1>, vector<16x128xi16>
func.func @one_of_two_comparisons(%a: vector<16x128xi16>, %b: vector<16x128xi16>, %c: vector<16x128xi16>) -> vector<16x128xi16> {
  %0 = arith.cmpi sgt, %a, %b : vector<16x128xi16>
  %1 = arith.cmpi eq, %a, %c : vector<16x128xi16>
  %2 = arith.ori %0, %1 : vector<16x128xi1>
  %3 = arith.select %2, %a, %b : vector<16x128xi1>, vector<16x128xi16>
  func.return %3 : vector<16x128xi16>
}

// Masks of half words are packed for bytes.
// V6E-LABEL:   func.func @half_words_govern_bytes(
// V6E:         [[M:%[0-9]+]] = arith.cmpf ogt, %a, %b : vector<32x128xbf16>
// V6E-NEXT:    arith.select [[M]], %c, %d : vector<32x128xi1>, vector<32x128xi8>
func.func @half_words_govern_bytes(%a: vector<32x128xbf16>, %b: vector<32x128xbf16>, %c: vector<32x128xi8>, %d: vector<32x128xi8>) -> vector<32x128xi8> {
  %0 = arith.cmpf ogt, %a, %b : vector<32x128xbf16>
  %1 = arith.select %0, %c, %d : vector<32x128xi1>, vector<32x128xi8>
  func.return %1 : vector<32x128xi8>
}
