"""What verifiers say of arithmetic, matmuls, reductions, DMAs, semaphores and control."""

from __future__ import annotations

from .cases import BF16, DMA, F32, I1, I32, SC, SCALAR, SEM, case, mem, sizes

NEWER = "is older"
TOWARDS_ZERO = "rounding_mode = #tpu.rounding_mode<towards_zero>"
FORMAT = "pack_format = #tpu.pack_format<compressed>"
PACKED = "vector<8x128x2xbf16>"

CONVERT = [
    case("weird", [F32], "", [I1]),
    case("weird", ["f32"], "", ["i1"]),
    case("weird", ["f32"], "", [I1], "operand must be non-scalar"),
    case("weird", [F32], "", ["i1"], "non-scalar result"),
    case("weird", [F32], "", ["vector<8x64xi1>"], "same shape"),
    case("weird", [I32], "", [I1], "f32 and i1"),
    case("weird", [F32], "", [I32], "f32 and i1"),
    case("reciprocal", [F32], "", [I32], "expected result"),
    case("reciprocal", [BF16], "", [BF16], "vector of f32"),
    case("reciprocal", ["f32"], "", ["f32"], "expected a vector"),
    case("logistic", [BF16], "", [BF16], differs=NEWER),
    case("fptosi", [F32], TOWARDS_ZERO, ["vector<8x128xi8>"]),
    case("fptosi", ["f32"], TOWARDS_ZERO, ["i32"]),
    case("fptosi", [F32], "", [I32], "rounding_mode"),
    case("fptosi", [F32], TOWARDS_ZERO, ["vector<8x128xsi32>"], "signless integer"),
    case("fptosi", [I32], TOWARDS_ZERO, [I32], "float"),
    case("sitofp", [I32], TOWARDS_ZERO, [F32]),
    case("sitofp", [I1], TOWARDS_ZERO, [F32]),
    case("uitofp", [F32], TOWARDS_ZERO, [F32], "signless integer"),
    case("extf", [BF16], "", ["vector<16x128xf32>"]),
    case("extf", [F32], "", ["vector<8x128xbf16>"]),
    case("extf", ["vector<8x128x!tpu.float8_exmy<f6E3M2FN>>"], "", [F32]),
    case("truncf", [F32], TOWARDS_ZERO, ["vector<8x128xf8E5M2>"]),
    case("truncf", [F32], TOWARDS_ZERO, ["vector<16x128xbf16>"], "same shape"),
    case("stochastic_convert", [F32, I32], "", ["vector<8x128xbf16>"]),
    case("stochastic_convert", [F32, I32], "", ["vector<8x128xi1>"]),
    case("stochastic_convert", [F32, I32], "", ["vector<16x128xbf16>"], "one shape"),
    case("stochastic_convert", [BF16, I32], "", ["vector<16x128xbf16>"], "vector of f32"),
    case("stochastic_convert_elementwise", [F32, I32], "dst_type = f8E5M2", [I32]),
    case("stochastic_convert_elementwise", [F32, I32], "dst_type = f4E2M1FN", [I32],
         differs=NEWER),
    case("stochastic_convert_elementwise", [F32, I32], "dst_type = f16", [I32], "as dst_type"),
    case("pack_elementwise", [F32, F32], "target_type = bf16", [I32]),
    case("pack_elementwise", [I32] * 4, "target_type = i8", [I32]),
    case("pack_elementwise", [F32], "target_type = bf16", [I32], "expected 2 sources"),
    case("pack_elementwise", [], "target_type = bf16", [I32], "at least one operand"),
    case("pack_elementwise", [F32, I32], "target_type = bf16", [I32], "same type"),
    case("pack_elementwise", [F32, F32], "target_type = i16", [I32], "f32 and bf16"),
    case("pack_elementwise", [F32, F32], "target_type = bf16", ["vector<8x128xi16>"], "one width"),
    case("unpack_elementwise", [I32], "index = 1 : i32, source_type = bf16", [F32]),
    case("unpack_elementwise", [I32], "index = 2 : i32, source_type = bf16", [F32], "[0, 2)"),
    case("unpack_elementwise", [I32], "index = 0 : i32, source_type = i8", [F32], "f32 and bf16"),
    case("unpack_elementwise", [I32], "index = 3 : i32, source_type = i8", [I32]),
    case("pack_subelements", [F32, F32], f"positions = array<i32: 1, 0>, {FORMAT}", [PACKED]),
    case("pack_subelements", [F32], f"positions = array<i32: 1>, {FORMAT}", [PACKED]),
    case("pack_subelements", [F32], f"positions = array<i32: 2>, {FORMAT}", [PACKED], "[0, 2)"),
    case("pack_subelements", [F32], f"positions = array<i32>, {FORMAT}", [PACKED], "1 positions"),
    case("pack_subelements", [F32] * 3, f"positions = array<i32: 0, 1, 2>, {FORMAT}", [PACKED],
         "at most 2 sources"),
    case("pack_subelements", [F32] * 2, f"positions = array<i32: 0, 0>, {FORMAT}", [PACKED],
         "different positions"),
    case("pack_subelements", [], f"positions = array<i32>, {FORMAT}", [PACKED], "at least one",
         differs="crashes"),
    case("pack_subelements", [F32], "positions = array<i32: 1>", [PACKED], "pack_format"),
    case("unpack_subelements", [PACKED], f"index = 1 : i32, {FORMAT}", [F32]),
    case("unpack_subelements", [PACKED], f"index = 2 : i32, {FORMAT}", [F32], "[0, 2)"),
    case("unpack_subelements", [PACKED],
         f"index = 1 : i32, {FORMAT}, unsigned_integers = true", [F32], "signless integers"),
]  # fmt: skip


def numbers(lists: str) -> str:
    return f"dimension_numbers = #tpu.dot_dimension_numbers<{lists}>, transpose_lhs_hint = false"


L, R, A = "vector<8x16xf32>", "vector<16x128xf32>", "vector<8x128xf32>"
BL, BR, BA = "vector<2x8x16xf32>", "vector<2x16x128xf32>", "vector<2x8x128xf32>"
HINT = "transpose_lhs_hint = false"
PLAIN = "[1], [0], [0], [1], [0, 0, 1, 1], [], []"
MATMUL = [
    case("matmul", [L, R, A], numbers(PLAIN), [A]),
    case("matmul", [L, R, A], HINT, [A]),
    case("matmul", [L, R, A], "", [A], differs="wants a transpose_lhs_hint"),
    case("matmul", [L, R, A], HINT, ["vector<8x128xi32>"], "expected result"),
    case("matmul", [L, R, BF16], HINT, [BF16], "32-bit"),
    case("matmul", [L, R, A], f"{HINT}, transpose_lhs = true", [A], "lhs transposes"),
    case("matmul", [L, R, "vector<3x5xf32>"], numbers(PLAIN), ["vector<3x5xf32>"]),
    case("matmul", [L, A, A], numbers(PLAIN), [A], "contracting dimensions of one size"),
    case("matmul", [BL, BR, BA],
         numbers("[2], [1], [1], [2], [0, 0, 0, 1, 1, 2], [0], [0]"), [BA]),
    case("matmul", [BL, BR, BA],
         numbers("[2], [1], [1], [2], [0, 1, 0, 0, 1, 2], [0], [0]"), [BA], "output dimension"),
    case("matmul", [BL, BR, BA], numbers("[2], [1], [1], [2], [0, 1, 1, 2], [], []"), [BA],
         "dimensions once"),
    case("matmul", [BL, BR, BA], numbers("[2], [1], [1], [2, 0], [0, 0, 0, 1, 1, 2], [0], []"),
         [BA], "sorted"),
    case("matmul", [BL, BR, BA], numbers("[0, 2], [0, 1], [1], [2], [0, 1, 1, 2], [], []"), [A],
         "expected result"),
    case("matmul", [BL, BR, A], numbers("[0, 2], [0, 1], [1], [2], [0, 1, 1, 2], [], []"), [A],
         differs=NEWER),
    case("matmul_push_rhs", [F32], "mxu_index = 0 : i32"),
    case("matmul_acc_lhs", [F32], "mxu_index = 0 : i32", [], "acc"),
    case("matmul_pop", [], "acc = 0 : i32, mxu_index = 0 : i32", [F32]),
    case("matmul_lhs_fifo", [F32], "mxu_index = 0 : i32", differs=NEWER),
    case("matmul_pop_fifo", [], "mxu_index = 0 : i32", [F32], differs=NEWER),
    case("matmul_pop_fifo", [], "mxu_index = 0 : i32", ["vector<8xf32>"], "rank 2"),
]  # fmt: skip


def kind(name: str, rest: str = "") -> str:
    return f"{rest}kind = #tpu.reduction_kind<{name}>"


REDUCE = [
    case("all_reduce", [F32], kind("max", "dim = 1 : i64, "), [F32]),
    case("all_reduce", [F32], kind("maxf", "dim = 1 : i64, "), [F32], differs=NEWER),
    case("all_reduce", [F32], kind("max", "dim = 7 : i64, "), [F32]),
    case("all_reduce", [F32], kind("sum", "dim = 1 : i64, "), [I32], "expected result"),
    case("all_reduce", [F32], kind("arg_max", "dim = 1 : i64, "), [I32]),
    case("all_reduce", [F32], kind("arg_max", "dim = 1 : i64, "), [F32], "result of i32"),
    case("all_reduce", [F32], kind("arg_max", "dim = 1 : i64, "), ["vector<8x1xi32>"], "shape"),
    case("all_reduce", [I32], kind("arg_max", "dim = 1 : i64, "), [I32], "f32 or bf16"),
    case("all_reduce", [BF16], kind("arg_max", "dim = 1 : i64, "), ["vector<16x128xi16>"],
         differs=NEWER),
    case("all_reduce", [I1], kind("sum", "dim = 1 : i64, "), ["vector<3xi32>"]),
    case("all_reduce", [I1], kind("find_first_set", "dim = 1 : i64, "), [I32]),
    case("all_reduce", [I1], kind("max", "dim = 1 : i64, "), [I32], "sum or find_first_set"),
    case("all_reduce", [I1], kind("sum", "dim = 1 : i64, "), [F32], "to i32"),
    case("all_reduce", [F32], kind("find_first_set", "dim = 1 : i64, "), [F32], "for masks"),
    case("reduce_index", [F32], kind("arg_min", "axis = 0 : i32, "), ["vector<128xi32>"]),
    case("reduce_index", [F32], kind("arg_min", "axis = 2 : i32, "), ["vector<8xi32>"], "range"),
    case("reduce_index", [F32], kind("sum", "axis = 1 : i32, "), ["vector<8xi32>"], "arg_max"),
    case("reduce_index", [F32], kind("arg_max", "axis = 1 : i32, "), ["vector<128xi32>"],
         "without dimension 1"),
    case("reduce_index", [I32], kind("arg_max", "axis = 1 : i32, "), ["vector<8xi32>"], "f32"),
    case("reduce_index", [F32], kind("arg_max", "axis = 1 : i32, "), ["vector<8xf32>"], "of i32"),
    case("reduce_index", ["vector<8x65537xbf16>"], kind("arg_max", "axis = 1 : i32, "),
         ["vector<8xi16>"], "16-bit indices"),
    case("scan", ["vector<16xf32>"], kind("sum"), ["vector<16xf32>"], core=SC),
    case("scan", ["vector<16xf32>"], kind("sum"), ["vector<16xf32>"], "sc_vector_subcore only"),
    case("scan", ["vector<16xi1>"], kind("sum"), ["vector<16xi32>"], core=SC),
    case("scan", ["vector<16xi1>"], kind("max"), ["vector<16xi32>"], "by sum", core=SC),
    case("scan", ["vector<16xi1>", "vector<16xi1>"], kind("sum"), ["vector<16xi32>"], "no mask",
         core=SC),
    case("scan", ["vector<16xf32>"], kind("arg_max"), ["vector<16xf32>"], "max or min", core=SC),
    case("scan", ["vector<16xf32>"], kind("sum"), ["vector<16xi32>"], "element type", core=SC),
    case("scan", ["vector<2x16xf32>", "vector<16xi1>"], kind("min"), ["vector<2x16xf32>"],
         core=SC),
    case("scan", ["vector<2x16xf32>", "vector<2x16xi1>"], kind("min"), ["vector<2x16xf32>"],
         "mask of one row", core=SC),
    case("scan", ["vector<1x2x16xf32>"], kind("min"), ["vector<1x2x16xf32>"], "rank 1 or 2",
         core=SC),
    case("scan_count", [I1, F32], "", [I1, I32]),
    case("scan_count", [I1, F32], "", [I1, "vector<8xi32>"], "one shape"),
    case("sort", [I32, F32], "", [I1, I32, F32]),
    case("sort", [I32, F32], "", [I1, F32, F32], "expected result"),
    case("sort", [I32, "vector<8xf32>"], "", [I1, I32, "vector<8xf32>"], "one shape"),
]  # fmt: skip

MASKS = [
    case("create_mask", ["index"] * 4, "", ["i32"]),
    case("create_mask", ["index"] * 3, "", [I1], "same size", differs="does not count"),
    case("create_subelement_mask", [], "from = 9 : i32, to = 3 : i32", [I1]),
    case("mask_cast", [I1], "", ["vector<8x128x4xi1>"]),
    case("mask_cast", [I1], "", ["vector<8x64x4xi1>"], "leading dimensions"),
    case("pack_vmsk", [I1, I1], "positions = array<i32: 1, 0>", ["vector<8x128x2xi1>"]),
    case("pack_vmsk", [I1, I1], "positions = array<i32: 1, 2>", ["vector<8x128x2xi1>"], "[0, 2)"),
    case("pack_vmsk", [I1, I1], "positions = array<i32: 0, 1>", [I1], "at most 1 sources"),
    case("pack_vmsk", ["vector<3x8x128xi1>"] * 2, "positions = array<i32: 0, 1>",
         ["vector<3x8x128x2xi1>"], differs="has no grids of registers"),
]  # fmt: skip

HBM, VMEM = mem("8x128xf32", "hbm"), mem("8x128xf32")
SMEM_TC = mem("8x128xf32", "smem, tc")
DMA_SC = mem("!tpu.dma_semaphore", "semaphore_mem, sc_vector_subcore")
SEM_SC = mem("!tpu.semaphore", "semaphore_mem, sc_vector_subcore")
LOCAL = sizes(1, 0, 1, 1, 0, 0, 0)
DEVICE = sizes(1, 1, 1, 1, 1, 0, 0)
TRANSFERS = [
    case("enqueue_dma", [HBM, VMEM, DMA], LOCAL),
    case("enqueue_dma", [HBM, VMEM, SEM], LOCAL),
    case("enqueue_dma", [HBM, VMEM], sizes(1, 0, 1, 0, 0, 0, 0), [], "target_semaphore"),
    case("enqueue_dma", [HBM, VMEM, mem("2x!tpu.dma_semaphore", "semaphore_mem")], LOCAL, [],
         "rank 0"),
    case("enqueue_dma", [HBM, mem("8x128xi32"), DMA], LOCAL, [], "one element type"),
    case("enqueue_dma", [HBM, mem("16x128xf32"), DMA], LOCAL, [], "one shape"),
    case("enqueue_dma", [HBM, DMA, VMEM, DMA, "i32"], DEVICE),
    case("enqueue_dma", [HBM, SEM, VMEM, DMA, "i32"], DEVICE, [], "of one kind"),
    case("enqueue_dma", [HBM, DMA, VMEM, DMA], sizes(1, 1, 1, 1, 0, 0, 0), [], "device_id or"),
    case("enqueue_dma", [HBM, VMEM, DMA, "i32"], sizes(1, 0, 1, 1, 1, 0, 0), [],
         "wants a source_semaphore"),
    case("enqueue_dma", [HBM, VMEM, DMA], f"{LOCAL}, priority = 2 : i32", [], "priority 0 or 1"),
    case("enqueue_dma", [HBM, DMA, VMEM, DMA, "i32"], f"{DEVICE}, priority = 1 : i32", [],
         "has priority 0"),
    case("enqueue_dma", [HBM, DMA_SC, VMEM, DMA, "i32"], DEVICE, [], "semaphore of tc"),
    case("enqueue_dma", [HBM, DMA, VMEM, DMA_SC, "i32"], DEVICE, [], "wants a core_id"),
    case("enqueue_dma", [HBM, DMA, VMEM, DMA_SC, "i32"], sizes(1, 1, 1, 1, 0, 1, 0)),
    case("enqueue_dma", [HBM, DMA, VMEM, DMA_SC, "i32", "i32"], sizes(1, 1, 1, 1, 0, 1, 1)),
    case("enqueue_dma", [HBM, DMA, VMEM, DMA, "i32", "i32"], sizes(1, 1, 1, 1, 0, 1, 1), [],
         "subcore_id"),
    case("enqueue_dma", [HBM, VMEM, DMA], f"{LOCAL}, strict_ordering = true", [], "SparseCores"),
    case("enqueue_dma", [HBM, VMEM, DMA], f"{LOCAL}, strict_ordering = true", core=SC),
    case("enqueue_dma", [HBM, SMEM_TC, SEM], LOCAL, [], "regular semaphores"),
    case("enqueue_dma", [HBM, mem("8x128xf32", "smem"), SEM], LOCAL, differs=NEWER),
    case("wait_dma2", [DMA, HBM, mem("3xi8")], sizes(1, 1, 1, 0, 0)),
    case("wait_dma2", [DMA_SC, HBM, VMEM], sizes(1, 1, 1, 0, 0), [], "semaphore of tc"),
    case("wait_dma2", [SEM, HBM, VMEM], sizes(1, 1, 1, 0, 0), [], "memref of"),
    case("wait_dma", [HBM, VMEM, DMA], f"{LOCAL}, wait_target = true"),
    case("wait_dma", [HBM, VMEM, DMA], f"{LOCAL}, wait_target = false", [], "source_semaphore"),
    case("wait_dma", [HBM, VMEM, DMA], LOCAL, [], "wait_target"),
]  # fmt: skip

TABLE, ROWS = mem("64x128xf32", "hbm"), mem("16x128xf32")
OFFSETS = mem("16xi32")
INDIRECT = [
    case("enqueue_indirect_dma", [TABLE, ROWS, OFFSETS, DMA], core=SC),
    case("enqueue_indirect_dma", [ROWS, TABLE, "vector<16xi32>", DMA, "i32"], core=SC),
    case("enqueue_indirect_dma", [TABLE, ROWS, OFFSETS, DMA], "", [], "sc_vector_subcore only"),
    case("enqueue_indirect_dma", [TABLE, ROWS, mem("8xi32"), DMA], "", [], "as the other side",
         core=SC),
    case("enqueue_indirect_dma", [TABLE, ROWS, mem("16xi32", "hbm"), DMA], "", [], "offsets of i32",
         core=SC),
    case("enqueue_indirect_dma", [TABLE, mem("16x128xi32"), OFFSETS, DMA], "", [], "element type",
         core=SC),
    case("enqueue_indirect_dma", [TABLE, mem("16x128xf32", "smem"), OFFSETS, DMA], "", [],
         "shared memory", core=SC),
    case("enqueue_indirect_dma", [mem("1x64x128xf32", "hbm"), mem("1x16x128xf32"), mem("1x16xi32"),
                                  DMA], core=SC),
    case("enqueue_indirect_dma", [mem("2x64x128xf32", "hbm"), mem("1x16x128xf32"), mem("1x16xi32"),
                                  DMA], "", [], "indexed side", core=SC),
    case("enqueue_indirect_dma", [TABLE, mem("2x16x128xf32"), mem("2x16xi32"), DMA], "", [],
         "[1, n]", core=SC),
    case("wait_indirect_dma", [DMA, TABLE, ROWS], core=SC),
    case("wait_indirect_dma", [DMA, TABLE, ROWS], "", [], "sc_vector_subcore only"),
]  # fmt: skip

SYNC = [
    case("sem_alloc", [], "", [mem("4x!tpu.semaphore", "semaphore_mem")]),
    case("sem_alloc", [], "", [mem("4xi32")], "memref of"),
    case("sem_barrier", [], "", [mem("1x!tpu.semaphore", "semaphore_mem")], "rank 0"),
    case("sem_read", [DMA], "", ["i32"]),
    case("sem_wait", [DMA, "i32"], "", [], "memref of"),
    case("sem_wait", [mem("2x!tpu.semaphore", "semaphore_mem"), "i32"], "", [], "rank 0"),
    case("sem_signal", [SEM_SC, "i32"], sizes(1, 1, 0, 0, 0), [], "device_id or core_id"),
    case("sem_signal", [SEM_SC, "i32"], sizes(1, 1, 0, 0, 0), core=SC),
    case("sem_signal", [SEM_SC, "i32", "i32", "i32"], sizes(1, 1, 0, 1, 1)),
    case("sem_signal", [SEM, "i32", "i32", "i32"], sizes(1, 1, 0, 1, 1), [], "subcore_id"),
    case("fetch_and_add_sync", [mem("4xi32", "smem"), "i32", "i32", "i32"], "", ["i32"], core=SC),
    case("fetch_and_add_sync", [mem("4xi32", "smem"), "i32", "i32", "i32"], "", ["i32"],
         "sc_vector_subcore"),
    case("fetch_and_add_sync", [mem("4xi32", "smem"), "i32", "i32"], "", ["i32"], "1 indices",
         core=SC),
    case("core_id", [], "", ["i32"], core=SC),
    case("core_id", [], "", ["i32"], "for SparseCores"),
    case("core_id", [], "", ["i32"], "no core type", core=None),
    case("subcore_id", [], "", ["i32"], "dimension_semantics", core=SC,
         context="dimension_semantics = []"),
    case("log", [F32, F32], 'tag = "x", formatted = true'),
    case("log", ["i32"], 'tag = "x", formatted = true', [], "formatted", core=SC),
    case("log", ["i32", "i32"], 'tag = "x"', [], "at most one", core=SC),
    case("log", ["vector<16xf32>"], 'tag = "x"', core=SC),
    case("log", ["vector<16xf32>"], 'tag = "x"', [], "vectors cannot", core=SCALAR),
    case("log_buffer", [VMEM], 'shape = array<i64: 8>, tag = "x"', [], "one size per dimension"),
    case("trace_value", ["f32"], 'label = "x"'),
    case("trace_value", ["i64"], 'label = "x"', [], ""),
    case("iteration_bound", [], "dim = 9 : i32", ["i32"]),
    case("prng_random_bits", [], "", [F32]),
    case("prng_set_seed_32", []),
    case("internal_scratch", [], "", [VMEM]),
]  # fmt: skip

CASES = [*CONVERT, *MATMUL, *REDUCE, *MASKS, *TRANSFERS, *INDIRECT, *SYNC]
