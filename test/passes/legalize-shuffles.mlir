// RUN: tpu-opt %s -p legalize-shuffles | filecheck %s

!v = vector<8x128xf32>

// CHECK-LABEL: func.func @one_register_takes_any_pattern(
// CHECK-NEXT:  tpu.sublane_shuffle %a, %a, [7, 0, 1, 2, 3, 3, 5, 6]
// CHECK-NEXT:  func.return
func.func @one_register_takes_any_pattern(%a: !v) -> !v {
  %0 = tpu.sublane_shuffle %a, %a, [7, 0, 1, 2, 3, 3, 5, 6] : !v, !v -> !v
  func.return %0 : !v
}

// CHECK-LABEL: func.func @quarters_are_one_instruction(
// CHECK-NEXT:  tpu.sublane_shuffle %a, %b, [4, 5, 6, 7, 8, 9, 10, 11]
// CHECK-NEXT:  func.return
func.func @quarters_are_one_instruction(%a: !v, %b: !v) -> !v {
  %0 = tpu.sublane_shuffle %a, %b, [4, 5, 6, 7, 8, 9, 10, 11] : !v, !v -> !v
  func.return %0 : !v
}

// Two rotations and a mask of the first seven sublanes.
// CHECK-LABEL: func.func @neighbours(
// CHECK:       tpu.sublane_shuffle %a, %a, [1, 2, 3, 4, 5, 6, 7, 0]
// CHECK-NEXT:  tpu.sublane_shuffle %b, %b, [1, 2, 3, 4, 5, 6, 7, 0]
// CHECK:       arith.constant 7 : index
// CHECK:       tpu.create_mask
// CHECK-NEXT:  arith.select
func.func @neighbours(%a: !v, %b: !v) -> !v {
  %0 = tpu.sublane_shuffle %a, %b, [1, 2, 3, 4, 5, 6, 7, 8] : !v, !v -> !v
  func.return %0 : !v
}

// Rows 0, 2, 4 and 6 are the bits of 85.
// CHECK-LABEL: func.func @scattered_rows(
// CHECK:       arith.constant dense<85> : vector<8x128xi32>
// CHECK:       arith.shrui
// CHECK:       arith.cmpi ne
// CHECK-NEXT:  arith.select {{.*}}, %a, %b
func.func @scattered_rows(%a: !v, %b: !v) -> !v {
  %0 = tpu.sublane_shuffle %a, %b, [0, 9, 2, 11, 4, 13, 6, 15] : !v, !v -> !v
  func.return %0 : !v
}

// CHECK-LABEL: func.func @packed_words(
// CHECK:       tpu.bitcast_vreg %a : vector<8x128x2xbf16> -> vector<8x128xi32>
// CHECK:       arith.select {{.*}} : vector<8x128xi1>, vector<8x128xi32>
// CHECK-NEXT:  tpu.bitcast_vreg {{.*}} -> vector<8x128x2xbf16>
func.func @packed_words(%a: vector<8x128x2xbf16>, %b: vector<8x128x2xbf16>) -> vector<8x128x2xbf16> {
  %0 = tpu.sublane_shuffle %a, %b, [0, 1, 2, 3, 4, 5, 6, 15] : vector<8x128x2xbf16>, vector<8x128x2xbf16> -> vector<8x128x2xbf16>
  func.return %0 : vector<8x128x2xbf16>
}
