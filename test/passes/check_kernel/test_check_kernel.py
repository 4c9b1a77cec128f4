"""What the hardware cannot do, refused case by case as the real compiler decides."""

from __future__ import annotations

from functools import partial

import pytest

from pallasite.diagnostics import Unsupported, VerifyError
from pallasite.passes.reference_tiles import tile_rows
from pallasite.targets import get_target

from ..checking import ANY, SMEM, beyond, check, kernel, load, matmul, memref, refused

SEMAPHORES = "#tpu.memory_space<semaphore_mem>"


def binary(op: str, element: str) -> str:
    shape = f"32x256x{element}"
    m = memref(shape)
    return kernel(
        f"%a: {m}, %b: {m}",
        load("x", "a", shape) + load("y", "b", shape) + f"%z = {op} %x, %y : vector<{shape}>",
    )


def unary(op: str, element: str) -> str:
    shape = f"32x256x{element}"
    text = load("x", "a", shape) + f"%z = {op} %x : vector<{shape}>"
    return kernel(f"%a: {memref(shape)}", text)


GOOD = [
    ("arith.addi", "i32"), ("arith.addi", "i16"), ("arith.muli", "i16"), ("arith.andi", "i8"),
    ("arith.xori", "i4"), ("arith.shli", "i8"), ("arith.divsi", "i32"), ("arith.addf", "bf16"),
    ("math.powf", "bf16"), ("math.atan2", "f32"),
]  # fmt: skip
BAD = [
    ("arith.addi", "i8"), ("arith.subi", "i4"), ("arith.divsi", "i16"), ("arith.minsi", "i16"),
    ("arith.maxui", "i8"),
]  # fmt: skip
BAD_FLOATS = [
    ("arith.addf", "f8E5M2"), ("arith.maximumf", "f8E4M3FN"), ("math.atan2", "bf16"),
    ("math.copysign", "f32"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "element"), GOOD)
def test_operations_the_vector_unit_has(op: str, element: str) -> None:
    check(binary(op, element))


@pytest.mark.parametrize(("op", "element"), BAD)
def test_narrow_integers_it_has_not(op: str, element: str) -> None:
    refused(binary(op, element), "narrow-integer")


@pytest.mark.parametrize(("op", "element"), BAD_FLOATS)
def test_floats_it_has_not(op: str, element: str) -> None:
    refused(binary(op, element), "float-type")


def test_unary_operations_it_has_not() -> None:
    refused(unary("math.cttz", "i32"), "narrow-integer")
    refused(unary("math.ctpop", "i16"), "narrow-integer")
    refused(unary("math.atan", "f32"), "float-type")
    check(unary("math.absi", "i16"))
    check(unary("math.exp", "bf16"))
    refused(unary("math.trunc", "bf16"), "float-type", "v5e")
    check(unary("math.trunc", "bf16"), "v6e")


def test_unsigned_division_of_narrow_integers() -> None:
    for op in ("arith.divui", "arith.remui"):
        check(binary(op, "i16"), "v4")
        refused(binary(op, "i8"), "narrow-integer", "v5e")
        check(binary(op, "i8"), "v6e")
        refused(binary(op, "i4"), "narrow-integer", "v7x")


@pytest.mark.parametrize("target", ["v5e", "v7x"])
def test_booleans_are_not_multiplied(target: str) -> None:
    for factor, total in (("i1", "i32"), ("i1", "f32")):
        refused(matmul(factor, total), "matmul-type", target)
    refused(matmul("i1", "f32", "bf16"), "matmul-type", target)
    refused(matmul("bf16", "bf16"), "matmul-type", target)


def test_shifts_of_bytes_by_vectors_need_generation_5() -> None:
    refused(binary("arith.shli", "i8"), "narrow-integer", "v4")
    check(binary("arith.shli", "i16"), "v4")
    check(binary("arith.shli", "i8"), "v5e")
    by_constant = binary("arith.shli", "i8").replace("%x, %y", "%x, %k").replace(
        "%z = ", "%k = arith.constant dense<3> : vector<32x256xi8>\n%z = ")  # fmt: skip
    assert "%x, %k" in by_constant
    check(by_constant, "v4")


@pytest.mark.parametrize("element", ["f16", "i64", "f64", "f8E3M4", "f8E4M3", "f8E5M2FNUZ"])
def test_elements_without_registers(element: str) -> None:
    refused(kernel(f"%a: {memref(f'8x128x{element}')}", load("x", "a", f"8x128x{element}")),
            "element-type")  # fmt: skip


@pytest.mark.parametrize("element", ["i64", "f64", "complex<f32>"])
def test_elements_without_memory(element: str) -> None:
    """Also where they are only copied."""
    kind, semaphore = memref(f"8x128x{element}", ANY), memref("!tpu.dma_semaphore", SEMAPHORES)
    copy = f"""tpu.enqueue_dma source(%x : {kind}) target(%o : {kind})
        target_semaphore(%s : {semaphore})"""
    refused(kernel(f"%x: {kind}, %o: {kind}, %s: {semaphore}", copy), "element-type")


def reduction(kind: str, element: str, start: str) -> str:
    source, result = f"vector<32x256x{element}>", f"vector<32x{element}>"
    body = load("x", "a", f"32x256x{element}")
    body += f"%k = arith.constant dense<{start}> : {result}\n"
    body += f"%r = vector.multi_reduction <{kind}>, %x, %k [1] : {source} to {result}"
    return kernel(f"%a: {memref(f'32x256x{element}')}", body)


def test_reductions() -> None:
    check(reduction("add", "f32", "0.0"))
    check(reduction("maxsi", "i32", "0"))
    check(reduction("minimumf", "bf16", "0.0"))
    refused(reduction("mul", "f32", "1.0"), "reduction-kind")
    refused(reduction("or", "i32", "0"), "reduction-kind")
    refused(reduction("add", "i16", "0"), "reduction-type")


def test_matmul_types_by_generation() -> None:
    check(matmul("bf16"), "v4")
    check(matmul("i8", "i32"), "v5e")
    check(matmul("f8E4M3FN"), "v5e")
    refused(matmul("i8", "i32"), "matmul-type", "v4")
    refused(matmul("f8E4M3FN"), "matmul-type", "v4")
    check(matmul("bf16", right="i16"), "v6e")
    refused(matmul("bf16", right="i16"), "matmul-type", "v7x")
    refused(matmul("f8E4M3B11FNUZ"), "matmul-type", "v7x")
    check(matmul("i8", "i32", right="i4"), "v7x")
    check(matmul("bf16", right="f4E2M1FN"), "v7x")
    for target in ("v5e", "v6e", "v7x"):
        refused(matmul("i2", "i32"), "matmul-type", target)
    check(matmul("bf16", right="i2"), "v6e")
    refused(matmul("bf16", right="i2"), "matmul-type", "v7x")
    with pytest.raises(Unsupported) as caught:
        check(matmul("i8", "i32", right="i32"), "v7x")
    assert "rounds int32" in str(caught.value.notes)


@pytest.mark.parametrize("target", ["v4", "v5e", "v5p", "v6e"])
def test_elements_that_are_only_moved_are_not_multiplied(target: str) -> None:
    """libtpu 0.0.51: "Bad lhs/rhs type"; it has no cast of them either."""
    for left, right in (("bf16", "f4E2M1FN"), ("f4E2M1FN", "f32"), ("f4E2M1FN", "f4E2M1FN")):
        refused(matmul(left, right=right), "matmul-type", target)


def test_sums_of_products() -> None:
    refused(matmul("f32", "i32"), "matmul-type")
    refused(matmul("bf16", "i32", right="i8"), "matmul-type")
    beyond(matmul("i8", "f32"), "matmul-type", "v6e")
    beyond(matmul("i4", "f32"), "matmul-type", "v5e")
    check(matmul("i8", "f32"), "v7x")


@pytest.mark.parametrize("space", [SMEM, ANY])
def test_vectors_reach_vmem_only(space: str) -> None:
    m = memref("8x128xf32", space)
    body = f"%x = vector.load %a[%c0, %c0] : {m}, vector<8x128xf32>"
    refused(kernel(f"%a: {m}", body), "memory-space")


def dynamic(shape: str, loaded: str, index: str, multiple: int = 0) -> str:
    """Loads `loaded` at `index`, in which %d is a scalar known to be a multiple of `multiple`."""
    table = memref("1xi32", SMEM)
    body = f"%n = memref.load %t[%c0] : {table}\n"
    if multiple:
        body += f"%m = tpu.assume_multiple %n, {multiple} : i32\n"
    body += f"%d = arith.index_cast {'%m' if multiple else '%n'} : i32 to index\n"
    body += f"%x = vector.load %a[{index}] : {memref(shape)}, vector<{loaded}>"
    return kernel(f"%t: {table}, %a: {memref(shape)}", body)


@pytest.mark.parametrize(
    ("shape", "loaded", "index", "multiple"),
    [
        ("64x128xf32", "8x128xf32", "%d, %c0", 0),
        ("64x256xf32", "1x256xf32", "%d, %c0", 0),
        ("64x256xf32", "8x256xf32", "%d, %c0", 8),
        ("64x256xf32", "64x128xf32", "%c0, %d", 128),
        ("64x256xbf16", "32x256xbf16", "%d, %c0", 8),
        ("64x256xi8", "32x256xi8", "%d, %c0", 32),
        ("48x256xi8", "16x256xi8", "%d, %c0", 8),
        ("2048xf32", "1024xf32", "%d", 128),
        ("2048xbf16", "1024xbf16", "%d", 256),
        ("4x64x256xi8", "1x64x256xi8", "%d, %c0, %c0", 0),
        ("2x1x256xf32", "2x1x256xf32", "%c0, %d, %c0", 0),
        ("1x128xbf16", "1x128xbf16", "%d, %c0", 2),
        ("1x256xf32", "1x128xf32", "%d, %c0", 0),
        ("64x256xf32", "1x128xf32", "%d, %c0", 8),
    ],
)
def test_dynamic_indices_that_start_a_tile(
    shape: str, loaded: str, index: str, multiple: int
) -> None:
    check(dynamic(shape, loaded, index, multiple))


@pytest.mark.parametrize(
    ("shape", "loaded", "index", "multiple"),
    [
        ("64x256xf32", "8x256xf32", "%d, %c0", 4),
        ("64x256xf32", "64x1xf32", "%c0, %d", 0),
        ("64x256xf32", "1x128xf32", "%d, %c0", 0),
        ("64x128xbf16", "8x128xbf16", "%d, %c0", 4),
        ("64x256xi8", "32x256xi8", "%d, %c0", 16),
        ("2048xf32", "1024xf32", "%d", 0),
        ("2048xbf16", "1024xbf16", "%d", 128),
        ("2x1x128xbf16", "1x1x128xbf16", "%c0, %d, %c0", 0),
        ("1x256xi8", "1x256xi8", "%d, %c0", 2),
        ("8x1xf32", "8x1xf32", "%c0, %d", 0),
        ("1xf32", "1xf32", "%d", 0),
    ],
)
def test_dynamic_indices_without_a_proof(
    shape: str, loaded: str, index: str, multiple: int
) -> None:
    refused(dynamic(shape, loaded, index, multiple), "unproven-alignment")


@pytest.mark.parametrize(
    ("rows", "bits", "tile"),
    [(2, 32, 2), (6, 32, 8), (64, 16, 8), (3, 16, 4), (2, 8, 4), (24, 8, 8), (32, 8, 32),
     (48, 8, 8), (32, 4, 8), (64, 4, 64), (96, 4, 8)],
)  # fmt: skip
def test_tile_rows(rows: int, bits: int, tile: int) -> None:
    assert tile_rows(rows, bits) == tile


@pytest.mark.parametrize(
    ("rows", "kind", "refusing"),
    [(32, "argument", ""), (32, "scratch", "v7x"), (32, "scoped", "v6e v7x"), (24, "scoped", "")],
)
def test_half_words_of_what_the_kernel_has_for_itself(rows: int, kind: str, refusing: str) -> None:
    """Their tiles have 16 rows on newer chips, where these divide the rows."""
    ref = memref(f"{rows}x128xbf16")
    body = f"""%i = memref.load %t[%c0] : {memref("4xi32", SMEM)}
        %o = tpu.assume_multiple %i, 8 : i32
        %d = arith.index_cast %o : i32 to index
        """
    access = f"%v = vector.load %{{0}}[%d, %c0] : {ref}, vector<8x128xbf16>"
    if kind == "scoped":
        inner = f"%a = memref.alloca() : {ref}\n{access.format('a')}\ntpu.yield"
        body += f'"tpu.region"() ({{\n{inner}\n}}) : () -> ()'
    else:
        body += access.format("x")
    text = kernel(f"%t: {memref('4xi32', SMEM)}, %x: {ref}", body, scratch=int(kind == "scratch"))
    for target in ("v4", "v5e", "v5p", "v6e", "v7x"):
        if target in refusing:
            beyond(text, "unproven-alignment", target)
        else:
            check(text, target)


@pytest.mark.parametrize(
    ("index", "shape", "loaded", "good"),
    [
        ("%o, %c0", "32x256xf32", "8x256", False), ("%m, %c0", "32x256xf32", "8x256", True),
        ("%o, %c0", "32x256xf32", "1x256", True), ("%o, %c0", "32x128xf32", "8x128", True),
        ("%c0, %p", "32x512xf32", "32x64", False), ("%c0, %l", "32x512xf32", "32x64", True),
    ],
)  # fmt: skip
def test_a_multiple_and_something_more_is_no_proof(
    index: str, shape: str, loaded: str, good: bool
) -> None:
    *_, element = shape.split("x")
    body = f"""%s = memref.load %t[%c0] : {memref("4xi32", SMEM)}
        %four = arith.constant 4 : index
        %a = tpu.assume_multiple %s, 8 : i32
        %m = arith.index_cast %a : i32 to index
        %o = arith.addi %m, %four : index
        %b = tpu.assume_multiple %s, 128 : i32
        %l = arith.index_cast %b : i32 to index
        %p = arith.addi %l, %four : index
        %v = vector.load %x[{index}] : {memref(shape)}, vector<{loaded}x{element}>"""
    text = kernel(f"%t: {memref('4xi32', SMEM)}, %x: {memref(shape)}", body)
    (check if good else partial(beyond, code="unproven-alignment"))(text)


def test_memory_that_is_too_small() -> None:
    check(kernel(f"%a: {memref('1024x1024xf32')}", ""), "v4")
    refused(kernel(f"%a: {memref('4096x2048xf32')}, %s: {memref('8x128xf32')}", "", 1),
            "vmem-exhausted", "v4")  # fmt: skip
    check(kernel(f"%a: {memref('4096x2048xf32')}, %s: {memref('8x128xf32')}", "", 1), "v5e")
    refused(kernel(f"%a: {memref('8x128xf32')}, %s: {memref('300000xi32', SMEM)}", "", 1),
            "smem-exhausted")  # fmt: skip


@pytest.mark.parametrize("target, kept", [("v5e", 0), ("v5p", 16), ("v6e", 16), ("v7x", 16)])
def test_memory_that_the_compiler_keeps(target: str, kept: int) -> None:
    """libtpu 0.0.51: "Used 128.00M of 127.94M vmem" of a kernel that asks for all of 128 MiB."""
    tiles = get_target(target).vmem_bytes // 4096 - kept
    check(kernel(f"%s: {memref(f'{tiles}x8x128xf32')}", "", 1), target)
    text = kernel(f"%s: {memref(f'{tiles + 1}x8x128xf32')}", "", 1)
    (beyond if kept else refused)(text, "vmem-exhausted", target)


def test_index_maps_return_words() -> None:
    text = f"""
    func.func @kernel(%i: i32, %x: {memref("8x128xf32")}) attributes {{
        dimension_semantics = [#tpu.dimension_semantics<arbitrary>], scalar_prefetch = 0 : i64,
        iteration_bounds = array<i64: 2>, scratch_operands = 0 : i64,
        tpu.core_type = #tpu.core_type<tc>,
        window_params = [{{transform_indices = @map, window_bounds = array<i64: 8, 128>}}]}} {{
      return
    }}
    func.func @map(%i: i32) -> (i32, i64) {{
      %c0 = arith.constant 0 : i64
      return %i, %c0 : i32, i64
    }}"""
    with pytest.raises(VerifyError, match=r"must take \(i32\) and return \(i32, i32\)") as caught:
        check(text)
    assert "return jnp.int32(0), not 0" in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "position", "code"),
    [("8x128xf32", "1, 3", ""), ("16x128xbf16", "0, 0", "extract-width"),
     ("32x128xi8", "0, 0", "extract-width"), ("8x128xf32", "1", "extract-position")],
)  # fmt: skip
def test_scalars_are_words(shape: str, position: str, code: str) -> None:
    one = "f32" if not code else shape.split("x")[-1]
    if code == "extract-position":
        one = "vector<128xf32>"
    extract = f"%s = vector.extract %v[{position}] : {one} from vector<{shape}>"
    text = kernel(f"%x: {memref(shape)}", load("v", "x", shape) + extract)
    if code:
        refused(text, code)
    else:
        check(text)


@pytest.mark.parametrize("element", ["f32", "bf16", "i32"])
def test_stores_do_not_add(element: str) -> None:
    """libtpu: "not implemented: add to vmem" (it was asked on v5e)."""
    shape = f"16x128x{element}"
    text = load("x", "a", shape) + (
        f"tpu.vector_store %a[%c0, %c0], %x {{strides = array<i32>, add = ADD}} : {memref(shape)}, "
        f"vector<{shape}>,"
    )
    text = kernel(f"%a: {memref(shape)}", text)
    check(text.replace("ADD", "false"))
    refused(text.replace("ADD", "true"), "store-add")


def test_kernels_return_no_vectors() -> None:
    """libtpu: "Vector-typed return values are not supported"; a scalar it takes (v5e)."""
    text = kernel(f"%a: {memref('16x128xf32')}", load("x", "a", "16x128xf32"))
    for value, type in (("%c0", "index"), ("%x", "vector<16x128xf32>")):
        given = text.replace(") attributes", f") -> {type} attributes", 1)
        given = given.replace("      return", f"      return {value} : {type}")
        if type == "index":
            check(given)
        else:
            refused(given, "returned-vector")


@pytest.mark.parametrize(
    ("shape", "good"),
    [
        ("262144x1024xf32", True),
        ("262152x1024xf32", False),
        ("524288x1024xbf16", True),
        ("1099511627776x256xbf16", False),
        ("1099511627776x1x1xf32", False),
    ],
)
def test_vectors_that_nothing_holds(shape: str, good: bool) -> None:
    text = kernel(
        f"%a: {memref('1x1xf32')}",
        f"%x = arith.constant dense<1.0> : vector<{shape}>\n%y = arith.negf %x : vector<{shape}>",
    )
    if good:
        check(text)
    else:
        refused(text, "vector-size")
