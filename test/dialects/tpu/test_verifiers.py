"""What verifiers accept and refuse; with the jax extra, that jaxlib's verifiers agree."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects import make_context

F32 = "vector<8x128xf32>"
I32 = "vector<8x128xi32>"
I1 = "vector<8x128xi1>"
BF16 = "vector<16x128xbf16>"
SC = "sc_vector_subcore"
SCALAR = "sc_scalar_subcore"
INDEX = ["index", "index"]


def mem(shape: str, space: str = "vmem", layout: str = "") -> str:
    """A memref type."""
    middle = f"#tpu.tiled<{layout}>, " if layout else ""
    return f"memref<{shape}, {middle}#tpu.memory_space<{space}>>"


SEM = mem("!tpu.semaphore", "semaphore_mem")
DMA = mem("!tpu.dma_semaphore", "semaphore_mem")


@dataclass(frozen=True)
class Case:
    """An operation in pieces, and a part of the message if it is wrong."""

    op: str
    operands: tuple[str, ...]
    properties: str
    results: tuple[str, ...]
    error: str | None = None
    core: str | None = "tc"
    differs: str | None = None
    """Why jaxlib 0.10.2 says otherwise, None if it agrees."""
    context: str = ""
    """More attributes of the function around."""

    def __str__(self) -> str:
        verdict = "refuses " + self.error if self.error else "accepts"
        return f"{self.op}-{verdict}-{self.properties}"[:90]

    def module(self) -> str:
        names = ", ".join(f"%a{i}" for i in range(len(self.operands)))
        arguments = ", ".join(f"%a{i}: {type}" for i, type in enumerate(self.operands))
        properties = f" <{{{self.properties}}}>" if self.properties else ""
        core = [f"tpu.core_type = #tpu.core_type<{self.core}>"] if self.core else []
        attributes = ", ".join(core + ([self.context] if self.context else []))
        return (
            f"func.func @f({arguments}) attributes {{{attributes}}} {{\n"
            f'"tpu.{self.op}"({names}){properties} : ({", ".join(self.operands)})'
            f" -> ({', '.join(self.results)})\nreturn\n}}\n"
        )


def case(op: str, operands: list[str], properties: str = "", results: list[str] | None = None,
         error: str | None = None, **more: str | None) -> Case:  # fmt: skip
    return Case(op, tuple(operands), properties, tuple(results or ()), error, **more)  # pyright: ignore


def sizes(*numbers: int) -> str:
    return f"operandSegmentSizes = array<i32: {', '.join(map(str, numbers))}>"


def slice_case(source: str, count: int, result: str, error: str | None = None,
               dynamic: int = 0) -> Case:  # fmt: skip
    return case("memref_slice", [source] + ["i32"] * (count + dynamic), sizes(1, count, dynamic),
                [result], error)  # fmt: skip


VIEWS = [
    slice_case(mem("64x128xf32"), 2, mem("8x128xf32")),
    slice_case(mem("64x128xf32"), 2, "memref<8x128xf32>"),
    slice_case(mem("64x128xf32"), 2, mem("128x128xbf16")),
    slice_case(mem("64x128xf32"), 2, mem("?x128xf32"), "one size per dynamic dimension"),
    slice_case(mem("?x128xf32"), 2, mem("8x128xf32"), "static shapes"),
    slice_case(mem("64x128xf32"), 1, mem("8x128xf32"), "as many indices"),
    slice_case(mem("64x128xf32"), 2, mem("8x128x1xf32"), "as many indices"),
    slice_case(mem("64x128xf32"), 2, mem("8x128xf32", "hbm"), "one memory space"),
    slice_case("memref<64x128xf32>", 2, mem("8x128xf32"), "one memory space"),
    slice_case(mem("4xi32", "semaphore_mem"), 1, mem("1xi32", "semaphore_mem"), "semaphores"),
    slice_case(mem("64x128xf32", layout="(8,128),[1,1]"), 2, mem("8x128xf32"), "both layouts"),
    slice_case(mem("64x128xf32", layout="(8,128),[1,1]"), 2,
               mem("8x128xf32", layout="(2,128),[7,1]")),
    case("memref_squeeze", [mem("1x8x1x128xf32")], "", [mem("8x128xf32")]),
    case("memref_squeeze", [mem("1x1xf32")], "", [mem("1xf32")]),
    case("memref_squeeze", [mem("1xf32")], "", ["memref<f32>"]),
    case("memref_squeeze", [mem("2x8x128xf32")], "", [mem("8x128xf32")], "dropping dimensions"),
    case("memref_squeeze", [mem("8x128xf32")], "", [mem("1x8x128xf32")], "dropping dimensions"),
    case("memref_squeeze", [mem("1x8x128xf32")], "", [mem("8x128xi32")], "one element type"),
    case("memref_squeeze", [mem("1x8x128xf32")], "", [mem("8x128xf32", "smem")], "one memory"),
    case("memref_squeeze", [mem("1x8x128xf32", layout="(8,128),[1,1,1]")], "",
         [mem("8x128xf32", layout="(8,128),[1,1]")]),
    case("memref_squeeze", [mem("4x1x128xf32", layout="(8,128),[1,1,1]")], "",
         [mem("4x128xf32", layout="(8,128),[1,1]")], "is tiled"),
    case("memref_squeeze", [mem("4x1x128xf32", layout="(1,128),[1,1,1]")], "",
         [mem("4x128xf32", layout="(1,128),[1,1]")]),
    case("memref_squeeze", [mem("1x16x128xbf16", layout="(8,128)(2,1),[2,1,1]")], "",
         [mem("16x128xbf16", layout="(8,128)(2,1),[1,1]")]),
    case("memref_squeeze", [mem("16x1x128xbf16", layout="(1,128)(2,1),[1,1,1]")], "",
         [mem("16x128xbf16", layout="(1,128)(2,1),[1,1]")], "is tiled"),
    case("memref_squeeze", [mem("1x8x128xf32", layout="(8,128),[1,1,1]")], "",
         [mem("8x128xf32")], "both layouts"),
    case("memref_reshape", [mem("8x128xf32")], "", [mem("4x2x128xf32")]),
    case("memref_reshape", [mem("8x128xf32")], "", [mem("1024xf32")], "ranks of at least 2"),
    case("memref_reshape", [mem("8x128xf32")], "", [mem("4x128xf32")], "as many elements"),
    case("memref_reshape", [mem("8x128xf32")], "", [mem("8x128xi32")], "one element type"),
    case("memref_reshape", [mem("8x128xf32", layout="(8,128),[1,1]")], "",
         [mem("8x128xf32")], "tiled layouts"),
    case("memref_reshape", [mem("8x128xf32", layout="(8,128),[1,1]")], "",
         [mem("4x2x128xf32", layout="(8,128),[1,1,1]")], "does not divide"),
    case("memref_reshape", [mem("32x128xf32", layout="(8,128),[1,1]")], "",
         [mem("4x8x128xf32", layout="(8,128),[1,1,1]")]),
    case("memref_reshape", [mem("32x128xf32", layout="(8,128),[1,1]")], "",
         [mem("4x8x128xf32", layout="(8,128),[2,1,1]")], "contiguous"),
    case("memref_reshape", [mem("32x128xf32", layout="(8,128),[1,1]")], "",
         [mem("16x256xf32", layout="(8,128),[2,1]")], "minor dimension"),
    case("memref_reshape", [mem("32x128xf32", layout="(1,128),[1,1]")], "",
         [mem("16x256xf32", layout="(1,128),[2,1]")]),
    case("memref_reshape", [mem("32x128xf32", layout="(8,128),[1,1]")], "",
         [mem("4x8x128xf32", layout="(2,128),[4,1,1]")], "equal tiles"),
    case("memref_reshape", [mem("32x128xf32", layout="(1024),[1,1]")], "",
         [mem("4x8x128xf32", layout="(1024),[8,1,1]")], "tile of rank 2"),
    case("memref_reshape", [mem("32x128xf32", layout=",[128,1]")], "",
         [mem("4x8x128xf32", layout=",[1024,128,1]")]),
    case("memref_bitcast", [mem("8x128xf32")], "", [mem("16x128xbf16")]),
    case("memref_bitcast", [mem("8x128xf32")], "", [mem("8x256xbf16")], "equal sizes in bits"),
    case("memref_bitcast", [mem("128xf32")], "", [mem("128xi32")], "equal ranks"),
    case("memref_bitcast", [mem("8x128xf32", layout="(8,128),[1,1]")], "",
         [mem("16x128xbf16", layout="(16,128),[1,1]")]),
    case("memref_bitcast", [mem("8x128xf32", layout="(8,128),[1,1]")], "",
         [mem("16x128xbf16", layout="(8,128)(2,1),[1,1]")], "tiles of as many bits"),
    case("memref_bitcast", [mem("8x128xf32", layout="(8,128),[1,1]")], "", [mem("16x128xbf16")]),
    case("memref_bitcast", [mem("8x128xf32")], "",
         [mem("16x128xbf16", layout="(8,128),[1,1]")], "tiled source"),
    case("reinterpret_cast", [mem("8x128xf32"), "i32", "i32"], sizes(1, 1, 1),
         [mem("?x128xf32")]),
    case("reinterpret_cast", [mem("8x128xf32")], sizes(1, 0, 0), [mem("?x128xf32")],
         "one size per dynamic"),
    case("reinterpret_cast", [mem("8x128xf32")], sizes(1, 0, 0), ["memref<8x128xf32>"],
         "one memory space"),
    case("reinterpret_cast", [mem("8x128xf32")], sizes(1, 0, 0), [mem("3x5xi8")]),
    case("erase_memref_layout", [mem("8x128xf32", layout="(8,128),[1,1]")], "",
         ["memref<8x128xf32>"]),
    case("erase_memref_layout", [mem("8x128xf32")], "", [mem("8x128xi32")], "one element type"),
    case("erase_memref_layout", [mem("8x128xf32")], "", [mem("8x128xf32", "smem")], "one memory"),
]  # fmt: skip

NO_STRIDES = "strides = array<i32>"
M = mem("8x128xf32")
ALL8 = "sublane_mask = array<i1: true, true, true, true, true, true, true, true>"
OFFSETS8 = "sublane_offsets = array<i32: 0, 1, 2, 3, 4, 5, 6, 7>"
LOADS = [
    case("vector_load", [M, *INDEX], f"{sizes(1, 2, 0)}, {NO_STRIDES}", ["vector<128xf32>"]),
    case("vector_load", [M, "index"], f"{sizes(1, 1, 0)}, {NO_STRIDES}", [F32], "2 indices"),
    case("vector_load", [M, *INDEX], f"{sizes(1, 2, 0)}, strides = array<i32: 1, 1>", [F32],
         "without strides"),
    case("vector_load", [M, *INDEX], f"{sizes(1, 2, 0)}, strides = array<i32: 1>", [F32],
         "expected 2 strides"),
    case("vector_load", [mem("8x128xf32", "smem"), *INDEX], f"{sizes(1, 2, 0)}, {NO_STRIDES}",
         [F32], "in vmem"),
    case("vector_load", [mem("8x128xf32", "vmem, tc"), *INDEX],
         f"{sizes(1, 2, 0)}, {NO_STRIDES}", [F32]),
    case("vector_load", ["memref<8x128xf32>", *INDEX], f"{sizes(1, 2, 0)}, {NO_STRIDES}", [F32]),
    case("vector_load", [M, *INDEX], f"{sizes(1, 2, 0)}, {NO_STRIDES}", [I32], "element type"),
    case("vector_load", [M, *INDEX, "vector<1x128xi1>"], f"{sizes(1, 2, 1)}, {NO_STRIDES}", [F32]),
    case("vector_load", [M, *INDEX, "vector<4x128xi1>"], f"{sizes(1, 2, 1)}, {NO_STRIDES}", [F32],
         "cannot be broadcast"),
    case("vector_load", [mem("16x128xbf16"), *INDEX, "vector<16x128xi1>"],
         f"{sizes(1, 2, 1)}, {NO_STRIDES}", [BF16], "32-bit elements"),
    case("vector_store", ["vector<128xf32>", M, *INDEX], f"{sizes(1, 1, 2, 0)}, {NO_STRIDES}"),
    case("vector_store", [F32, M, "index"], f"{sizes(1, 1, 1, 0)}, {NO_STRIDES}", [], "2 indices"),
    case("vector_store", [F32, M, *INDEX, "vector<1x128xi1>"],
         f"{sizes(1, 1, 2, 1)}, {NO_STRIDES}", [], "mask of the shape"),
    case("vector_store", [F32, mem("8x128xf32", "hbm"), *INDEX],
         f"{sizes(1, 1, 2, 0)}, {NO_STRIDES}", [], "in vmem"),
    case("vector_store", [F32, M, *INDEX], f"{sizes(1, 1, 2, 0)}", [], "strides"),
    case("strided_load", [M, *INDEX], "strides = array<i32: 0, 1>", ["vector<4x128xf32>"]),
    case("strided_load", [M, *INDEX], "strides = array<i32: -1, 1>", [F32], "at least 0"),
    case("strided_load", [M, *INDEX], "strides = array<i32: 1>", [F32], "strides and vector"),
    case("strided_load", [M, *INDEX], "strides = array<i32: 2, 1>", ["vector<2x4x128xf32>"],
         "strides and vector"),
    case("strided_load", [mem("8x128xf32", "hbm"), *INDEX], "strides = array<i32: 2, 1>", [I32]),
    case("strided_store", [F32, M, *INDEX], "strides = array<i32: 0, 1>", [], "at least 1"),
    case("load", [M, *INDEX], "sublane_mask = array<i1: true>", [F32]),
    case("load", [M, "index"], ALL8, [I32]),
    case("store", [F32, M, *INDEX, "i32"], f"{sizes(1, 1, 2, 1)}, sublane_mask = array<i1>"),
    case("shuffled_load", [M, *INDEX], f"{ALL8}, {OFFSETS8}", [F32]),
    case("shuffled_load", [M, "index"], f"{ALL8}, {OFFSETS8}", [F32], "2 indices"),
    case("shuffled_load", [M, *INDEX], f"sublane_mask = array<i1>, {OFFSETS8}", [F32], "flags"),
    case("shuffled_load", [M, *INDEX], f"{ALL8}, sublane_offsets = array<i32: 1>", [F32],
         "offsets"),
    case("shuffled_store", ["vector<8x128x1xf32>", M, *INDEX], f"{ALL8}, {OFFSETS8}", [],
         "value of rank 2"),
    case("shuffled_load", [M, *INDEX], f"{ALL8}, {OFFSETS8}", ["vector<3x8x128xf32>"],
         differs="counts sublanes of grids as dimension 0"),
    case("vector_load_idx", [mem("64xf32"), "vector<16xi32>"], sizes(1, 1, 0),
         ["vector<16xf32>"], core=SC),
    case("vector_load_idx", [mem("8x8xf32"), "vector<16xi32>"], sizes(1, 1, 0),
         ["vector<16xf32>"], "2 indices", core=SC),
    case("vector_load_idx", [mem("64xf32"), "vector<8xi32>"], sizes(1, 1, 0),
         ["vector<16xf32>"], "indices of the shape", core=SC),
    case("vector_store_idx", [F32, mem("64xf32"), I32], sizes(1, 1, 1, 0), [], "rank 1", core=SC),
    case("vector_store_idx", ["vector<16xf32>", mem("64xi32"), "vector<16xi32>"],
         sizes(1, 1, 1, 0), [], "element type", core=SC),
]  # fmt: skip

R3 = "vector<3x8x128xf32>"
PATTERN8 = "pattern = array<i32: 0, 1, 2, 3, 8, 9, 10, 11>"
MOVEMENT = [
    case("reshape", [F32], "", ["vector<1024xf32>"]),
    case("reshape", [F32], "", ["vector<512xf32>"], "as many elements"),
    case("reshape", [F32], "", [I32], "element type"),
    case("transpose", [F32], "permutation = array<i64: 1, 0>", ["vector<128x8xf32>"]),
    case("transpose", ["vector<f32>"], "permutation = array<i64>", ["vector<f32>"]),
    case("transpose", [F32], "permutation = array<i64: 1, 0>", [F32], "does not give"),
    case("transpose", [F32], "permutation = array<i64: 0, 0>", [F32], "expected a permutation"),
    case("transpose", [F32], "permutation = array<i64: 1, 0>", ["vector<128x8xi32>"], "element"),
    case("concatenate", [F32, F32], "dimension = 1 : i32", ["vector<8x256xf32>"]),
    case("concatenate", [F32], "dimension = 1 : i32", [F32], "at least 2"),
    case("concatenate", [F32, F32], "dimension = 1 : i32", [F32], "expected result"),
    case("concatenate", [F32, "vector<4x128xf32>"], "dimension = 1 : i32", ["vector<8x256xf32>"],
         "differ in dimension 1"),
    case("concatenate", [F32, I32], "dimension = 0 : i32", ["vector<16x128xf32>"], "element"),
    case("repeat", [F32], "dimension = 1 : i32, times = 7 : i32", ["vector<3xf32>"]),
    case("bitcast", [F32], "", [I32]),
    case("bitcast", [F32], "", ["vector<32x128xi8>"]),
    case("bitcast", [F32], "", ["vector<8x256xbf16>"], "as many bits"),
    case("bitcast", ["vector<128xf32>"], "", ["vector<256xbf16>"], "ranks of at least 2"),
    case("bitcast_vreg", [F32], "", ["vector<3xi8>"]),
    case("dynamic_gather", [F32, I32], "dimensions = array<i32: 1>", [F32]),
    case("dynamic_gather", [F32, I32], "dimensions = array<i32: 0, 1>", [F32]),
    case("dynamic_gather", [F32, "vector<4x128xi32>"], "dimensions = array<i32: 0>",
         ["vector<4x128xf32>"]),
    case("dynamic_gather", [F32, "vector<4x128xi32>"], "dimensions = array<i32: 1>",
         ["vector<4x128xf32>"], "equal sizes"),
    case("dynamic_gather", [F32, I32], "dimensions = array<i32: 1>", [I32], "expected result"),
    case("dynamic_gather", [F32, I32], "dimensions = array<i32: 2>", [F32], "out of range"),
    case("dynamic_gather", [F32, I32], "dimensions = array<i32: 1, 1>", [F32], "different"),
    case("dynamic_gather", [F32, "vector<128xi32>"], "dimensions = array<i32: 0>",
         ["vector<128xf32>"], "one rank"),
    case("dynamic_rotate", [F32, "i32"], "dimension = 2 : si32", [F32], "out of range"),
    case("dynamic_rotate", [F32, "i32"], "dimension = 1 : si32", [I32], "expected result"),
    case("dynamic_rotate", [F32, "i32"], "dimension = 1 : si32, stride = 1 : si32", [F32], "both"),
    case("dynamic_rotate", [F32, "i32"],
         "dimension = 1 : si32, stride = -1 : si32, stride_dimension = 0 : si32", [F32],
         "at least 0"),
    case("dynamic_rotate", [F32, "i32"],
         "dimension = 1 : si32, stride = 1 : si32, stride_dimension = 2 : si32", [F32],
         "out of range"),
    case("iota", [], "dimensions = array<i32>", [I32]),
    case("iota", [], "dimensions = array<i32: 1, 0>", ["vector<8x128xindex>"]),
    case("iota", [], "dimensions = array<i32: 1, 1>", [I32], "different"),
    case("iota", [], "dimensions = array<i32: 2>", [I32], "out of range"),
    case("iota", [], "dimensions = array<i32: 0>", [F32], "vector of integers"),
    case("roll_vectors", [F32, I32], "", ["vector<3xf32>"]),
    case("sublane_shuffle", [F32, F32], PATTERN8, [F32]),
    case("sublane_shuffle", [R3, R3], PATTERN8, [R3], differs="has no grids of registers"),
    case("sublane_shuffle", ["vector<8x128x2xbf16>"] * 2, PATTERN8, ["vector<8x128x2xbf16>"]),
    case("sublane_shuffle", [F32, I32], PATTERN8, [F32], "three equal types"),
    case("sublane_shuffle", [F32, F32], "pattern = array<i32: 0>", [F32], "pattern of 8"),
    case("sublane_shuffle", [F32, F32], PATTERN8.replace("11", "16"), [F32], "[0, 16)"),
    case("sublane_shuffle", ["vector<8xf32>"] * 2, PATTERN8, ["vector<8xf32>"], "rank 2 or 3"),
    case("assume_multiple", ["index"], "multiple = 8 : i32", ["index"]),
    case("assume_multiple", ["i32"], "multiple = 0 : i32", ["i32"], "at least 1"),
    case("assume_multiple", ["i32"], "multiple = 8 : i32", ["index"], ""),
    case("assume_multiple", ["f32"], "multiple = 8 : i32", ["f32"], "integer or index"),
]  # fmt: skip

CASES = [*VIEWS, *LOADS, *MOVEMENT]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_ours(case: Case) -> None:
    if case.error is None:
        Parser(make_context(), case.module()).parse_module().verify()
        return
    with pytest.raises(VerifyException) as caught:
        Parser(make_context(), case.module()).parse_module().verify()
    assert case.error in str(caught.value)


@pytest.mark.jax
@pytest.mark.parametrize("case", CASES, ids=str)
def test_jaxlib_agrees(case: Case) -> None:
    ir = pytest.importorskip("jaxlib.mlir.ir")
    with mosaic_context(), ir.Location.unknown():
        try:
            ir.Module.parse(case.module())
            accepted = True
        except ir.MLIRError:
            accepted = False
    assert accepted == ((case.error is None) != (case.differs is not None))


def mosaic_context() -> object:
    """A context of jaxlib that knows Mosaic's dialects."""
    ir = pytest.importorskip("jaxlib.mlir.ir")
    tpu = pytest.importorskip("jaxlib.mosaic.python.tpu")
    extension = pytest.importorskip("jaxlib.mlir._mlir_libs._jax_mlir_ext")
    registry = ir.DialectRegistry()
    extension.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    tpu.register_dialect(context)
    context.load_all_available_dialects()
    return context
