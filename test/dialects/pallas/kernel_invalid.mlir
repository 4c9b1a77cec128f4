// RUN: tpu-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: 'pallas.kernel': grid axis 0: expected a size from 0 to 2147483646, got -1
// CHECK-NEXT: note: the size of an axis is how many blocks it has: pl.cdiv(n, block), or 0 for none
pallas.kernel @k grid (-1)
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}

// -----

// CHECK: 'pallas.kernel': expected a grid of at most 2147483646 steps, got 4294967296 in 2 axes
// CHECK-NEXT: note: steps are counted in 32 bits: take larger blocks, or loop inside the kernel
pallas.kernel @k grid (65536, 65536)
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}

// -----

// CHECK: 'pallas.kernel': input 0 (%x): expected a block with 2 dimensions, as its array has, got (8)
pallas.kernel @k grid (4)
  input %x: tensor<32x256xf32> in vmem block (8) at (d0, 0)
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}

// -----

// CHECK: 'pallas.kernel': input 0 (%x): expected block sizes of at least 1, got 0
pallas.kernel @k grid (4)
  input %x: tensor<32x256xf32> in vmem block (0, 128) at (d0, 0)
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}

// -----

// CHECK: 'pallas.kernel': input 0 (%x): expected paddings of at least 0, got element(8, -1, 0)
pallas.kernel @k grid (4)
  input %x: tensor<32x256xf32> in vmem block (element(8, -1, 0), element(256)) at (d0, 0)
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}

// -----

// CHECK: 'pallas.kernel': input 0 (%x): expected at least 1 buffer, got 0
pallas.kernel @k grid (4)
  input %x: tensor<32x256xf32> in vmem block (8, 128) at (d0, 0) buffers 0
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}

// -----

// CHECK: 'pallas.kernel': input 0 (%x): the last dimension of a block is a multiple of 128 or the whole dimension of the array (256), got 100 in block (8, 100)
pallas.kernel @k grid (4)
  input %x: tensor<32x256xf32> in vmem block (8, 100) at (d0, 0)
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}

// -----

// CHECK: 'pallas.kernel': input 0 (%x): the second-to-last dimension of a block is a multiple of 8 or the whole dimension of the array (32), got 1 in block (squeezed, 128)
// CHECK: note: take a multiple of 8, or all 32; blocks may reach over the end
// CHECK: note: for one row at a time, reshape the array to (32, 1, 256), with blocks (1, 1, 128)
pallas.kernel @k grid (4)
  input %x: tensor<32x256xf32> in vmem block (squeezed, 128) at (d0, 0)
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}

// -----

// CHECK: 'pallas.kernel': input 0 (%x): a block of rank 1 is the whole array (4096), a multiple of 1024, or a power of two of at least 256, got 384
pallas.kernel @k grid (4)
  input %x: tensor<4096xbf16> in vmem block (384) at (d0)
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}

// -----

// CHECK: 'pallas.kernel': input 0 (%x): blocks have at least one dimension; pass scalars in smem
pallas.kernel @k grid (4)
  input %x: tensor<f32> in vmem
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}

// -----

// CHECK: 'pallas.kernel': input 0 (%x): an operand in any is whole; copy blocks in the body, or put it in vmem
pallas.kernel @k grid (4)
  input %x: tensor<32x256xf32> in any block (8, 128) at (d0, 0)
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}

// -----

// CHECK: 'pallas.kernel': input 0 (%x): without a grid a block is the whole array at index 0, got (8, 128)
pallas.kernel @k
  input %x: tensor<32x128xf32> in vmem block (8, 128) at (0, 0)
{
}

// -----

// CHECK: 'pallas.kernel': input 0 (%x): blocks of a kernel are blocked, squeezed or element, got (bounded(8), 128); bounded slices are for pallas.emit_pipeline
pallas.kernel @k grid (4)
  input %x: tensor<32x256xf32> in vmem block (bounded(8), 128) at (d0, 8, 0)
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}

// -----

// CHECK: 'pallas.kernel': input 0 (%x): with one element dimension, all dimensions that are not squeezed are element ones, got (element(8), 128)
pallas.kernel @k grid (4)
  input %x: tensor<32x256xf32> in vmem block (element(8), 128) at (d0, 0)
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}

// -----

// CHECK: 'pallas.kernel': input 0 (%x): blocks of a kernel have 1 or 2 buffers, got 3; pallas.emit_pipeline takes more
pallas.kernel @k grid (4)
  input %x: tensor<32x256xf32> in vmem block (8, 128) at (d0, 0) buffers 3
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}

// -----

// CHECK: 'pallas.kernel': input 0 (%x): lookahead is for blocks of pallas.emit_pipeline
pallas.kernel @k grid (4)
  input %x: tensor<32x256xf32> in vmem block (8, 128) at (d0, 0) lookahead
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}

// -----

// CHECK: 'pallas.kernel': output 0 (%o): an output whose blocks are revisited has 1 buffer, got 2
pallas.kernel @k grid (4)
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0) buffers 2 revisits
{
}

// -----

// CHECK: 'pallas.kernel': input 0 (%x): expected an index map that gives 2 values, one per dimension, got (d0) -> (d0)
pallas.kernel @k grid (4)
  input %x: tensor<32x256xf32> in vmem block (8, 128) at (d0)
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}

// -----

// CHECK: 'pallas.kernel': expected the index map of input 0 (%x) to yield i32, i32, got i32
pallas.kernel @k grid (4)
  input %x: tensor<32x256xf32> in vmem block (8, 128) at (%i) {
      pallas.yield %i : i32
    }
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}

// -----

// CHECK: 'pallas.kernel': input 0 (%x): an index map only computes, reads, prints and asserts, for it runs ahead of its step; got pallas.store
pallas.kernel @k grid (4)
  prefetch %t: tensor<4xi32>
  input %x: tensor<32x256xf32> in vmem block (8, 128) at (%i, %s) {
      pallas.store %i, %s[0] : memref<4xi32, #tpu.memory_space<smem>>
      pallas.yield %i, %i : i32, i32
    }
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}

// -----

// CHECK: 'pallas.kernel': output 0 (%o): block [0, 0] is visited again at grid point [1, 0], after other blocks; the steps of one output block follow each other: make the axes that it does not depend on the last ones, or say revisits
pallas.kernel @k grid (2, 4)
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d1, 0)
{
}

// -----

// CHECK: 'pallas.kernel': output 0 (%o): block [0, 0] is visited again at grid point [1, 0], after other blocks;
pallas.kernel @k grid (2, 8192)
  output %o: tensor<65536x128xf32> in vmem block (8, 128) at (d1, 0)
{
}

// -----

// CHECK: 'pallas.kernel': input 0 (%x): expected a ref in vmem or smem or any or hbm or host or semaphore_mem, got memref<32x128xf32, #tpu.memory_space<vmem_shared>>
pallas.kernel @k grid (4)
  input %x: tensor<32x128xf32> in vmem_shared
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}

// -----

// CHECK: 'pallas.kernel': input 0 (%x): semaphores, and nothing else, are in semaphore_mem, got memref<4x!tpu.semaphore, #tpu.memory_space<smem>>
pallas.kernel @k grid (4)
  input %x: tensor<4x!tpu.semaphore> in smem
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}

// -----

// CHECK: 'pallas.kernel': scratch 0 (%s): expected memory in vmem, smem, semaphore_mem, got memref<8x128xf32, #tpu.memory_space<any>>
pallas.kernel @k grid (4)
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
  scratch %s: memref<8x128xf32, #tpu.memory_space<any>>
{
}

// -----

// CHECK: 'pallas.kernel': scratch 0 (%s): semaphores, and nothing else, are in semaphore_mem, got memref<2xi32, #tpu.memory_space<semaphore_mem>>
pallas.kernel @k grid (4)
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
  scratch %s: memref<2xi32, #tpu.memory_space<semaphore_mem>>
{
}

// -----

// CHECK: 'pallas.kernel': operand 0 and result 0 share memory, so have one type, got tensor<32x256xf32> and tensor<32x128xf32>
pallas.kernel @k grid (4)
  input %x: tensor<32x256xf32> in any
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0) aliasing %x
{
}

// -----

// CHECK: %x shares memory with an output already
pallas.kernel @k grid (4)
  input %x: tensor<32x128xf32> in any
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0) aliasing %x
  output %p: tensor<32x128xf32> in any aliasing %x
{
}

// -----

// CHECK: 'pallas.kernel': input 0 (%x): operands of a mesh kernel are whole, without a block
pallas.kernel @k mesh (core = 4 core_parallel)
  input %x: tensor<32x256xf32> in vmem block (8, 128) at (core, 0)
{
}

// -----

// CHECK: 'pallas.kernel': input 0 (%x): a mesh of 2 cores takes operands in any, hbm or smem and copies them itself, got vmem
pallas.kernel @k mesh (core = 2 core_parallel)
  input %x: tensor<32x128xf32> in vmem
{
}

// -----

// CHECK: 'pallas.kernel': expected scalar-prefetch operands, then inputs, then outputs
pallas.kernel @k grid (4)
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
  input %x: tensor<32x128xf32> in any
{
}

// -----

// CHECK: expected a line of prefetch, input, output or scratch, or the body in braces
pallas.kernel @k grid (4)
  inptu %x: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}

// -----

// CHECK: expected the semantics of every axis or of none
pallas.kernel @k grid (4 parallel, 2)
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}

// -----

// CHECK: expected an axis of the grid (i), got j
pallas.kernel @k grid (i = 4)
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (j, 0)
{
}

// -----

// CHECK: expected the name of an operand, got %z
pallas.kernel @k grid (4)
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0) aliasing %z
{
}

// -----

// CHECK: 'pallas.kernel': input 0 (%x): expected the ref memref<8x128xf32, #tpu.memory_space<vmem>>, got memref<16x128xf32, #tpu.memory_space<vmem>>
"pallas.kernel"() <{
  sym_name = "k", grid = array<i64: 4>,
  operands = [#pallas.operand<input, tensor<32x128xf32>, #pallas.window<[8, 128], affine_map<(d0) -> (d0, 0)>>>]
}> ({
^bb0(%x: memref<16x128xf32, #tpu.memory_space<vmem>>):
  pallas.yield
}) : () -> ()

// -----

// CHECK: 'pallas.kernel': expected the semantics of all 1 axes of the grid or of none, got 2
"pallas.kernel"() <{
  sym_name = "k", grid = array<i64: 4>, semantics = [#tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<parallel>],
  operands = [#pallas.operand<input, tensor<32x128xf32>, #pallas.window<[8, 128], affine_map<(d0) -> (d0, 0)>>>]
}> ({
^bb0(%x: memref<8x128xf32, #tpu.memory_space<vmem>>):
  pallas.yield
}) : () -> ()

// -----

// CHECK: 'pallas.kernel': expected names for 1 axes of the grid, got ['i', 'j']
"pallas.kernel"() <{
  sym_name = "k", grid = array<i64: 4>, grid_names = ["i", "j"],
  operands = [#pallas.operand<input, tensor<32x128xf32>, #pallas.window<[8, 128], affine_map<(d0) -> (d0, 0)>>>]
}> ({
^bb0(%x: memref<8x128xf32, #tpu.memory_space<vmem>>):
  pallas.yield
}) : () -> ()

// -----

// CHECK: 'pallas.kernel': expected mapped axes of 1, in order, got [1]
"pallas.kernel"() <{
  sym_name = "k", grid = array<i64: 4>, mapped = array<i64: 1>,
  operands = [#pallas.operand<input, tensor<32x128xf32>, #pallas.window<[8, 128], affine_map<(d0) -> (d0, 0)>>>]
}> ({
^bb0(%x: memref<8x128xf32, #tpu.memory_space<vmem>>):
  pallas.yield
}) : () -> ()

// -----

// CHECK: 'pallas.kernel': input 0 (%x): an index map takes the 2 axes of the grid, got (d0) -> (d0, 0)
"pallas.kernel"() <{
  sym_name = "k", grid = array<i64: 4, 2>,
  operands = [#pallas.operand<input, tensor<32x128xf32>, #pallas.window<[8, 128], affine_map<(d0) -> (d0, 0)>>>]
}> ({
^bb0(%x: memref<8x128xf32, #tpu.memory_space<vmem>>):
  pallas.yield
}) : () -> ()

// -----

// CHECK: 'pallas.kernel': input 0 (%x): there is no index map region 0
"pallas.kernel"() <{
  sym_name = "k", grid = array<i64: 4>,
  operands = [#pallas.operand<input, tensor<32x128xf32>, #pallas.window<[8, 128], region 0>>]
}> ({
^bb0(%x: memref<8x128xf32, #tpu.memory_space<vmem>>):
  pallas.yield
}) : () -> ()

// -----

// CHECK: 'pallas.kernel': input 0 (%x): expected index map regions in the order of the operands, so region 0, got region 1
"pallas.kernel"() <{
  sym_name = "k", grid = array<i64: 4>,
  operands = [#pallas.operand<input, tensor<32x128xf32>, #pallas.window<[8, 128], region 1>>]
}> ({
^bb0(%x: memref<8x128xf32, #tpu.memory_space<vmem>>):
  pallas.yield
}) : () -> ()

// -----

// CHECK: 'pallas.kernel': expected 0 index map regions, got 1
"pallas.kernel"() <{
  sym_name = "k", grid = array<i64: 4>,
  operands = [#pallas.operand<input, tensor<32x128xf32>, #pallas.window<[8, 128], affine_map<(d0) -> (d0, 0)>>>]
}> ({
^bb0(%x: memref<8x128xf32, #tpu.memory_space<vmem>>):
  pallas.yield
}, {
^bb0(%i: i32):
  pallas.yield %i, %i : i32, i32
}) : () -> ()

// -----

// CHECK: 'pallas.kernel': input 0 (%x): an index map takes one i32 per axis of the grid, then the scalar-prefetch refs (i32), got (i32, i32)
"pallas.kernel"() <{
  sym_name = "k", grid = array<i64: 4>,
  operands = [#pallas.operand<input, tensor<32x128xf32>, #pallas.window<[8, 128], region 0>>]
}> ({
^bb0(%x: memref<8x128xf32, #tpu.memory_space<vmem>>):
  pallas.yield
}, {
^bb0(%i: i32, %j: i32):
  pallas.yield %i, %j : i32, i32
}) : () -> ()

// -----

// CHECK: 'pallas.kernel': expected an alias of one of 1 operands and 0 results, got 0 and 0
"pallas.kernel"() <{
  sym_name = "k", grid = array<i64: 4>, aliases = array<i64: 0, 0>,
  operands = [#pallas.operand<input, tensor<32x128xf32>, #pallas.window<[8, 128], affine_map<(d0) -> (d0, 0)>>>]
}> ({
^bb0(%x: memref<8x128xf32, #tpu.memory_space<vmem>>):
  pallas.yield
}) : () -> ()

// -----

// CHECK: expected the semantics of an axis (parallel, arbitrary, core_parallel, subcore_parallel), got paralel
pallas.kernel @k grid (4 paralel)
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}

// -----

// CHECK: expected a line of prefetch, input, output or scratch, or the body in braces
pallas.kernel @k grid (4)
  input %x: tensor<32x256xf32> in vmem block (8, 128) at (d0, 0) often
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}

// -----

// CHECK: expected a size, squeezed, element(...) or bounded(...), got odd
pallas.kernel @k grid (4)
  input %x: tensor<32x256xf32> in vmem block (odd(8), 128) at (d0, 0)
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}

// -----

// CHECK: expected another number of arguments of element
pallas.kernel @k grid (4)
  input %x: tensor<32x256xf32> in vmem block (element(8, 1), 128) at (d0, 0)
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}

// -----

// CHECK: expected the tensor type of an array, got vector<32x256xf32>
pallas.kernel @k grid (4)
  input %x: vector<32x256xf32> in vmem block (8, 128) at (d0, 0)
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}

// -----

// CHECK: 'pallas.kernel': input 0 (%x): blocks have at least one dimension; pass it in smem
pallas.kernel @k grid (4)
  input %x: tensor<f32> in vmem block () at ()
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}
