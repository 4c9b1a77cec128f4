"""What the verifiers of MLIR's own dialects refuse; with the jax extra, that jaxlib's agree."""

from __future__ import annotations

import pytest

import pallasite
from pallasite.diagnostics import VerifyError

from ..jaxlib_context import is_taken
from .tpu.cases import Case, case

F32 = "vector<8x128xf32>"
I32 = "vector<8x128xi32>"
I1 = "vector<8x128xi1>"
VMEM = "#tpu.memory_space<vmem>"
REF = f"memref<8x128xf32, {VMEM}>"
TILED = f"memref<8x128xf32, #tpu.tiled<(8,128),[1,1]>, {VMEM}>"

BINARY = ["andi", "addi", "muli", "divui", "remsi", "maxsi", "minui", "shli"]
ARITH = [
    *(
        case(f"arith.{name}", [type, type], "", [type], "expected signless integers")
        for name in BINARY
        for type in ("vector<8x128xsi32>", "ui32")
    ),
    case("arith.extsi", ["vector<8xi8>"], "", ["vector<8xsi32>"], "signless"),
    case("arith.sitofp", ["ui32"], "", ["f32"], "signless"),
    case("arith.bitcast", [F32], "", ["vector<8x128xsi32>"], "signless"),
    case("arith.index_cast", ["si32"], "", ["index"], "signless"),
    case("math.absi", ["si32"], "", ["si32"], "signless"),
    case("math.ctlz", ["vector<8xui32>"], "", ["vector<8xui32>"], "signless"),
]

MAPS = (
    "indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, "
    "affine_map<(i, j) -> (i)>], "
    "iterator_types = [#vector.iterator_type<parallel>, #vector.iterator_type<reduction>]"
)


def kind(name: str) -> str:
    return f"kind = #vector.kind<{name}>"


def contract(lhs: str, rhs: str, acc: str, error: str | None = None, how: str = "add") -> Case:
    operands = [f"vector<8x128x{lhs}>", f"vector<128x{rhs}>", f"vector<8x{acc}>"]
    return case("vector.contract", operands, f"{MAPS}, {kind(how)}", operands[2:], error)


def outer(lhs: str, rhs: str, error: str | None = None, how: str = "add",
          result: str = "vector<8x128xf32>") -> Case:  # fmt: skip
    return case("vector.outerproduct", [lhs, rhs], kind(how), [result], error)


def scan(initial: str, error: str | None = None, dim: int = 1, how: str = "add") -> Case:
    properties = f"inclusive = true, {kind(how)}, reduction_dim = {dim} : i64"
    return case("vector.scan", [F32, initial], properties, [F32, initial], error)


def gather(base: str = REF, indices: str = I32, mask: str = I1, other: str = F32,
           error: str | None = None, count: int = 2) -> Case:  # fmt: skip
    operands = [base, *["index"] * count, indices, mask, other]
    return case("vector.gather", operands, "", [F32], error)


POINT = "static_position = array<i64: 0, 0>"
BOX = "offsets = [0, 0], strides = [1, {}]"
VECTOR = [
    contract("f32", "f32", "f32"),
    contract("bf16", "bf16", "f32"),
    contract("f32", "bf16", "f32", "one element type"),
    case("vector.contract", [F32, "vector<128xf32>", "vector<8xi32>"], f"{MAPS}, {kind('add')}",
         ["vector<8xi32>"], "to be added to floats", differs="does not look"),
    contract("f32", "f32", "f32", "does not combine", "minsi"),
    contract("i32", "i32", "i32", how="maxsi"),
    contract("i32", "i32", "i32", "does not combine", "minimumf"),
    outer("vector<8xf32>", "vector<128xf32>"),
    outer("vector<8xf32>", "vector<128xi8>", "one element type"),
    outer("vector<8xf32>", "vector<128xf32>", "does not combine", "minsi"),
    outer("vector<8x128xf32>", "vector<1xf32>", "rank 1", result="vector<8x128x1xf32>"),
    scan("vector<8xf32>"),
    scan("vector<128xf32>", dim=0),
    scan("vector<f32>", "shape [8]"),
    scan("vector<7xf32>", "shape [8]"),
    case("vector.scan", [F32, "vector<8xi32>"],
         f"inclusive = true, {kind('add')}, reduction_dim = 1 : i64", [F32, "vector<8xi32>"],
         "one element type", differs="does not look"),
    scan("vector<8xf32>", "as reduction_dim, got 2", dim=2),
    scan("vector<8xf32>", "does not combine", how="xor"),
    gather(),
    gather(indices="vector<8x128xindex>"),
    gather(indices=F32, error="that are integers"),
    gather(indices="vector<8xi32>", error="of the shape"),
    gather(mask=I32, error="mask of i1"),
    gather(mask="vector<8xi1>", error="of the shape"),
    gather(other=I32, error="pass_thru"),
    gather(base="memref<8x128xi32>", error="elements of memref"),
    gather(error="2 indices", count=1),
    case("vector.step", [], "", ["vector<4xindex>"]),
    case("vector.step", [], "", ["vector<4xi32>"], "vector of index"),
    case("vector.step", [], "", ["vector<2x4xindex>"], "rank 1"),
    case("vector.constant_mask", [], "mask_dim_sizes = array<i64: 4, 128>", [I1]),
    case("vector.constant_mask", [], "mask_dim_sizes = array<i64: 0, 0>", [I1]),
    case("vector.constant_mask", [], "mask_dim_sizes = array<i64: 4, 129>", [I1], "sizes from 0"),
    case("vector.constant_mask", [], "mask_dim_sizes = array<i64: 4, -1>", [I1], "sizes from 0"),
    case("vector.constant_mask", [], "mask_dim_sizes = array<i64: 4, 0>", [I1], "to be 0"),
    case("vector.interleave", ["vector<4xf32>"] * 2, "", ["vector<8xf32>"]),
    case("vector.interleave", ["f32"] * 2, "", ["vector<2xf32>"], "expected a vector"),
    case("vector.interleave", ["vector<f32>"] * 2, "", ["vector<2xf32>"]),
    case("vector.interleave", ["vector<f32>"] * 2, "", ["vector<f32>"], "vector<2xf32>"),
    case("vector.deinterleave", ["vector<4xf32>"], "", ["vector<2xf32>"] * 2),
    case("vector.deinterleave", ["vector<5xf32>"], "", ["vector<2xf32>"] * 2, "even"),
    case("vector.deinterleave", ["vector<f32>"], "", ["vector<f32>"] * 2, "rank at least 1"),
    case("vector.deinterleave", [REF], "", ["vector<2xf32>"] * 2, "expected a vector"),
    case("vector.extract_strided_slice", [F32], f"{BOX.format(1)}, sizes = [8, 1]",
         ["vector<8x1xf32>"]),
    case("vector.insert_strided_slice", ["vector<8x1xf32>", F32], BOX.format(1), [F32]),
    case("vector.insert_strided_slice", ["vector<8x1xf32>", "f32"], BOX.format(1), ["f32"],
         "vector"),
    case("vector.extract", [F32], POINT, ["f32"]),
    case("vector.extract", [F32], POINT, ["vector<f32>"], "expected the scalar f32"),
    case("vector.insert", ["f32", F32], POINT, [F32]),
    case("vector.insert", ["vector<f32>", F32], POINT, [F32], "expected the scalar f32"),
]  # fmt: skip

NO_SIZES = "operandSegmentSizes = array<i32: 0, 0>"
TURNED = "permutation = affine_map<(i, j) -> (j, i)>"
MEMREF = [
    *(
        case("memref.alloca", [], f"alignment = {number}, {NO_SIZES}", [REF], error)
        for number, error in (
            ("8 : i64", None), ("3 : i64", "not a power of 2"), ("8 : i32", "of type i64"),
        )
    ),
    case("memref.cast", [REF], "", [f"memref<?x128xf32, {VMEM}>"]),
    case("memref.cast", [REF], "", [f"memref<?x128xf32, strided<[?, ?], offset: ?>, {VMEM}>"]),
    case("memref.cast", [REF], "", ["memref<?x128xf32>"], "one memory space"),
    case("memref.cast", [REF], "", [TILED], "layouts that agree"),
    case("memref.memory_space_cast", ["memref<8x128xf32>"], "", [REF]),
    case("memref.memory_space_cast", ["memref<8x?xf32>"], "", [REF], "in another memory space"),
    case("memref.memory_space_cast", ["memref<8x128xf32>"], "", [TILED], "in another memory"),
    case("memref.transpose", ["memref<8x128xf32>"], TURNED,
         ["memref<128x8xf32, strided<[1, 128]>>"]),
    case("memref.transpose", ["memref<8x128xi2>"], TURNED,
         ["memref<128x8xf32, strided<[1, 128]>>"], "one element type"),
    case("memref.transpose", [REF], TURNED, ["memref<128x8xf32, strided<[1, 128]>>"],
         "one memory space"),
    *(
        case("memref.transpose", [source], TURNED, [result], error)
        for source, result, error in (
            ("memref<8x128xf32>", "memref<128x8xf32>", "expected layout strided<[1, 128]>, got"),
            ("memref<1x128xf32>", "memref<128x1xf32>", "expected layout strided<[1, 128]>, got"),
            ("memref<8x?xf32>", "memref<?x8xf32, strided<[1, ?]>>", None),
            ("memref<8x4xf32, strided<[9, 1], offset: 3>>",
             "memref<4x8xf32, strided<[1, 9], offset: 3>>", None),
            ("memref<8x4xf32, strided<[9, 1], offset: 3>>",
             "memref<4x8xf32, strided<[1, 9]>>", "expected layout"),
        )
    ),
    case("memref.transpose", ["memref<8x4xf32>"], "permutation = affine_map<(i, j) -> (i, j)>",
         ["memref<8x4xf32>"]),
]  # fmt: skip

ALIGNED = [
    *(
        case(op, operands, f"alignment = {number} : i64", results, error)
        for op, operands, results in (
            ("vector.load", [REF, "index", "index"], [F32]),
            ("vector.store", [F32, REF, "index", "index"], []),
        )
        for number, error in (
            (16, None), (-1, "power of two, got -1"), (0, "got 0"), (24, "power of two, got 24")
        )
    ),
]  # fmt: skip

TYPES = [
    case("log", [f"vector<8x128x{type}>"], 'formatted = false, tag = "x"', [], "that are numbers")
    for type in ("!tpu.semaphore", "!tpu.dma_semaphore")
]
CASES = [*ARITH, *VECTOR, *MEMREF, *ALIGNED, *TYPES]


def function(attributes: str) -> str:
    named = ", ".join(filter(None, ['sym_name = "f", function_type = (i32) -> ()', attributes]))
    return f'"func.func"() <{{{named}}}> ({{^bb0(%a: i32): func.return}}) : () -> ()'


def memory(attribute: str) -> str:
    return f'"memref.global"() <{{sym_name = "g", type = memref<4xf32>, {attribute}}}> : () -> ()'


MADE = "%m = memref.alloca() : memref<4xf32>"
SYMBOLS = [
    (function(""), None),
    (function("arg_attrs = [{tpu.x = 1 : i32}], res_attrs = []"), None),
    (function("arg_attrs = []"), "expected a dictionary per argument, 1, got 0"),
    (function("res_attrs = [{}]"), "expected a dictionary per result, 0, got 1"),
    (function("arg_attrs = [{x = 1 : i32}]"), "the name of a dialect before an attribute's, got x"),
    (function('sym_visibility = "private"'), None),
    (function('sym_visibility = ""'), 'a visibility of public, private, nested, got ""'),
    (memory('sym_visibility = "nested"'), None),
    (memory('sym_visibility = "mine"'), 'a visibility of public, private, nested, got "mine"'),
    (memory("alignment = 8 : i64"), None),
    (memory("alignment = 3 : i64"), "expected an alignment that is a power of two, got 3"),
    (f"func.func @h() {{ {memory('constant')} func.return }}", "symbols belong to a module, not"),
    (f"func.func @h() {{ {function('')} func.return }}", "symbols belong to a module, not to func"),
    (f"builtin.module {{ {function('')} }}", None),
    (MADE, "memory is allocated inside a function"),
    (f"func.func @h() {{ {MADE} func.return }}", None),
    (f"builtin.module {{ {MADE} }}", "memory is allocated inside a function"),
    (f"%c = arith.constant true scf.if %c {{ {MADE} }}", "memory is allocated inside a function"),
    (f"%c = arith.constant 1 : index scf.for %i = %c to %c step %c {{ {MADE} }}", None),
    (f'"tpu.region"() ({{ {MADE} tpu.yield }}) : () -> ()', "memory is allocated inside"),
]  # fmt: skip

BODY = "^bb0(%x: i32): scf.yield"
TRACED = 'level = 1 : i32, message = "x"'
REGIONS = [
    (f'"scf.if"(%c) ({{ {BODY} }}, {{}}) : (i1) -> ()', True),
    (f'"scf.if"(%c) ({{ scf.yield }}, {{ {BODY} }}) : (i1) -> ()', True),
    (f'"scf.execute_region"() ({{ {BODY} }}) : () -> ()', True),
    *(
        (f'"scf.index_switch"(%i) <{{cases = array<i64: 1>}}> ({{ {one} }}, {{ {two} }})'
         " : (index) -> ()", False)
        for one, two in ((BODY, "scf.yield"), ("scf.yield", BODY))
    ),
    ('"tpu.region"() ({ ^bb0(%x: i32): tpu.yield }) : () -> ()', False),
    (f'"tpu.trace"() <{{{TRACED}}}> ({{ ^bb0(%x: i32): tpu.yield }}) : () -> ()', False),
]  # fmt: skip
"""Regions with an argument that nothing passes, and whether jaxlib refuses them, too."""


@pytest.mark.parametrize(("text", "refused"), REGIONS)
def test_nothing_is_passed_to_a_region(text: str, refused: bool) -> None:
    with pytest.raises(VerifyError, match=r"to have no arguments, got \(i32\)"):
        pallasite.parse(f"func.func @f(%c: i1, %i: index) {{ {text} return }}")


@pytest.mark.jax
@pytest.mark.parametrize(("text", "refused"), REGIONS)
def test_jaxlib_on_arguments_of_regions(text: str, refused: bool) -> None:
    assert is_taken(f"func.func @f(%c: i1, %i: index) {{ {text} return }}") != refused


@pytest.mark.parametrize(("text", "error"), SYMBOLS)
def test_symbols(text: str, error: str | None) -> None:
    if error is None:
        pallasite.parse(text)
        return
    with pytest.raises(VerifyError, match=error):
        pallasite.parse(text)


@pytest.mark.jax
@pytest.mark.parametrize(("text", "error"), SYMBOLS)
def test_jaxlib_agrees_about_symbols(text: str, error: str | None) -> None:
    assert is_taken(text) == (error is None)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_ours(case: Case) -> None:
    if case.error is None:
        pallasite.parse(case.module())
        return
    with pytest.raises(VerifyError) as caught:
        pallasite.parse(case.module())
    assert case.error in str(caught.value)
    assert "is not valid (" not in str(caught.value)


@pytest.mark.jax
@pytest.mark.parametrize("case", CASES, ids=str)
def test_jaxlib_agrees(case: Case) -> None:
    assert is_taken(case.module()) == ((case.error is None) != (case.differs is not None))
