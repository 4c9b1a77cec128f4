import math

import ml_dtypes
import numpy as np
import pytest

FUNCTIONS = {
    "exp": (math.exp, -20, 20),
    "exp2": (lambda x: 2.0**x, -20, 20),
    "expm1": (math.expm1, -3, 3),
    "log": (math.log, 1e-3, 100),
    "log1p": (math.log1p, -0.9, 10),
    "log2": (math.log2, 1e-3, 100),
    "log10": (math.log10, 1e-3, 100),
    "sqrt": (math.sqrt, 0, 100),
    "rsqrt": (lambda x: 1 / math.sqrt(x), 1e-3, 100),
    "sin": (math.sin, -30, 30),
    "cos": (math.cos, -30, 30),
    "tan": (math.tan, -1.5, 1.5),
    "tanh": (math.tanh, -5, 5),
    "sinh": (math.sinh, -5, 5),
    "cosh": (math.cosh, -5, 5),
    "asin": (math.asin, -1, 1),
    "acos": (math.acos, -1, 1),
    "atan": (math.atan, -9, 9),
    "erf": (math.erf, -5, 5),
    "erfc": (math.erfc, -5, 9),
    "cbrt": (math.cbrt, -9, 9),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_within_a_few_units_in_the_last_place(meaning, name):
    reference, low, high = FUNCTIONS[name]
    x = np.linspace(low, high, 4001).astype(np.float32)
    v = f"vector<{x.size}xf32>"
    result = meaning(f"%r = math.{name} %a : {v}", a=v)(x)
    expected = np.array([reference(value) for value in x.tolist()])
    error = np.abs(result - expected) / np.spacing(np.abs(expected).astype(np.float32))
    near_zero_of_log = np.abs(expected) < 1e-3
    assert result.dtype == np.float32 and error[~near_zero_of_log].max() <= 4
    scalar = meaning(f"%r = math.{name} %a : f32", a="f32")(x[7])
    assert type(scalar) is np.float32 and scalar == result[7]


def test_narrow_results_are_rounded(meaning):
    x = np.linspace(-3, 3, 256).astype(ml_dtypes.bfloat16).astype(np.float32)
    v = "vector<256xbf16>"
    result = meaning(f"%r = math.tanh %a : {v}", a=v)(x)
    np.testing.assert_array_equal(result, np.tanh(x).astype(ml_dtypes.bfloat16).astype(np.float32))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("round", [-3.0, -2.0, -1.0, -0.0, 0.0, 1.0, 2.0, 3.0]),
        ("roundeven", [-2.0, -2.0, -0.0, -0.0, 0.0, 0.0, 2.0, 2.0]),
        ("floor", [-3.0, -2.0, -1.0, -1.0, 0.0, 0.0, 1.0, 2.0]),
        ("ceil", [-2.0, -1.0, -0.0, -0.0, 1.0, 1.0, 2.0, 3.0]),
        ("trunc", [-2.0, -1.0, -0.0, -0.0, 0.0, 0.0, 1.0, 2.0]),
        ("absf", [2.5, 1.5, 0.5, 0.2, 0.2, 0.5, 1.5, 2.5]),
    ],
)
def test_rounding(meaning, name, expected):
    x = np.array([-2.5, -1.5, -0.5, -0.2, 0.2, 0.5, 1.5, 2.5], np.float32)
    result = meaning(f"%r = math.{name} %a : vector<8xf32>", a="vector<8xf32>")(x)
    np.testing.assert_array_equal(result, np.array(expected, np.float32))
    np.testing.assert_array_equal(np.signbit(result), np.signbit(np.array(expected)))


def test_round_does_not_go_through_a_rounded_sum(meaning):
    x = np.array([np.nextafter(np.float32(0.5), np.float32(0)), 8388609.0], np.float32)
    result = meaning("%r = math.round %a : vector<2xf32>", a="vector<2xf32>")(x)
    np.testing.assert_array_equal(result, [0, 8388609])


@pytest.mark.parametrize(
    ("bits", "dtype"), [(4, np.int8), (8, np.int8), (16, np.int16), (32, np.int32)]
)
def test_bit_counts(meaning, bits, dtype):
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    numbers = [0, 1, 2, 3, high, low, -1, -2, 5, 6]
    x = np.array(numbers, dtype)
    v = f"vector<10xi{bits}>"
    raw = [n & ((1 << bits) - 1) for n in numbers]
    counts = {
        "ctlz": [bits - n.bit_length() for n in raw],
        "cttz": [(n & -n).bit_length() - 1 if n else bits for n in raw],
        "ctpop": [n.bit_count() for n in raw],
    }
    for name, expected in counts.items():
        result = meaning(f"%r = math.{name} %a : {v}", a=v)(x)
        assert result.dtype == dtype and result.tolist() == expected
        scalar = meaning(f"%r = math.{name} %a : i{bits}", a=f"i{bits}")
        assert [scalar(n) for n in numbers] == expected


def test_absi_wraps(meaning):
    v = "vector<3xi32>"
    result = meaning(f"%r = math.absi %a : {v}", a=v)(np.array([-5, 5, -(1 << 31)], np.int32))
    assert result.tolist() == [5, 5, -(1 << 31)]
    assert meaning("%r = math.absi %a : i32", a="i32")(-(1 << 31)) == -(1 << 31)


def test_binary_functions(meaning):
    v = "vector<64xf32>"
    random = np.random.default_rng(0)
    a, b = (
        random.uniform(0.1, 4, 64).astype(np.float32),
        random.uniform(-3, 3, 64).astype(np.float32),
    )
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    power = meaning(f"%r = math.powf %a, %b : {v}", a=v, b=v)(a, b)
    np.testing.assert_allclose(power, [x**y for x, y in pairs], rtol=3e-7)
    angle = meaning(f"%r = math.atan2 %a, %b : {v}", a=v, b=v)(a, b)
    np.testing.assert_allclose(angle, [math.atan2(x, y) for x, y in pairs], rtol=3e-7)


@pytest.mark.parametrize("exponent", [-1.0, 0.5, 2.0, 2.5])
def test_a_power_does_not_depend_on_other_elements(meaning, exponent):
    """Neither on how many there are nor on whether their exponents are one number in memory."""
    base = np.float32([-np.inf, -0.0, 0.0, np.inf, *np.linspace(0.1, 7, 60)])
    v = f"vector<{base.size}xf32>"
    power = meaning(f"%r = math.powf %a, %b : {v}", a=v, b=v)
    of_one = meaning("%r = math.powf %a, %b : f32", a="f32", b="f32")
    each = power(base, np.full(base.shape, exponent, np.float32))
    one = np.broadcast_to(np.float32(exponent), base.shape)
    np.testing.assert_array_equal(power(base, one), each)
    np.testing.assert_array_equal([of_one(x, np.float32(exponent)) for x in base], each)
    assert each[0] == {-1.0: 0}.get(exponent, np.inf)


def test_reciprocal_and_logistic(meaning):
    v = "vector<8x128xf32>"
    x = np.random.default_rng(0).uniform(-9, 9, (8, 128)).astype(np.float32)
    np.testing.assert_array_equal(meaning(f"%r = tpu.reciprocal %a : {v} -> {v}", a=v)(x), 1 / x)
    approximate = meaning(f"%r = tpu.reciprocal %a {{approx = true}} : {v} -> {v}", a=v)(x)
    np.testing.assert_array_equal(approximate, 1 / x.astype(ml_dtypes.bfloat16).astype(np.float32))
    result = meaning(f"%r = tpu.logistic %a : {v} -> {v}", a=v)(x)
    np.testing.assert_allclose(result, 1 / (1 + np.exp(-x.astype(np.float64))), rtol=5e-7)


@pytest.mark.parametrize(("bits", "dtype"), [(4, np.int8), (8, np.int8), (32, np.int32)])
def test_integer_powers_wrap(meaning, bits, dtype):
    low, half = -(1 << (bits - 1)), 1 << (bits - 1)
    pairs = [(3, 3), (low, 2), (-1, 5), (7, 0), (-1, -1), (-1, -2), (1, -3), (2, -1), (0, -1)]
    inverses = {(-1, -1): -1, (-1, -2): 1, (1, -3): 1, (2, -1): 0, (0, -1): -1}
    want = [inverses.get((a, b), (a ** max(b, 0) + half) % (2 * half) - half) for a, b in pairs]
    v = f"vector<{len(pairs)}xi{bits}>"
    a, b = (np.array(x, dtype) for x in zip(*pairs, strict=True))
    result = meaning(f"%r = math.ipowi %a, %b : {v}", a=v, b=v)(a, b)
    assert result.dtype == dtype and result.tolist() == want
    scalar = meaning(f"%r = math.ipowi %a, %b : i{bits}", a=f"i{bits}", b=f"i{bits}")
    assert [scalar(*pair) for pair in pairs] == want


def test_what_kind_of_number_it_is(meaning):
    v = "vector<5xf32>"
    x = np.array([1, np.nan, np.inf, -np.inf, 1e-40], np.float32)
    for name, want in (("isnan", np.isnan), ("isinf", np.isinf), ("isfinite", np.isfinite)):
        np.testing.assert_array_equal(meaning(f"%r = math.{name} %a : {v}", a=v)(x), want(x))
        one = meaning(f"%r = math.{name} %a : f32", a="f32")
        assert [one(n) for n in x] == want(x).tolist() and type(one(x[0])) is bool


def test_clamps_powers_and_sines(meaning):
    v = "vector<3xbf16>"
    x, low, high = (np.array(n, np.float32) for n in ([5, -5, np.nan], [-1] * 3, [2] * 3))
    clamp = meaning(f"%r = math.clampf %a to [%b, %c] : {v}", a=v, b=v, c=v)
    np.testing.assert_array_equal(clamp(x, low, high), np.array([2, -1, np.nan], np.float32))
    i = "vector<3xi32>"
    power = meaning(f"%r = math.fpowi %a, %b : {v}, {i}", a=v, b=i)
    want = np.array([25, -0.2001953125, 1], np.float32)
    np.testing.assert_array_equal(power(x, np.array([2, -1, 0], np.int32)), want)
    sin, cos = meaning("%r, %s = math.sincos %a : bf16", a="bf16")(np.float32(1))
    assert (sin, cos) == (0.83984375, 0.5390625)
