import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

WIDTHS = (4, 8, 16, 32)
DTYPES = {4: np.int8, 8: np.int8, 16: np.int16, 32: np.int32}


def wrap(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def quotient(a: int, b: int) -> int:
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def u(value: int, bits: int) -> int:
    return value & ((1 << bits) - 1)


PYTHON = {
    "addi": lambda a, b, n: a + b,
    "subi": lambda a, b, n: a - b,
    "muli": lambda a, b, n: a * b,
    "andi": lambda a, b, n: a & b,
    "ori": lambda a, b, n: a | b,
    "xori": lambda a, b, n: a ^ b,
    "maxsi": lambda a, b, n: max(a, b),
    "minsi": lambda a, b, n: min(a, b),
    "maxui": lambda a, b, n: max(u(a, n), u(b, n)),
    "minui": lambda a, b, n: min(u(a, n), u(b, n)),
    "divsi": lambda a, b, n: quotient(a, b),
    "remsi": lambda a, b, n: a if b == 0 else a - b * quotient(a, b),
    "divui": lambda a, b, n: u(a, n) // u(b, n) if b else -1,
    "remui": lambda a, b, n: u(a, n) % u(b, n) if b else a,
    "floordivsi": lambda a, b, n: a // b if b else -1,
    "ceildivsi": lambda a, b, n: -(-a // b) if b else -1,
    "ceildivui": lambda a, b, n: -(-u(a, n) // u(b, n)) if b else -1,
    "shli": lambda a, b, n: a << u(b, n) if u(b, n) < n else 0,
    "shrsi": lambda a, b, n: a >> min(u(b, n), n),
    "shrui": lambda a, b, n: u(a, n) >> u(b, n),
}


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("name", PYTHON)
def test_integers_agree_with_python(meaning, name, bits):
    scalar = meaning(f"%r = arith.{name} %a, %b : i{bits}", a=f"i{bits}", b=f"i{bits}")
    vector = f"vector<64xi{bits}>"
    array = meaning(f"%r = arith.{name} %a, %b : {vector}", a=vector, b=vector)
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    number = st.one_of(st.sampled_from([low, low + 1, -1, 0, 1, bits - 1, high]),
                       st.integers(low, high))  # fmt: skip

    @settings(max_examples=8, deadline=None)
    @given(st.lists(st.tuples(number, number), min_size=64, max_size=64))
    def check(pairs):
        left, right = (np.array(x, DTYPES[bits]) for x in zip(*pairs, strict=True))
        expected = [wrap(PYTHON[name](a, b, bits), bits) for a, b in pairs]
        result = array(left, right)
        assert result.dtype == DTYPES[bits] and result.tolist() == expected
        for (a, b), value in zip(pairs[:8], expected[:8], strict=True):
            assert scalar(a, b) == value and type(scalar(a, b)) is int

    check()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("addi", [0, 1, 1, 0]),
        ("muli", [0, 0, 0, 1]),
        ("xori", [0, 1, 1, 0]),
        ("maxsi", [0, 0, 0, 1]),
        ("minsi", [0, 1, 1, 1]),
        ("maxui", [0, 1, 1, 1]),
        ("minui", [0, 0, 0, 1]),
    ],
)
def test_i1(meaning, name, expected):
    left, right = [False, False, True, True], [False, True, False, True]
    vector = meaning(f"%r = arith.{name} %a, %b : vector<4xi1>", a="vector<4xi1>", b="vector<4xi1>")
    scalar = meaning(f"%r = arith.{name} %a, %b : i1", a="i1", b="i1")
    result = vector(np.array(left), np.array(right))
    assert result.dtype == np.bool_ and result.tolist() == [bool(e) for e in expected]
    assert [scalar(a, b) for a, b in zip(left, right, strict=True)] == [bool(e) for e in expected]


def test_index_wraps_at_64_bits(meaning):
    add = meaning("%r = arith.addi %a, %b : index", a="index", b="index")
    assert add(3, 4) == 7
    assert add((1 << 63) - 1, 1) == -(1 << 63)


@pytest.mark.parametrize("name", ["addf", "subf", "mulf", "divf"])
@pytest.mark.parametrize(
    ("element", "dtype"),
    [("bf16", ml_dtypes.bfloat16), ("f16", np.float16), ("f8E5M2", ml_dtypes.float8_e5m2)],
)
def test_narrow_floats_are_rounded_once(meaning, name, element, dtype):
    vector = f"vector<4096x{element}>"
    function = meaning(f"%r = arith.{name} %a, %b : {vector}", a=vector, b=vector)
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(4096).astype(dtype).astype(np.float32) for _ in range(2))
    wide = {"addf": np.add, "subf": np.subtract, "mulf": np.multiply, "divf": np.divide}[name]
    with np.errstate(all="ignore"):
        expected = wide(a.astype(np.float64), b.astype(np.float64)).astype(np.float32)
        np.testing.assert_array_equal(function(a, b), expected.astype(dtype).astype(np.float32))


def test_float_exceptions_do_not_warn(meaning):
    v = "vector<3xf32>"
    big = np.array([3e38, -3e38, 0], np.float32)
    zero = np.zeros(3, np.float32)
    assert np.isinf(meaning(f"%r = arith.mulf %a, %b : {v}", a=v, b=v)(big, big))[:2].all()
    quotient = meaning(f"%r = arith.divf %a, %b : {v}", a=v, b=v)(big, zero)
    np.testing.assert_array_equal(quotient, [np.inf, -np.inf, np.nan])
    assert (
        meaning("%r = arith.divf %a, %b : f32", a="f32", b="f32")(np.float32(1), np.float32(0))
        == np.inf
    )


def test_maximumf_propagates_nan_and_maxnumf_does_not(meaning):
    v = "vector<2xf32>"
    a, b = np.array([np.nan, 1], np.float32), np.array([1, np.nan], np.float32)
    assert np.isnan(meaning(f"%r = arith.maximumf %a, %b : {v}", a=v, b=v)(a, b)).all()
    assert np.isnan(meaning(f"%r = arith.minimumf %a, %b : {v}", a=v, b=v)(a, b)).all()
    np.testing.assert_array_equal(
        meaning(f"%r = arith.maxnumf %a, %b : {v}", a=v, b=v)(a, b), [1, 1]
    )


def test_remf_has_the_sign_of_the_dividend(meaning):
    v = "vector<4xf32>"
    a, b = np.array([5.5, -5.5, 5.5, -5.5], np.float32), np.array([2, 2, -2, -2], np.float32)
    result = meaning(f"%r = arith.remf %a, %b : {v}", a=v, b=v)(a, b)
    np.testing.assert_array_equal(result, [1.5, -1.5, 1.5, -1.5])


def test_scalar_floats_stay_float32(meaning):
    result = meaning("%r = arith.addf %a, %b : f32", a="f32", b="f32")(np.float32(1), np.float32(2))
    assert type(result) is np.float32
    rounded = meaning("%r = arith.addf %a, %b : bf16", a="bf16", b="bf16")(
        np.float32(256), np.float32(1)
    )
    assert type(rounded) is np.float32 and rounded == 256


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_extended_products_hold_both_halves(meaning, bits):
    random = np.random.default_rng(1)
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    a, b = (random.integers(low, high, 64, dtype=DTYPES[bits], endpoint=True) for _ in range(2))
    v = f"vector<64xi{bits}>"
    text = f"%l, %h = arith.mulsi_extended %a, %b : {v}"
    lower, upper = meaning(text, a=v, b=v)(a, b)
    for x, y, small, large in zip(*(z.tolist() for z in (a, b, lower, upper)), strict=True):
        assert (large << bits) + (small & ((1 << bits) - 1)) == x * y
    text = f"%l, %h = arith.mului_extended %a, %b : {v}"
    lower, upper = meaning(text, a=v, b=v)(a, b)
    for x, y, small, large in zip(*(z.tolist() for z in (a, b, lower, upper)), strict=True):
        assert (u(large, bits) << bits) + u(small, bits) == u(x, bits) * u(y, bits)


def test_addui_extended_carries(meaning):
    text = '%s, %c = "arith.addui_extended"(%a, %b) : (i32, i32) -> (i32, i1)'
    assert meaning(text, a="i32", b="i32")(-1, 1) == (0, True)
    assert meaning(text, a="i32", b="i32")(1, 1) == (2, False)


@pytest.mark.parametrize("bits", [4, 8, 32])
def test_subui_extended_borrows(meaning, bits):
    v = f"vector<4xi{bits}>"
    a, b = np.array([0, -1, 1, 5], DTYPES[bits]), np.array([1, 0, -1, 5], DTYPES[bits])
    text = "%r, %s = arith.subui_extended %a, %b : "
    difference, borrow = meaning(f"{text}{v}, vector<4xi1>", a=v, b=v)(a, b)
    assert difference.dtype == DTYPES[bits] and difference.tolist() == [-1, -1, 2, 0]
    assert borrow.tolist() == [True, False, True, False]
    scalar = meaning(f"{text}i{bits}, i1", a=f"i{bits}", b=f"i{bits}")
    assert [scalar(*p) for p in zip(a.tolist(), b.tolist(), strict=True)] == [
        (-1, True), (-1, False), (2, True), (0, False)]  # fmt: skip


@pytest.mark.parametrize(("element", "exponent"), [("f32", -126), ("bf16", -126), ("f16", -14)])
def test_denormals_are_those_of_the_type(meaning, element, exponent):
    v = f"vector<5x{element}>"
    smallest = 2.0**exponent
    x = np.array([smallest, -smallest / 2, -0.0, np.nan, -np.inf], np.float32)
    flushed = meaning(f"%r = arith.flush_denormals %a : {v}", a=v)(x)
    np.testing.assert_array_equal(flushed, np.array([smallest, 0, 0, np.nan, -np.inf], np.float32))
    assert np.signbit(flushed[:3]).tolist() == [False, True, True]
    normal = meaning(f"%r = math.isnormal %a : {v}", a=v)(x)
    assert normal.tolist() == [True, False, False, False, False]


@pytest.mark.parametrize("name", ["math.fma", "vector.fma"])
def test_fma_rounds_the_sum_alone(meaning, name):
    v = "vector<2xf32>"
    x = np.array([1 + 2.0**-12, 3], np.float32)
    fused = meaning(f"%r = {name} %a, %b, %c : {v}", a=v, b=v, c=v)
    assert fused(x, x, -np.ones(2, np.float32)).tolist() == [2.0**-11 + 2.0**-24, 8]
