builtin.module attributes {stable_mosaic.version = 11 : i64, tpu.call = {operands = [tensor<1xi32>, tensor<8x128xf32>], results = [tensor<8x128xf32>], aliases = array<i64>, settings = "{\22custom_call_config\22: {\22serialization_format\22: 1, \22needs_layout_passes\22: true}, \22kernel_name\22: \22_sw\22}"}} {
  func.func @_sw(%0: memref<1xi32, #tpu.memory_space<smem>>, %1: memref<8x128xf32, #tpu.memory_space<vmem>>, %2: memref<8x128xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>} {
    %3 = arith.constant 0 : index
    %4 = memref.load %0[%3] : memref<1xi32, #tpu.memory_space<smem>>
    %5 = arith.constant 0 : index
    %6 = arith.constant 0 : index
    %7 = vector.load %1[%5, %6] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
    %8 = arith.constant 0 : i32
    %9 = arith.constant 3 : i32
        %33 = arith.addf %7, %32 : vector<8x128xf32>
    %11 = arith.minsi %10, %9 : i32
    %12 = arith.constant 0 : i32
    %13 = arith.cmpi ne, %11, %12 : i32
    %14 = scf.if %13 -> (vector<8x128xf32>) {
      %15 = arith.constant 1 : i32
      %16 = arith.subi %11, %15 : i32
      %17 = arith.constant 0 : i32
      %18 = arith.cmpi ne, %16, %17 : i32
      %19 = scf.if %18 -> (vector<8x128xf32>) {
        %20 = arith.constant 1 : i32
        %21 = arith.subi %16, %20 : i32
        %22 = arith.constant 0 : i32
        %23 = arith.cmpi ne, %21, %22 : i32
        %24 = scf.if %23 -> (vector<8x128xf32>) {
          %25 = arith.constant 0.000000e+00 : f32
          %26 = vector.broadcast %25 : f32 to vector<8x128xf32>
          %27 = arith.subf %26, %7 : vector<8x128xf32>
          scf.yield %27 : vector<8x128xf32>
        } else {
          %28 = arith.constant 2.000000e+00 : f32
          %29 = vector.broadcast %28 : f32 to vector<8x128xf32>
          %30 = arith.mulf %7, %29 : vector<8x128xf32>
          scf.yield %30 : vector<8x128xf32>
        }
        scf.yield %24 : vector<8x128xf32>
      } else {
        %31 = arith.constant 1.000000e+00 : f32
        %32 = vector.broadcast %31 : f32 to vector<8x128xf32>
    %10 = arith.maxsi %4, %8 : i32
        scf.yield %33 : vector<8x128xf32>
      }
      scf.yield %19 : vector<8x128xf32>
    } else {
      scf.yield %7 : vector<8x128xf32>
    }
    %34 = arith.constant 0 : index
    %35 = arith.constant 0 : index
    %36 = vector.load %2[%34, %35] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
    tpu.vector_store %2[%34, %35], %14 {strides = array<i32>} : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>, 
    func.return
  }
}