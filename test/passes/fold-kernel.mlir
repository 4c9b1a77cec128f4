// RUN: tpu-opt %s -p fold-kernel | filecheck %s

// CHECK-LABEL: func.func @a_value_and_itself(
// CHECK-SAME:  [[X:%[a-z]+]]: vector<32x128xi8>
// CHECK-NEXT:  func.return [[X]]
func.func @a_value_and_itself(%x: vector<32x128xi8>) -> vector<32x128xi8> {
  %0 = arith.maxsi %x, %x : vector<32x128xi8>
  %1 = arith.andi %0, %0 : vector<32x128xi8>
  func.return %1 : vector<32x128xi8>
}

// CHECK-LABEL: func.func @difference_of_same(
// CHECK-NEXT:  arith.constant dense<0>
// CHECK-NEXT:  func.return
func.func @difference_of_same(%x: vector<32x128xi8>) -> vector<32x128xi8> {
  %0 = arith.subi %x, %x : vector<32x128xi8>
  func.return %0 : vector<32x128xi8>
}

// What is divided by zero has all bits set.
// CHECK-LABEL: func.func @quotient_and_remainder_of_same(
// CHECK-NOT:   arith.divsi
// CHECK:       [[Q:%[0-9]+]] = arith.select %{{.*}}
// CHECK-NEXT:  [[R:%[0-9]+]] = arith.constant dense<0>
// CHECK-NEXT:  func.return [[Q]], [[R]]
func.func @quotient_and_remainder_of_same(%x: vector<32x128xi8>)
    -> (vector<32x128xi8>, vector<32x128xi8>) {
  %0 = arith.divsi %x, %x : vector<32x128xi8>
  %1 = arith.remsi %x, %x : vector<32x128xi8>
  func.return %0, %1 : vector<32x128xi8>, vector<32x128xi8>
}

// No unsigned number is below 0.
// CHECK-LABEL: func.func @the_larger_of_a_byte_and_zero(
// CHECK-SAME:  [[X:%[a-z]+]]: vector<32x128xi8>
// CHECK-NEXT:  func.return [[X]]
func.func @the_larger_of_a_byte_and_zero(%x: vector<32x128xi8>) -> vector<32x128xi8> {
  %zero = arith.constant dense<0> : vector<32x128xi8>
  %0 = arith.cmpi ugt, %x, %zero : vector<32x128xi8>
  %1 = arith.select %0, %x, %zero : vector<32x128xi1>, vector<32x128xi8>
  func.return %1 : vector<32x128xi8>
}

// Infinity minus infinity is no number.
// CHECK-LABEL: func.func @difference_of_same_floats(
// CHECK-NEXT:  arith.subf
func.func @difference_of_same_floats(%x: vector<8x128xf32>) -> vector<8x128xf32> {
  %0 = arith.subf %x, %x : vector<8x128xf32>
  func.return %0 : vector<8x128xf32>
}

// -0.0 + 0.0 is 0.0.
// CHECK-LABEL: func.func @neutral_floats(
// CHECK-NEXT:  arith.constant dense<0.000000e+00>
// CHECK-NEXT:  arith.addf %x
// CHECK-NEXT:  func.return
func.func @neutral_floats(%x: vector<8x128xf32>) -> vector<8x128xf32> {
  %zero = arith.constant dense<0.0> : vector<8x128xf32>
  %negative = arith.constant dense<-0.0> : vector<8x128xf32>
  %one = arith.constant dense<1.0> : vector<8x128xf32>
  %0 = arith.addf %x, %negative : vector<8x128xf32>
  %1 = arith.subf %0, %zero : vector<8x128xf32>
  %2 = arith.mulf %one, %1 : vector<8x128xf32>
  %3 = arith.addf %2, %zero : vector<8x128xf32>
  func.return %3 : vector<8x128xf32>
}

// `jnp.var` asks whether there is anything to divide by. Comparisons of NaN stay.
// CHECK-LABEL: func.func @float_constants_that_are_compared(
// CHECK-NEXT:  %nan = arith.constant 0x7fc00000
// CHECK-NEXT:  [[APART:%[0-9]+]] = arith.cmpf one, %nan, %nan
// CHECK-NEXT:  func.return %x, [[APART]]
func.func @float_constants_that_are_compared(%x: vector<8x128xf32>) -> (vector<8x128xf32>, i1) {
  %none = arith.constant 0 : i32
  %count = arith.constant 128.0 : f32
  %zero = arith.constant 0.0 : f32
  %nan = arith.constant 0x7fc00000 : f32
  %0 = arith.sitofp %none : i32 to f32
  %1 = arith.subf %count, %0 : f32
  %2 = arith.cmpf ogt, %1, %zero : f32
  %3 = vector.broadcast %nan : f32 to vector<8x128xf32>
  %4 = arith.select %2, %x, %3 : vector<8x128xf32>
  %5 = arith.cmpf one, %nan, %nan : f32
  func.return %4, %5 : vector<8x128xf32>, i1
}

// CHECK-LABEL: func.func @maximum_of_what_is_loaded_twice(
// CHECK-NOT:   arith.maxsi
func.func @maximum_of_what_is_loaded_twice(%x: memref<32x128xi8>) -> vector<32x128xi8> {
  %c0 = arith.constant 0 : index
  %0 = vector.load %x[%c0, %c0] : memref<32x128xi8>, vector<32x128xi8>
  %1 = vector.load %x[%c0, %c0] : memref<32x128xi8>, vector<32x128xi8>
  %2 = arith.maxsi %0, %1 : vector<32x128xi8>
  func.return %2 : vector<32x128xi8>
}

// Scalars are judged before equal ones are one.
// CHECK-LABEL: func.func @scalar_that_is_loaded_twice(
// CHECK:       arith.andi
func.func @scalar_that_is_loaded_twice(%x: memref<8xi16, #tpu.memory_space<smem>>) -> i16 {
  %c0 = arith.constant 0 : index
  %0 = memref.load %x[%c0] : memref<8xi16, #tpu.memory_space<smem>>
  %1 = memref.load %x[%c0] : memref<8xi16, #tpu.memory_space<smem>>
  %2 = arith.andi %0, %1 : i16
  func.return %2 : i16
}

// CHECK-LABEL: func.func @negated_twice(
// CHECK-NEXT:  func.return %p
func.func @negated_twice(%p: vector<8x128xi1>) -> vector<8x128xi1> {
  %0 = arith.constant dense<true> : vector<8x128xi1>
  %1 = arith.xori %p, %0 : vector<8x128xi1>
  %2 = arith.constant dense<true> : vector<8x128xi1>
  %3 = arith.xori %1, %2 : vector<8x128xi1>
  func.return %3 : vector<8x128xi1>
}

// A mask through words and back.
// CHECK-LABEL: func.func @mask_as_words(
// CHECK-NEXT:  func.return %p
func.func @mask_as_words(%p: vector<8x128xi1>) -> vector<8x128xi1> {
  %zero = arith.constant dense<0> : vector<8x128xi32>
  %0 = arith.extui %p : vector<8x128xi1> to vector<8x128xi32>
  %1 = arith.cmpi ne, %0, %zero : vector<8x128xi32>
  func.return %1 : vector<8x128xi1>
}

// CHECK-LABEL: func.func @smaller_of_words(
// CHECK-NEXT:  arith.minsi %y, %x : vector<8x128xi32>
// CHECK-NEXT:  func.return
func.func @smaller_of_words(%x: vector<8x128xi32>, %y: vector<8x128xi32>) -> vector<8x128xi32> {
  %0 = arith.cmpi sgt, %x, %y : vector<8x128xi32>
  %1 = arith.select %0, %y, %x : vector<8x128xi1>, vector<8x128xi32>
  func.return %1 : vector<8x128xi32>
}

// There is no minimum of bytes to make of it.
// CHECK-LABEL: func.func @smaller_of_bytes(
// CHECK:       arith.select
func.func @smaller_of_bytes(%x: vector<32x128xi8>, %y: vector<32x128xi8>) -> vector<32x128xi8> {
  %0 = arith.cmpi sgt, %x, %y : vector<32x128xi8>
  %1 = arith.select %0, %y, %x : vector<32x128xi1>, vector<32x128xi8>
  func.return %1 : vector<32x128xi8>
}

// CHECK-LABEL: func.func @casts(
// CHECK-NEXT:  arith.extui %x : vector<32x128xi8> to vector<32x128xi16>
// CHECK-NEXT:  func.return
func.func @casts(%x: vector<32x128xi8>) -> vector<32x128xi16> {
  %0 = arith.extui %x : vector<32x128xi8> to vector<32x128xi16>
  %1 = arith.extsi %0 : vector<32x128xi16> to vector<32x128xi32>
  %2 = arith.trunci %1 : vector<32x128xi32> to vector<32x128xi16>
  func.return %2 : vector<32x128xi16>
}

// The second choice is by the same mask.
// CHECK-LABEL: func.func @choices(
// CHECK-NEXT:  arith.select %p, %x, %x2
// CHECK-NEXT:  func.return
func.func @choices(%p: vector<8x128xi1>, %x: vector<8x128xf32>, %x2: vector<8x128xf32>) -> vector<8x128xf32> {
  %true = arith.constant true
  %0 = arith.select %true, %x, %x2 : vector<8x128xf32>
  %1 = arith.select %p, %0, %x2 : vector<8x128xi1>, vector<8x128xf32>
  %2 = arith.select %p, %1, %x2 : vector<8x128xi1>, vector<8x128xf32>
  func.return %2 : vector<8x128xf32>
}

// One result is not used, one comes from outside, one stays; the condition is known inside.
// CHECK-LABEL: func.func @choices_between_numbers(
// CHECK: %[[zero:.*]] = arith.constant dense<0.000000e+00>
// CHECK: %[[signed:.*]] = arith.select %p, %[[zero]], %{{.*}} : vector<8x128xi1>, vector<8x128xf32>
// CHECK-NEXT: func.return %[[zero]], %[[signed]]
func.func @choices_between_numbers(%p: vector<8x128xi1>) -> (vector<8x128xf32>, vector<8x128xf32>) {
  %0 = arith.constant dense<0.0> : vector<8x128xf32>
  %number = arith.constant 0.0 : f32
  %1 = vector.broadcast %number : f32 to vector<8x128xf32>
  %2 = arith.constant dense<-0.0> : vector<8x128xf32>
  %3 = arith.select %p, %0, %1 : vector<8x128xi1>, vector<8x128xf32>
  %4 = arith.select %p, %0, %2 : vector<8x128xi1>, vector<8x128xf32>
  func.return %3, %4 : vector<8x128xf32>, vector<8x128xf32>
}

// CHECK-LABEL: func.func @branch(
// CHECK-NEXT:  arith.select %c, %x, %y : vector<8x128xi32>
// CHECK-NEXT:  scf.if %c -> (vector<8x128xi32>) {
// CHECK-NEXT:    arith.muli %x, %y
// CHECK-NEXT:    scf.yield
// CHECK-NEXT:  } else {
// CHECK-NEXT:    scf.yield %y
// CHECK-NEXT:  }
// CHECK-NEXT:  arith.subi
func.func @branch(%c: i1, %x: vector<8x128xi32>, %y: vector<8x128xi32>) -> vector<8x128xi32> {
  %0, %1, %2 = scf.if %c -> (vector<8x128xi32>, vector<8x128xi1>, vector<8x128xi32>) {
    %3 = scf.if %c -> (vector<8x128xi32>) {
      %4 = arith.muli %x, %y : vector<8x128xi32>
      scf.yield %4 : vector<8x128xi32>
    } else {
      %5 = arith.addi %x, %y : vector<8x128xi32>
      scf.yield %5 : vector<8x128xi32>
    }
    %6 = arith.cmpi slt, %x, %y : vector<8x128xi32>
    scf.yield %x, %6, %3 : vector<8x128xi32>, vector<8x128xi1>, vector<8x128xi32>
  } else {
    %7 = arith.cmpi eq, %x, %y : vector<8x128xi32>
    scf.yield %y, %7, %y : vector<8x128xi32>, vector<8x128xi1>, vector<8x128xi32>
  }
  %8 = arith.subi %0, %2 : vector<8x128xi32>
  func.return %8 : vector<8x128xi32>
}

// CHECK-LABEL: func.func @single_iteration(
// CHECK-NEXT:  arith.andi %p, %q
// CHECK-NEXT:  func.return
func.func @single_iteration(%p: vector<8x128xi1>, %q: vector<8x128xi1>) -> vector<8x128xi1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %0 = scf.for %i = %c0 to %c1 step %c1 iter_args(%a = %p) -> (vector<8x128xi1>) : i32 {
    %1 = arith.andi %a, %q : vector<8x128xi1>
    scf.yield %1 : vector<8x128xi1>
  }
  func.return %0 : vector<8x128xi1>
}

// The mask is the same in every iteration.
// CHECK-LABEL: func.func @carried_unchanged(
// CHECK:       scf.for %{{.*}} iter_args(%{{.*}} = %x) -> (vector<8x128xi32>) : i32 {
// CHECK-NEXT:    arith.select %p
func.func @carried_unchanged(%n: i32, %p: vector<8x128xi1>, %x: vector<8x128xi32>, %y: vector<8x128xi32>) -> (vector<8x128xi32>, vector<8x128xi1>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %0, %1 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %p, %b = %x) -> (vector<8x128xi1>, vector<8x128xi32>) : i32 {
    %2 = arith.select %a, %b, %y : vector<8x128xi1>, vector<8x128xi32>
    scf.yield %a, %2 : vector<8x128xi1>, vector<8x128xi32>
  }
  // CHECK: func.return %{{.*}}, %p
  func.return %1, %0 : vector<8x128xi32>, vector<8x128xi1>
}

// The places of the body's arguments are not those of the loop's.
// A loop that runs gives what was there before it, whatever it was given; what it computes again was.
// CHECK-LABEL: func.func @carried_from_outside(
// CHECK:       scf.for %{{.*}} iter_args(%{{.*}} = %x) -> (vector<8x128xi32>) : i32 {
func.func @carried_from_outside(%p: vector<8x128xi1>, %q: vector<8x128xi1>, %x: vector<8x128xi32>, %y: vector<8x128xi32>) -> (vector<8x128xi32>, vector<8x128xi1>, vector<8x128xi1>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %r = arith.cmpi slt, %x, %y : vector<8x128xi32>
  %0, %1, %2 = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %p, %b = %x, %c = %r) -> (vector<8x128xi1>, vector<8x128xi32>, vector<8x128xi1>) : i32 {
    %3 = arith.select %c, %b, %y : vector<8x128xi1>, vector<8x128xi32>
    %4 = arith.cmpi slt, %x, %y : vector<8x128xi32>
    scf.yield %q, %3, %4 : vector<8x128xi1>, vector<8x128xi32>, vector<8x128xi1>
  }
  // CHECK: func.return %{{.*}}, %q, %r
  func.return %1, %0, %2 : vector<8x128xi32>, vector<8x128xi1>, vector<8x128xi1>
}

// CHECK-LABEL: func.func @carried_if_it_does_not_run(
// CHECK:       iter_args(%{{.*}} = %p) -> (vector<8x128xi1>)
func.func @carried_if_it_does_not_run(%n: i32, %p: vector<8x128xi1>, %q: vector<8x128xi1>) -> vector<8x128xi1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %0 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %p) -> (vector<8x128xi1>) : i32 {
    scf.yield %q : vector<8x128xi1>
  }
  func.return %0 : vector<8x128xi1>
}

// CHECK-LABEL: func.func @carried_by_while(
// CHECK:       scf.while ([[A:%.*]] = %x) : (vector<8x128xi32>) -> (i32, vector<8x128xi32>) {
// CHECK-NEXT:    memref.load
// CHECK:         scf.condition(%{{.*}}) %{{.*}}, [[A]] : i32, vector<8x128xi32>
// CHECK-NEXT:  } do {
// CHECK-NEXT:  ^bb0(%n: i32, [[B:%.*]]: vector<8x128xi32>):
// CHECK-NEXT:    arith.select %p, [[B]], %y
func.func @carried_by_while(%s: memref<4xi32, #tpu.memory_space<smem>>, %p: vector<8x128xi1>, %x: vector<8x128xi32>, %y: vector<8x128xi32>) -> vector<8x128xi32> {
  %c0 = arith.constant 0 : index
  %0, %1, %2 = scf.while (%a = %p, %b = %x) : (vector<8x128xi1>, vector<8x128xi32>) -> (i32, vector<8x128xi32>, vector<8x128xi1>) {
    %3 = memref.load %s[%c0] : memref<4xi32, #tpu.memory_space<smem>>
    %4 = arith.trunci %3 : i32 to i1
    scf.condition(%4) %3, %b, %a : i32, vector<8x128xi32>, vector<8x128xi1>
  } do {
  ^bb0(%n: i32, %c: vector<8x128xi32>, %d: vector<8x128xi1>):
    %5 = arith.select %d, %c, %y : vector<8x128xi1>, vector<8x128xi32>
    memref.store %n, %s[%c0] : memref<4xi32, #tpu.memory_space<smem>>
    scf.yield %d, %5 : vector<8x128xi1>, vector<8x128xi32>
  }
  // CHECK: arith.select %p
  %6 = arith.select %2, %1, %y : vector<8x128xi1>, vector<8x128xi32>
  func.return %6 : vector<8x128xi32>
}

// What nobody looks at is not carried, and then what only it looked at; %f looks at itself.
// CHECK-LABEL: func.func @unused_in_while(
// CHECK:       scf.while ([[N:%.*]] = %n, [[F:%.*]] = %x) : (i32, vector<8x128xi32>) -> (i32, vector<8x128xi32>) {
// CHECK:         scf.condition(%{{.*}}) [[N]], [[F]] : i32, vector<8x128xi32>
// CHECK-NEXT:  } do {
// CHECK-NEXT:  ^bb0([[M:%.*]]: i32, [[G:%.*]]: vector<8x128xi32>):
// CHECK-NEXT:    [[H:%.*]] = arith.addi [[G]], %y
// CHECK-NEXT:    arith.subi [[M]], %n
// CHECK-NEXT:    scf.yield %{{.*}}, [[H]] : i32, vector<8x128xi32>
func.func @unused_in_while(%n: i32, %x: vector<8x128xi32>, %y: vector<8x128xi32>) -> i32 {
  %0, %1, %2, %3 = scf.while (%a = %n, %b = %x, %c = %y, %f = %x) : (i32, vector<8x128xi32>, vector<8x128xi32>, vector<8x128xi32>) -> (i32, vector<8x128xi32>, vector<8x128xi32>, vector<8x128xi32>) {
    %4 = arith.trunci %a : i32 to i1
    scf.condition(%4) %a, %b, %c, %f : i32, vector<8x128xi32>, vector<8x128xi32>, vector<8x128xi32>
  } do {
  ^bb0(%d: i32, %e: vector<8x128xi32>, %g: vector<8x128xi32>, %h: vector<8x128xi32>):
    %5 = arith.addi %g, %x : vector<8x128xi32>
    %6 = arith.addi %h, %y : vector<8x128xi32>
    %7 = arith.subi %d, %n : i32
    scf.yield %7, %5, %y, %6 : i32, vector<8x128xi32>, vector<8x128xi32>, vector<8x128xi32>
  }
  func.return %0 : i32
}

// CHECK-LABEL: func.func @unused_in_for(
// CHECK:       scf.for %{{.*}} iter_args([[F:%.*]] = %x) -> (vector<8x128xi32>) : i32 {
// CHECK-NEXT:    [[H:%.*]] = arith.addi [[F]], %x
// CHECK-NEXT:    scf.yield [[H]] : vector<8x128xi32>
func.func @unused_in_for(%n: i32, %x: vector<8x128xi32>, %y: vector<8x128xi32>) -> vector<8x128xi32> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %0, %1, %2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %y, %b = %x, %c = %x) -> (vector<8x128xi32>, vector<8x128xi32>, vector<8x128xi32>) : i32 {
    %3 = arith.addi %c, %y : vector<8x128xi32>
    %4 = arith.addi %b, %x : vector<8x128xi32>
    %5 = arith.addi %y, %y : vector<8x128xi32>
    scf.yield %3, %4, %5 : vector<8x128xi32>, vector<8x128xi32>, vector<8x128xi32>
  }
  func.return %1 : vector<8x128xi32>
}

// CHECK-LABEL: func.func @choice_between_what_is_computed_twice(
// CHECK-NEXT:  [[SUM:%[0-9]+]] = arith.addi
// CHECK-NEXT:  func.return [[SUM]]
func.func @choice_between_what_is_computed_twice(%m: vector<8x128xi1>, %x: vector<8x128xi32>)
    -> vector<8x128xi32> {
  %0 = arith.addi %x, %x : vector<8x128xi32>
  %1 = arith.addi %x, %x : vector<8x128xi32>
  %2 = arith.select %m, %0, %1 : vector<8x128xi1>, vector<8x128xi32>
  func.return %2 : vector<8x128xi32>
}

// CHECK-LABEL: func.func @difference_of_bytes_computed_twice(
// CHECK:       arith.subi
func.func @difference_of_bytes_computed_twice(%x: vector<32x128xi8>, %y: vector<32x128xi8>)
    -> vector<32x128xi8> {
  %0 = arith.ori %x, %y : vector<32x128xi8>
  %1 = arith.ori %x, %y : vector<32x128xi8>
  %2 = arith.subi %0, %1 : vector<32x128xi8>
  func.return %2 : vector<32x128xi8>
}
