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
