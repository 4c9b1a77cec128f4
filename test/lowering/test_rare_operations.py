"""Operations that JAX does not write, or not so: copies, counts, strided parts, products."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pallasite
from pallasite.diagnostics import Unsupported

from .memory_kernels import kernel

TYPES: dict[str, Any] = {
    "f32": np.float32, "bf16": ml_dtypes.bfloat16, "i32": np.int32, "i16": np.int16, "i8": np.int8,
    "i4": ml_dtypes.int4,
}  # fmt: skip
BEYOND = {"allow_beyond_reference": True}


def text(array: Any) -> str:
    """The shape and element of an array, as types name them."""
    (element,) = {name for name, kind in TYPES.items() if array.dtype == kind}
    return "x".join([*map(str, array.shape), element])


def check(body: str, operands: list[Any], expected: Any, target: str = "v5e") -> None:
    """Forms mosaic and vreg give `expected` as `%r`, of `%x` and `%y`, the operands."""
    zeros = ", ".join(["%z"] * expected.ndim)
    loads = "".join(
        f"%{name} = vector.load %{ref}[{', '.join(['%z'] * array.ndim)}] : {ref.upper()}, "
        f"vector<{text(array)}>\n"
        for name, ref, array in zip("xy", "ab", operands, strict=False)
    )
    ref = "abc"[len(operands)]
    store = f"tpu.vector_store %{ref}[{zeros}], %r {{strides = array<i32>}} : {ref.upper()}, "
    types = [text(array) for array in (*operands, expected)]
    module = kernel(types, f"{loads}{body}\n{store}vector<{types[-1]}>,")
    for form in ("mosaic", "vreg"):
        (found,) = pallasite.run(module, operands, form=form, target=target, **BEYOND)
        assert np.array_equal(np.asarray(found), expected, equal_nan=expected.dtype.kind == "f"), (
            form
        )


def numbers(shape: tuple[int, ...], element: str, size: int = 8) -> Any:
    return np.random.default_rng(0).integers(-size, size, shape).astype(TYPES[element])


def product(kinds: list[str], precision: str = "", *, transposed: bool = False) -> str:
    """`%x` by `%y`, added to zeros."""
    zero = "0" if "xi" in kinds[2] else "0.0"
    return f"""%none = arith.constant dense<{zero}> : {kinds[2]}
        %r = tpu.matmul %x, %y, %none {{transpose_lhs = false, transpose_rhs =
            {str(transposed).lower()}{precision}}} : {", ".join(kinds)} -> {kinds[2]}"""


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", [(8, 700, 200), (40, 300, 128), (9, 513, 130)])
def test_products_of_nibbles(shape: tuple[int, int, int], transposed: bool) -> None:
    """Two share a lane of the array; what lies behind the contracted columns counts for nothing."""
    rows, depth, columns = shape
    x, y = numbers((rows, depth), "i4"), numbers((depth, columns), "i4")
    expected = x.astype(np.int32) @ y.astype(np.int32)
    y = np.ascontiguousarray(y.T) if transposed else y
    kinds = [f"vector<{text(array)}>" for array in (x, y, expected)]
    check(product(kinds, transposed=transposed), [x, y], expected)


@pytest.mark.parametrize("shape", [(8, 128), (2, 9, 130)])
@pytest.mark.parametrize("predicate, bound", [("slt", 300), ("eq", 131), ("ult", 300)])
def test_positions_along_two_dimensions(shape: tuple[int, ...], predicate: str, bound: int) -> None:
    x, rank = numbers(shape, "i32"), len(shape)
    place = np.arange(x.size).reshape(shape) % (shape[-2] * shape[-1])
    found = place == bound if predicate == "eq" else place < bound
    kind, mask = f"vector<{text(x)}>", f"vector<{'x'.join(map(str, shape))}xi1>"
    body = f"""%i = tpu.iota {{dimensions = array<i32: {rank - 2}, {rank - 1}>}} : {kind}
    %k = arith.constant dense<{bound}> : {kind}
    %m = arith.cmpi {predicate}, %i, %k : {kind}
    %r = arith.select %m, %x, %i : {mask}, {kind}"""
    check(body, [x], np.where(found, x, place).astype(np.int32))


@pytest.mark.parametrize("columns", [128, 256])
@pytest.mark.parametrize(
    "element, off", [("f32", 3), ("bf16", 2), ("bf16", 5), ("i8", 4), ("i8", 9)]
)
def test_parts_at_a_known_distance_from_a_tile(element: str, off: int, columns: int) -> None:
    """The tile is known at run time only; five rows begin within it, a hundred columns, too."""
    part, whole = f"5x{columns}x{element}", f"128x{columns}x{element}"
    small = f"5x100x{element}"
    module = kernel(
        [whole, "1x1xi32", part],
        f"""%n = vector.load %b[%z, %z] : B, vector<1x1xi32>
    %s = vector.extract %n[0, 0] : i32 from vector<1x1xi32>
    %t = arith.index_cast %s : i32 to index
    %d = arith.constant 32 : index
    %o = arith.constant {off} : index
    %q = arith.constant {7 if columns == 128 else 135} : index
    %m = arith.muli %t, %d : index
    %k = arith.addi %m, %o : index
    %x = vector.load %a[%k, %z] : A, vector<{part}>
    %y = vector.load %a[%z, %z] : A, vector<{small}>
    tpu.vector_store %a[%k, %q], %y {{strides = array<i32>}} : A, vector<{small}>,
    %w = vector.load %a[%k, %z] : A, vector<{part}>
    %r = arith.{"xori" if element == "i8" else "addf"} %x, %w : vector<{part}>
    tpu.vector_store %c[%z, %z], %r {{strides = array<i32>}} : C, vector<{part}>,""",
    )
    x = numbers((128, columns), element)
    first, start = 64 + off, 7 if columns == 128 else 135
    after = x[first : first + 5].copy()
    after[:, start : start + 100] = x[:5, :100]
    before = x[first : first + 5]
    expected = before ^ after if element == "i8" else before + after
    place = np.full((1, 1), 2, np.int32)
    for form in ("mosaic", "vreg"):
        (found,) = pallasite.run(module, [x, place], form=form, target="v5e", **BEYOND)
        assert np.array_equal(found, expected), form


def test_integer_powers_of_half_words() -> None:
    """The power is no float that would be widened as one; the result rounds once."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(16, 128)).astype(TYPES["bf16"])
    n = draw.integers(-3, 4, (16, 128)).astype(np.int32)
    exact = np.power(x.astype(np.float64), n).astype(TYPES["bf16"])
    body = "%r = math.fpowi %x, %y : vector<16x128xbf16>, vector<16x128xi32>"
    check(body, [x, n], exact)


@pytest.mark.parametrize("dim, times", [(0, 3), (1, 2)])
@pytest.mark.parametrize(
    "shape, element", [((16, 128), "f32"), ((9, 60), "f32"), ((16, 128), "bf16")]
)
def test_copies(shape: tuple[int, int], element: str, dim: int, times: int) -> None:
    value = numbers(shape, element)
    expected = np.concatenate([value] * times, dim)
    kinds = f"vector<{text(value)}> -> vector<{text(expected)}>"
    check(f"%r = tpu.repeat %x, {dim} x {times} : {kinds}", [value], expected)


@pytest.mark.parametrize("dims", [(0, 2), (2, 0, 1), (1,)])
def test_counts_along_several_dimensions(dims: tuple[int, ...]) -> None:
    shape = (3, 16, 200)
    counted = np.arange(np.prod([shape[d] for d in dims])).reshape([shape[d] for d in dims])
    there = np.transpose(counted, np.argsort(dims))
    for d in range(3):
        there = there if d in dims else np.expand_dims(there, d)
    expected = np.ascontiguousarray(np.broadcast_to(there, shape)).astype(np.int32)
    numbered = f"array<i32: {', '.join(map(str, dims))}>"
    check(f"%r = tpu.iota {{dimensions = {numbered}}} : vector<{text(expected)}>", [], expected)


@pytest.mark.parametrize("stride, rows", [(2, 10), (3, 7)])
def test_strided_parts(stride: int, rows: int) -> None:
    value = numbers((20, 200), "f32")
    expected = (value + value)[: (rows - 1) * stride + 1 : stride, 20:120]
    kind = f"vector<{text(value)}>"
    body = f"""%w = arith.addf %x, %x : {kind}
        %r = vector.extract_strided_slice %w {{offsets = [0, 20], sizes = [{rows}, 100],
            strides = [{stride}, 1]}} : {kind} to vector<{text(expected)}>"""
    check(body, [value], np.ascontiguousarray(expected))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("element", ["f32", "bf16", "i8"])
@pytest.mark.parametrize("depth", [7, 13, 130])
def test_products_without_dimension_numbers(depth: int, element: str, transposed: bool) -> None:
    left, right = numbers((24, depth), element), numbers((depth, 72), element)
    sums = np.int32 if element == "i8" else np.float32
    expected = left.astype(sums) @ right.astype(sums)
    right = np.ascontiguousarray(right.T) if transposed else right
    kinds = [f"vector<{text(a)}>" for a in (left, right, expected)]
    check(product(kinds, transposed=transposed), [left, right], expected)


@pytest.mark.parametrize("precision", ["", "bf16x3", "fp32"])
@pytest.mark.parametrize("other", ["bf16", "f32"])
@pytest.mark.parametrize("element", ["i16", "i32"])
def test_products_of_long_integers_and_floats(element: str, other: str, precision: str) -> None:
    """Integers are multiplied as f32: rounded to bf16, if no other precision is wanted."""
    left, right = numbers((32, 128), element, 1000), numbers((128, 128), other)
    factor = left if precision else left.astype(TYPES["bf16"])
    expected = factor.astype(np.float32) @ right.astype(np.float32)
    wanted = f", precision = #tpu.contract_precision<{precision}>" if precision else ""
    kinds = [f"vector<{text(a)}>" for a in (left, right, expected)]
    check(product(kinds, wanted), [left, right], expected)


@pytest.mark.parametrize("target", ["v5e", "v7x"])
def test_long_sums_of_bytes_as_floats(target: str) -> None:
    """Beyond 2**24, they are rounded where every form rounds them."""
    left, right = (96 + numbers(shape, "i8", 31) for shape in ((32, 2304), (2304, 128)))
    expected = np.zeros((32, 128), np.float32)
    for k in range(0, 2304, 128):
        parts = left[:, k : k + 128], right[k : k + 128]
        expected += np.matmul(*(part.astype(np.float32) for part in parts))
    assert expected.max() > 1 << 24
    kinds = [f"vector<{text(a)}>" for a in (left, right, expected)]
    check(product(kinds), [left, right], expected, target)


@pytest.mark.parametrize("half", [0, 1])
def test_halves_of_words_as_floats(half: int) -> None:
    words = numbers((16, 200), "i32", 1 << 30)
    expected = (words >> 16 if half else words).astype(np.uint32) << 16
    kinds = "vector<16x200xi32> -> vector<16x200xf32>"
    body = f"%r = tpu.unpack_elementwise %x, {half} {{source_type = bf16}} : {kinds}"
    check(body, [words], expected.view(np.float32))


@pytest.mark.parametrize("amount", [2, -1, 37])
@pytest.mark.parametrize("shape, stride", [((5, 16, 128), 1), ((7, 9, 200), 3)])
def test_rows_that_rotate_through_registers(
    shape: tuple[int, int, int], stride: int, amount: int
) -> None:
    value = numbers(shape, "f32")
    rows = [np.roll(value[:, row], amount + stride * row, 0) for row in range(shape[1])]
    kind = f"vector<{text(value)}>"
    body = f"""%n = arith.constant {amount} : i32
        %r = tpu.dynamic_rotate %x by %n dim 0 {{stride = {stride} : si32,
            stride_dimension = 1 : si32}} : {kind}, i32 -> {kind}"""
    check(body, [value], np.stack(rows, 1))


@pytest.mark.parametrize("amount", [0, 2, 130])
@pytest.mark.parametrize("shape, stride", [((20, 128), 1), ((16, 384), 3), ((2, 16, 256), 2)])
def test_rows_that_rotate_by_the_stride_of_the_unit(
    shape: tuple[int, ...], stride: int, amount: int
) -> None:
    value = numbers(shape, "f32")
    rows = [np.roll(value[..., row, :], amount + stride * row, -1) for row in range(shape[-2])]
    kind, rank = f"vector<{text(value)}>", len(shape)
    body = f"""%n = arith.constant {amount} : i32
        %r = tpu.dynamic_rotate %x by %n dim {rank - 1} {{stride = {stride} : si32,
            stride_dimension = {rank - 2} : si32}} : {kind}, i32 -> {kind}"""
    check(body, [value], np.stack(rows, -2))


REDUCED = {"add": ("0.0", np.sum), "maximumf": ("0xFF800000", np.max)}


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("kind", REDUCED)
@pytest.mark.parametrize("place", ["everywhere", "within"])
def test_reductions_of_one_number_and_of_what_begins_within_registers(
    place: str, kind: str, dim: int
) -> None:
    value = numbers((30, 200), "f32")
    part = np.full((20, 100), value[0, 0]) if place == "everywhere" else value[3:23, 15:115] * 2
    neutral, fold = REDUCED[kind]
    expected = np.ascontiguousarray(fold(part, dim, keepdims=True))
    whole, cut, kept = (f"vector<{text(a)}>" for a in (value, part, expected))
    result = f"vector<{part.shape[1 - dim]}xf32>"
    made = {
        "everywhere": f"""%e = vector.extract %x[0, 0] : f32 from {whole}
        %s = vector.broadcast %e : f32 to {cut}""",
        "within": f"""%w = arith.addf %x, %x : {whole}
        %s = vector.extract_strided_slice %w {{offsets = [3, 15], sizes = [20, 100],
            strides = [1, 1]}} : {whole} to {cut}""",
    }
    body = f"""{made[place]}
        %acc = arith.constant dense<{neutral}> : {result}
        %k = vector.multi_reduction <{kind}>, %s, %acc [{dim}] : {cut} to {result}
        %r = vector.shape_cast %k : {result} to {kept}"""
    check(body, [value], expected)


@pytest.mark.parametrize("rows", [[5, 0, 0, 3, 7, 6, 1, 2], [3, 2, 1]])
def test_rows_in_another_order(rows: list[int]) -> None:
    value = numbers((8, 128), "i32")
    expected = (value + value)[rows]
    kind = f"vector<{text(value)}>"
    body = f"""%w = arith.addi %x, %x : {kind}
        %r = tpu.gather %w[{rows}] in 0 : {kind} -> vector<{text(expected)}>"""
    check(body, [value], expected)


def test_values_whose_layout_is_assumed() -> None:
    value = numbers((16, 128), "f32")
    kind = f"vector<{text(value)}>"
    body = f"""%w = tpu.assume_layout %x : {kind} -> {kind}
        %r = arith.addf %w, %x : {kind}"""
    check(body, [value], value + value)


@pytest.mark.parametrize("dims", [(0,), (0, 1), (0, 2), (1,)])
def test_maxima_of_packed_registers(dims: tuple[int, ...]) -> None:
    value = numbers((3, 32, 256), "bf16")
    expected = value.max(dims, keepdims=True)
    left = [n for d, n in enumerate(value.shape) if d not in dims]
    result = f"vector<{'x'.join(map(str, left))}xbf16>"
    kinds = f"vector<{text(value)}>", f"vector<{text(expected)}>"
    body = f"""%acc = arith.constant dense<0xFF80> : {result}
        %k = vector.multi_reduction <maximumf>, %x, %acc {list(dims)} : {kinds[0]} to {result}
        %r = vector.shape_cast %k : {result} to {kinds[1]}"""
    check(body, [value], expected, "v6e")


@pytest.mark.parametrize("element", ["f32", "bf16"])
@pytest.mark.parametrize("first, last", [("0.0", "-0.0"), ("-0.0", "0.0"), ("2.5", "2.5")])
def test_constants_beside_each_other(first: str, last: str, element: str) -> None:
    """0.0 and -0.0 are equal, but have other bits."""
    expected = np.repeat(np.array([[first], [last]], np.float32), 16, 0).repeat(128, 1)
    bits = expected.astype(TYPES[element]).view({"f32": np.int32, "bf16": np.int16}[element])
    kind, result = f"vector<16x128x{element}>", f"vector<32x128x{element}>"
    body = f"""%p = arith.constant dense<{first}> : {kind}
    %q = arith.constant dense<{last}> : {kind}
    %c = tpu.concatenate %p, %q in 0 : {kind}, {kind} -> {result}
    %r = tpu.bitcast %c : {result} -> vector<{text(bits)}>"""
    check(body, [numbers((8, 128), "f32")], bits)


def test_unsigned_loops_beyond_the_greatest_signed_number() -> None:
    expected = np.full((8, 128), 2, np.int32)
    kind = f"vector<{text(expected)}>"
    body = f"""%first = arith.constant 2147483646 : i32
    %end = arith.constant -2147483646 : i32
    %one = arith.constant 1 : i32
    %zeros = arith.constant dense<0> : {kind}
    %r = scf.for unsigned %i = %first to %end step %one iter_args(%s = %zeros) -> ({kind}) : i32 {{
      %n = vector.broadcast %i : i32 to {kind}
      %below = arith.cmpi slt, %n, %zeros : {kind}
      %e = arith.extui %below : vector<8x128xi1> to {kind}
      %t = arith.addi %s, %e : {kind}
      scf.yield %t : {kind}
    }}"""
    check(body, [expected], expected)


@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_operations_of_two_results_without_registers(element: str) -> None:
    kind = f"vector<16x128x{element}>"
    body = f"""%x = vector.load %a[%z, %z] : A, {kind}
        %s, %c = math.sincos %x : {kind}
        %y = arith.subf %s, %c : {kind}
        tpu.vector_store %b[%z, %z], %y {{strides = array<i32>}} : B, {kind},"""
    module = kernel([f"16x128x{element}"] * 2, body)
    with pytest.raises(Unsupported, match=r"math\.sincos") as error:
        pallasite.lower(module, "vreg", "v5e", allow_beyond_reference=True)
    assert error.value.code == "no-tile-rule"
