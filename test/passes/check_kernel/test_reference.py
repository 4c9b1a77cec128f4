"""What only the reference refuses; `allow_beyond_reference` lets it pass."""

from __future__ import annotations

from functools import partial

import pytest

from pallasite.diagnostics import Unsupported

from ..checking import SMEM, beyond, check, kernel, load, memref, refused


@pytest.mark.parametrize(("shape", "columns", "good"), [
    ("64x256", 129, True), ("64x256", 256, True), ("64x256", 128, False), ("4x256", 1, False),
    ("64x128", 1, True), ("1x256", 128, True),
])  # fmt: skip
def test_rows_at_any_place(shape: str, columns: int, good: bool) -> None:
    row, table = f"1x{columns}xf32", memref("1xi32", SMEM)
    start = f"%n = memref.load %t[%c0] : {table}\n%d = arith.index_cast %n : i32 to index\n"
    stored = f"vector.store %v, %a[%d, %c0] : {memref(f'{shape}xf32')}, vector<{row}>"
    arguments = f"%t: {table}, %a: {memref(f'{shape}xf32')}, %b: {memref(row)}"
    loading = kernel(arguments, start + load("v", "a", f"{shape}xf32", "%d, %c0").replace(
        f"vector<{shape}xf32>", f"vector<{row}>"))  # fmt: skip
    storing = kernel(arguments, start + load("v", "b", row) + stored)
    for text in (loading, storing):
        (check if good else partial(beyond, code="unproven-alignment"))(text)


@pytest.mark.parametrize(("element", "good"), [("i32", True), ("f32", True), ("i8", False),
                                               ("i16", False), ("bf16", False)])  # fmt: skip
def test_scalars_compute_in_words(element: str, good: bool) -> None:
    ref = memref(f"4x{element}", SMEM)
    op = "addi" if element[0] == "i" else "addf"
    text = kernel(
        f"%x: {ref}",
        f"%a = memref.load %x[%c0] : {ref}\n%b = arith.{op} %a, %a : {element}\n"
        f"memref.store %b, %x[%c0] : {ref}",
    )
    if good:
        check(text)
    else:
        beyond(text, "scalar-type")


@pytest.mark.parametrize(("body", "element"), [
    ("%b = arith.andi %a, %a : i8", "i8"),
    ("%b = arith.shli %a, %a : i16", "i16"),
    ("%b = arith.select %t, %a, %a : bf16", "bf16"),
    ("%b = math.absf %a : bf16", "bf16"),
    ("%c = arith.cmpi slt, %a, %a : i8\n%b = arith.select %c, %a, %a : i8", "i8"),
    ("%b = scf.if %true -> (bf16) {\n scf.yield %a : bf16\n} else {\n scf.yield %a : bf16\n}",
     "bf16"),
])  # fmt: skip
def test_narrow_scalars_are_only_moved(body: str, element: str) -> None:
    ref = memref(f"4x{element}", SMEM)
    text = kernel(
        f"%t: i1, %x: {ref}",
        f"%true = arith.constant true\n%a = memref.load %x[%c0] : {ref}\n{body}\n"
        f"memref.store %b, %x[%c0] : {ref}",
    )
    beyond(text, "scalar-type")


def test_choices_known_beforehand_are_no_computations() -> None:
    ref = memref("4xbf16", SMEM)
    check(kernel(
        f"%x: {ref}",
        f"%true = arith.constant true\n%a = memref.load %x[%c0] : {ref}\n"
        f"%b = arith.select %true, %a, %a : bf16\nmemref.store %b, %x[%c0] : {ref}",
    ))  # fmt: skip


def test_narrow_integers_cross_branches_and_are_cast() -> None:
    ref = memref("4xi8", SMEM)
    check(
        kernel(
            f"%x: {ref}",
            f"""%true = arith.constant true
            %a = memref.load %x[%c0] : {ref}
            %b = scf.if %true -> (i8) {{
              scf.yield %a : i8
            }} else {{
              %w = arith.extsi %a : i8 to i32
              %n = arith.trunci %w : i32 to i8
              scf.yield %n : i8
            }}
            memref.store %b, %x[%c0] : {ref}""",
        )
    )


def gather(shape: str, dim: int | str, index: str) -> str:
    dims = shape.rpartition("x")[0]
    indices = f"{dims}x{index}"
    return kernel(
        f"%x: {memref(shape)}, %i: {memref(indices)}",
        load("a", "x", shape)
        + load("b", "i", indices)
        + f"%g = tpu.dynamic_gather %a[%b] in [{dim}] : vector<{shape}>, vector<{indices}> -> "
        f"vector<{shape}>",
    )


def test_gathers_read_one_register() -> None:
    check(gather("16x128xf32", 1, "i32"))
    check(gather("8x256xf32", 0, "i32"))
    beyond(gather("16x128xf32", 0, "i32"), "gather-extent")
    beyond(gather("8x256xf32", 1, "i32"), "gather-extent", "v6e")
    refused(gather("8x256xf32", 0, "i32"), "sublane-gather", "v4")


def test_gathers_go_along_one_of_the_last_two_dimensions() -> None:
    check(gather("2x8x128xf32", 1, "i32"))
    for dims in ("0, 1", "0, 2", "0"):
        beyond(gather("2x8x128xf32", dims, "i32"), "gather-form")
    beyond(gather("8x128xi8", "0, 1", "i8"), "gather-form", "v6e")


def test_narrow_gathers_by_generation() -> None:
    check(gather("16x128xi8", 1, "i8"), "v5e")
    beyond(gather("16x128xbf16", 1, "i16"), "gather-width", "v5e")
    beyond(gather("16x128xbf16", 0, "i16"), "gather-width", "v5e")
    check(gather("16x128xbf16", 0, "i16"), "v6e")
    beyond(gather("16x128xbf16", 0, "i32"), "gather-width", "v6e")
    beyond(gather("16x128xi4", 1, "i4"), "gather-width", "v7x")
    with pytest.raises(Unsupported) as caught:
        check(gather("16x128xf32", 1, "i16"))
    assert caught.value.notes[-1].message == "cast the indices to int32"


def test_flat_vectors_are_neither_rotated_nor_gathered() -> None:
    beyond(gather("128xf32", 0, "i32"), "one-dimension")


def test_flat_vectors_are_not_counted() -> None:
    def count(shape: str) -> str:
        dim = shape.count("x") - 1
        return kernel("", f"%i = tpu.iota {{dimensions = array<i32: {dim}>}} : vector<{shape}>")

    check(count("1x1024xi32"))
    beyond(count("1024xi32"), "one-dimension")


def test_counting_in_narrow_types() -> None:
    def iota(shape: str, dim: int) -> str:
        kind = f"vector<{shape}>"
        return kernel("", f"%a = tpu.iota {{dimensions = array<i32: {dim}>}} : {kind}")

    check(iota("16x128xi16", 1))
    beyond(iota("16x256xi16", 1), "narrow-integer")
    beyond(iota("24x128xi16", 0), "narrow-integer")
    check(iota("24x256xi16", 0), "v6e")
    check(iota("64x256xi8", 0))
    beyond(iota("64x256xi4", 0), "narrow-integer")


def rotate(shape: str, dim: int, along: int, amount: str = "constant 2", stride: int = 1) -> str:
    kind = f"vector<{shape}>"
    ref = memref("1xi32", SMEM)
    loaded = f"memref.load %s[%c0] : {ref}"
    return kernel(
        f"%x: {memref(shape)}, %s: {ref}",
        load("a", "x", shape)
        + f"%n = {loaded if amount == 'loaded' else 'arith.' + amount + ' : i32'}\n"
        f"%b = tpu.dynamic_rotate %a by %n dim {dim} {{stride = {stride} : si32, "
        f"stride_dimension = {along} : si32}} : {kind}, i32 -> {kind}",
    )


def test_rotating_rows_by_different_amounts() -> None:
    for shape, target, good in (
        ("2x8x128xf32", "v5e", True), ("2x8x128xf32", "v4", False), ("2x16x128xbf16", "v5p", True),
        ("2x32x128xi8", "v5e", False), ("2x32x128xi8", "v6e", True), ("2x32x128xi8", "v7x", True),
    ):  # fmt: skip
        (check if good else partial(beyond, code="rotate-stride"))(
            rotate(shape, 2, 1), target=target
        )
    beyond(rotate("2x8x128xf32", 0, 1), "rotate-stride")
    beyond(rotate("2x8x128xf32", 2, 1, "loaded"), "rotate-stride")
    check(rotate("2x8x128xf32", 1, 2, stride=8))
    for stride in (1, 9):
        refused(rotate("2x8x128xf32", 1, 2, stride=stride), "rotate-stride")


@pytest.mark.parametrize(("shape", "amount", "stride", "good"), [
    ("8x128xf32", 121, 1, True), ("8x128xf32", 122, 1, False), ("4x128xf32", 122, 1, False),
    ("8x128xf32", 9, 17, True), ("8x128xf32", 10, 17, False), ("8x256xf32", 130, 1, True),
    ("16x128xf32", 1, 17, True), ("16x128xf32", 2, 17, False), ("8x128xbf16", 113, 1, True),
    ("8x128xbf16", 114, 1, False), ("8x256xf32", 2, 255, False), ("8x256xf32", 2, 257, True),
    ("8x256xf32", 2, 512, True),
])  # fmt: skip
def test_rows_of_a_register_rotate_by_its_width(
    shape: str, amount: int, stride: int, good: bool
) -> None:
    text = rotate(shape, 1, 0, f"constant {amount}", stride)
    (check if good else partial(beyond, code="rotate-stride"))(text, target="v5e")


def test_rotating_by_a_whole_turn_more_is_rotating_all_alike() -> None:
    check(rotate("8x256xf32", 1, 0, stride=512), "v4")


def test_rotating_matrices_by_different_amounts() -> None:
    for dim in (1, 2):
        for amount in ("constant 2", "loaded"):
            check(rotate("4x32x128xf32", dim, 0, amount), "v4")
    beyond(rotate("4x20x100xf32", 2, 0), "rotate-stride")
    beyond(rotate("4x20x128xf32", 1, 0), "rotate-stride")
    beyond(rotate("4x24x128xbf16", 1, 0), "rotate-stride")
    check(rotate("4x24x100xf32", 1, 0))
    check(rotate("5x4x30x100xf32", 0, 1))


def test_stochastic_rounding_by_generation() -> None:
    text = kernel(
        f"%x: {memref('8x128xf32')}, %i: {memref('8x128xi32')}",
        load("a", "x", "8x128xf32") + load("b", "i", "8x128xi32") + "%r = tpu.stochastic_convert "
        "%a, %b : vector<8x128xf32>, vector<8x128xi32> -> vector<8x128xbf16>",
    )
    refused(text, "stochastic-round", "v4")
    check(text, "v5e")


def test_comparisons_are_false_for_nan() -> None:
    def compare(predicate: str) -> str:
        shape = "16x128xf32"
        body = f"%m = arith.cmpf {predicate}, %a, %a : vector<{shape}>"
        return kernel(f"%x: {memref(shape)}", load("a", "x", shape) + body)

    check(compare("one"))
    for predicate in ("une", "uno", "ord", "ult", "true"):
        beyond(compare(predicate), "comparison")


def test_full_precision_is_for_f32() -> None:
    def matmul(left: str, right: str) -> str:
        a, b, acc = f"128x128x{left}", f"128x128x{right}", "128x128xf32"
        numbers = "#tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>"
        return kernel(
            f"%x: {memref(a)}, %z: {memref(b)}, %y: {memref(acc)}",
            load("a", "x", a) + load("b", "z", b) + load("c", "y", acc)
            + f"%m = tpu.matmul %a, %b, %c {{dimension_numbers = {numbers}, "
            "precision = #tpu.contract_precision<fp32>, transpose_lhs = false, "
            f"transpose_rhs = false}} : vector<{a}>, vector<{b}>, vector<{acc}> -> vector<{acc}>",
        )  # fmt: skip

    check(matmul("f32", "f32"))
    for narrow in ("bf16", "f8E5M2"):
        beyond(matmul("f32", narrow), "matmul-precision", "v7x")
    beyond(matmul("bf16", "bf16"), "matmul-precision")
    beyond(matmul("bf16", "i8"), "matmul-precision")
    for integer in ("i32", "i16", "i8", "i4"):
        check(matmul("f32", integer))
        check(matmul(integer, "f32"), "v6e")
    # Where bytes are multiplied as bf16, they are no words.
    check(matmul("f32", "i32"), "v7x")
    beyond(matmul("f32", "i8"), "matmul-precision", "v7x")


def test_refs_are_reshaped_where_they_lie() -> None:
    def reshape(old: str, new: str, use: str = "") -> str:
        view = f"%v = tpu.memref_reshape %x : {memref(old)} -> {memref(new)}\n"
        return kernel(f"%x: {memref(old)}", view + use)

    for old, new in (
        ("16x128xf32", "8x256xf32"), ("30x128xf32", "6x5x128xf32"), ("1x1024xf32", "8x128xf32"),
        ("64x128xbf16", "4x16x128xbf16"), ("2x3x5x256xf32", "6x5x256xf32"),
    ):  # fmt: skip
        check(reshape(old, new))
    for old, new in (
        ("16x256xf32", "32x128xf32"), ("6x5x128xf32", "30x128xf32"), ("24x256xf32", "4x6x256xf32"),
        ("16x128xbf16", "8x256xbf16"), ("64x128xi8", "4x16x128xi8"),
    ):  # fmt: skip
        beyond(reshape(old, new), "view-layout")
    # Tiles of 8 rows are cut evenly for transfers, not for loads.
    check(reshape("8x256xf32", "2x4x256xf32"))
    beyond(reshape("8x256xf32", "2x4x256xf32", load("y", "v", "2x4x256xf32")), "view-layout")


def test_strided_accesses_step_over_rows_of_one_tile() -> None:
    def strided(columns: int, strides: str, column: str = "%c0") -> str:
        ref = memref(f"32x{columns}xf32")
        return kernel(
            f"%x: {ref}, %i: index",
            "%c8 = arith.constant 8 : index\n%c128 = arith.constant 128 : index\n"
            "%j = arith.muli %i, %c128 : index\n"
            f"%a = tpu.strided_load %x[%c8, {column}] {{strides = array<i32: {strides}>}} : {ref}, "
            "vector<8x64xf32>",
        )

    check(strided(128, "2, 1"))
    beyond(strided(256, "2, 1"), "strided-access")
    beyond(strided(128, "1, 2"), "strided-access")
    beyond(strided(128, "2, 1", "%c8"), "strided-access")
    beyond(strided(128, "2, 1", "%j"), "strided-access")
    check(strided(256, "0, 1"))
    beyond(strided(256, "0, 1", "%c128"), "strided-access")
    beyond(strided(200, "0, 1"), "strided-access")
    with pytest.raises(Unsupported) as caught:
        check(strided(200, "0, 1"))
    advice = caught.value.notes[-1].message
    assert "jnp.broadcast_to(ref[pl.ds(8, 1), pl.ds(0, 64)], (8, 64))" in advice


def test_elements_that_are_not_converted() -> None:
    def cast(op: str, source: str, result: str) -> str:
        types = f"vector<64x128x{source}> to vector<64x128x{result}>"
        shape = f"64x128x{source}"
        return kernel(
            f"%x: {memref(shape)}", load("a", "x", shape) + f"%b = arith.{op} %a : {types}"
        )

    for op, source, result in (("extf", "f4E2M1FN", "f32"), ("truncf", "f32", "f4E2M1FN")):
        check(cast(op, source, result), "v7x")
        beyond(cast(op, source, result), "narrow-cast", "v6e")
    check(cast("extsi", "i2", "i32"), "v5e")
    beyond(cast("extsi", "i2", "i32"), "narrow-cast", "v4")
    beyond(cast("trunci", "i32", "i2"), "narrow-cast", "v4")
    check(cast("extf", "f8E8M0FNU", "f32"), "v4")
    beyond(cast("truncf", "f32", "f8E8M0FNU"), "narrow-cast", "v7x")


@pytest.mark.parametrize(
    ("block", "seen", "new", "good"),
    [
        ("4x4x128xi16", "4x2x128xi32", "4x1x256xi32", False),
        ("4x16x128xi16", "4x8x128xi32", "32x128xi32", True),
        ("32x256xi8", "8x256xi32", "16x128xi32", False),
        ("4x256xi8", "1x256xi32", "2x128xi32", True),
        ("8x128xi32", "16x128xi16", "8x2x128xi16", True),
        ("8x256xi32", "32x256xi8", "2x16x256xi8", False),
        ("16x256xi32", "64x256xi8", "2x32x256xi8", True),
        ("2x6x128xi32", "2x12x128xi16", "24x128xi16", False),
        ("2x6x256xi32", "2x12x256xi16", "1x2x12x256xi16", True),
        ("2x6x128xi16", "2x3x128xi32", "6x128xi32", False),
    ],
)
def test_refs_of_another_type_keep_their_tiles(block: str, seen: str, new: str, good: bool) -> None:
    text = kernel(
        f"%x: {memref(block)}",
        f"%b = tpu.memref_bitcast %x : {memref(block)} -> {memref(seen)}\n"
        f"%v = tpu.memref_reshape %b : {memref(seen)} -> {memref(new)}",
    )
    if good:
        check(text)
    else:
        beyond(text, "view-layout")


@pytest.mark.parametrize("index", [0, 1])
def test_floats_are_unpacked_from_words_by_an_instruction(index: int) -> None:
    def unpack(element: str, wide: str) -> str:
        result = f"vector<8x128x{wide}>"
        return kernel(
            f"%x: {memref('8x128xi32')}",
            load("a", "x", "8x128xi32")
            + f"%r = tpu.unpack_elementwise %a, {index} {{source_type = {element}}}"
            + f" : vector<8x128xi32> -> {result}",
        )

    beyond(unpack("bf16", "f32"), "narrow-cast", "v4")
    check(unpack("bf16", "f32"), "v5e")
    check(unpack("i16", "i32"), "v4")


def test_stored_vectors_have_the_rank_of_memory() -> None:
    """libtpu: "memref and vector rank mismatch" (it was asked on v5e); `vector.store` it takes."""
    a, b, stored = memref("16x128xf32"), memref("2x16x128xf32"), "vector<16x128xf32>"
    text = load("x", "a", "16x128xf32")
    ours = f"tpu.vector_store %b[%c0, %c0, %c0], %x {{strides = array<i32>}} : {b}, {stored},"
    beyond(kernel(f"%a: {a}, %b: {b}", text + ours), "store-rank")
    check(kernel(f"%a: {a}, %b: {b}", text + f"vector.store %x, %b[%c0, %c0, %c0] : {b}, {stored}"))


@pytest.mark.parametrize(("index", "good"), [
    ("%j = arith.muli %c2, %c4 : index", True),
    ("%j = tpu.assume_multiple %c8, 8 : index", False),
    ("%i = tpu.assume_multiple %c4, 4 : index\n%j = arith.muli %i, %c2 : index", False),
])  # fmt: skip
def test_strided_loads_of_packed_rows_begin_where_no_promise_hides_it(
    index: str, good: bool
) -> None:
    ref = memref("64x128xbf16")
    numbers = "".join(f"%c{n} = arith.constant {n} : index\n" for n in (2, 4, 8))
    text = kernel(
        f"%x: {ref}",
        f"{numbers}{index}\n%a = tpu.strided_load %x[%j, %c0] {{strides = array<i32: 4, 1>}} : "
        f"{ref}, vector<8x128xbf16>",
    )
    if good:
        check(text)
    else:
        beyond(text, "strided-access")
