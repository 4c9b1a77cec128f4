// RUN: tpu-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: 'pallas.emit_pipeline': a pipeline runs at least one step per axis, got size 0
func.func @f(%x: memref<32x128xf32, #tpu.memory_space<any>>, %o: memref<32x128xf32, #tpu.memory_space<any>>, %n: i32) {
  pallas.emit_pipeline grid (0)
    input %xb = %x: memref<32x128xf32, #tpu.memory_space<any>> in vmem block (8, 128) at (d0, 0)
    output %ob = %o: memref<32x128xf32, #tpu.memory_space<any>> in vmem block (8, 128) at (d0, 0)
  {
  }
  return
}

// -----

// CHECK: 'pallas.emit_pipeline': expected an offset for each of 1 axes or none, got 2
func.func @f(%x: memref<32x128xf32, #tpu.memory_space<any>>, %o: memref<32x128xf32, #tpu.memory_space<any>>, %n: i32) {
  pallas.emit_pipeline grid (4) offset (%n, %n)
    input %xb = %x: memref<32x128xf32, #tpu.memory_space<any>> in vmem block (8, 128) at (d0, 0)
    output %ob = %o: memref<32x128xf32, #tpu.memory_space<any>> in vmem block (8, 128) at (d0, 0)
  {
  }
  return
}

// -----

// CHECK: 'pallas.emit_pipeline': input 0: expected a block with 2 dimensions, as its array has, got (8)
func.func @f(%x: memref<32x128xf32, #tpu.memory_space<any>>, %o: memref<32x128xf32, #tpu.memory_space<any>>, %n: i32) {
  pallas.emit_pipeline grid (4)
    input %xb = %x: memref<32x128xf32, #tpu.memory_space<any>> in vmem block (8) at (d0, 0)
    output %ob = %o: memref<32x128xf32, #tpu.memory_space<any>> in vmem block (8, 128) at (d0, 0)
  {
  }
  return
}

// -----

// CHECK: 'pallas.emit_pipeline': input 0: element dimensions of a pipeline have no padding, got (element(8, 1, 0), 128)
func.func @f(%x: memref<32x128xf32, #tpu.memory_space<any>>, %o: memref<32x128xf32, #tpu.memory_space<any>>, %n: i32) {
  pallas.emit_pipeline grid (4)
    input %xb = %x: memref<32x128xf32, #tpu.memory_space<any>> in vmem block (element(8, 1, 0), 128) at (d0, 0)
    output %ob = %o: memref<32x128xf32, #tpu.memory_space<any>> in vmem block (8, 128) at (d0, 0)
  {
  }
  return
}

// -----

// CHECK: 'pallas.emit_pipeline': output 0: outputs have 1 or 2 buffers, got 3
func.func @f(%x: memref<32x128xf32, #tpu.memory_space<any>>, %o: memref<32x128xf32, #tpu.memory_space<any>>, %n: i32) {
  pallas.emit_pipeline grid (4)
    input %xb = %x: memref<32x128xf32, #tpu.memory_space<any>> in vmem block (8, 128) at (d0, 0)
    output %ob = %o: memref<32x128xf32, #tpu.memory_space<any>> in vmem block (8, 128) at (d0, 0) buffers 3
  {
  }
  return
}

// -----

// CHECK: 'pallas.emit_pipeline': output 0: lookahead is for inputs of at least 2 buffers
func.func @f(%x: memref<32x128xf32, #tpu.memory_space<any>>, %o: memref<32x128xf32, #tpu.memory_space<any>>, %n: i32) {
  pallas.emit_pipeline grid (4)
    input %xb = %x: memref<32x128xf32, #tpu.memory_space<any>> in vmem block (8, 128) at (d0, 0)
    output %ob = %o: memref<32x128xf32, #tpu.memory_space<any>> in vmem block (8, 128) at (d0, 0) lookahead
  {
  }
  return
}

// -----

// CHECK: 'pallas.emit_pipeline': input 0: expected an index map that gives 3 values, one per dimension, and a size after each bounded one, got (d0) -> (d0, 0)
func.func @f(%x: memref<32x128xf32, #tpu.memory_space<any>>, %o: memref<32x128xf32, #tpu.memory_space<any>>, %n: i32) {
  pallas.emit_pipeline grid (4)
    input %xb = %x: memref<32x128xf32, #tpu.memory_space<any>> in vmem block (bounded(8), 128) at (d0, 0)
    output %ob = %o: memref<32x128xf32, #tpu.memory_space<any>> in vmem block (8, 128) at (d0, 0)
  {
  }
  return
}

// -----

// CHECK: 'pallas.emit_pipeline': input 0: the block of an input is only read, got pallas.store
func.func @f(%x: memref<32x128xf32, #tpu.memory_space<any>>, %o: memref<32x128xf32, #tpu.memory_space<any>>, %n: i32) {
  pallas.emit_pipeline grid (4)
    input %xb = %x: memref<32x128xf32, #tpu.memory_space<any>> in vmem block (8, 128) at (d0, 0)
    output %ob = %o: memref<32x128xf32, #tpu.memory_space<any>> in vmem block (8, 128) at (d0, 0)
  {
    %v = arith.constant dense<0.0> : vector<1x128xf32>
    %row = pallas.at %xb[ds(%n, 1), :] : memref<8x128xf32, #tpu.memory_space<vmem>>
    pallas.store %v, %row[...] : memref<1x128xf32, #tpu.memory_space<vmem>>
  }
  return
}
