// RUN: tpu-opt %s -p lower-to-mosaic --split-input-file --verify-diagnostics | filecheck %s

!any = memref<8x128xf32, #tpu.memory_space<any>>

"pallas.kernel"() <{sym_name = "direct", operands = [#pallas.operand<input, tensor<8x128xf32>>]}> ({
^bb0(%x: !any):
  %a = pallas.load %x[...] : !any
  pallas.yield
}) : () -> ()
// CHECK: 'pallas.load': the core loads in vmem and smem, got memref<8x128xf32, #tpu.memory_space<any>>; copy it there first

// -----

!smem = memref<8xf32, #tpu.memory_space<smem>>

"pallas.kernel"() <{sym_name = "vector", operands = [#pallas.operand<input, tensor<8xf32>>]}> ({
^bb0(%x: !smem):
  %a = pallas.load %x[...] : !smem
  pallas.yield
}) : () -> ()
// CHECK: 'pallas.load': smem holds scalars: one element at a time, got shape (8,)

// -----

!vmem = memref<8x128xf32, #tpu.memory_space<vmem>>

"pallas.kernel"() <{sym_name = "scalar", operands = [#pallas.operand<output, tensor<8x128xf32>>]}> ({
^bb0(%x: !vmem):
  %a = arith.constant 1.0 : f32
  pallas.store %a, %x[0, 0] : !vmem
  pallas.yield
}) : () -> ()
// CHECK: 'pallas.store': a core stores no scalars in vmem, got memref<8x128xf32, #tpu.memory_space<vmem>>; use smem

// -----

!vmem = memref<8x128xi16, #tpu.memory_space<vmem>>

"pallas.kernel"() <{sym_name = "narrow", operands = [#pallas.operand<input, tensor<8x128xi16>>]}> ({
^bb0(%x: !vmem):
  %a = pallas.load %x[...] : !vmem
  %b = pallas.reduce add %a axes [1] : vector<8x128xi16> -> vector<8xi16>
  pallas.yield
}) : () -> ()
// CHECK: reductions are of floats and 32-bit integers, got i16 [reduction-type]

// -----

!any = memref<8x128xi1, #tpu.memory_space<any>>
!vmem = memref<8x128xi1, #tpu.memory_space<vmem>>
!sem = memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>

"pallas.kernel"() <{sym_name = "flags", operands = [#pallas.operand<input, tensor<8x128xi1>>]}> ({
^bb0(%x: !any, %v: !vmem, %s: !sem):
  tpu.enqueue_dma source(%x : !any) target(%v : !vmem) target_semaphore(%s : !sem)
  pallas.yield
}) : () -> ()
// CHECK: 'tpu.enqueue_dma': booleans are not copied by DMAs, got memref<8x128xi1, #tpu.memory_space<any>>; convert to int32

// -----

"pallas.kernel"() <{sym_name = "buffers", grid = array<i64: 2>, operands = [
  #pallas.operand<input, tensor<16x128xf32>, #pallas.window<[8, 128], affine_map<(d0) -> (d0, 0)>, buffers = 3>>]}> ({
^bb0(%x: memref<8x128xf32, #tpu.memory_space<vmem>>):
  pallas.yield
}) : () -> ()
// CHECK: 'pallas.kernel': input 0 (%x): blocks of a kernel have 1 or 2 buffers, got 3; pallas.emit_pipeline takes more


// -----

pallas.kernel @k mesh (c = 2 core_parallel, s = 16 subcore_parallel) on sc_vector_subcore
  output %o: tensor<8x16xf32> in hbm
  scratch %rows: memref<16x16xf32, #tpu.memory_space<vmem>>
{
  %v = pallas.load %rows[:, 3] : memref<16x16xf32, #tpu.memory_space<vmem>>
}
// CHECK: subcores load and store vectors, of neighbours in the last dimensions, with stride 1 and without a mask [subcore-access]

// -----

pallas.kernel @positions_of_halves
  input %x: tensor<16x128xbf16> in vmem
{
  %a = pallas.load %x[...] : memref<16x128xbf16, #tpu.memory_space<vmem>>
  %i = pallas.arg_reduce max %a axis 1 : vector<16x128xbf16> -> vector<16xi32>
}
// CHECK: argmax and argmin give int32 for float32, got i32 for bf16 [arg-reduction-type]
// CHECK-NEXT: note: convert to float32 before

// -----

pallas.kernel @blocks_of_booleans
  input %x: tensor<16x128xi1> in any
{
  pallas.emit_pipeline grid (2)
    input %xb = %x: memref<16x128xi1, #tpu.memory_space<any>> in vmem block (8, 128) at (d0, 0)
  {
  }
}
// CHECK: transfers are of types that memory holds, got blocks of booleans [bool-transfer]
// CHECK-NEXT: note: booleans are 32-bit integers in memory; use an int32 array and compare with 0

// -----

pallas.kernel @edges_in_place
  scratch %x: memref<20x128xf32, #tpu.memory_space<vmem>>
{
  pallas.emit_pipeline grid (3)
    input %xb = %x: memref<20x128xf32, #tpu.memory_space<vmem>> in vmem block (8, 128) at (d0, 0)
  {
  }
}
// CHECK: blocks of a ref that is not copied must divide it, got 8 of 20 [pipeline-edge]
// CHECK-NEXT: note: keep the array in HBM, or choose a block size that divides it

// -----

pallas.kernel @bounded_in_place
  scratch %x: memref<32x128xf32, #tpu.memory_space<vmem>>
{
  %n = arith.constant 3 : i32
  pallas.emit_pipeline grid (2)
    input %xb = %x: memref<32x128xf32, #tpu.memory_space<vmem>> in vmem block (bounded(16), 128) at (%i) {
      %zero = arith.constant 0 : i32
      pallas.yield %i, %n, %zero : i32, i32, i32
    }
  {
  }
}
// CHECK: bounded slices are of refs that are copied, got a ref in the blocks' memory [pipeline-bounded]
// CHECK-NEXT: note: keep the array in HBM
