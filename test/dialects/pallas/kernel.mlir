// RUN: %tpu_roundtrip
// RUN: %tpu_generic

// A product of two matrices, accumulated over the last grid axis.

// CHECK: pallas.kernel @matmul grid (i = 4 parallel, j = 2 parallel, k = 3 arbitrary)
// CHECK-NEXT: input %x: tensor<512x384xbf16> in vmem block (128, 128) at (i, k)
// CHECK-NEXT: input %y: tensor<384x256xbf16> in vmem block (128, 128) at (k, j)
// CHECK-NEXT: output %o: tensor<512x256xf32> in vmem block (128, 128) at (i, j)
// CHECK-NEXT: {
// CHECK-NEXT: %k = pallas.program_id 2
pallas.kernel @matmul grid (i = 4 parallel, j = 2 parallel, k = 3 arbitrary)
  input %x: tensor<512x384xbf16> in vmem block (128, 128) at (i, k)
  input %y: tensor<384x256xbf16> in vmem block (128, 128) at (k, j)
  output %o: tensor<512x256xf32> in vmem block (128, 128) at (i, j)
{
  %k = pallas.program_id 2
  %zero = arith.constant 0 : i32
  %first = arith.cmpi eq, %k, %zero : i32
  scf.if %first {
    %zeros = arith.constant dense<0.0> : vector<128x128xf32>
    pallas.store %zeros, %o[...] : memref<128x128xf32, #tpu.memory_space<vmem>>
  }
  %a = pallas.load %x[...] : memref<128x128xbf16, #tpu.memory_space<vmem>>
  %b = pallas.load %y[...] : memref<128x128xbf16, #tpu.memory_space<vmem>>
  %sum = pallas.load %o[...] : memref<128x128xf32, #tpu.memory_space<vmem>>
  %ab = pallas.dot %a, %b contracting [1] [0] : vector<128x128xbf16>, vector<128x128xbf16> -> vector<128x128xf32>
  %new = arith.addf %sum, %ab : vector<128x128xf32>
  pallas.store %new, %o[...] : memref<128x128xf32, #tpu.memory_space<vmem>>
}

// Everything an operand can say.

// CHECK-LABEL: pallas.kernel @operands grid (6 mapped parallel, "the rows" = ? arbitrary)
// CHECK-NEXT: prefetch %ids: tensor<6xi32>
// CHECK-NEXT: input %x: tensor<6x16x8x128xf32> in vmem block (squeezed, squeezed, 8, 128) at (%b, %i, %table) {
// CHECK-NEXT: %row = pallas.load %table[%i] : memref<6xi32, #tpu.memory_space<smem>>
// CHECK-NEXT: %zero = arith.constant 0 : i32
// CHECK-NEXT: pallas.yield %b, %row, %zero, %zero : i32, i32, i32, i32
// CHECK-NEXT: }
// CHECK-NEXT: input %y: tensor<64x128xf32> in vmem block (element(16, 1, 2), element(128)) at (d1 * 8 - 1, 0) buffers 1
// CHECK-NEXT: input %z: tensor<64x128xf32> in any
// CHECK-NEXT: input %s: tensor<4x!tpu.dma_semaphore> in semaphore_mem
// CHECK-NEXT: output %o: tensor<64x128xf32> in vmem block (8, 128) at ((d1 + d0) mod 2 floordiv 2, 0) revisits aliasing %z
// CHECK-NEXT: scratch %sum: memref<8x128xf32, #tpu.memory_space<vmem>>
// CHECK-NEXT: scratch %done: memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
// CHECK-NEXT: params {vmem_limit_bytes = 1048576 : i64} attributes {note = "kept"}
// CHECK-NEXT: {
// CHECK-NEXT: }
pallas.kernel @operands grid (6 mapped parallel, "the rows" = ? arbitrary)
  prefetch %ids: tensor<6xi32>
  input %x: tensor<6x16x8x128xf32> in vmem block (squeezed, squeezed, 8, 128) at (%b, %i, %table) {
    %row = pallas.load %table[%i] : memref<6xi32, #tpu.memory_space<smem>>
    %zero = arith.constant 0 : i32
    pallas.yield %b, %row, %zero, %zero : i32, i32, i32, i32
  }
  input %y: tensor<64x128xf32> in vmem block (element(16, 1, 2), element(128)) at (d1 * 8 - 1, 0) buffers 1
  input %z: tensor<64x128xf32> in any
  input %s: tensor<4x!tpu.dma_semaphore> in semaphore_mem
  output %o: tensor<64x128xf32> in vmem block (8, 128) at ((d1 + d0) mod 2 floordiv 2, 0) revisits aliasing %z
  scratch %sum: memref<8x128xf32, #tpu.memory_space<vmem>>
  scratch %done: memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
  params {vmem_limit_bytes = 1048576 : i64}
  attributes {note = "kept"}
{
}

// One run on each of two cores, which a nested pipeline shares out.

// CHECK-LABEL: pallas.kernel @cores mesh (core = 2 core_parallel)
pallas.kernel @cores mesh (core = 2 core_parallel)
  input %x: tensor<512x128xf32> in any
  output %o: tensor<512x128xf32> in any
{
  %core = pallas.axis_index "core"
  %two = arith.constant 2 : i32
  %offset = arith.muli %core, %two : i32
  %zero = arith.constant 0 : i32
  // CHECK: pallas.emit_pipeline grid (%two parallel, 1 arbitrary) offset (%offset, %zero) trace_scopes
  // CHECK-NEXT: input %xb = %x: memref<512x128xf32, #tpu.memory_space<any>> in vmem block (128, 128) at (d0, 0) buffers 3 lookahead
  // CHECK-NEXT: output %ob = %o: memref<512x128xf32, #tpu.memory_space<any>> in vmem block (bounded(128), 128) at (%i, %j) {
  pallas.emit_pipeline grid (%two parallel, 1 arbitrary) offset (%offset, %zero) trace_scopes
    input %xb = %x: memref<512x128xf32, #tpu.memory_space<any>> in vmem block (128, 128) at (d0, 0) buffers 3 lookahead
    output %ob = %o: memref<512x128xf32, #tpu.memory_space<any>> in vmem block (bounded(128), 128) at (%i, %j) {
      %size = arith.constant 128 : i32
      %start = arith.muli %i, %size : i32
      pallas.yield %start, %size, %zero : i32, i32, i32
    }
  {
    %a = pallas.load %xb[...] : memref<128x128xf32, #tpu.memory_space<vmem>>
    %b = arith.addf %a, %a : vector<128x128xf32>
    pallas.store %b, %ob[...] : memref<128x128xf32, #tpu.memory_space<vmem>>
  }
}

// CHECK-LABEL: pallas.kernel @signs grid (4 arbitrary)
// CHECK-NEXT: input %x: tensor<32x256xf32> in vmem block (8, 128) at (d0 * -1 + 3, d0 ceildiv 2)
// CHECK-NEXT: output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0 + 2, 0)
pallas.kernel @signs grid (4 arbitrary)
  input %x: tensor<32x256xf32> in vmem block (8, 128) at (-d0 + 3, d0 ceildiv 2)
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (-(-d0 - 2), -3 + 3)
{
}

// An index map tells what it finds, and changes nothing.

// CHECK-LABEL: pallas.kernel @told grid (4)
// CHECK-NEXT: input %x: tensor<32x128xf32> in vmem block (8, 128) at (%i) {
// CHECK-NEXT: tpu.log "block $0" {formatted = true} : [%i] : i32
// CHECK-NEXT: %zero = arith.constant 0 : i32
// CHECK: pallas.yield %i, %zero : i32, i32
pallas.kernel @told grid (4)
  input %x: tensor<32x128xf32> in vmem block (8, 128) at (%i) {
      tpu.log "block $0" {formatted = true} : [%i] : i32
      %zero = arith.constant 0 : i32
      %four = arith.constant 4 : i32
      %inside = arith.cmpi slt, %i, %four : i32
      cf.assert %inside, "too far"
      pallas.yield %i, %zero : i32, i32
    }
  output %o: tensor<32x128xf32> in vmem block (8, 128) at (d0, 0)
{
}
