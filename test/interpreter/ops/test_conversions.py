import math

import ml_dtypes
import numpy as np
import pytest

STORAGE = {
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
    "f4E2M1FN": ml_dtypes.float4_e2m1fn,
}
EDGES = [0.0, -0.0, 1.0, -1.5, 2.5, 3.5, 1e-3, -1e-3, 127.5, 300.0, -300.0, 449.0, 70000.0, 1e30,
         -1e30, math.inf, -math.inf, math.nan]  # fmt: skip


def values(n=4096):
    random = np.random.default_rng(0)
    x = random.standard_normal(n) * np.exp2(random.integers(-12, 12, n))
    return np.concatenate([x, EDGES]).astype(np.float32)


@pytest.mark.parametrize("element", STORAGE)
def test_truncf_rounds_to_nearest_even(meaning, element):
    x = values()
    v = f"vector<{x.size}xf32>"
    function = meaning(f"%r = arith.truncf %a : {v} to vector<{x.size}x{element}>", a=v)
    with np.errstate(all="ignore"):
        expected = x.astype(STORAGE[element]).astype(np.float32)
    np.testing.assert_array_equal(function(x), expected)


@pytest.mark.parametrize("element", STORAGE)
def test_truncf_towards_zero_is_the_largest_value_not_beyond(meaning, element):
    x = values()
    v, r = f"vector<{x.size}xf32>", f"vector<{x.size}x{element}>"
    mode = "{rounding_mode = #tpu.rounding_mode<towards_zero>}"
    result = meaning(f"%r = tpu.truncf %a {mode} : {v} -> {r}", a=v)(x)
    width = 16 if element in ("bf16", "f16") else 8
    raw = np.arange(1 << (4 if element == "f4E2M1FN" else width), dtype=f"u{width // 8}")
    every = np.abs(raw.view(STORAGE[element]).astype(np.float32))
    every = np.unique(every[np.isfinite(every)])
    finite = np.isfinite(x)
    floor = every[np.searchsorted(every, np.abs(x[finite]), side="right") - 1]
    np.testing.assert_array_equal(np.abs(result[finite]), floor)
    # f8E4M3B11FNUZ has no negative zero.
    signs = floor != 0
    np.testing.assert_array_equal(np.sign(result[finite])[signs], np.sign(x[finite])[signs])


@pytest.mark.parametrize("bits", [4, 8, 16, 32])
@pytest.mark.parametrize("sign", ["si", "ui"])
@pytest.mark.parametrize("mode", ["arith", "towards_zero", "to_nearest_even"])
def test_float_to_integer_saturates(meaning, bits, sign, mode):
    x = values()
    v, r = f"vector<{x.size}xf32>", f"vector<{x.size}xi{bits}>"
    if mode == "arith":
        op, op1 = f"arith.fpto{sign} %a : {v} to {r}", f"arith.fpto{sign} %a : f32 to i{bits}"
    else:
        attributes = f"{{rounding_mode = #tpu.rounding_mode<{mode}>}}"
        op = f"tpu.fpto{sign} %a {attributes} : {v} -> {r}"
        op1 = f"tpu.fpto{sign} %a {attributes} : f32 -> i{bits}"
    result = meaning("%r = " + op, a=v)(x)
    scalar = meaning("%r = " + op1, a="f32")
    signed = sign == "si"
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)

    def expected(value):
        if math.isnan(value):
            return 0
        if math.isinf(value):
            return high if value > 0 else low
        return min(max(round(value) if mode == "to_nearest_even" else math.trunc(value), low), high)

    def carried(value):
        return value - (1 << bits) if value >> (bits - 1) == 1 else value

    wanted = [carried(expected(value)) for value in x.tolist()]
    assert result.tolist() == wanted
    assert [scalar(value) for value in x[-18:]] == wanted[-18:]


@pytest.mark.parametrize("sign", ["si", "ui"])
@pytest.mark.parametrize(
    ("bits", "dtype"), [(4, np.int8), (8, np.int8), (16, np.int16), (32, np.int32)]
)
def test_integer_to_float(meaning, sign, bits, dtype):
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    n = np.random.default_rng(0).integers(low, high, 1000, dtype=dtype, endpoint=True)
    n[:3] = low, -1, high
    v = f"vector<1000xi{bits}>"
    result = meaning(f"%r = arith.{sign}tofp %a : {v} to vector<1000xf32>", a=v)(n)
    exact = n.astype(np.int64) if sign == "si" else n.astype(np.int64) & ((1 << bits) - 1)
    np.testing.assert_array_equal(result, exact.astype(np.float32))
    assert result.dtype == np.float32
    mode = "{rounding_mode = #tpu.rounding_mode<towards_zero>}"
    down = meaning(f"%r = tpu.{sign}tofp %a {mode} : {v} -> vector<1000xf32>", a=v)(n)
    assert (np.abs(down.astype(np.float64)) <= np.abs(exact.astype(np.float64))).all()
    assert (np.abs(down - result) <= np.spacing(np.abs(result))).all()
    if bits == 32:
        whole = n << 8  # which float32 holds as they are
        at_once = meaning(f"%r = arith.{sign}tofp %a : {v} to vector<1000xf32>", a=v)(whole)
        down = meaning(f"%r = tpu.{sign}tofp %a {mode} : {v} -> vector<1000xf32>", a=v)(whole)
        np.testing.assert_array_equal(down, at_once)
    scalar = meaning(f"%r = arith.{sign}tofp %a : i{bits} to f32", a=f"i{bits}")
    assert type(scalar(int(n[1]))) is np.float32 and scalar(int(n[1])) == result[1]


def test_i1_to_numbers(meaning):
    m = np.array([False, True])
    as_int = meaning("%r = arith.extui %a : vector<2xi1> to vector<2xi32>", a="vector<2xi1>")
    signed = meaning("%r = arith.extsi %a : vector<2xi1> to vector<2xi8>", a="vector<2xi1>")
    as_float = meaning("%r = arith.uitofp %a : vector<2xi1> to vector<2xf32>", a="vector<2xi1>")
    assert as_int(m).tolist() == [0, 1] and signed(m).tolist() == [0, -1]
    assert as_float(m).tolist() == [0.0, 1.0]
    assert meaning("%r = arith.extui %a : i1 to i32", a="i1")(True) == 1
    assert meaning("%r = arith.extsi %a : i1 to i32", a="i1")(True) == -1


@pytest.mark.parametrize(("narrow", "wide"), [(4, 8), (4, 32), (8, 16), (8, 32), (16, 32)])
def test_integers_widen_and_narrow(meaning, narrow, wide):
    numbers = np.arange(-(1 << (narrow - 1)), 1 << (narrow - 1))[:: max(1, (1 << narrow) // 64)]
    dtypes = {4: np.int8, 8: np.int8, 16: np.int16, 32: np.int32}
    size = numbers.size
    a, b = f"vector<{size}xi{narrow}>", f"vector<{size}xi{wide}>"
    x = numbers.astype(dtypes[narrow])
    signed = meaning(f"%r = arith.extsi %a : {a} to {b}", a=a)(x)
    unsigned = meaning(f"%r = arith.extui %a : {a} to {b}", a=a)(x)
    assert signed.dtype == dtypes[wide] and signed.tolist() == numbers.tolist()
    assert unsigned.tolist() == [int(n) & ((1 << narrow) - 1) for n in numbers]
    back = meaning(f"%r = arith.trunci %a : {b} to {a}", a=b)
    assert back(unsigned).tolist() == numbers.tolist() and back(unsigned).dtype == dtypes[narrow]
    assert meaning(f"%r = arith.trunci %a : i{wide} to i{narrow}", a=f"i{wide}")(
        1 << (narrow - 1)
    ) == -(1 << (narrow - 1))


def test_index_cast(meaning):
    assert meaning("%r = arith.index_cast %a : i32 to index", a="i32")(-3) == -3
    assert meaning("%r = arith.index_cast %a : index to i32", a="index")(1 << 31) == -(1 << 31)
    assert meaning("%r = arith.index_castui %a : i32 to index", a="i32")(-1) == (1 << 32) - 1


def test_bitcast(meaning):
    x = np.array([1.0, -2.5, np.inf], np.float32)
    to_int = meaning("%r = arith.bitcast %a : vector<3xf32> to vector<3xi32>", a="vector<3xf32>")
    back = meaning("%r = arith.bitcast %a : vector<3xi32> to vector<3xf32>", a="vector<3xi32>")
    np.testing.assert_array_equal(to_int(x), x.view(np.int32))
    np.testing.assert_array_equal(back(to_int(x)), x)
    narrow = meaning("%r = arith.bitcast %a : vector<3xbf16> to vector<3xi16>", a="vector<3xbf16>")
    assert narrow(x).tolist() == [0x3F80, 0xC020 - 0x10000, 0x7F80]
    assert meaning("%r = arith.bitcast %a : f32 to i32", a="f32")(np.float32(-0.0)) == -(1 << 31)
    assert meaning("%r = arith.bitcast %a : i32 to f32", a="i32")(0x3F800000) == 1


@pytest.mark.parametrize(
    ("old", "new"), [("f8E4M3FN", "f8E5M2"), ("f8E5M2", "f8E4M3FN"), ("bf16", "f16")]
)
def test_bitcast_between_floats_keeps_bits(meaning, old, new):
    names = {"f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2", "bf16": "bfloat16"}
    before, after = (
        np.dtype(getattr(ml_dtypes, names[t])) if t in names else np.dtype(np.float16)
        for t in (old, new)
    )
    x = np.array([1.0, -2.5, 0.125, -0.0], np.float32)
    expected = x.astype(before).view(after).astype(np.float32)
    for op, arrow in (("arith.bitcast", "to"), ("tpu.bitcast", "->")):
        a, b = f"vector<1x4x{old}>", f"vector<1x4x{new}>"
        result = meaning(f"%r = {op} %a : {a} {arrow} {b}", a=a)(x[None])
        np.testing.assert_array_equal(result, expected[None])
    scalar = meaning(f"%r = arith.bitcast %a : {old} to {new}", a=old)
    assert scalar(x[1]) == expected[1]


@pytest.mark.parametrize(
    ("wide", "narrow", "parts"),
    [("i32", "i16", 2), ("i32", "i8", 4), ("i16", "i8", 2), ("i8", "i4", 2)],
)
def test_tpu_bitcast_splits_rows(meaning, wide, narrow, parts):
    dtypes = {"i4": np.int8, "i8": np.int8, "i16": np.int16, "i32": np.int32}
    info = np.iinfo(dtypes[wide])
    x = np.random.default_rng(0).integers(info.min, info.max, (2, 4, 6), dtype=dtypes[wide])
    a, b = f"vector<2x4x6x{wide}>", f"vector<2x{4 * parts}x6x{narrow}>"
    split = meaning(f"%r = tpu.bitcast %a : {a} -> {b}", a=a)(x)
    bits = int(narrow[1:])
    for k in range(parts):
        expected = (x.astype(np.int64) >> (k * bits)) & ((1 << bits) - 1)
        np.testing.assert_array_equal(
            split[:, k::parts].astype(np.int64) & ((1 << bits) - 1), expected
        )
    np.testing.assert_array_equal(meaning(f"%r = tpu.bitcast %a : {b} -> {a}", a=b)(split), x)


@pytest.mark.parametrize("element", ["bf16", "f8E5M2", "f8E4M3FN"])
def test_stochastic_rounding_gives_a_neighbour_in_proportion(meaning, element):
    random = np.random.default_rng(0)
    x = np.full(
        (64, 128),
        np.float32(1.0 + 0.3 * 2.0 ** {"bf16": -7, "f8E5M2": -2, "f8E4M3FN": -3}[element]),
    )
    bits = random.integers(-(1 << 31), (1 << 31) - 1, x.shape, dtype=np.int32)
    a, b = "vector<64x128xf32>", "vector<64x128xi32>"
    text = f"%r = tpu.stochastic_convert %a, %b : {a}, {b} -> vector<64x128x{element}>"
    result = meaning(text, a=a, b=b)(x, bits)
    step = 2.0 ** {"bf16": -7, "f8E5M2": -2, "f8E4M3FN": -3}[element]
    assert set(np.unique(result)) == {1.0, 1.0 + step}
    assert abs((result > 1).mean() - 0.3) < 0.03


def test_stochastic_rounding_to_bf16_adds_bits_and_truncates(meaning):
    random = np.random.default_rng(0)
    x = random.standard_normal((8, 128)).astype(np.float32)
    bits = random.integers(-(1 << 31), (1 << 31) - 1, x.shape, dtype=np.int32)
    a, b = "vector<8x128xf32>", "vector<8x128xi32>"
    text = f"%r = tpu.stochastic_convert %a, %b : {a}, {b} -> vector<8x128xbf16>"
    result = meaning(text, a=a, b=b)(x, bits)
    words = x.view(np.uint32) + (bits.view(np.uint32) & 0xFFFF)
    np.testing.assert_array_equal(result, (words & 0xFFFF0000).view(np.float32))
    name = "tpu.stochastic_convert_elementwise"
    text = f"%r = {name} %a, %b {{dst_type = bf16}} : {a}, {b} -> {b}"
    low = meaning(text, a=a, b=b)(x, bits)
    np.testing.assert_array_equal(low, (words >> 16).astype(np.int32))
