// RUN: tpu-opt %s -p fold-ranges | filecheck %s

// The numbers of 64 rows, divided by 8 as JAX writes it for numbers of any sign.
// CHECK-LABEL: func.func @floored_division(
// CHECK-NEXT:  [[I:%[0-9a-z]+]] = tpu.iota
// CHECK-NEXT:  [[C:%[0-9a-z]+]] = arith.constant dense<3>
// CHECK-NEXT:  [[Q:%[0-9a-z]+]] = arith.shrui [[I]], [[C]]
// CHECK-NEXT:  func.return [[Q]]
func.func @floored_division() -> vector<64x256xi32> {
  %i = tpu.iota {dimensions = array<i32: 0>} : vector<64x256xi32>
  %eight = arith.constant dense<8> : vector<64x256xi32>
  %zero = arith.constant dense<0> : vector<64x256xi32>
  %one = arith.constant dense<1> : vector<64x256xi32>
  %q = arith.divsi %i, %eight : vector<64x256xi32>
  %0 = arith.cmpi sgt, %i, %zero : vector<64x256xi32>
  %1 = arith.extui %0 : vector<64x256xi1> to vector<64x256xi32>
  %2 = arith.cmpi slt, %i, %zero : vector<64x256xi32>
  %3 = arith.extui %2 : vector<64x256xi1> to vector<64x256xi32>
  %4 = arith.subi %1, %3 : vector<64x256xi32>
  %5 = arith.cmpi ne, %4, %one : vector<64x256xi32>
  %6 = arith.remsi %i, %eight : vector<64x256xi32>
  %7 = arith.cmpi ne, %6, %zero : vector<64x256xi32>
  %8 = arith.andi %5, %7 : vector<64x256xi1>
  %9 = arith.subi %q, %one : vector<64x256xi32>
  %10 = arith.select %8, %9, %q : vector<64x256xi1>, vector<64x256xi32>
  func.return %10 : vector<64x256xi32>
}

// Numbers of any sign keep the correction.
// CHECK-LABEL: func.func @division_of_anything(
// CHECK:       arith.divsi
// CHECK:       arith.remsi
// CHECK:       arith.andi
// CHECK:       arith.select
func.func @division_of_anything(%i: vector<64x256xi32>) -> vector<64x256xi32> {
  %eight = arith.constant dense<8> : vector<64x256xi32>
  %zero = arith.constant dense<0> : vector<64x256xi32>
  %one = arith.constant dense<1> : vector<64x256xi32>
  %q = arith.divsi %i, %eight : vector<64x256xi32>
  %5 = arith.cmpi slt, %i, %zero : vector<64x256xi32>
  %6 = arith.remsi %i, %eight : vector<64x256xi32>
  %7 = arith.cmpi ne, %6, %zero : vector<64x256xi32>
  %8 = arith.andi %5, %7 : vector<64x256xi1>
  %9 = arith.subi %q, %one : vector<64x256xi32>
  %10 = arith.select %8, %9, %q : vector<64x256xi1>, vector<64x256xi32>
  func.return %10 : vector<64x256xi32>
}

// CHECK-LABEL: func.func @remainders(
// CHECK-NEXT:  [[I:%[a-z0-9]+]] = tpu.iota
// CHECK-NEXT:  arith.constant dense<12>
// CHECK-NEXT:  arith.constant dense<15>
// CHECK-NEXT:  [[A:%[a-z0-9]+]] = arith.andi
// CHECK-NEXT:  [[R:%[a-z0-9]+]] = arith.remsi
// CHECK-NEXT:  func.return [[A]], [[I]], [[R]]
func.func @remainders() -> (vector<8x256xi32>, vector<8x256xi32>, vector<8x256xi32>) {
  %i = tpu.iota {dimensions = array<i32: 1>} : vector<8x256xi32>
  %sixteen = arith.constant dense<16> : vector<8x256xi32>
  %large = arith.constant dense<300> : vector<8x256xi32>
  %twelve = arith.constant dense<12> : vector<8x256xi32>
  %0 = arith.remsi %i, %sixteen : vector<8x256xi32>
  %1 = arith.remsi %i, %large : vector<8x256xi32>
  %2 = arith.remsi %i, %twelve : vector<8x256xi32>
  func.return %0, %1, %2 : vector<8x256xi32>, vector<8x256xi32>, vector<8x256xi32>
}

// The last of 8 rows is 7: whether it is less than 7 is not known of all rows.
// CHECK-LABEL: func.func @rows(
// CHECK-DAG:   arith.cmpi slt
// CHECK-DAG:   arith.constant dense<true>
// CHECK:       func.return
func.func @rows() -> (vector<8x128xi1>, vector<8x128xi1>) {
  %i = tpu.iota {dimensions = array<i32: 0>} : vector<8x128xi32>
  %seven = arith.constant dense<7> : vector<8x128xi32>
  %eight = arith.constant dense<8> : vector<8x128xi32>
  %0 = arith.cmpi slt, %i, %seven : vector<8x128xi32>
  %1 = arith.cmpi slt, %i, %eight : vector<8x128xi32>
  func.return %0, %1 : vector<8x128xi1>, vector<8x128xi1>
}

// Where the mask is set at 0 or below, only a remainder, or common bits, that differ from 0 rule it
// out, and only at 0.
// CHECK-LABEL: func.func @masks_that_meet(
// CHECK:       arith.andi {{.*}} : vector<64x256xi1>
// CHECK:       arith.andi {{.*}} : vector<64x256xi1>
// CHECK:       arith.andi {{.*}} : vector<64x256xi1>
// CHECK:       func.return
func.func @masks_that_meet() -> (vector<64x256xi1>, vector<64x256xi1>, vector<64x256xi1>) {
  %i = tpu.iota {dimensions = array<i32: 0>} : vector<64x256xi32>
  %eight = arith.constant dense<8> : vector<64x256xi32>
  %two = arith.constant dense<2> : vector<64x256xi32>
  %one = arith.constant dense<1> : vector<64x256xi32>
  %zero = arith.constant dense<0> : vector<64x256xi32>
  %first = arith.cmpi slt, %i, %one : vector<64x256xi32>

  %rest = arith.remsi %i, %eight : vector<64x256xi32>
  %not_two = arith.cmpi ne, %rest, %two : vector<64x256xi32>
  %0 = arith.andi %first, %not_two : vector<64x256xi1>

  %x = arith.subi %i, %eight : vector<64x256xi32>
  %some = arith.cmpi ne, %x, %zero : vector<64x256xi32>
  %1 = arith.andi %first, %some : vector<64x256xi1>

  %below = arith.cmpi slt, %x, %zero : vector<64x256xi32>
  %part = arith.remsi %x, %eight : vector<64x256xi32>
  %uneven = arith.cmpi ne, %part, %zero : vector<64x256xi32>
  %2 = arith.andi %below, %uneven : vector<64x256xi1>
  func.return %0, %1, %2 : vector<64x256xi1>, vector<64x256xi1>, vector<64x256xi1>
}
