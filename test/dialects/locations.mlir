// RUN: tpu-opt %s --print-debuginfo | tpu-opt --print-debuginfo | filecheck %s

// Aliases stand after their use, ranges lose their ends, metadata stays.

// CHECK: arith.constant 0 : i32 loc("get:"(callsite("get"("kernel.py":18:17) at "body"("kernel.py":4:2))))
%0 = arith.constant 0 : i32 loc(#loc3)
// CHECK: arith.constant 1 : i32 loc(unknown)
%1 = arith.constant 1 : i32 loc(unknown)
// CHECK: arith.constant 2 : i32 loc(fused["a.py":1:2, "b.py":3:4])
%2 = arith.constant 2 : i32 loc(fused["a.py":1:2, "b.py":3:4 to 5:6])
// CHECK: arith.constant 3 : i32 loc("{{.*}}locations.mlir":12:1)
%3 = arith.constant 3 : i32
#loc1 = loc("kernel.py":18:17 to :36)
#loc3 = loc("get:"(#loc2))
#loc2 = loc(callsite("get"(#loc1) at "body"("kernel.py":4:2)))
