// RUN: tpu-opt %s -p lower-to-mosaic | filecheck %s

// CHECK-LABEL: func.func @values
"pallas.kernel"() <{sym_name = "values", operands = [], params = {fuse_transposed_lhs_in_matmul = true}}> ({
^bb0:
  %a = "test.op"() : () -> vector<8x128xf32>
  // CHECK: [[ZERO:%[0-9]+]] = arith.constant dense<0.000000e+00> : vector<128x128xf32>
  // CHECK: %ata = tpu.matmul %a, %a, [[ZERO]] {dimension_numbers = #tpu.dot_dimension_numbers<[0], [0], [1], [1], [0, 1, 1, 1], [], []>, precision = #tpu.contract_precision<fp32>, transpose_lhs_hint = true}
  %ata = pallas.dot %a, %a contracting [0] [0] precision <fp32> : vector<8x128xf32>, vector<8x128xf32> -> vector<128x128xf32>
  %b = "test.op"() : () -> vector<2x8x128xbf16>
  // CHECK: tpu.matmul %b, %b, {{.*}} {dimension_numbers = #tpu.dot_dimension_numbers<[2], [2], [1], [1], [0, 0, 0, 1, 1, 1], [0], [0]>, transpose_lhs_hint = false}
  %bb = pallas.dot %b, %b contracting [2] [2] batch [0] [0] : vector<2x8x128xbf16>, vector<2x8x128xbf16> -> vector<2x8x8xf32>
  // CHECK: [[WIDE:%[0-9]+]] = tpu.matmul %b, %b, {{.*}} -> vector<2x8x8xf32>
  // CHECK: %narrow = arith.truncf [[WIDE]] : vector<2x8x8xf32> to vector<2x8x8xbf16>
  %narrow = pallas.dot %b, %b contracting [2] [2] batch [0] [0] : vector<2x8x128xbf16>, vector<2x8x128xbf16> -> vector<2x8x8xbf16>
  %m = "test.op"() : () -> vector<8x128xbf16>
  %r = "test.op"() : () -> vector<1x128xbf16>
  // CHECK: arith.extf %m
  // CHECK: [[R:%[0-9]+]] = arith.extf %r
  // CHECK: vector.broadcast [[R]] : vector<1x128xf32> to vector<8x128xf32>
  // CHECK: arith.mulf
  // CHECK: vector.multi_reduction <add>, {{.*}} [1] : vector<8x128xf32> to vector<8xf32>
  // CHECK: %mv = vector.shape_cast {{.*}} : vector<8xf32> to vector<8x1xf32>
  %mv = pallas.dot %m, %r contracting [1] [1] : vector<8x128xbf16>, vector<1x128xbf16> -> vector<8x1xf32>
  // CHECK: [[LOW:%[0-9]+]] = arith.constant dense<0xff800000> : vector<8xf32>
  // CHECK: %max = vector.multi_reduction <maximumf>, %a, [[LOW]] [1]
  %max = pallas.reduce max %a axes [1] : vector<8x128xf32> -> vector<8xf32>
  // CHECK: [[UP:%[0-9]+]] = vector.shape_cast %a : vector<8x128xf32> to vector<1x8x128xf32>
  // CHECK: [[SUM:%[0-9]+]] = vector.multi_reduction <add>, [[UP]], {{.*}} [1, 2] : vector<1x8x128xf32> to vector<1xf32>
  // CHECK: [[ALL:%[0-9]+]] = vector.shape_cast [[SUM]] : vector<1xf32> to vector<1x1x1xf32>
  // CHECK: %sum = vector.extract [[ALL]][0, 0, 0]
  %sum = pallas.reduce add %a axes [0, 1] : vector<8x128xf32> -> f32
  %f = "test.op"() : () -> vector<8x128xi1>
  // CHECK: [[ONES:%[0-9]+]] = arith.select %f, {{.*}} : vector<8x128xi1>, vector<8x128xf32>
  // CHECK: [[ANY:%[0-9]+]] = vector.multi_reduction <maximumf>, [[ONES]]
  // CHECK: %any = arith.cmpf ogt, [[ANY]],
  %any = pallas.reduce or %f axes [0] : vector<8x128xi1> -> vector<128xi1>
  // CHECK: vector.multi_reduction <minimumf>
  // CHECK: vector.extract
  // CHECK: %all = arith.cmpf ogt, {{.*}} : f32
  %all = pallas.reduce and %f axes [0, 1] : vector<8x128xi1> -> i1
  // CHECK: %first = tpu.reduce_index %a {axis = 1 : i32, kind = #tpu.reduction_kind<arg_max>} : vector<8x128xf32> -> vector<8xi32>
  %first = pallas.arg_reduce max %a axis 1 : vector<8x128xf32> -> vector<8xi32>
  // CHECK: tpu.reduce_index {{.*}} {axis = 1 : i32, kind = #tpu.reduction_kind<arg_min>} : vector<1x8xf32> -> vector<1xi32>
  // CHECK: %least = vector.extract {{.*}}[0] : i32 from vector<1xi32>
  %least = pallas.arg_reduce min %max axis 0 : vector<8xf32> -> i32
  // CHECK: [[COLUMN:%[0-9]+]] = vector.shape_cast %max : vector<8xf32> to vector<8x1xf32>
  // CHECK: %wide = vector.broadcast [[COLUMN]] : vector<8x1xf32> to vector<8x128xf32>
  %wide = pallas.broadcast %max dims [0] : vector<8xf32> -> vector<8x128xf32>
  pallas.yield
}) : () -> ()
