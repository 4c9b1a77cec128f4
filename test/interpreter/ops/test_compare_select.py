import itertools
import math

import numpy as np
import pytest

SIGNED = {"eq": "==", "ne": "!=", "slt": "<", "sle": "<=", "sgt": ">", "sge": ">="}
UNSIGNED = {"ult": "<", "ule": "<=", "ugt": ">", "uge": ">="}


@pytest.mark.parametrize(("bits", "dtype"), [(4, np.int8), (8, np.int8), (32, np.int32)])
@pytest.mark.parametrize("predicate", [*SIGNED, *UNSIGNED])
def test_cmpi(meaning, predicate, bits, dtype):
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    pairs = list(itertools.product([low, -1, 0, 1, high], repeat=2))
    v = f"vector<{len(pairs)}xi{bits}>"
    vector = meaning(f"%r = arith.cmpi {predicate}, %a, %b : {v}", a=v, b=v)
    scalar = meaning(f"%r = arith.cmpi {predicate}, %a, %b : i{bits}", a=f"i{bits}", b=f"i{bits}")
    mask = (1 << bits) - 1

    def expected(a, b):
        if predicate in UNSIGNED:
            return eval(f"{a & mask} {UNSIGNED[predicate]} {b & mask}")
        return eval(f"{a} {SIGNED[predicate]} {b}")

    left, right = (np.array(x, dtype) for x in zip(*pairs, strict=True))
    assert vector(left, right).tolist() == [expected(a, b) for a, b in pairs]
    assert [scalar(a, b) for a, b in pairs] == [expected(a, b) for a, b in pairs]


def test_cmpi_reads_a_true_i1_as_minus_one(meaning):
    less = meaning("%r = arith.cmpi slt, %a, %b : i1", a="i1", b="i1")
    assert less(True, False) and not less(False, True)


FLOATS = [-math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan]


@pytest.mark.parametrize(
    "predicate",
    ["oeq", "ogt", "oge", "olt", "ole", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno"],
)
def test_cmpf(meaning, predicate):
    pairs = list(itertools.product(FLOATS, repeat=2))
    v = f"vector<{len(pairs)}xf32>"

    def expected(a, b):
        unordered = math.isnan(a) or math.isnan(b)
        if predicate in ("ord", "uno"):
            return unordered == (predicate == "uno")
        if unordered:
            return predicate[0] == "u"
        table = {"eq": a == b, "gt": a > b, "ge": a >= b, "lt": a < b, "le": a <= b, "ne": a != b}
        return table[predicate[1:]]

    left, right = (np.array(x, np.float32) for x in zip(*pairs, strict=True))
    vector = meaning(f"%r = arith.cmpf {predicate}, %a, %b : {v}", a=v, b=v)(left, right)
    assert vector.dtype == np.bool_ and vector.tolist() == [expected(a, b) for a, b in pairs]
    scalar = meaning(f"%r = arith.cmpf {predicate}, %a, %b : f32", a="f32", b="f32")
    for (a, b), value in zip(pairs, vector.tolist(), strict=True):
        result = scalar(np.float32(a), np.float32(b))
        assert type(result) is bool and result == value


def test_one_is_not_equal_as_the_tpu_executes_it(meaning):
    """`jnp.isnan(x)` reaches the compiler as `cmpf one, %x, %x`, and works."""
    v = "vector<3xf32>"
    x = np.array([1, np.nan, np.inf], np.float32)
    result = meaning(f"%r = arith.cmpf one, %a, %b : {v}", a=v, b=v)(x, x)
    assert result.tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("element", "dtype"), [("f32", np.float32), ("i32", np.int32), ("i16", np.int16)]
)
def test_masks_that_lie_otherwise_in_memory_choose_the_same(meaning, element, dtype):
    """Bits of both sides, those of NaN and of -0.0 too."""
    v, m = f"vector<6x8x128x{element}>", "vector<6x8x128xi1>"
    select = meaning(f"%r = arith.select %m, %a, %b : {m}, {v}", m=m, a=v, b=v)
    numbers = np.random.default_rng(0)
    bits = numbers.integers(0, 256, (2, 6, 8, 128 * np.dtype(dtype).itemsize), np.uint8)
    a, b = bits.view(dtype)
    spread = np.broadcast_to(numbers.random((8, 128)) < 0.5, (6, 8, 128))
    turned = (numbers.random((128, 8, 6)) < 0.5).T
    for mask in (spread, turned, turned.copy()):
        expected = np.where(mask, a.view(f"u{a.itemsize}"), b.view(f"u{a.itemsize}"))
        assert select(mask, a, b).tobytes() == expected.tobytes()


def test_select(meaning):
    m, v = "vector<4xi1>", "vector<4xf32>"
    mask = np.array([True, False, True, False])
    a, b = np.arange(4, dtype=np.float32), -np.arange(4, dtype=np.float32)
    vector = meaning(f"%r = arith.select %m, %a, %b : {m}, {v}", m=m, a=v, b=v)
    assert vector(mask, a, b).tolist() == [0, -1, 2, -3]
    scalar = meaning(f"%r = arith.select %m, %a, %b : {v}", m="i1", a=v, b=v)
    assert scalar(True, a, b) is a and scalar(False, a, b) is b


def test_weird_is_true_of_infinities_and_nan(meaning):
    v = "vector<4xf32>"
    x = np.array([1, np.inf, -np.inf, np.nan], np.float32)
    result = meaning("%r = tpu.weird %a : vector<4xf32> -> vector<4xi1>", a=v)(x)
    assert result.tolist() == [False, True, True, True]
