"""Vectors that lie along sublanes, which v4 does not move into lanes."""

from __future__ import annotations

from functools import partial

import pytest

from ..checking import beyond, check, kernel, load, memref


def row_sum(after: str, result: str = "16") -> str:
    """Sums over the last dimension, which leaves the result along sublanes."""
    return kernel(
        f"%x: {memref('16x128xf32')}, %y: {memref('16xf32')}, %o: {memref(f'{result}xf32')}",
        load("a", "x", "16x128xf32")
        + "%zero = arith.constant dense<0.0> : vector<16xf32>\n"
        + "%two = arith.constant dense<2.0> : vector<16xf32>\n"
        + "%r = vector.multi_reduction <add>, %a, %zero [1] : vector<16x128xf32> to vector<16xf32>"
        + "\n%s = arith.mulf %r, %two : vector<16xf32>\n"
        + after,
    )


STORED = (
    f"tpu.vector_store %o[%c0], %s {{strides = array<i32>}} : {memref('16xf32')}, vector<16xf32>,"
)
KEPT = f"""%k = vector.shape_cast %s : vector<16xf32> to vector<16x1xf32>
    tpu.vector_store %o[%c0, %c0], %k {{strides = array<i32>}} : {memref("16x1xf32")},
        vector<16x1xf32>,"""
MIXED = load("b", "y", "16xf32", "%c0") + "%m = arith.addf %s, %b : vector<16xf32>"


def test_columns_stay_columns_without_a_sublane_gather() -> None:
    for body in (STORED, MIXED):
        check(row_sum(body), "v5e")
        beyond(row_sum(body), "sublane-gather", "v4")
    check(row_sum(KEPT, "16x1"), "v4")


def column(after: str, result: str) -> str:
    """Stores a `vector<{result}xf32>` that `after` makes of such a column."""
    zeros = ", ".join(["%c0"] * (result.count("x") + 1))
    stored = f"""
        tpu.vector_store %o[{zeros}], %m {{strides = array<i32>}} : {memref(f"{result}xf32")},
            vector<{result}xf32>,"""
    return row_sum(after + stored, result)


@pytest.mark.parametrize(("after", "result", "good"), [
    ("%m = vector.shape_cast %s : vector<16xf32> to vector<2x8xf32>", "2x8", False),
    ("%m = vector.shape_cast %s : vector<16xf32> to vector<2x8x1xf32>", "2x8x1", True),
    ("%m = vector.extract_strided_slice %s {offsets = [8], sizes = [8], strides = [1]} : "
     "vector<16xf32> to vector<8xf32>", "8", False),
    ("%k = vector.extract_strided_slice %s {offsets = [8], sizes = [8], strides = [1]} : "
     "vector<16xf32> to vector<8xf32>\n"
     "%m = vector.shape_cast %k : vector<8xf32> to vector<8x1xf32>", "8x1", True),
    ("%j = vector.shape_cast %s : vector<16xf32> to vector<2x8xf32>\n"
     "%t = arith.constant dense<0.0> : vector<8xf32>\n"
     "%m = vector.multi_reduction <add>, %j, %t [0] : vector<2x8xf32> to vector<8xf32>",
     "8", False),
    ("%k = tpu.concatenate %s, %s in 0 : vector<16xf32>, vector<16xf32> -> vector<32xf32>\n"
     "%m = vector.shape_cast %k : vector<32xf32> to vector<32x1xf32>", "32x1", False),
])  # fmt: skip
def test_what_takes_a_column_apart_needs_lanes(after: str, result: str, good: bool) -> None:
    """Asked of the TPU compiler for v4."""
    check(column(after, result), "v5p")
    (check if good else partial(beyond, code="sublane-gather"))(column(after, result), target="v4")


@pytest.mark.parametrize(("first", "good"), [("%zero", True), ("%b", False)])
def test_loops_carry_columns_that_begin_as_constants(first: str, good: bool) -> None:
    body = (
        load("b", "y", "16xf32", "%c0")
        + f"""
        %n = arith.constant 3 : i32
        %l = arith.constant 0 : i32
        %u = arith.constant 1 : i32
        %k = scf.for %i = %l to %n step %u iter_args(%v = {first}) -> (vector<16xf32>) : i32 {{
          %w = arith.addf %v, %s : vector<16xf32>
          scf.yield %w : vector<16xf32>
        }}
        %m = vector.shape_cast %k : vector<16xf32> to vector<16x1xf32>"""
    )
    text = column(body, "16x1")
    check(text, "v5p")
    (check if good else partial(beyond, code="sublane-gather"))(text, target="v4")


@pytest.mark.parametrize(("dims", "kept", "good"), [
    ([1, 2], "5", False), ([1, 2], "1x5", False), ([1, 2], "5x1", True), ([1, 2], "5x1x1", True),
    ([0, 1], "128", True), ([0, 2], "24", False),
])  # fmt: skip
def test_sums_of_matrices_are_columns(dims: list[int], kept: str, good: bool) -> None:
    (size,) = [n for dim, n in enumerate((5, 24, 128)) if dim not in dims]
    zeros = ", ".join(["%c0"] * (kept.count("x") + 1))
    text = kernel(
        f"%x: {memref('5x24x128xf32')}, %o: {memref(f'{kept}xf32')}",
        load("a", "x", "5x24x128xf32")
        + f"""%zero = arith.constant dense<0.0> : vector<{size}xf32>
        %r = vector.multi_reduction <add>, %a, %zero {dims} : vector<5x24x128xf32> to
            vector<{size}xf32>
        %s = vector.shape_cast %r : vector<{size}xf32> to vector<{kept}xf32>
        tpu.vector_store %o[{zeros}], %s {{strides = array<i32>}} : {memref(f"{kept}xf32")},
            vector<{kept}xf32>,""",
    )
    check(text)
    (check if good else partial(beyond, code="sublane-gather"))(text, target="v4")


def test_indices_of_maxima_are_columns() -> None:
    reduced = (
        "%r = tpu.reduce_index %a {axis = AXIS : i32, kind = #tpu.reduction_kind<arg_max>} "
        ": vector<16x128xf32> -> vector<SIZExi32>\n"
        f"tpu.vector_store %o[%c0], %r {{strides = array<i32>}} : {memref('SIZExi32')}, "
        "vector<SIZExi32>,"
    )

    def text(axis: int) -> str:
        size = str((16, 128)[1 - axis])
        body = (load("a", "x", "16x128xf32") + reduced).replace("AXIS", str(axis))
        arguments = f"%x: {memref('16x128xf32')}, %o: {memref('SIZExi32')}"
        return kernel(arguments, body).replace("SIZE", size)

    check(text(0), "v4")
    check(text(1), "v5e")
    beyond(text(1), "sublane-gather", "v4")


def test_a_change_of_shape_and_back_moves_nothing() -> None:
    body = load("a", "x", "16x128xf32") + (
        "%b = vector.shape_cast %a : vector<16x128xf32> to vector<16x128x1xf32>\n"
        "%d = vector.shape_cast %b : vector<16x128x1xf32> to vector<16x128xf32>\n"
        f"vector.store %d, %o[%c0, %c0] : {memref('16x128xf32')}, vector<16x128xf32>"
    )
    check(kernel(f"%x: {memref('16x128xf32')}, %o: {memref('16x128xf32')}", body), "v4")


def test_a_reshape_that_no_chip_of_this_kind_does_comes_first() -> None:
    """What its result would become says less."""
    shapes = "vector<16x256x2xf32>", "vector<16x256xf32>"
    body = (
        load("a", "x", "16x512xf32")
        + f"%b = vector.shape_cast %a : vector<16x512xf32> to {shapes[0]}\n"
        + f"%zero = arith.constant dense<0.0> : {shapes[1]}\n"
        + f"%s = vector.multi_reduction <add>, %b, %zero [2] : {shapes[0]} to {shapes[1]}\n"
        + "tpu.vector_store %o[%c0, %c0], %s {strides = array<i32>} : "
        + f"{memref('16x256xf32')}, {shapes[1]},"
    )
    text = kernel(f"%x: {memref('16x512xf32')}, %o: {memref('16x256xf32')}", body)
    check(text, "v5e")
    beyond(text, "reshape", "v4")


@pytest.mark.parametrize(("between", "good"), [
    ("", True),
    ("""%b = vector.shape_cast %l : vector<8x128x1xf32> to vector<8x128x1x1xf32>
        %m = vector.shape_cast %b : vector<8x128x1x1xf32> to vector<8x128x1xf32>""", True),
    ("%m = arith.addf %l, %l : vector<8x128x1xf32>", False),
])  # fmt: skip
def test_reducing_what_a_reshape_added_gives_back_what_was_there(between: str, good: bool) -> None:
    whole = memref("8x128xf32")
    text = kernel(
        f"%x: {whole}, %o: {whole}",
        load("a", "x", "8x128xf32")
        + f"""%z = arith.constant dense<0.0> : vector<8x128xf32>
        %l = vector.shape_cast %a : vector<8x128xf32> to vector<8x128x1xf32>
        {between}
        %s = vector.multi_reduction <add>, {"%m" if between else "%l"}, %z [2]
            : vector<8x128x1xf32> to vector<8x128xf32>
        vector.store %s, %o[%c0, %c0] : {whole}, vector<8x128xf32>""",
    )
    if good:
        check(text, "v4")
    else:
        beyond(text, "sublane-gather", "v4")


@pytest.mark.parametrize("rows", [8, 1])
def test_batches_of_vectors_are_sums_over_lanes(rows: int) -> None:
    operand, result = f"{rows}x16xf32", f"{rows}xf32"
    text = kernel(
        f"%x: {memref(operand)}, %y: {memref(operand)}, %o: {memref(result)}",
        load("a", "x", operand)
        + load("b", "y", operand)
        + f"""%z = arith.constant dense<0.0> : vector<{result}>
        %s = tpu.matmul %a, %b, %z {{dimension_numbers =
            #tpu.dot_dimension_numbers<[1], [1], [], [], [0, 0], [0], [0]>,
            transpose_lhs_hint = false}} : vector<{operand}>, vector<{operand}>, vector<{result}>
            -> vector<{result}>
        vector.store %s, %o[%c0] : {memref(result)}, vector<{result}>""",
    )
    check(text, "v5e")
    if rows == 1:
        check(text, "v4")
    else:
        beyond(text, "sublane-gather", "v4")


@pytest.mark.parametrize("rows", [8, 1])
@pytest.mark.parametrize("batch", [False, True])
def test_matrices_by_vectors_are_sums_over_lanes(batch: bool, rows: int) -> None:
    lead = "2x" if batch else ""
    left, right, result = (f"{lead}{n}xf32" for n in (f"{rows}x16", "16", rows))
    dims = ("[2], [1], [1], [], [0, 0, 0, 1], [0], [0]", "[1], [0], [0], [], [0, 0], [], []")
    numbers = dims[not batch]
    text = kernel(
        f"%x: {memref(left)}, %y: {memref(right)}, %o: {memref(result)}",
        load("a", "x", left)
        + load("b", "y", right)
        + f"""%z = arith.constant dense<0.0> : vector<{result}>
        %s = tpu.matmul %a, %b, %z {{dimension_numbers = #tpu.dot_dimension_numbers<{numbers}>,
            transpose_lhs_hint = false}} : vector<{left}>, vector<{right}>, vector<{result}>
            -> vector<{result}>
        vector.store %s, %o[{", ".join(["%c0"] * (1 + batch))}] : {memref(result)},
            vector<{result}>""",
    )
    check(text, "v5e")
    if rows == 1:
        check(text, "v4")
    else:
        beyond(text, "sublane-gather", "v4")


def test_products_without_dimension_numbers_are_those_of_matrices() -> None:
    check(
        kernel(
            f"%x: {memref('8x128xf32')}, %y: {memref('128x128xf32')}, %o: {memref('8x128xf32')}",
            load("a", "x", "8x128xf32")
            + load("b", "y", "128x128xf32")
            + f"""%z = arith.constant dense<0.0> : vector<8x128xf32>
            %s = tpu.matmul %a, %b, %z {{transpose_lhs_hint = false}} : vector<8x128xf32>,
                vector<128x128xf32>, vector<8x128xf32> -> vector<8x128xf32>
            vector.store %s, %o[%c0, %c0] : {memref("8x128xf32")}, vector<8x128xf32>""",
        ),
        "v4",
    )


@pytest.mark.parametrize(("source", "result", "good"), [
    ("1x2x8x1", "1x16", True), ("1x2x8x1", "16", False), ("2x8x1", "1x16", False),
    ("2x2x8x1", "2x16", True), ("2x2x8x1", "32", False),
])  # fmt: skip
def test_columns_that_are_joined_become_rows_of_matrices(
    source: str, result: str, good: bool
) -> None:
    """Asked of the TPU compiler for v4."""
    zeros = ", ".join(["%c0"] * (result.count("x") + 1))
    text = kernel(
        f"%x: {memref(f'{source}xf32')}, %o: {memref(f'{result}xf32')}",
        load("a", "x", f"{source}xf32", ", ".join(["%c0"] * (source.count("x") + 1)))
        + f"%m = vector.shape_cast %a : vector<{source}xf32> to vector<{result}xf32>\n"
        + f"tpu.vector_store %o[{zeros}], %m {{strides = array<i32>}} : "
        f"{memref(f'{result}xf32')}, vector<{result}xf32>,",
    )
    check(text, "v5e")
    (check if good else partial(beyond, code="sublane-gather"))(text, target="v4")
