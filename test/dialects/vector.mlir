// RUN: %tpu_roundtrip
// RUN: %tpu_generic

%a, %square, %four = "test.op"() : () -> (vector<8x128xf32>, vector<128x128xf32>, vector<4xf32>)
%i, %m = "test.op"() : () -> (vector<8x128xi32>, vector<8x128xi1>)
%rows, %s, %x = "test.op"() : () -> (vector<8xf32>, f32, index)
%ref = "test.op"() : () -> memref<8x128xf32>

// CHECK: vector.shape_cast %a : vector<8x128xf32> to vector<1x8x128xf32>
%0 = vector.shape_cast %a : vector<8x128xf32> to vector<1x8x128xf32>
// CHECK: vector.multi_reduction <add>, %a, %rows [1] : vector<8x128xf32> to vector<8xf32>
%1 = vector.multi_reduction <add>, %a, %rows [1] : vector<8x128xf32> to vector<8xf32>
// CHECK: vector.multi_reduction <maximumf>, %a, %s {note} [0, 1] : vector<8x128xf32> to f32
%2 = vector.multi_reduction <maximumf>, %a, %s {note} [0, 1] : vector<8x128xf32> to f32
// CHECK: vector.extract_strided_slice %a {offsets = [0 : i64, 64 : i64], sizes = [8 : i64, 64 : i64], strides = [1 : i64, 1 : i64]} : vector<8x128xf32> to vector<8x64xf32>
%3 = vector.extract_strided_slice %a {offsets = [0, 64], sizes = [8, 64], strides = [1, 1]} : vector<8x128xf32> to vector<8x64xf32>
// CHECK: vector.insert_strided_slice %{{.*}}, %a {offsets = [0 : i64, 64 : i64], strides = [1 : i64, 1 : i64]} : vector<8x64xf32> into vector<8x128xf32>
%4 = vector.insert_strided_slice %3, %a {offsets = [0, 64], strides = [1, 1]} : vector<8x64xf32> into vector<8x128xf32>
// CHECK: vector.transpose %a, [1, 0] : vector<8x128xf32> to vector<128x8xf32>
%5 = vector.transpose %a, [1, 0] : vector<8x128xf32> to vector<128x8xf32>
// CHECK: vector.contract {indexing_maps = [{{.*}}], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %a, %square, %a {note} : vector<8x128xf32>, vector<128x128xf32> into vector<8x128xf32>
%6 = vector.contract {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %a, %square, %a {note} : vector<8x128xf32>, vector<128x128xf32> into vector<8x128xf32>
// CHECK: vector.broadcast %s : f32 to vector<8x128xf32>
%7 = vector.broadcast %s : f32 to vector<8x128xf32>
// CHECK: vector.gather %ref[%x, %x] [%i], %m, %a : memref<8x128xf32>, vector<8x128xi32>, vector<8x128xi1>, vector<8x128xf32> into vector<8x128xf32>
%8 = vector.gather %ref[%x, %x] [%i], %m, %a : memref<8x128xf32>, vector<8x128xi32>, vector<8x128xi1>, vector<8x128xf32> into vector<8x128xf32>
// CHECK: vector.interleave %four, %four : vector<4xf32> -> vector<8xf32>
%9 = vector.interleave %four, %four : vector<4xf32> -> vector<8xf32>
// CHECK: vector.deinterleave %four : vector<4xf32> -> vector<2xf32>
%10, %11 = vector.deinterleave %four : vector<4xf32> -> vector<2xf32>
// CHECK: vector.step : vector<4xindex>
%12 = vector.step : vector<4xindex>
// CHECK: vector.constant_mask [4, 100] : vector<8x128xi1>
%13 = vector.constant_mask [4, 100] : vector<8x128xi1>
// CHECK: vector.to_elements %four : vector<4xf32>
%14:4 = vector.to_elements %four : vector<4xf32>
// CHECK: vector.from_elements %{{.*}}, %{{.*}}, %s, %s : vector<4xf32>
%15 = vector.from_elements %14#0, %14#1, %s, %s : vector<4xf32>
// CHECK: vector.outerproduct %four, %rows {kind = #vector.kind<mul>} : vector<4xf32>, vector<8xf32>
%16 = vector.outerproduct %four, %rows {kind = #vector.kind<mul>} : vector<4xf32>, vector<8xf32>
// CHECK: vector.scan <add>, %a, %rows {inclusive = true, reduction_dim = 1 : i64} : vector<8x128xf32>, vector<8xf32>
%17, %18 = vector.scan <add>, %a, %rows {inclusive = true, reduction_dim = 1 : i64} : vector<8x128xf32>, vector<8xf32>
// CHECK: vector.load %ref[%x, %x] {nontemporal = true} : memref<8x128xf32>, vector<8x128xf32>
%19 = vector.load %ref[%x, %x] {nontemporal = true} : memref<8x128xf32>, vector<8x128xf32>
// CHECK: vector.store %a, %ref[%x, %x] : memref<8x128xf32>, vector<8x128xf32>
vector.store %a, %ref[%x, %x] : memref<8x128xf32>, vector<8x128xf32>
// CHECK: vector.extract %a[0, 127] : f32 from vector<8x128xf32>
%20 = vector.extract %a[0, 127] : f32 from vector<8x128xf32>
// CHECK: vector.extract %a[%x] : vector<128xf32> from vector<8x128xf32>
%21 = vector.extract %a[%x] : vector<128xf32> from vector<8x128xf32>
// CHECK: vector.insert %s, %a [7, %x] : f32 into vector<8x128xf32>
%22 = vector.insert %s, %a [7, %x] : f32 into vector<8x128xf32>
// CHECK: vector.insert %{{.*}}, %a [7] : vector<128xf32> into vector<8x128xf32>
%23 = vector.insert %21, %a [7] : vector<128xf32> into vector<8x128xf32>
