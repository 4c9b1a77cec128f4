// RUN: tpu-opt %s -p lower-to-mosaic | filecheck %s

!vmem = memref<4x16x256xf32, #tpu.memory_space<vmem>>
!flags = memref<8x128xi1, #tpu.memory_space<vmem>>
!flag = memref<4xi1, #tpu.memory_space<smem>>

// CHECK-LABEL: func.func @refs
"pallas.kernel"() <{
  sym_name = "refs",
  operands = [#pallas.operand<input, tensor<4x16x256xf32>>, #pallas.operand<input, tensor<8x128xi1>>, #pallas.operand<output, tensor<4xi1>>]
}> ({
^bb0(%x: !vmem, %b: !flags, %s: !flag):
  %i = arith.constant 1 : i32
  // CHECK: [[I:%[0-9]+]] = arith.index_cast %i : i32 to index
  // CHECK: [[ROW:%[0-9]+]] = vector.load %x[[[I]], {{.*}}, {{.*}}] : memref<4x16x256xf32, {{.*}}>, vector<1x8x256xf32>
  // CHECK: %row = vector.shape_cast [[ROW]] : vector<1x8x256xf32> to vector<8x256xf32>
  %row = pallas.load %x[%i, ds(0, 8), :] : !vmem
  // CHECK: %even = tpu.strided_load %x[{{.*}}] {strides = array<i32: 1, 2, 1>} : {{.*}}, vector<4x8x128xf32>
  %even = pallas.load %x[:, ds(1, 8, 2), ds(0, 128)] : !vmem
  // CHECK: vector.load %x[{{.*}}] : {{.*}}, vector<1x1x1xf32>
  // CHECK: %one = vector.extract {{.*}}[0, 0, 0] : f32 from vector<1x1x1xf32>
  %one = pallas.load %x[3, %i, 5] : !vmem
  // CHECK: tpu.strided_store %x[{{.*}}], %even {strides = array<i32: 1, 2, 1>}
  pallas.store %even, %x[:, ds(0, 8, 2), ds(0, 128)] : !vmem
  // CHECK: [[FLAGS:%[0-9]+]] = vector.load %b[{{.*}}] : memref<8x128xi32, {{.*}}>, vector<8x128xi32>
  // CHECK: [[ZERO:%[0-9]+]] = arith.constant dense<0> : vector<8x128xi32>
  // CHECK: %m = arith.cmpi ne, [[FLAGS]], [[ZERO]]
  %m = pallas.load %b[...] : !flags
  %v = vector.broadcast %one : f32 to vector<8x128xf32>
  // CHECK: [[MASK:%[0-9]+]] = vector.shape_cast %m : vector<8x128xi1> to vector<1x8x128xi1>
  // CHECK: tpu.vector_store %x[{{.*}}], {{.*}} masked [[MASK]] {strides = array<i32>}
  pallas.store %v, %x[0, ds(8, 8), ds(128, 128)] mask %m : !vmem
  // CHECK: [[OLD:%[0-9]+]] = memref.load %s[{{.*}}] : memref<4xi32, #tpu.memory_space<smem>>
  // CHECK: [[NEW:%[0-9]+]] = arith.extui %true : i1 to i32
  // CHECK: memref.store [[NEW]], %s[
  // CHECK: %was = arith.cmpi ne, [[OLD]], {{.*}} : i32
  %true = arith.constant true
  %was = pallas.swap %true, %s[%i] : !flag
  // CHECK: [[WORDS:%[0-9]+]] = arith.extui %m : vector<8x128xi1> to vector<8x128xi32>
  // CHECK: tpu.vector_store %b[{{.*}}], [[WORDS]]
  pallas.store %m, %b[...] : !flags
  // CHECK: [[SLICE:%[0-9]+]] = tpu.memref_slice %x[%i, {{.*}}, {{.*}}] <%n> : {{.*}} -> memref<1x?x256xf32, {{.*}}>
  // CHECK: %w = tpu.memref_squeeze [[SLICE]] : {{.*}} -> memref<?x256xf32, {{.*}}>
  %n = arith.constant 8 : i32
  %w = pallas.at %x[%i, ds(0, %n), :] : !vmem
  "test.op"(%w, %row, %was) : (memref<?x256xf32, #tpu.memory_space<vmem>>, vector<8x256xf32>, i1) -> ()
  pallas.yield
}) : () -> ()
