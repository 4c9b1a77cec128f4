// RUN: tpu-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: expected 3 indices for memref<4x16x128xf32, #tpu.memory_space<vmem>>, got 2
func.func @f(%x: memref<4x16x128xf32, #tpu.memory_space<vmem>>, %i: i32) {
  %v = pallas.load %x[%i, :] : memref<4x16x128xf32, #tpu.memory_space<vmem>>
  return
}

// -----

// CHECK: 'pallas.load': index 19 is out of bounds in dimension 1 of memref<4x16x128xf32, #tpu.memory_space<vmem>>, of size 16
func.func @f(%x: memref<4x16x128xf32, #tpu.memory_space<vmem>>, %i: i32) {
  %v = pallas.load %x[%i, ds(12, 8), :] : memref<4x16x128xf32, #tpu.memory_space<vmem>>
  return
}

// -----

// CHECK: 'pallas.load': index 22 is out of bounds in dimension 1
func.func @f(%x: memref<4x16x128xf32, #tpu.memory_space<vmem>>, %i: i32) {
  %v = pallas.load %x[%i, ds(8, 8, 2), :] : memref<4x16x128xf32, #tpu.memory_space<vmem>>
  return
}

// -----

// CHECK: 'pallas.load': expected a start of at least 0 in dimension 0
func.func @f(%x: memref<4x16x128xf32, #tpu.memory_space<vmem>>, %i: i32) {
  %v = pallas.load %x[-1, :, :] : memref<4x16x128xf32, #tpu.memory_space<vmem>>
  return
}

// -----

// CHECK: 'pallas.load': expected a stride of at least 0, got -1
func.func @f(%x: memref<4x16x128xf32, #tpu.memory_space<vmem>>, %i: i32) {
  %v = pallas.load %x[%i, ds(8, 8, -1), :] : memref<4x16x128xf32, #tpu.memory_space<vmem>>
  return
}

// -----

// CHECK: 'pallas.store': expected a stride of at least 1, got 0; of what goes to one place only the last would stay: store it alone
func.func @f(%x: memref<16x128xf32, #tpu.memory_space<vmem>>) {
  %v = "test.op"() : () -> vector<8x128xf32>
  pallas.store %v, %x[ds(0, 8, 0), :] : memref<16x128xf32, #tpu.memory_space<vmem>>
  return
}

// -----

// CHECK: 'pallas.load': the core loads in vmem and smem, got memref<8x128xf32, #tpu.memory_space<any>>; copy it there first (tpu.enqueue_dma)
func.func @f(%x: memref<8x128xf32, #tpu.memory_space<any>>) {
  %v = pallas.load %x[...] : memref<8x128xf32, #tpu.memory_space<any>>
  return
}

// -----

// CHECK: 'pallas.load': smem holds scalars: one element at a time, got shape (8,)
func.func @f(%x: memref<8xi32, #tpu.memory_space<smem>>) {
  %v = pallas.load %x[...] : memref<8xi32, #tpu.memory_space<smem>>
  return
}

// -----

// CHECK: 'pallas.load': a core loads no scalars in vmem, got memref<f32, #tpu.memory_space<vmem>>; use smem
func.func @f(%x: memref<f32, #tpu.memory_space<vmem>>) {
  %v = pallas.load %x[] : memref<f32, #tpu.memory_space<vmem>>
  return
}

// -----

// CHECK: 'pallas.store': a core stores no scalars in vmem, got memref<4x16x128xf32, #tpu.memory_space<vmem>>; use smem
func.func @f(%x: memref<4x16x128xf32, #tpu.memory_space<vmem>>, %i: i32) {
  %v = "test.op"() : () -> f32
  pallas.store %v, %x[0, 0, 0] : memref<4x16x128xf32, #tpu.memory_space<vmem>>
  return
}

// -----

// CHECK: 'pallas.store': expected a value of type vector<8x128xf32> for memref<8x128xf32, #tpu.memory_space<vmem>>, got vector<8x128xi32>
func.func @f(%x: memref<8x128xf32, #tpu.memory_space<vmem>>) {
  %v = "test.op"() : () -> vector<8x128xi32>
  "pallas.store"(%v, %x) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, sizes = array<i64: 8, 128>, starts = array<i64: 0, 0>}> : (vector<8x128xi32>, memref<8x128xf32, #tpu.memory_space<vmem>>) -> ()
  return
}

// -----

// CHECK: 'pallas.store': only 32-bit elements are masked, got memref<16x128xbf16, #tpu.memory_space<vmem>>
func.func @f(%x: memref<16x128xbf16, #tpu.memory_space<vmem>>) {
  %v = "test.op"() : () -> vector<16x128xbf16>
  %m = "test.op"() : () -> vector<16x128xi1>
  pallas.store %v, %x[...] mask %m : memref<16x128xbf16, #tpu.memory_space<vmem>>
  return
}

// -----

// CHECK: 'pallas.store': a masked access has stride 1 in every dimension
func.func @f(%x: memref<4x16x128xf32, #tpu.memory_space<vmem>>, %i: i32) {
  %v = "test.op"() : () -> vector<8x128xf32>
  %m = "test.op"() : () -> vector<8x128xi1>
  pallas.store %v, %x[0, ds(0, 8, 2), :] mask %m : memref<4x16x128xf32, #tpu.memory_space<vmem>>
  return
}

// -----

// CHECK: 'pallas.at': a view has stride 1 in every dimension, got [1, 2, 1]; load and store with a stride instead
func.func @f(%x: memref<4x16x128xf32, #tpu.memory_space<vmem>>, %i: i32) {
  %v = pallas.at %x[0, ds(0, 8, 2), :] : memref<4x16x128xf32, #tpu.memory_space<vmem>>
  return
}

// -----

// CHECK: 'pallas.at': a view is of a ref of known shape, got memref<?x128xf32, #tpu.memory_space<any>>
func.func @f(%x: memref<?x128xf32, #tpu.memory_space<any>>) {
  %v = pallas.at %x[0, :] : memref<?x128xf32, #tpu.memory_space<any>>
  return
}

// -----

// CHECK: 'pallas.dot': expected contracting dimensions of one size, got 64 and 32
func.func @f() {
  %v = "test.op"() : () -> vector<8x64xf32>
  %w = "test.op"() : () -> vector<32x8xf32>
  %r = pallas.dot %v, %w contracting [1] [0] : vector<8x64xf32>, vector<32x8xf32> -> vector<8x8xf32>
  return
}

// -----

// CHECK: 'pallas.dot': contracting dimension 2 is out of range for (8, 8)
func.func @f() {
  %v = "test.op"() : () -> vector<8x8xf32>
  %r = pallas.dot %v, %v contracting [2] [0] : vector<8x8xf32>, vector<8x8xf32> -> vector<8x8xf32>
  return
}

// -----

// CHECK: 'pallas.dot': expected a result of type vector<8x8xf32>, got vector<8xf32>
func.func @f() {
  %v = "test.op"() : () -> vector<8x8xf32>
  %r = pallas.dot %v, %v contracting [1] [0] : vector<8x8xf32>, vector<8x8xf32> -> vector<8xf32>
  return
}

// -----

// CHECK: 'pallas.dot': expected a float result of vector<8x8xf32> and vector<8x8xf32>, got vector<8x8xi32>
func.func @f() {
  %v = "test.op"() : () -> vector<8x8xf32>
  %r = pallas.dot %v, %v contracting [1] [0] : vector<8x8xf32>, vector<8x8xf32> -> vector<8x8xi32>
  return
}

// -----

// CHECK: 'pallas.reduce': expected a kind of add, max, min, or, and, got mul
func.func @f() {
  %v = "test.op"() : () -> vector<8x8xf32>
  %r = pallas.reduce mul %v axes [0] : vector<8x8xf32> -> vector<8xf32>
  return
}

// -----

// CHECK: 'pallas.reduce': axis 2 is out of range for vector<8x8xf32>
func.func @f() {
  %v = "test.op"() : () -> vector<8x8xf32>
  %r = pallas.reduce add %v axes [2] : vector<8x8xf32> -> vector<8xf32>
  return
}

// -----

// CHECK: 'pallas.reduce': expected a reduction of vector<8x8xi1> by or, and, got max
func.func @f() {
  %v = "test.op"() : () -> vector<8x8xi1>
  %r = pallas.reduce max %v axes [0] : vector<8x8xi1> -> vector<8xi1>
  return
}

// -----

// CHECK: 'pallas.reduce': expected a result of type f32, got vector<1xf32>
func.func @f() {
  %v = "test.op"() : () -> vector<8x8xf32>
  %r = pallas.reduce add %v axes [0, 1] : vector<8x8xf32> -> vector<1xf32>
  return
}

// -----

// CHECK: 'pallas.arg_reduce': expected floats, got vector<8x8xi32>
func.func @f() {
  %v = "test.op"() : () -> vector<8x8xi32>
  %r = pallas.arg_reduce max %v axis 0 : vector<8x8xi32> -> vector<8xi32>
  return
}

// -----

// CHECK: 'pallas.broadcast': size 8 does not broadcast to dimension 0 of vector<4x8xf32>
func.func @f() {
  %v = "test.op"() : () -> vector<8xf32>
  %r = pallas.broadcast %v dims [0] : vector<8xf32> -> vector<4x8xf32>
  return
}

// -----

// CHECK: 'pallas.broadcast': expected rising dimensions of vector<8x8xf32>, got [1, 0]
func.func @f() {
  %v = "test.op"() : () -> vector<8x8xf32>
  %r = pallas.broadcast %v dims [1, 0] : vector<8x8xf32> -> vector<8x8xf32>
  return
}

// -----

// CHECK: 'pallas.run_scoped': allocation 0 (%b): expected memory in vmem, smem, semaphore_mem, got memref<8xf32, #tpu.memory_space<any>>
func.func @f() {
  pallas.run_scoped (%b: memref<8xf32, #tpu.memory_space<any>>) {
  }
  return
}

// -----

// CHECK: 'pallas.run_scoped': expected the scope to yield f32, got nothing
func.func @f() {
  %r = pallas.run_scoped () -> (f32) {
  }
  return
}

// -----

// CHECK: 'pallas.program_id': axis 1 is out of range for the 1 axes of the grid of pallas.kernel
pallas.kernel @k grid (2 mapped, 4)
{
  %i = pallas.program_id 1
}

// -----

// CHECK: 'pallas.axis_index': expected an axis of the kernel's grid (core), got row
pallas.kernel @k mesh (core = 2 core_parallel)
{
  %i = pallas.axis_index "row"
}

// -----

// CHECK: 'tpu.enqueue_dma': booleans are not copied by DMAs, got memref<8x128xi1, #tpu.memory_space<any>>; convert to int32
pallas.kernel @k
  input %x: tensor<8x128xi1> in any
  output %o: tensor<8x128xi1> in vmem
  scratch %s: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
{
  tpu.enqueue_dma source(%x : memref<8x128xi1, #tpu.memory_space<any>>) target(%o : memref<8x128xi1, #tpu.memory_space<vmem>>) target_semaphore(%s : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
}

// -----

// CHECK: 'tpu.enqueue_dma': expected one element type, got memref<8x128xf32, #tpu.memory_space<any>> and memref<8x128xi32, #tpu.memory_space<vmem>>
pallas.kernel @k
  input %x: tensor<8x128xf32> in any
  output %o: tensor<8x128xi32> in vmem
  scratch %s: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
{
  tpu.enqueue_dma source(%x : memref<8x128xf32, #tpu.memory_space<any>>) target(%o : memref<8x128xi32, #tpu.memory_space<vmem>>) target_semaphore(%s : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
}

// -----

// CHECK: 'tpu.enqueue_dma': expected one shape, got memref<16x128xf32, #tpu.memory_space<any>> and memref<8x128xf32, #tpu.memory_space<vmem>>
pallas.kernel @k
  input %x: tensor<16x128xf32> in any
  output %o: tensor<8x128xf32> in vmem
  scratch %s: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
{
  tpu.enqueue_dma source(%x : memref<16x128xf32, #tpu.memory_space<any>>) target(%o : memref<8x128xf32, #tpu.memory_space<vmem>>) target_semaphore(%s : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
}

// -----

// CHECK: 'tpu.wait_dma2': expected a memref of !tpu.dma_semaphore, got memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>
pallas.kernel @k
  input %x: tensor<8x128xf32> in any
  output %o: tensor<8x128xf32> in vmem
  scratch %s: memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>
{
  tpu.wait_dma2 semaphore(%s : memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>) src(%x : memref<8x128xf32, #tpu.memory_space<any>>) dst(%o : memref<8x128xf32, #tpu.memory_space<vmem>>)
}

// -----

// CHECK: 'tpu.sem_wait': expected a memref of !tpu.semaphore, got memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
pallas.kernel @k
  input %x: tensor<8x128xf32> in any
  output %o: tensor<8x128xf32> in vmem
  scratch %s: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
{
  %1 = arith.constant 1 : i32
  tpu.sem_wait %s, %1 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
}

// -----

// CHECK: 'pallas.reduce': expected different axes in rising order, got [1, 0]
%v = "test.op"() : () -> vector<8x128xf32>
%r = pallas.reduce add %v axes [1, 0] : vector<8x128xf32> -> f32

// -----

// CHECK: 'pallas.arg_reduce': expected a kind of max, min, got sum
%v = "test.op"() : () -> vector<8x128xf32>
%r = pallas.arg_reduce sum %v axis 0 : vector<8x128xf32> -> vector<128xi32>

// -----

// CHECK: 'pallas.arg_reduce': axis 2 is out of range for vector<8x128xf32>
%v = "test.op"() : () -> vector<8x128xf32>
%r = pallas.arg_reduce max %v axis 2 : vector<8x128xf32> -> vector<128xi32>

// -----

// CHECK: 'pallas.dot': expected each dimension of (8, 128) contracted or batched once, got (0, 0)
%v = "test.op"() : () -> vector<8x128xf32>
%r = pallas.dot %v, %v contracting [0, 0] [0, 0] : vector<8x128xf32>, vector<8x128xf32> -> vector<128x128xf32>

// -----

// CHECK: 'pallas.dot': expected as many contracting dimensions of both operands, got (0,) and (0, 1)
%v = "test.op"() : () -> vector<8x128xf32>
%r = pallas.dot %v, %v contracting [0] [0, 1] : vector<8x128xf32>, vector<8x128xf32> -> vector<128x128xf32>

// -----

// CHECK: 'pallas.broadcast': expected one entry per dimension of vector<8x128xf32>, got [0]
%v = "test.op"() : () -> vector<8x128xf32>
%r = pallas.broadcast %v dims [0] : vector<8x128xf32> -> vector<8x128x4xf32>

// -----

// CHECK: 'pallas.broadcast': expected one element type, got vector<8x128xf32> and vector<8x128x4xi32>
%v = "test.op"() : () -> vector<8x128xf32>
%r = pallas.broadcast %v dims [0, 1] : vector<8x128xf32> -> vector<8x128x4xi32>
