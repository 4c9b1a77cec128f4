// RUN: %tpu_roundtrip
// RUN: %tpu_generic

%v, %w = "test.op"() : () -> (vector<8x128xf32>, vector<8x128xf32>)
%i, %j = "test.op"() : () -> (vector<8x128xi32>, vector<8x128xi32>)
%b, %m = "test.op"() : () -> (vector<8x128xi8>, vector<8x128xi1>)
%s, %n, %x, %c = "test.op"() : () -> (f32, i32, index, i1)

// CHECK: arith.cmpi ult, %i, %j : vector<8x128xi32>
%0 = arith.cmpi ult, %i, %j : vector<8x128xi32>
// CHECK: arith.cmpi slt, %n, %n {note} : i32
%1 = arith.cmpi slt, %n, %n {note} : i32
// CHECK: arith.cmpf une, %v, %w fastmath<nnan> : vector<8x128xf32>
%2 = arith.cmpf une, %v, %w fastmath<nnan> : vector<8x128xf32>
// CHECK: arith.select %m, %v, %w : vector<8x128xi1>, vector<8x128xf32>
%3 = arith.select %m, %v, %w : vector<8x128xi1>, vector<8x128xf32>
// CHECK: arith.select %c, %v, %w : vector<8x128xf32>
%4 = arith.select %c, %v, %w : vector<8x128xf32>
// CHECK: arith.truncf %v to_nearest_even : vector<8x128xf32> to vector<8x128xbf16>
%5 = arith.truncf %v to_nearest_even : vector<8x128xf32> to vector<8x128xbf16>
// CHECK: arith.truncf %v toward_zero fastmath<nnan> {note = 1 : i32} : vector<8x128xf32> to vector<8x128xbf16>
%6 = arith.truncf %v toward_zero fastmath<nnan> {note = 1 : i32} : vector<8x128xf32> to vector<8x128xbf16>
// CHECK: arith.extf %s : f32 to f64
%7 = arith.extf %s : f32 to f64
// CHECK: arith.extui %b nneg : vector<8x128xi8> to vector<8x128xi32>
%8 = arith.extui %b nneg : vector<8x128xi8> to vector<8x128xi32>
// CHECK: arith.extsi %b : vector<8x128xi8> to vector<8x128xi32>
%9 = arith.extsi %b : vector<8x128xi8> to vector<8x128xi32>
// CHECK: arith.trunci %i overflow<nsw> : vector<8x128xi32> to vector<8x128xi8>
%10 = arith.trunci %i overflow<nsw> : vector<8x128xi32> to vector<8x128xi8>
// CHECK: arith.sitofp %i : vector<8x128xi32> to vector<8x128xf32>
%11 = arith.sitofp %i : vector<8x128xi32> to vector<8x128xf32>
// CHECK: arith.fptosi %v : vector<8x128xf32> to vector<8x128xi32>
%12 = arith.fptosi %v : vector<8x128xf32> to vector<8x128xi32>
// CHECK: arith.index_cast %x : index to i32
%13 = arith.index_cast %x : index to i32
// CHECK: arith.index_castui %n : i32 to index
%14 = arith.index_castui %n : i32 to index
// CHECK: arith.divui %i, %j exact : vector<8x128xi32>
%15 = arith.divui %i, %j exact : vector<8x128xi32>
// CHECK: arith.shrsi %i, %j : vector<8x128xi32>
%16 = arith.shrsi %i, %j : vector<8x128xi32>
// CHECK: arith.remf %v, %w : vector<8x128xf32>
%17 = arith.remf %v, %w : vector<8x128xf32>
// CHECK: arith.subui_extended %i, %j : vector<8x128xi32>, vector<8x128xi1>
%18, %19 = arith.subui_extended %i, %j : vector<8x128xi32>, vector<8x128xi1>
// CHECK: arith.flush_denormals %s : f32
%20 = arith.flush_denormals %s : f32
// CHECK: arith.constant dense<0xff800000> : vector<8x128xf32>
%21 = arith.constant dense<0xff800000> : vector<8x128xf32>
// CHECK: math.isnan %v : vector<8x128xf32>
%22 = math.isnan %v : vector<8x128xf32>
// CHECK: math.clampf %v to[%w, %w] : vector<8x128xf32>
%23 = math.clampf %v to [%w, %w] : vector<8x128xf32>
