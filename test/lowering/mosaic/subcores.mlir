// RUN: tpu-opt %s --split-input-file -p lower-to-mosaic | filecheck %s

// Without layout passes a vector is a register, and has no dimension of its own for a row.

!row = memref<8x16xf32, #tpu.memory_space<vmem>>
// CHECK-LABEL: func.func @registers
// CHECK-SAME: tpu.core_type = #tpu.core_type<sc_vector_subcore>
// CHECK-SAME: iteration_bounds = array<i64: 2, 16>
// CHECK-SAME: window_params = [{transform_indices = affine_map<(d0, d1) -> (0, 0)>}]
pallas.kernel @registers mesh (c = 2 core_parallel, s = 16 subcore_parallel) on sc_vector_subcore
  output %o: tensor<8x16xf32> in hbm
  scratch %rows: !row
  params {needs_layout_passes = false}
{
  %s = pallas.axis_index "s"
  // CHECK: %v = tpu.vector_load %rows[{{.*}}] {strides = array<i32>} : {{.*}}, vector<16xf32>
  %v = pallas.load %rows[%s, :] : !row
  // CHECK: tpu.vector_store %rows[{{.*}}], %v {strides = array<i32>} : {{.*}}, vector<16xf32>
  pallas.store %v, %rows[0, :] : !row
}

// -----

!row = memref<8x16xf32, #tpu.memory_space<vmem>>
// CHECK-LABEL: func.func @layouts
pallas.kernel @layouts mesh (c = 2 core_parallel, s = 16 subcore_parallel) on sc_vector_subcore
  output %o: tensor<8x16xf32> in hbm
  scratch %rows: !row
  params {needs_layout_passes = true}
{
  %s = pallas.axis_index "s"
  // CHECK: [[ROW:%[0-9]+]] = tpu.vector_load %rows[{{.*}}] {strides = array<i32>} : {{.*}}, vector<1x16xf32>
  // CHECK: %v = vector.shape_cast [[ROW]] : vector<1x16xf32> to vector<16xf32>
  %v = pallas.load %rows[%s, :] : !row
  // CHECK: [[BACK:%[0-9]+]] = vector.shape_cast %v : vector<16xf32> to vector<1x16xf32>
  // CHECK: tpu.vector_store %rows[{{.*}}], [[BACK]] {strides = array<i32>}
  pallas.store %v, %rows[0, :] : !row
}
