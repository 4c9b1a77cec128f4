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
