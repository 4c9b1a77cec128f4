// RUN: %tpu_roundtrip
// RUN: %tpu_generic

// CHECK-LABEL: func.func @refs
func.func @refs(%x: memref<4x16x128xf32, #tpu.memory_space<vmem>>, %s: memref<4xi32, #tpu.memory_space<smem>>, %i: i32, %j: i32, %m: vector<8x128xi1>) {
  // CHECK: %{{.*}} = pallas.load %x[...] : memref<4x16x128xf32, #tpu.memory_space<vmem>>
  %0 = pallas.load %x[...] : memref<4x16x128xf32, #tpu.memory_space<vmem>>
  // CHECK: %[[B:.*]] = pallas.load %x[%i, ds(%j, 8), :] mask %m : memref<4x16x128xf32, #tpu.memory_space<vmem>>
  %1 = pallas.load %x[%i, ds(%j, 8), :] mask %m : memref<4x16x128xf32, #tpu.memory_space<vmem>>
  // CHECK: pallas.load %x2[0, ds(0, 8, 2), ds(0, 128)] :
  %x2 = "test.op"() : () -> memref<4x16x256xf32, #tpu.memory_space<vmem>>
  %2 = pallas.load %x2[0, ds(0, 8, 2), ds(0, 128)] : memref<4x16x256xf32, #tpu.memory_space<vmem>>
  // CHECK: pallas.store %[[B]], %x[2, ds(8, 8), :] mask %m :
  pallas.store %1, %x[2, ds(8, 8), :] mask %m : memref<4x16x128xf32, #tpu.memory_space<vmem>>
  // CHECK: %[[S:.*]] = pallas.load %s[%i] : memref<4xi32, #tpu.memory_space<smem>>
  %3 = pallas.load %s[%i] : memref<4xi32, #tpu.memory_space<smem>>
  // CHECK: pallas.swap %[[S]], %s[1] : memref<4xi32, #tpu.memory_space<smem>>
  %4 = pallas.swap %3, %s[1] : memref<4xi32, #tpu.memory_space<smem>>
  // CHECK: pallas.at %x[%i, ds(8, %j), :] : memref<4x16x128xf32, #tpu.memory_space<vmem>>
  %5 = pallas.at %x[%i, ds(8, %j), :] : memref<4x16x128xf32, #tpu.memory_space<vmem>>
  // CHECK: "test.op"(%{{.*}}) : (memref<?x128xf32, #tpu.memory_space<vmem>>) -> ()
  "test.op"(%5) : (memref<?x128xf32, #tpu.memory_space<vmem>>) -> ()
  return
}

// CHECK-LABEL: func.func @values
func.func @values(%a: vector<128x64xf32>, %b: vector<64x128xf32>, %c: vector<2x8x16xbf16>) {
  // CHECK: pallas.dot %a, %b contracting [1] [0] : vector<128x64xf32>, vector<64x128xf32> -> vector<128x128xf32>
  %0 = pallas.dot %a, %b contracting [1] [0] : vector<128x64xf32>, vector<64x128xf32> -> vector<128x128xf32>
  // CHECK: pallas.dot %c, %c contracting [2] [2] batch [0] [0] precision <fp32> :
  %1 = pallas.dot %c, %c contracting [2] [2] batch [0] [0] precision <fp32> : vector<2x8x16xbf16>, vector<2x8x16xbf16> -> vector<2x8x8xf32>
  // CHECK: pallas.reduce max %a axes [1] : vector<128x64xf32> -> vector<128xf32>
  %2 = pallas.reduce max %a axes [1] : vector<128x64xf32> -> vector<128xf32>
  // CHECK: pallas.reduce add %a axes [0, 1] : vector<128x64xf32> -> f32
  %3 = pallas.reduce add %a axes [0, 1] : vector<128x64xf32> -> f32
  // CHECK: pallas.arg_reduce min %a axis 0 : vector<128x64xf32> -> vector<64xi32>
  %4 = pallas.arg_reduce min %a axis 0 : vector<128x64xf32> -> vector<64xi32>
  // CHECK: pallas.broadcast %{{.*}} dims [0] : vector<128xf32> -> vector<128x64xf32>
  %5 = pallas.broadcast %2 dims [0] : vector<128xf32> -> vector<128x64xf32>
  // CHECK: pallas.program_id 1
  %6 = pallas.program_id 1
  // CHECK: pallas.num_programs 0
  %7 = pallas.num_programs 0
  // CHECK: pallas.axis_index "core"
  %8 = pallas.axis_index "core"
  return
}

// CHECK-LABEL: func.func @scopes
func.func @scopes() {
  // CHECK: %{{.*}} = pallas.run_scoped (%buf: memref<8x128xf32, #tpu.memory_space<vmem>>, %sem: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> (f32) {
  %0 = pallas.run_scoped (%buf: memref<8x128xf32, #tpu.memory_space<vmem>>, %sem: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) -> (f32) {
    %1 = pallas.load %buf[0, 0] : memref<8x128xf32, #tpu.memory_space<vmem>>
    // CHECK: pallas.yield %{{.*}} : f32
    pallas.yield %1 : f32
  }
  // CHECK: pallas.run_scoped () {
  // CHECK-NEXT: }
  pallas.run_scoped () {
  }
  return
}
