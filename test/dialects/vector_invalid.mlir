// RUN: tpu-opt %s --split-input-file --verify-diagnostics | filecheck %s

%a = "test.op"() : () -> vector<8x128xf32>
// CHECK: 'vector.shape_cast': expected as many elements in vector<8x64xf32> as in vector<8x128xf32>
%0 = vector.shape_cast %a : vector<8x128xf32> to vector<8x64xf32>

// -----

%a, %s = "test.op"() : () -> (vector<8x128xf32>, vector<4xf32>)
// CHECK: 'vector.multi_reduction': expected result shape [8], got vector<4xf32>
%0 = vector.multi_reduction <add>, %a, %s [1] : vector<8x128xf32> to vector<4xf32>

// -----

%a = "test.op"() : () -> vector<8x128xf32>
// CHECK: 'vector.broadcast': vector<8x128xf32> does not broadcast to vector<8x256xf32>
%0 = vector.broadcast %a : vector<8x128xf32> to vector<8x256xf32>

// -----

%a = "test.op"() : () -> vector<8x128xf32>
// CHECK: 'vector.transpose': [0, 0] is no permutation of the 2 dimensions
%0 = vector.transpose %a, [0, 0] : vector<8x128xf32> to vector<8x8xf32>

// -----

%a = "test.op"() : () -> vector<8x128xf32>
// CHECK: 'vector.extract_strided_slice': offset 100, size 64, stride 1 leave dimension of size 128
%0 = vector.extract_strided_slice %a {offsets = [0, 100], sizes = [8, 64], strides = [1, 1]} : vector<8x128xf32> to vector<8x64xf32>

// -----

%ref, %x = "test.op"() : () -> (memref<8x128xf32>, index)
// CHECK: 'vector.load': expected 2 indices for memref<8x128xf32>, got 1
%0 = vector.load %ref[%x] : memref<8x128xf32>, vector<128xf32>

// -----

// CHECK: 'vector.extract': index 8 is outside dimension 0 of vector<8x128xf32>
%a = "test.op"() : () -> vector<8x128xf32>
%0 = vector.extract %a[8] : vector<128xf32> from vector<8x128xf32>

// -----

// CHECK: 'vector.extract': vector<64xf32> is no part of vector<8x128xf32> at a position of 1 indices
%a = "test.op"() : () -> vector<8x128xf32>
%0 = vector.extract %a[0] : vector<64xf32> from vector<8x128xf32>

// -----

// CHECK: 'vector.insert': index -1 is outside dimension 1 of vector<8x128xf32>
%a, %s = "test.op"() : () -> (vector<8x128xf32>, f32)
%0 = vector.insert %s, %a [0, -1] : f32 into vector<8x128xf32>

// -----

// CHECK: 'vector.insert': expected one element type, got vector<8x128xf32> and i32
%a, %s = "test.op"() : () -> (vector<8x128xf32>, i32)
%0 = vector.insert %s, %a [0, 1] : i32 into vector<8x128xf32>

// -----

// CHECK: 'vector.multi_reduction': expected different dimensions of vector<8x128xf32>, got [2]
%a, %z = "test.op"() : () -> (vector<8x128xf32>, vector<8xf32>)
%0 = vector.multi_reduction <add>, %a, %z [2] : vector<8x128xf32> to vector<8xf32>

// -----

// CHECK: 'vector.from_elements': expected 2 scalars of type f32 for vector<2xf32>, got 3 of type f32
%s = "test.op"() : () -> f32
%0 = vector.from_elements %s, %s, %s : vector<2xf32>

// -----

// CHECK: 'vector.load': element types of memref<8x128xf32> and vector<128xi32> differ
%m, %x = "test.op"() : () -> (memref<8x128xf32>, index)
%0 = vector.load %m[%x, %x] : memref<8x128xf32>, vector<128xi32>

// -----

// CHECK: 'vector.broadcast': expected a source of at most the rank of
%a = "test.op"() : () -> vector<8x128xf32>
%0 = vector.broadcast %a : vector<8x128xf32> to vector<128xf32>

// -----

// CHECK: 'vector.transpose': expected result shape [128, 8], got vector<8x128xf32>
%a = "test.op"() : () -> vector<8x128xf32>
%0 = vector.transpose %a, [1, 0] : vector<8x128xf32> to vector<8x128xf32>

// -----

// CHECK: 'vector.extract_strided_slice': expected at most 2 offsets, sizes and strides
%a = "test.op"() : () -> vector<8x128xf32>
%0 = vector.extract_strided_slice %a {offsets = [0, 0, 0], sizes = [1, 1, 1], strides = [1, 1, 1]} : vector<8x128xf32> to vector<1x1xf32>

// -----

// CHECK: 'vector.extract_strided_slice': expected result shape [4, 128], got vector<8x128xf32>
%a = "test.op"() : () -> vector<8x128xf32>
%0 = vector.extract_strided_slice %a {offsets = [0], sizes = [4], strides = [1]} : vector<8x128xf32> to vector<8x128xf32>

// -----

// CHECK: 'vector.insert_strided_slice': expected 2 offsets and
%a, %b = "test.op"() : () -> (vector<8x128xf32>, vector<4x128xf32>)
%0 = vector.insert_strided_slice %b, %a {offsets = [0], strides = [1, 1]} : vector<4x128xf32> into vector<8x128xf32>

// -----

// CHECK: 'vector.contract': expected 3 indexing maps, got 2
%a = "test.op"() : () -> vector<8x8xf32>
%0 = "vector.contract"(%a, %a, %a) <{indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>], iterator_types = [#vector.iterator_type<parallel>, #vector.iterator_type<parallel>, #vector.iterator_type<reduction>], kind = #vector.kind<add>}> : (vector<8x8xf32>, vector<8x8xf32>, vector<8x8xf32>) -> vector<8x8xf32>

// -----

// CHECK: 'vector.contract': indexing map affine_map<(d0, d1, d2) -> (d0)> does not fit 3 loops and type vector<8x8xf32>
%a = "test.op"() : () -> vector<8x8xf32>
%0 = "vector.contract"(%a, %a, %a) <{indexing_maps = [affine_map<(d0, d1, d2) -> (d0)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = [#vector.iterator_type<parallel>, #vector.iterator_type<parallel>, #vector.iterator_type<reduction>], kind = #vector.kind<add>}> : (vector<8x8xf32>, vector<8x8xf32>, vector<8x8xf32>) -> vector<8x8xf32>

// -----

// CHECK: 'vector.contract': indexing map affine_map<(d0, d1, d2) -> (d2, d1)> does not fit type vector<4x8xf32>
%a, %b = "test.op"() : () -> (vector<8x8xf32>, vector<4x8xf32>)
%0 = "vector.contract"(%a, %b, %a) <{indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = [#vector.iterator_type<parallel>, #vector.iterator_type<parallel>, #vector.iterator_type<reduction>], kind = #vector.kind<add>}> : (vector<8x8xf32>, vector<4x8xf32>, vector<8x8xf32>) -> vector<8x8xf32>

// -----

// CHECK: 'vector.contract': expected result vector<8xf32>, got
%a, %b = "test.op"() : () -> (vector<8xf32>, vector<4xf32>)
%0 = "vector.contract"(%a, %b, %a) <{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = [#vector.iterator_type<parallel>], kind = #vector.kind<add>}> : (vector<8xf32>, vector<4xf32>, vector<8xf32>) -> vector<4xf32>

// -----

// CHECK: 'vector.constant_mask': expected a size for each dimension of vector<2x4xi1>, got 1
%0 = vector.constant_mask [2] : vector<2x4xi1>

// -----

// CHECK: 'vector.constant_mask': expected a vector of i1, got vector<4xi32>
%0 = vector.constant_mask [2] : vector<4xi32>
