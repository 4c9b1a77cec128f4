// RUN: tpu-opt %s -p canonicalize-mosaic{target=v5e} | filecheck %s
// RUN: tpu-opt %s -p canonicalize-mosaic{target=v6e} | filecheck %s --check-prefix V6E

// v5e adds f32 only; the result is rounded once.
// CHECK-LABEL: func.func @bf16_arithmetic(
// CHECK:       [[X:%[0-9]+]] = tpu.extf %a
// CHECK-NEXT:  [[Y:%[0-9]+]] = tpu.extf %b
// CHECK-NEXT:  [[S:%[0-9]+]] = arith.addf [[X]], [[Y]] : vector<16x128xf32>
// CHECK-NEXT:  tpu.truncf [[S]] {rounding_mode = #tpu.rounding_mode<to_nearest_even>}
// V6E-LABEL:   func.func @bf16_arithmetic(
// V6E-NEXT:    arith.addf %a, %b : vector<16x128xbf16>
func.func @bf16_arithmetic(%a: vector<16x128xbf16>, %b: vector<16x128xbf16>) -> vector<16x128xbf16> {
  %0 = arith.addf %a, %b : vector<16x128xbf16>
  func.return %0 : vector<16x128xbf16>
}

// What the TPU compiler spells out itself stays packed, on every chip.
// CHECK-LABEL: func.func @bf16_functions(
// CHECK-NEXT:  math.sin %a : vector<16x128xbf16>
// CHECK-NEXT:  math.ceil {{.*}} : vector<16x128xbf16>
// CHECK-NEXT:  math.roundeven {{.*}} : vector<16x128xbf16>
// CHECK-NEXT:  math.log1p {{.*}} : vector<16x128xbf16>
func.func @bf16_functions(%a: vector<16x128xbf16>) -> vector<16x128xbf16> {
  %0 = math.sin %a : vector<16x128xbf16>
  %1 = math.ceil %0 : vector<16x128xbf16>
  %2 = math.roundeven %1 : vector<16x128xbf16>
  %3 = math.log1p %2 : vector<16x128xbf16>
  func.return %3 : vector<16x128xbf16>
}

// Integers are extended from the narrowest type on, in one step.
// CHECK-LABEL: func.func @extensions(
// CHECK-NEXT:  arith.extsi %a : vector<64x128xi4> to vector<64x128xi8>
// CHECK-NEXT:  arith.extui %a : vector<64x128xi4> to vector<64x128xi16>
// CHECK-NEXT:  arith.extsi %a : vector<64x128xi4> to vector<64x128xi32>
// CHECK-NEXT:  arith.extui %a : vector<64x128xi4> to vector<64x128xi32>
// CHECK-NEXT:  arith.extui {{.*}} : vector<64x128xi8> to vector<64x128xi32>
// CHECK-NEXT:  func.return
func.func @extensions(%a: vector<64x128xi4>) -> (vector<64x128xi8>, vector<64x128xi32>, vector<64x128xi32>, vector<64x128xi32>) {
  %0 = arith.extsi %a : vector<64x128xi4> to vector<64x128xi8>
  %1 = arith.extui %a : vector<64x128xi4> to vector<64x128xi16>
  %2 = arith.extsi %0 : vector<64x128xi8> to vector<64x128xi32>
  %3 = arith.extsi %1 : vector<64x128xi16> to vector<64x128xi32>
  %4 = arith.extui %0 : vector<64x128xi8> to vector<64x128xi32>
  func.return %0, %2, %3, %4 : vector<64x128xi8>, vector<64x128xi32>, vector<64x128xi32>, vector<64x128xi32>
}

// The matrix unit transposes itself what would be transposed for it alone.
// CHECK-LABEL: func.func @transposed_for_a_product(
// CHECK:       tpu.matmul %a, %b, {{.*}}<[1], [1], [0], [0], [0, 0, 1, 0], [], []>{{.*}} : vector<16x128xf32>, vector<64x128xf32>
func.func @transposed_for_a_product(%a: vector<16x128xf32>, %b: vector<64x128xf32>, %c: vector<16x64xf32>) -> vector<16x64xf32> {
  %0 = vector.transpose %b, [1, 0] : vector<64x128xf32> to vector<128x64xf32>
  %1 = tpu.matmul %a, %0, %c {dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>, transpose_lhs_hint = false} : vector<16x128xf32>, vector<128x64xf32>, vector<16x64xf32> -> vector<16x64xf32>
  func.return %1 : vector<16x64xf32>
}

// Where the contracted columns would be filled up with zeros in many registers, it does not.
// CHECK-LABEL: func.func @transposed_with_zeros(
// CHECK:       vector.transpose %b, [1, 0]
func.func @transposed_with_zeros(%a: vector<16x64xf32>, %b: vector<64x64xf32>, %c: vector<16x64xf32>) -> vector<16x64xf32> {
  %0 = vector.transpose %b, [1, 0] : vector<64x64xf32> to vector<64x64xf32>
  %1 = tpu.matmul %a, %0, %c {dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>, transpose_lhs_hint = false} : vector<16x64xf32>, vector<64x64xf32>, vector<16x64xf32> -> vector<16x64xf32>
  func.return %1 : vector<16x64xf32>
}

// Bytes are compared with zero by their signs, which registers find equal as they are.
// CHECK-LABEL: func.func @bytes_by_sign(
// CHECK:       arith.constant dense<-128> : vector<32x128xi8>
// CHECK-NEXT:  [[S:%[0-9]+]] = arith.andi %a, {{.*}}
// CHECK-NEXT:  [[L:%[0-9]+]] = arith.cmpi eq, [[S]], {{.*}} : vector<32x128xi8>
// CHECK-NEXT:  [[N:%[0-9]+]] = arith.cmpi ne, %a, {{.*}} : vector<32x128xi8>
// CHECK-NEXT:  [[M:%[0-9]+]] = arith.andi [[L]], [[N]]
// CHECK-NEXT:  arith.select [[M]], %a, %b
func.func @bytes_by_sign(%a: vector<32x128xi8>, %b: vector<32x128xi8>) -> vector<32x128xi8> {
  %z = arith.constant dense<0> : vector<32x128xi8>
  %0 = arith.cmpi sgt, %a, %z : vector<32x128xi8>
  %1 = arith.select %0, %a, %b : vector<32x128xi1>, vector<32x128xi8>
  func.return %1 : vector<32x128xi8>
}

// CHECK-LABEL: func.func @narrow_integers(
// CHECK:       arith.extsi %a
// CHECK-NEXT:  arith.extsi %b
// CHECK-NEXT:  arith.muli {{.*}} : vector<32x128xi32>
// CHECK-NEXT:  arith.trunci
func.func @narrow_integers(%a: vector<32x128xi8>, %b: vector<32x128xi8>) -> vector<32x128xi8> {
  %0 = arith.muli %a, %b : vector<32x128xi8>
  func.return %0 : vector<32x128xi8>
}

// Masks of half words are made of half words where these are chosen, else of words.
// CHECK-LABEL: func.func @compared_half_words(
// CHECK-NEXT:  arith.cmpi sgt, %a, %b : vector<16x128xi16>
// CHECK-NEXT:  arith.cmpi slt, %a, %b : vector<16x128xi16>
// CHECK-NEXT:  arith.ori
// CHECK-NEXT:  arith.select {{.*}}, %b, %c : vector<16x128xi1>, vector<16x128xi16>
func.func @compared_half_words(%a: vector<16x128xi16>, %b: vector<16x128xi16>, %c: vector<16x128xi16>) -> vector<16x128xi16> {
  %0 = arith.cmpi sgt, %a, %b : vector<16x128xi16>
  %1 = arith.cmpi slt, %a, %b : vector<16x128xi16>
  %2 = arith.ori %0, %1 : vector<16x128xi1>
  %3 = arith.select %2, %b, %c : vector<16x128xi1>, vector<16x128xi16>
  func.return %3 : vector<16x128xi16>
}

// CHECK-LABEL: func.func @half_words_govern_words(
// CHECK:       arith.cmpi sgt, {{.*}} : vector<16x128xi32>
// V6E-LABEL:   func.func @half_words_govern_words(
// V6E:         arith.cmpi sgt, {{.*}} : vector<16x128xi32>
func.func @half_words_govern_words(%a: vector<16x128xi16>, %b: vector<16x128xi16>, %c: vector<16x128xf32>, %d: vector<16x128xf32>) -> vector<16x128xf32> {
  %0 = arith.cmpi sgt, %a, %b : vector<16x128xi16>
  %1 = arith.select %0, %c, %d : vector<16x128xi1>, vector<16x128xf32>
  func.return %1 : vector<16x128xf32>
}

// The compiler makes a maximum of that, which half words do not have.
// CHECK-LABEL: func.func @larger_half_words(
// CHECK:       arith.cmpi sgt, {{.*}} : vector<16x128xi32>
func.func @larger_half_words(%a: vector<16x128xi16>, %b: vector<16x128xi16>) -> vector<16x128xi16> {
  %0 = arith.cmpi sgt, %a, %b : vector<16x128xi16>
  %1 = arith.select %0, %a, %b : vector<16x128xi1>, vector<16x128xi16>
  func.return %1 : vector<16x128xi16>
}

// Bytes are equal as they are, and larger as words.
// CHECK-LABEL: func.func @compared_bytes(
// CHECK-NEXT:  arith.cmpi ne, %a, %b : vector<32x128xi8>
// CHECK-NEXT:  arith.select {{.*}}, %b, %c : vector<32x128xi1>, vector<32x128xi8>
// CHECK:       arith.cmpi slt, {{.*}} : vector<32x128xi32>
func.func @compared_bytes(%a: vector<32x128xi8>, %b: vector<32x128xi8>, %c: vector<32x128xi8>) -> vector<32x128xi8> {
  %0 = arith.cmpi ne, %a, %b : vector<32x128xi8>
  %1 = arith.select %0, %b, %c : vector<32x128xi1>, vector<32x128xi8>
  %2 = arith.cmpi slt, %a, %b : vector<32x128xi8>
  %3 = arith.select %2, %1, %c : vector<32x128xi1>, vector<32x128xi8>
  func.return %3 : vector<32x128xi8>
}

// Only the low bits of sums and products count where these are narrow.
// CHECK-LABEL: func.func @sum_of_products(
// CHECK:       %[[PRODUCT:.*]] = arith.muli {{.*}} : vector<16x128xi32>
// CHECK:       %[[C:.*]] = arith.extsi %c
// CHECK-NEXT:  arith.addi %[[PRODUCT]], %[[C]] : vector<16x128xi32>
// CHECK-NEXT:  arith.trunci
// CHECK-NEXT:  arith.extsi
// CHECK:       arith.shrsi
func.func @sum_of_products(%a: vector<16x128xi16>, %b: vector<16x128xi16>, %c: vector<16x128xi16>) -> vector<16x128xi16> {
  %0 = arith.muli %a, %b : vector<16x128xi16>
  %1 = arith.addi %0, %c : vector<16x128xi16>
  %2 = arith.shrsi %1, %c : vector<16x128xi16>
  func.return %2 : vector<16x128xi16>
}

// v6e multiplies 16-bit integers as they are.
// CHECK-LABEL: func.func @half_words(
// CHECK:       arith.muli {{.*}} : vector<16x128xi32>
// V6E-LABEL:   func.func @half_words(
// V6E-NEXT:    arith.muli %a, %b : vector<16x128xi16>
func.func @half_words(%a: vector<16x128xi16>, %b: vector<16x128xi16>) -> vector<16x128xi16> {
  %0 = arith.muli %a, %b : vector<16x128xi16>
  func.return %0 : vector<16x128xi16>
}

// Half words, bytes and nibbles are shifted by one number as they are; what is there in words, before
// it is packed.
// CHECK-LABEL: func.func @shifts_by_one_number(
// CHECK:       arith.shli %a, {{.*}} : vector<32x128xi8>
// CHECK-NEXT:  [[RIGHT:%[0-9]+]] = arith.shrsi {{.*}} : vector<32x128xi8>
// CHECK-NEXT:  arith.extsi [[RIGHT]] : vector<32x128xi8> to vector<32x128xi32>
// CHECK:       [[PRODUCT:%[0-9]+]] = arith.muli {{.*}} : vector<32x128xi32>
// CHECK:       arith.shli [[PRODUCT]], {{.*}} : vector<32x128xi32>
func.func @shifts_by_one_number(%a: vector<32x128xi8>) -> vector<32x128xi8> {
  %by = arith.constant dense<4> : vector<32x128xi8>
  %0 = arith.shli %a, %by : vector<32x128xi8>
  %1 = arith.shrsi %0, %by : vector<32x128xi8>
  %2 = arith.muli %1, %1 : vector<32x128xi8>
  %3 = arith.shli %2, %by : vector<32x128xi8>
  func.return %3 : vector<32x128xi8>
}

// So they are multiplied by a power of two, unless they become words for something else, too.
// CHECK-LABEL: func.func @twice(
// CHECK:       arith.shli %a, {{.*}} : vector<16x128xi16>
// CHECK:       arith.addi {{.*}} : vector<16x128xi32>
// CHECK:       arith.shli {{.*}} : vector<16x128xi32>
// CHECK:       arith.addi {{.*}} : vector<16x128xi32>
// V6E-LABEL:   func.func @twice(
// V6E:         arith.muli %a, {{.*}} : vector<16x128xi16>
func.func @twice(%a: vector<16x128xi16>, %b: vector<16x128xi16>) -> vector<16x128xi16> {
  %two = arith.constant dense<2> : vector<16x128xi16>
  %0 = arith.muli %a, %two : vector<16x128xi16>
  %1 = arith.addi %0, %b : vector<16x128xi16>
  %2 = arith.muli %b, %two : vector<16x128xi16>
  %3 = arith.addi %2, %b : vector<16x128xi16>
  %4 = arith.xori %1, %3 : vector<16x128xi16>
  func.return %4 : vector<16x128xi16>
}

// Unsigned operations extend with zeros.
// CHECK-LABEL: func.func @unsigned_shift(
// CHECK:       arith.extui %a
// CHECK-NEXT:  arith.extui %b
// CHECK-NEXT:  arith.shrui {{.*}} : vector<32x128xi32>
func.func @unsigned_shift(%a: vector<32x128xi8>, %b: vector<32x128xi8>) -> vector<32x128xi8> {
  %0 = arith.shrui %a, %b : vector<32x128xi8>
  func.return %0 : vector<32x128xi8>
}

// CHECK-LABEL: func.func @bytes_to_half_words(
// CHECK:       arith.extsi %a : vector<32x128xi8> to vector<32x128xi16>
// CHECK-NEXT:  func.return
func.func @bytes_to_half_words(%a: vector<32x128xi8>) -> vector<32x128xi16> {
  %0 = arith.extsi %a : vector<32x128xi8> to vector<32x128xi16>
  func.return %0 : vector<32x128xi16>
}

// Bytes are ordered as half words where the mask is one of half words, else as words.
// CHECK-LABEL: func.func @ordered_bytes_for_half_words(
// CHECK:       arith.constant dense<10> : vector<32x128xi16>
// CHECK:       arith.cmpi sgt, {{.*}} : vector<32x128xi16>
// CHECK-NEXT:  arith.select
// CHECK-NEXT:  func.return
func.func @ordered_bytes_for_half_words(%a: vector<32x128xi8>, %x: vector<32x128xbf16>, %y: vector<32x128xbf16>) -> vector<32x128xbf16> {
  %ten = arith.constant dense<10> : vector<32x128xi8>
  %m = arith.cmpi sgt, %a, %ten : vector<32x128xi8>
  %0 = arith.select %m, %x, %y : vector<32x128xi1>, vector<32x128xbf16>
  func.return %0 : vector<32x128xbf16>
}

// CHECK-LABEL: func.func @unsigned_bytes_for_half_words(
// CHECK:       arith.extui %a : vector<32x128xi8> to vector<32x128xi16>
// CHECK-NEXT:  arith.extui %b : vector<32x128xi8> to vector<32x128xi16>
// CHECK-NEXT:  arith.cmpi ult, {{.*}} : vector<32x128xi16>
func.func @unsigned_bytes_for_half_words(%a: vector<32x128xi8>, %b: vector<32x128xi8>, %x: vector<32x128xi16>, %y: vector<32x128xi16>) -> vector<32x128xi16> {
  %m = arith.cmpi ult, %a, %b : vector<32x128xi8>
  %0 = arith.select %m, %x, %y : vector<32x128xi1>, vector<32x128xi16>
  func.return %0 : vector<32x128xi16>
}

// CHECK-LABEL: func.func @ordered_bytes_for_words(
// CHECK:       arith.cmpi sgt, {{.*}} : vector<32x128xi32>
func.func @ordered_bytes_for_words(%a: vector<32x128xi8>, %b: vector<32x128xi8>, %x: vector<32x128xf32>, %y: vector<32x128xf32>) -> vector<32x128xf32> {
  %m = arith.cmpi sgt, %a, %b : vector<32x128xi8>
  %0 = arith.select %m, %x, %y : vector<32x128xi1>, vector<32x128xf32>
  func.return %0 : vector<32x128xf32>
}

// JAX saturates.
// CHECK-LABEL: func.func @float_to_narrow_integer(
// CHECK:       dense<-1.280000e+02>
// CHECK-NEXT:  arith.maximumf
// CHECK:       dense<1.270000e+02>
// CHECK-NEXT:  arith.minimumf
// CHECK-NEXT:  tpu.fptosi {{.*}} : vector<8x128xf32> -> vector<8x128xi32>
// CHECK-NEXT:  arith.trunci
func.func @float_to_narrow_integer(%a: vector<8x128xf32>) -> vector<8x128xi8> {
  %0 = arith.fptosi %a : vector<8x128xf32> to vector<8x128xi8>
  func.return %0 : vector<8x128xi8>
}

// What is clipped already, to that range or a smaller one, stays as it is.
// CHECK-LABEL: func.func @clipped_float_to_narrow_integer(
// CHECK:       arith.minimumf
// CHECK-NEXT:  math.roundeven
// CHECK-NEXT:  tpu.fptosi
func.func @clipped_float_to_narrow_integer(%a: vector<8x128xf32>) -> vector<8x128xi8> {
  %low = arith.constant dense<-126.6> : vector<8x128xf32>
  %high = arith.constant dense<127.0> : vector<8x128xf32>
  %least = arith.maximumf %a, %low : vector<8x128xf32>
  %most = arith.minimumf %least, %high : vector<8x128xf32>
  %whole = math.roundeven %most : vector<8x128xf32>
  %0 = arith.fptosi %whole : vector<8x128xf32> to vector<8x128xi8>
  func.return %0 : vector<8x128xi8>
}

// CHECK-LABEL: func.func @float_clipped_too_far_up(
// CHECK:       math.ceil
// CHECK-NEXT:  arith.constant dense<1.270000e+02>
// CHECK-NEXT:  arith.minimumf
// CHECK-NEXT:  tpu.fptosi
func.func @float_clipped_too_far_up(%a: vector<8x128xf32>) -> vector<8x128xi8> {
  %low = arith.constant dense<-1.0> : vector<8x128xf32>
  %high = arith.constant dense<127.5> : vector<8x128xf32>
  %least = arith.maximumf %low, %a : vector<8x128xf32>
  %most = arith.minimumf %high, %least : vector<8x128xf32>
  %whole = math.ceil %most : vector<8x128xf32>
  %0 = arith.fptosi %whole : vector<8x128xf32> to vector<8x128xi8>
  func.return %0 : vector<8x128xi8>
}

// CHECK-LABEL: func.func @float8(
// CHECK:       tpu.extf %a : vector<8x128xf8E5M2> -> vector<8x128xf32>
// CHECK-NEXT:  tpu.truncf {{.*}} -> vector<8x128xbf16>
func.func @float8(%a: vector<8x128xf8E5M2>) -> vector<8x128xbf16> {
  %0 = arith.extf %a : vector<8x128xf8E5M2> to vector<8x128xbf16>
  func.return %0 : vector<8x128xbf16>
}

// CHECK-LABEL: func.func @constant_scalar(
// CHECK:       arith.constant dense<2.000000e+00> : vector<8x128xf32>
// CHECK-NEXT:  func.return
func.func @constant_scalar() -> vector<8x128xf32> {
  %two = arith.constant 2.0 : f32
  %0 = vector.broadcast %two : f32 to vector<8x128xf32>
  func.return %0 : vector<8x128xf32>
}

// CHECK-LABEL: func.func @narrow_scalar(
// CHECK-NEXT:  arith.bitcast %a : bf16 to i16
// CHECK-NEXT:  arith.extsi {{.*}} : i16 to i32
// CHECK-NEXT:  vector.broadcast {{.*}} : i32 to vector<16x128xi32>
// CHECK-NEXT:  arith.trunci
// CHECK-NEXT:  arith.bitcast {{.*}} : vector<16x128xi16> to vector<16x128xbf16>
func.func @narrow_scalar(%a: bf16) -> vector<16x128xbf16> {
  %0 = vector.broadcast %a : bf16 to vector<16x128xbf16>
  func.return %0 : vector<16x128xbf16>
}

// CHECK-LABEL: func.func @scalar_condition(
// CHECK:       arith.extui %c : i1 to i32
// CHECK-NEXT:  vector.broadcast
// CHECK:       arith.cmpi ne
// CHECK-NEXT:  arith.select {{.*}}, %a, %b : vector<8x128xi1>, vector<8x128xf32>
func.func @scalar_condition(%c: i1, %a: vector<8x128xf32>, %b: vector<8x128xf32>) -> vector<8x128xf32> {
  %0 = arith.select %c, %a, %b : vector<8x128xf32>
  func.return %0 : vector<8x128xf32>
}

// CHECK-LABEL: func.func @select_of_masks(
// CHECK:       arith.andi %c, %a
// CHECK:       arith.xori %c
// CHECK-NEXT:  arith.andi {{.*}}, %b
// CHECK-NEXT:  arith.ori
func.func @select_of_masks(%c: vector<8x128xi1>, %a: vector<8x128xi1>, %b: vector<8x128xi1>) -> vector<8x128xi1> {
  %0 = arith.select %c, %a, %b : vector<8x128xi1>, vector<8x128xi1>
  func.return %0 : vector<8x128xi1>
}

// CHECK-LABEL: func.func @bf16_reduction(
// CHECK:       tpu.extf %a
// CHECK-NEXT:  tpu.extf %b
// CHECK-NEXT:  vector.multi_reduction <add>, {{.*}} : vector<16x128xf32> to vector<16xf32>
// CHECK-NEXT:  tpu.truncf
func.func @bf16_reduction(%a: vector<16x128xbf16>, %b: vector<16xbf16>) -> vector<16xbf16> {
  %0 = vector.multi_reduction <add>, %a, %b [1] : vector<16x128xbf16> to vector<16xbf16>
  func.return %0 : vector<16xbf16>
}

// CHECK-LABEL: func.func @doubled(
// CHECK:       %[[SUM:.*]] = arith.addf %a, %a : vector<16x128xf32>
// CHECK-NEXT:  func.return %[[SUM]]
func.func @doubled(%a: vector<16x128xf32>) -> vector<16x128xf32> {
  %two = arith.constant 2.0 : f32
  %0 = vector.broadcast %two : f32 to vector<16x128xf32>
  %1 = arith.mulf %0, %a : vector<16x128xf32>
  func.return %1 : vector<16x128xf32>
}

// CHECK-LABEL: func.func @accumulator_folds_in(
// CHECK:       tpu.matmul %a, %b, %c
// CHECK-NEXT:  func.return
func.func @accumulator_folds_in(%a: vector<16x128xf32>, %b: vector<128x128xf32>, %c: vector<16x128xf32>) -> vector<16x128xf32> {
  %zero = arith.constant dense<0.0> : vector<16x128xf32>
  %0 = tpu.matmul %a, %b, %zero {dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>, transpose_lhs_hint = false} : vector<16x128xf32>, vector<128x128xf32>, vector<16x128xf32> -> vector<16x128xf32>
  %1 = arith.addf %0, %c : vector<16x128xf32>
  func.return %1 : vector<16x128xf32>
}

// CHECK-LABEL: func.func @transposed_lhs(
// CHECK:       tpu.transpose %a, [1, 0]
// CHECK:       tpu.matmul {{.*}}<[1], [0], [0], [1]
func.func @transposed_lhs(%a: vector<128x16xf32>, %b: vector<128x128xf32>, %c: vector<16x128xf32>) -> vector<16x128xf32> {
  %0 = tpu.matmul %a, %b, %c {dimension_numbers = #tpu.dot_dimension_numbers<[0], [0], [1], [1], [0, 1, 1, 1], [], []>, transpose_lhs_hint = false} : vector<128x16xf32>, vector<128x128xf32>, vector<16x128xf32> -> vector<16x128xf32>
  func.return %0 : vector<16x128xf32>
}

// A batch is a list of products.
// CHECK-LABEL: func.func @batch(
// CHECK:       tpu.matmul {{.*}} -> vector<16x128xf32>
// CHECK:       tpu.matmul {{.*}} -> vector<16x128xf32>
// CHECK:       tpu.concatenate {{.*}} in 0
func.func @batch(%a: vector<2x16x128xf32>, %b: vector<2x128x128xf32>, %c: vector<2x16x128xf32>) -> vector<2x16x128xf32> {
  %0 = tpu.matmul %a, %b, %c {dimension_numbers = #tpu.dot_dimension_numbers<[2], [1], [1], [2], [0, 0, 0, 1, 1, 2], [0], [0]>, transpose_lhs_hint = false} : vector<2x16x128xf32>, vector<2x128x128xf32>, vector<2x16x128xf32> -> vector<2x16x128xf32>
  func.return %0 : vector<2x16x128xf32>
}

// The matrix unit turns what is contracted along its rows, in a batch as well.
// CHECK-LABEL: func.func @transposed_batch(
// CHECK-NOT:   tpu.transpose
// CHECK:       tpu.matmul {{.*}}<[1], [1], [0], [0], {{.*}} -> vector<16x24xf32>
// CHECK:       tpu.concatenate {{.*}} in 0
func.func @transposed_batch(%a: vector<2x16x128xf32>, %b: vector<2x24x128xf32>, %c: vector<2x16x24xf32>) -> vector<2x16x24xf32> {
  %0 = tpu.matmul %a, %b, %c {dimension_numbers = #tpu.dot_dimension_numbers<[2], [2], [1], [1], [0, 0, 0, 1, 1, 1], [0], [0]>, transpose_lhs_hint = false} : vector<2x16x128xf32>, vector<2x24x128xf32>, vector<2x16x24xf32> -> vector<2x16x24xf32>
  func.return %0 : vector<2x16x24xf32>
}

// CHECK-LABEL: func.func @integer_product(
// CHECK:       tpu.matmul %a, %b, %c
// V6E-LABEL:   func.func @integer_product(
// V6E-NEXT:    tpu.matmul %a, %b, %c
func.func @integer_product(%a: vector<32x128xi8>, %b: vector<128x128xi8>, %c: vector<32x128xi32>) -> vector<32x128xi32> {
  %0 = tpu.matmul %a, %b, %c {dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>, transpose_lhs_hint = false} : vector<32x128xi8>, vector<128x128xi8>, vector<32x128xi32> -> vector<32x128xi32>
  func.return %0 : vector<32x128xi32>
}

// Bytes of every float type are factors as they are, also of integers, which become float32.
// CHECK-LABEL: func.func @float8_product(
// CHECK-NEXT:  tpu.matmul %a, %b, %c
// V6E-LABEL:   func.func @float8_product(
// V6E-NEXT:    tpu.matmul %a, %b, %c
func.func @float8_product(%a: vector<32x128xf8E4M3FN>, %b: vector<128x128xf8E5M2>, %c: vector<32x128xf32>) -> vector<32x128xf32> {
  %0 = tpu.matmul %a, %b, %c {dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>, transpose_lhs_hint = false} : vector<32x128xf8E4M3FN>, vector<128x128xf8E5M2>, vector<32x128xf32> -> vector<32x128xf32>
  func.return %0 : vector<32x128xf32>
}

// CHECK-LABEL: func.func @integer_by_float8(
// CHECK-NEXT:  [[W:%[0-9]+]] = arith.extsi %a : vector<32x128xi8> to vector<32x128xi32>
// CHECK-NEXT:  [[F:%[0-9]+]] = tpu.sitofp [[W]]
// CHECK-NEXT:  tpu.matmul [[F]], %b, %c {{.*}} : vector<32x128xf32>, vector<128x128xf8E4M3FN>
func.func @integer_by_float8(%a: vector<32x128xi8>, %b: vector<128x128xf8E4M3FN>, %c: vector<32x128xf32>) -> vector<32x128xf32> {
  %0 = tpu.matmul %a, %b, %c {dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>, transpose_lhs_hint = false} : vector<32x128xi8>, vector<128x128xf8E4M3FN>, vector<32x128xf32> -> vector<32x128xf32>
  func.return %0 : vector<32x128xf32>
}

// The vector unit compares in six ordered predicates.
// CHECK-LABEL: func.func @unordered(
// CHECK:       [[EQ:%[0-9]+]] = arith.cmpf oeq, %a, %b : vector<8x128xf32>
// CHECK-NEXT:  [[ALL:%[0-9]+]] = arith.constant dense<true> : vector<8x128xi1>
// CHECK-NEXT:  arith.xori [[EQ]], [[ALL]]
func.func @unordered(%a: vector<8x128xf32>, %b: vector<8x128xf32>) -> vector<8x128xi1> {
  %0 = arith.cmpf une, %a, %b : vector<8x128xf32>
  func.return %0 : vector<8x128xi1>
}

// CHECK-LABEL: func.func @transposed_again(
// CHECK-NEXT:  %0 = tpu.transpose %a, [1, 0, 2] : vector<8x16x128xf32> -> vector<16x8x128xf32>
// CHECK-NEXT:  func.return %0
func.func @transposed_again(%a: vector<8x16x128xf32>) -> vector<16x8x128xf32> {
  %0 = tpu.transpose %a, [2, 0, 1] : vector<8x16x128xf32> -> vector<128x8x16xf32>
  %1 = tpu.transpose %0, [2, 1, 0] : vector<128x8x16xf32> -> vector<16x8x128xf32>
  func.return %1 : vector<16x8x128xf32>
}

// The lanes move: each transposition may be cheaper than both in one.
// CHECK-LABEL: func.func @transposed_twice(
// CHECK-NEXT:  tpu.transpose %a, [1, 2, 0]
// CHECK-NEXT:  tpu.transpose {{.*}}, [1, 0, 2]
func.func @transposed_twice(%a: vector<8x16x128xf32>) -> vector<128x16x8xf32> {
  %0 = tpu.transpose %a, [1, 2, 0] : vector<8x16x128xf32> -> vector<16x128x8xf32>
  %1 = tpu.transpose %0, [1, 0, 2] : vector<16x128x8xf32> -> vector<128x16x8xf32>
  func.return %1 : vector<128x16x8xf32>
}

// CHECK-LABEL: func.func @transposed_back(
// CHECK-NOT:   tpu.transpose
// CHECK:       func.return
func.func @transposed_back(%a: vector<8x16x128xf32>) -> vector<8x16x128xf32> {
  %0 = tpu.transpose %a, [1, 2, 0] : vector<8x16x128xf32> -> vector<16x128x8xf32>
  %1 = tpu.transpose %0, [1, 2, 0] : vector<16x128x8xf32> -> vector<128x8x16xf32>
  %2 = tpu.transpose %1, [1, 2, 0] : vector<128x8x16xf32> -> vector<8x16x128xf32>
  func.return %2 : vector<8x16x128xf32>
}

// Dimensions of size 1 leave the elements as they are.
// CHECK-LABEL: func.func @reduction_of_one(
// CHECK-NOT:   vector.multi_reduction
// CHECK:       vector.shape_cast %a : vector<1x16x128xbf16> to vector<16x128xbf16>
func.func @reduction_of_one(%a: vector<1x16x128xbf16>) -> vector<16x128xbf16> {
  %z = arith.constant dense<0.0> : vector<16x128xbf16>
  %0 = vector.multi_reduction <add>, %a, %z [0] : vector<1x16x128xbf16> to vector<16x128xbf16>
  func.return %0 : vector<16x128xbf16>
}

// CHECK-LABEL: func.func @extremum_of_one(
// CHECK-NOT:   vector.multi_reduction
// CHECK:       func.return
func.func @extremum_of_one(%a: vector<4x8x1xf32>, %b: vector<8x1xi32>) -> (vector<4x8xf32>, vector<8xi32>) {
  %low = arith.constant dense<0xff800000> : vector<4x8xf32>
  %least = arith.constant dense<-2147483648> : vector<8xi32>
  %0 = vector.multi_reduction <maximumf>, %a, %low [2] : vector<4x8x1xf32> to vector<4x8xf32>
  %1 = vector.multi_reduction <maxsi>, %b, %least [1] : vector<8x1xi32> to vector<8xi32>
  func.return %0, %1 : vector<4x8xf32>, vector<8xi32>
}

// An accumulator that counts stays.
// CHECK-LABEL: func.func @extremum_of_one_and_zero(
// CHECK:       vector.multi_reduction
func.func @extremum_of_one_and_zero(%a: vector<4x8x1xf32>) -> vector<4x8xf32> {
  %zero = arith.constant dense<0.0> : vector<4x8xf32>
  %0 = vector.multi_reduction <maximumf>, %a, %zero [2] : vector<4x8x1xf32> to vector<4x8xf32>
  func.return %0 : vector<4x8xf32>
}

// CHECK-LABEL: func.func @not_equal(
// CHECK:       %[[NE:.*]] = arith.cmpi ne, %a, %b : vector<32x128xi8>
// CHECK:       arith.select %[[NE]], %b, %a
func.func @not_equal(%a: vector<32x128xi8>, %b: vector<32x128xi8>) -> vector<32x128xi8> {
  %true = arith.constant true
  %ones = vector.broadcast %true : i1 to vector<32x128xi1>
  %0 = arith.cmpi eq, %a, %b : vector<32x128xi8>
  %1 = arith.xori %0, %ones : vector<32x128xi1>
  %2 = arith.select %1, %b, %a : vector<32x128xi1>, vector<32x128xi8>
  func.return %2 : vector<32x128xi8>
}

// Constants of few bits are widened here, by their sign.
// CHECK-LABEL: func.func @narrow_constants(
// CHECK:       arith.constant dense<13> : vector<8x128xi32>
// CHECK:       arith.constant dense<-3> : vector<8x128xi32>
func.func @narrow_constants(%a: vector<8x128xi4>) -> (vector<8x128xi1>, vector<8x128xi1>) {
  %c = arith.constant dense<-3> : vector<8x128xi4>
  %0 = arith.cmpi ugt, %a, %c : vector<8x128xi4>
  %1 = arith.cmpi sgt, %a, %c : vector<8x128xi4>
  func.return %0, %1 : vector<8x128xi1>, vector<8x128xi1>
}

// Masks of words govern bytes, but for those that are there as words.
// CHECK-LABEL: func.func @words_govern_bytes(
// CHECK-NEXT:  %[[MASK:.*]] = arith.cmpi sgt, %a, %b : vector<32x128xi32>
// CHECK-NEXT:  %[[KEPT:.*]] = arith.select %[[MASK]], %c, %d : vector<32x128xi1>, vector<32x128xi8>
// CHECK:       arith.select %[[MASK]], %b, {{.*}} : vector<32x128xi1>, vector<32x128xi32>
func.func @words_govern_bytes(%a: vector<32x128xi32>, %b: vector<32x128xi32>, %c: vector<32x128xi8>, %d: vector<32x128xi8>) -> vector<32x128xi8> {
  %0 = arith.cmpi sgt, %a, %b : vector<32x128xi32>
  %1 = arith.select %0, %c, %d : vector<32x128xi1>, vector<32x128xi8>
  %2 = arith.trunci %b : vector<32x128xi32> to vector<32x128xi8>
  %3 = arith.select %0, %2, %1 : vector<32x128xi1>, vector<32x128xi8>
  func.return %3 : vector<32x128xi8>
}

// The zeros in front of a half word are counted in a word that begins with as many more of them,
// also where its sign is set.
// CHECK-LABEL: func.func @zeros_in_front(
// CHECK-NEXT:  %[[WIDE:.*]] = arith.extui %a : vector<16x128xi16> to vector<16x128xi32>
// CHECK-NEXT:  %[[COUNT:.*]] = math.ctlz %[[WIDE]] : vector<16x128xi32>
// CHECK-NEXT:  %[[MORE:.*]] = arith.constant dense<16> : vector<16x128xi32>
// CHECK-NEXT:  arith.subi %[[COUNT]], %[[MORE]] : vector<16x128xi32>
func.func @zeros_in_front(%a: vector<16x128xi16>) -> vector<16x128xi16> {
  %0 = math.ctlz %a : vector<16x128xi16>
  func.return %0 : vector<16x128xi16>
}
