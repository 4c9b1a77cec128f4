// RUN: %tpu_roundtrip
// RUN: %tpu_generic

// Operations and symbols that came after jaxlib 0.10.2.

// CHECK-LABEL: func.func @logistic
func.func @logistic(%v: vector<8x128xf32>) {
  // CHECK: tpu.logistic %{{.*}} : vector<8x128xf32> -> vector<8x128xf32>
  %0 = tpu.logistic %v : vector<8x128xf32> -> vector<8x128xf32>
  return
}

// CHECK-LABEL: func.func @result_queue
func.func @result_queue(%v: vector<8x128xf32>) {
  // CHECK: tpu.matmul_push_rhs %{{.*}} {mxu_index = 0 : i32, staging_register = 1 : i32} : vector<8x128xf32>
  tpu.matmul_push_rhs %v {mxu_index = 0 : i32, staging_register = 1 : i32} : vector<8x128xf32>
  // CHECK: tpu.matmul_lhs_fifo %{{.*}} {load_staged_rhs = 1 : i32, mxu_index = 0 : i32} : vector<8x128xf32>
  tpu.matmul_lhs_fifo %v {load_staged_rhs = 1 : i32, mxu_index = 0 : i32} : vector<8x128xf32>
  // CHECK: tpu.matmul_pop_fifo 0 : vector<8x128xf32>
  %0 = tpu.matmul_pop_fifo 0 : vector<8x128xf32>
  return
}

// CHECK-LABEL: func.func @one_reduction_symbol_per_signedness
func.func @one_reduction_symbol_per_signedness(%v: vector<8x128xf32>) {
  // CHECK: kind = #tpu.reduction_kind<maxf>
  %0 = tpu.all_reduce %v {dim = 0 : i64, kind = #tpu.reduction_kind<maxf>} : vector<8x128xf32> -> vector<8x128xf32>
  // CHECK: kind = #tpu.reduction_kind<minf>
  %1 = tpu.all_reduce %v {dim = 0 : i64, kind = #tpu.reduction_kind<minf>} : vector<8x128xf32> -> vector<8x128xf32>
  return
}

// CHECK-LABEL: func.func @two_contracting_dimensions
func.func @two_contracting_dimensions(%l: vector<2x8x16xf32>, %r: vector<2x16x128xf32>, %a: vector<8x128xf32>) {
  // CHECK: precision = #tpu.contract_precision<bf16x3>
  %0 = tpu.matmul %l, %r, %a {dimension_numbers = #tpu.dot_dimension_numbers<[0, 2], [0, 1], [1], [2], [0, 1, 1, 2], [], []>, precision = #tpu.contract_precision<bf16x3>, transpose_lhs_hint = false} : vector<2x8x16xf32>, vector<2x16x128xf32>, vector<8x128xf32> -> vector<8x128xf32>
  return
}
