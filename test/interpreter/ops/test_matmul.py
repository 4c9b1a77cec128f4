import re

import ml_dtypes
import numpy as np
import pytest

from pallasite.diagnostics import Diagnostic, VerifyError

SEED = np.random.default_rng(0)
NUMBERS = {
    "plain": ("[1], [0], [0], [1], [0, 0, 1, 1], [], []", "mk,kn->mn"),
    "transposed_rhs": ("[1], [1], [0], [0], [0, 0, 1, 0], [], []", "mk,nk->mn"),
    "transposed_lhs": ("[0], [0], [1], [1], [0, 1, 1, 1], [], []", "km,kn->mn"),
    "batched": ("[2], [1], [1], [2], [0, 0, 0, 1, 1, 2], [0], [0]", "bmk,bkn->bmn"),
    "batch_last": ("[0], [2], [1], [0], [0, 2, 0, 1, 1, 0], [2], [1]", "kmb,nbk->bmn"),
    "vector_lhs": ("[0], [0], [], [1], [1, 1], [], []", "k,kn->n"),
    "two_contracted": ("[1, 2], [0, 1], [0], [2], [0, 0, 1, 2], [], []", "mkj,kjn->mn"),
    "two_free": ("[2], [0], [0, 1], [1], [0, 0, 0, 1, 1, 1], [], []", "mjk,kn->mjn"),
}
SIZES = {"b": 3, "m": 40, "k": 72, "n": 130, "j": 2}


def vector(shape, element):
    return "vector<" + "x".join(map(str, shape)) + f"x{element}>"


def bf16(x):
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


def matmul(meaning, a, b, acc, numbers, elements=("f32", "f32", "f32"), precision=None):
    types = [vector(x.shape, e) for x, e in zip((a, b, acc), elements, strict=True)]
    attributes = f"dimension_numbers = #tpu.dot_dimension_numbers<{numbers}>"
    if precision:
        attributes += f", precision = #tpu.contract_precision<{precision}>"
    text = f"%r = tpu.matmul %a, %b, %c {{{attributes}, transpose_lhs_hint = false}} : "
    result = f"{', '.join(types)} -> {types[2]}"
    return meaning(text + result, a=types[0], b=types[1], c=types[2])(a, b, acc)


@pytest.mark.parametrize("form", NUMBERS)
def test_dimension_numbers(meaning, form):
    numbers, einsum = NUMBERS[form]
    sides, out = einsum.split("->")
    left, right = sides.split(",")
    a, b, acc = (
        SEED.standard_normal([SIZES[d] for d in dims]).astype(np.float32)
        for dims in (left, right, out)
    )
    result = matmul(meaning, a, b, acc, numbers, precision="fp32")
    expected = acc + np.einsum(einsum, a.astype(np.float64), b.astype(np.float64))
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=3e-5)
    assert result.dtype == np.float32
    rounded = matmul(meaning, a, b, acc, numbers)
    expected = acc + np.einsum(einsum, bf16(a).astype(np.float64), bf16(b).astype(np.float64))
    np.testing.assert_allclose(rounded, expected, rtol=1e-5, atol=3e-5)


def test_precisions_differ_as_they_should(meaning):
    a, b = (SEED.standard_normal((128, 128)).astype(np.float32) for _ in range(2))
    acc = np.zeros((128, 128), np.float32)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    errors = [
        np.abs(matmul(meaning, a, b, acc, NUMBERS["plain"][0], precision=p) - exact).max()
        for p in (None, "bf16x3", "fp32")
    ]
    assert errors[0] > 1e-2 > 2e-3 > errors[1] > errors[2]
    assert errors[2] < 2e-5


@pytest.mark.parametrize("element", ["i8", "i4"])
def test_integers_are_exact(meaning, element):
    low, high = (-128, 127) if element == "i8" else (-8, 7)
    a = SEED.integers(low, high, (24, 3000), endpoint=True).astype(np.int8)
    b = SEED.integers(low, high, (3000, 40), endpoint=True).astype(np.int8)
    a[0], b[:, 0] = low, low
    acc = SEED.integers(-(1 << 31), (1 << 31) - 1, (24, 40), dtype=np.int32)
    result = matmul(meaning, a, b, acc, NUMBERS["plain"][0], (element, element, "i32"))
    expected = (acc + a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result, expected)


def test_legacy_transpose_flag(meaning):
    a, b = (SEED.standard_normal((8, 16)).astype(np.float32) for _ in range(2))
    types = ["vector<8x16xf32>", "vector<8x16xf32>", "vector<8x8xf32>"]
    text = "%r = tpu.matmul %a, %b, %c {transpose_lhs_hint = false, transpose_rhs = true} : "
    function = meaning(
        f"{text}{', '.join(types)} -> {types[2]}", a=types[0], b=types[1], c=types[2]
    )
    result = function(a, b, np.zeros((8, 8), np.float32))
    np.testing.assert_allclose(result, bf16(a) @ bf16(b).T, rtol=1e-5, atol=1e-5)


def test_operands_are_not_written(meaning):
    a = b = acc = np.ones((128, 128), np.float32)
    result = matmul(meaning, a, b, acc, NUMBERS["plain"][0])
    assert (result == 129).all() and (acc == 1).all()


def test_zero_times_infinity_is_nan(meaning):
    a = np.full((8, 128), np.inf, np.float32)
    b, acc = np.zeros((128, 128), np.float32), np.zeros((8, 128), np.float32)
    assert np.isnan(matmul(meaning, a, b, acc, NUMBERS["plain"][0])).all()


def wide(x):
    """`x` as a part of a larger matrix."""
    rows, columns = x.shape
    larger = np.ones((rows + 3, columns + 77), x.dtype)
    larger[2 : 2 + rows, 5 : 5 + columns] = x
    return larger[2 : 2 + rows, 5 : 5 + columns]


@pytest.mark.parametrize("rows", [8, 32, 256])
@pytest.mark.parametrize("columns", [128, 256])
@pytest.mark.parametrize("depth", [128, 384])
def test_where_operands_lie_makes_no_difference(meaning, rows, columns, depth):
    shapes = (rows, depth), (depth, columns), (rows, columns)
    matrices = [SEED.standard_normal(shape).astype(np.float32) for shape in shapes]
    numbers, options = NUMBERS["plain"][0], {"precision": "fp32"}
    expected = matmul(meaning, *matrices, numbers, **options).tobytes()
    for held in (wide, np.asfortranarray):
        result = matmul(meaning, *(held(m) for m in matrices), numbers, **options)
        assert result.tobytes() == expected
    zero = np.broadcast_to(np.zeros(1, np.float32), (rows, columns))
    results = [matmul(meaning, *matrices[:2], z, numbers, **options) for z in (zero, zero.copy())]
    assert results[0].tobytes() == results[1].tobytes()


def tiles(matrix, p, rows, columns):
    """Native tiles of a matrix padded with zeros to whole tiles."""
    grown = np.zeros((-(-matrix.shape[0] // rows) * rows, -(-matrix.shape[1] // columns) * columns))
    grown[: matrix.shape[0], : matrix.shape[1]] = matrix
    r, c = grown.shape[0] // (8 * p), grown.shape[1] // 128
    if p == 1:
        return grown.reshape(r, 8, c, 128).swapaxes(1, 2)
    return grown.reshape(r, 8, p, c, 128).transpose(0, 3, 1, 4, 2)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("element", "p"), [("f32", 1), ("bf16", 2), ("i8", 4)])
@pytest.mark.parametrize("size", [(40, 200, 300), (128, 256, 128), (8, 128, 512)])
@pytest.mark.parametrize("group", [128, 256])
def test_the_grid_form_gives_the_same_bits(meaning, transposed, element, p, size, group):
    m, k, n = size
    dtype, out, wide = (
        (np.int8, "i32", np.int32) if element == "i8" else (np.float32, "f32", np.float32)
    )
    a, b = (
        SEED.integers(-100, 100, s).astype(np.int8) if element == "i8"
        else bf16(SEED.standard_normal(s).astype(np.float32))
        for s in ((m, k), (n, k) if transposed else (k, n))
    )  # fmt: skip
    acc = SEED.integers(-9, 9, (m, n)).astype(wide)
    numbers = NUMBERS["transposed_rhs" if transposed else "plain"][0]
    whole = matmul(meaning, a, b, acc, numbers, (element, element, out))
    grids = [
        tiles(a, p, 8 * p, 128).astype(dtype),
        tiles(b, p, 8 * p, 128).astype(dtype),
        tiles(acc, 1, 8, 128).astype(wide),
    ]
    types = [vector(g.shape, e) for g, e in zip(grids, (element, element, out), strict=True)]
    flag = "true" if transposed else "false"
    attributes = f"{{columns = {group} : i64, contracting = {group} : i64, transpose_rhs = {flag}}}"
    text = f"%r = grid.matmul %a, %b, %c {attributes} : {', '.join(types)}"
    result = meaning(text, a=types[0], b=types[1], c=types[2])(*grids)
    assert result.shape == grids[2].shape
    matrix = result.swapaxes(1, 2).reshape(-(-m // 8) * 8, -1)
    np.testing.assert_array_equal(matrix[:m, :n], whole)


@pytest.mark.parametrize(("element", "p"), [("f32", 1), ("i8", 4)])
@pytest.mark.parametrize("number", ["0", "-0", "3"])
def test_products_onto_a_constant(meaning, element, p, number):
    wide, dtype = ("i32", np.int32) if element == "i8" else ("f32", np.float32)
    last = () if p == 1 else (p,)
    lhs = SEED.integers(-3, 3, (8 // p, 1, 8, 128, *last))
    rhs = SEED.integers(-3, 3, (16 // p, 3, 8, 128, *last))
    shape = (8, 3, 8, 128)
    held = np.int8 if element == "i8" else np.float32
    lhs, rhs = lhs.astype(held), rhs.astype(held)
    rhs[:] = 0 if number != "3" else rhs
    value = number if wide == "i32" else f"{number}.0"
    types = [vector(x.shape, element) for x in (lhs, rhs)] + [vector(shape, wide)]
    product = "%r = grid.matmul {} {{columns = 128 : i64, contracting = 128 : i64}} : "
    product += ", ".join(types)
    text = f"%z = arith.constant dense<{value}> : {types[2]}\n  "
    onto = np.full(shape, float(number), dtype)
    found = meaning(text + product.format("%a, %b, %z"), number=1, a=types[0], b=types[1])
    expected = meaning(product.format("%a, %b, %c"), a=types[0], b=types[1], c=types[2])
    assert found(lhs, rhs, onto).tobytes() == expected(lhs, rhs, onto).tobytes()


def test_contract(meaning):
    a, b = SEED.standard_normal((8, 40)).astype(np.float32), SEED.standard_normal((24, 40))
    b = b.astype(np.float32)
    maps = "affine_map<(d0, d1, d2) -> ({})>"
    text = (
        "%r = vector.contract {indexing_maps = ["
        + ", ".join(maps.format(x) for x in ("d0, d2", "d1, d2", "d1, d0"))
        + '], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}'
        + " %a, %b, %c : vector<8x40xf32>, vector<24x40xf32> into vector<24x8xf32>"
    )
    acc = SEED.standard_normal((24, 8)).astype(np.float32)
    types = {"a": "vector<8x40xf32>", "b": "vector<24x40xf32>", "c": "vector<24x8xf32>"}
    result = meaning(text, **types)(a, b, acc)
    np.testing.assert_allclose(result, acc + bf16(b) @ bf16(a).T, rtol=1e-5, atol=1e-5)
    with pytest.raises(Diagnostic, match="kind"):
        meaning(text.replace("<add>", "<maxnumf>"), **types)


@pytest.mark.parametrize(
    ("shapes", "numbers", "message"),
    [
        (((16, 128), (128, 256), (16, 128)), "plain", "accumulator of shape [16, 256]"),
        (((8, 128), (128, 128), (16, 128)), "plain", "accumulator of shape [8, 128]"),
        (((3, 8, 4), (3, 4, 5), (24, 5)), "batched", "accumulator of shape [3, 8, 5]"),
        (((8, 16), (128, 128), (8, 128)), None, "contracting dimensions of one size"),
        (((1, 8, 16), (16, 128), (8, 128)), None, "matrices"),
    ],
)
def test_products_have_a_shape(meaning, shapes, numbers, message):
    """The C++ dialect does not look at it."""
    a, b, acc = (np.zeros(shape, np.float32) for shape in shapes)
    types = [vector(x.shape, "f32") for x in (a, b, acc)]
    lists = ""
    if numbers is not None:
        lists = f"dimension_numbers = #tpu.dot_dimension_numbers<{NUMBERS[numbers][0]}>, "
    text = f"%r = tpu.matmul %a, %b, %c {{{lists}transpose_lhs_hint = false}} : "
    with pytest.raises(VerifyError, match=re.escape(message)):
        meaning(text + f"{', '.join(types)} -> {types[2]}", a=types[0], b=types[1], c=types[2])(
            a, b, acc
        )


@pytest.mark.parametrize("rows, depth, columns", [(32, 128, 128), (64, 384, 256), (1056, 256, 256)])
@pytest.mark.parametrize("start", [0.0, -0.0, 2.5])
def test_sums_have_the_bits_of_their_groups(meaning, rows, depth, columns, start):
    """One number, which has no strides, is added to as a whole matrix is; groups of zeros leave
    zeros with their signs."""
    generator = np.random.default_rng(0)
    a, b = (
        bf16(generator.standard_normal(shape).astype(np.float32))
        for shape in ((rows, depth), (depth, columns))
    )
    a[0] = 0.0
    b[:128, :128] = 0.0
    b[-128:, -128:] = 0.0
    expected = np.full((rows, columns), start, np.float32)
    for k in range(0, depth, 128):
        for n in range(0, columns, 128):
            left, right = (
                np.ascontiguousarray(x) for x in (a[:, k : k + 128], b[k : k + 128, n : n + 128])
            )
            if right.any():
                expected[:, n : n + 128] += left @ right
    one = np.broadcast_to(np.float32(start), expected.shape)
    for acc in (one, np.array(one)):
        result = matmul(meaning, a, b, acc, NUMBERS["plain"][0], precision="fp32")
        assert result.tobytes() == expected.tobytes()
        assert (acc == start).all()


@pytest.mark.parametrize(("bits", "dtype"), [(1, np.bool_), (4, np.int8), (8, np.int8)])
def test_outer_products_wrap(meaning, bits, dtype):
    low, high = (0, 1) if bits == 1 else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    x = np.array([low, 1, high], dtype)
    acc = np.ones((3, 3), dtype)
    wide = np.multiply.outer(x.astype(int), x.astype(int))

    def wrapped(values):
        return ((values - low) % (1 << bits) + low).astype(dtype).tolist()

    v, o = f"vector<3xi{bits}>", f"vector<3x3xi{bits}>"
    text = "%r = vector.outerproduct %a, %b"
    assert meaning(f"{text} : {v}, {v}", a=v, b=v)(x, x).tolist() == wrapped(wide)
    added = meaning(f"{text}, %c : {v}, {v}", a=v, b=v, c=o)(x, x, acc)
    assert added.dtype == dtype and added.tolist() == wrapped(wide + 1)
    scaled = meaning(f"{text} : {v}, i{bits}", a=v, b=f"i{bits}")(x, x[2].item())
    assert scaled.tolist() == wrapped(wide[2])


def test_outer_products_of_narrow_floats_round(meaning):
    v = "vector<2xbf16>"
    x = np.array([1 + 2.0**-7, 3], np.float32)
    outer = meaning(f"%r = vector.outerproduct %a, %b : {v}, {v}", a=v, b=v)(x, x)
    assert outer.tolist() == [[1 + 2.0**-6, 3.03125], [3.03125, 9]]


def test_contraction_to_a_scalar(meaning):
    maps = "affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>"
    loops = f'indexing_maps = [{maps}], iterator_types = ["reduction"]'
    for element, dtype in (("f32", np.float32), ("i32", np.int32)):
        v, x = f"vector<4x{element}>", np.array([1, 2, 3, 4], dtype)
        text = f"%r = vector.contract {{{loops}, kind = #vector.kind<add>}} %a, %b, %c"
        total = meaning(f"{text} : {v}, {v} into {element}", a=v, b=v, c=element)
        one = np.float32(1) if element == "f32" else 1
        assert total(x, x, one) == 31 and type(total(x, x, one)) is type(one)
