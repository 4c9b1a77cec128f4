from functools import partial

import numpy as np
import pytest

SEED = np.random.default_rng(0)


@pytest.fixture(scope="session")
def meaning(meaning):
    return partial(meaning, core="sc_vector_subcore")


@pytest.mark.parametrize(
    ("kind", "function"),
    [("sum", np.cumsum), ("max", np.maximum.accumulate), ("min", np.minimum.accumulate)],
)
def test_scan(meaning, kind, function):
    x = SEED.standard_normal(16).astype(np.float32)
    result = meaning(
        f"%r = tpu.scan <{kind}>, %a : vector<16xf32>,  -> vector<16xf32>", a="vector<16xf32>"
    )
    np.testing.assert_array_equal(result(x), function(x))


def test_masked_scan_holds_the_running_value(meaning):
    x = np.array([5, 1, 2, 3, 4, 9], np.int32)
    mask = np.array([False, True, False, True, True, False])
    text = "%r = tpu.scan <sum>, %a masked %m : vector<6xi32>, vector<6xi1> -> vector<6xi32>"
    result = meaning(text, a="vector<6xi32>", m="vector<6xi1>")(x, mask)
    assert result.tolist() == [5, 1, 1, 4, 8, 8]


def test_integer_maxima_compare_as_unsigned(meaning):
    x = np.array([1, -1, 5], np.int32)
    text = "%r = tpu.scan <max>, %a : vector<3xi32>,  -> vector<3xi32>"
    assert meaning(text, a="vector<3xi32>")(x).tolist() == [1, -1, -1]


def test_scan_of_a_mask_counts(meaning):
    text = "%r = tpu.scan <sum>, %a : vector<4xi1>,  -> vector<4xi32>"
    result = meaning(text, a="vector<4xi1>")(np.array([True, False, True, True]))
    assert result.dtype == np.int32 and result.tolist() == [1, 1, 2, 3]


def test_scan_count(meaning):
    values = np.array([7, 7, 3, 7, 3, 9], np.int32)
    mask = np.array([True, True, True, False, True, True])
    text = "%m, %c = tpu.scan_count mask(%a : vector<6xi1>) value(%b : vector<6xi32>)"
    last, counts = meaning(f"{text} : vector<6xi1>, vector<6xi32>", a="vector<6xi1>",
                           b="vector<6xi32>")(mask, values)  # fmt: skip
    assert counts.tolist() == [1, 2, 1, 1, 2, 1]
    assert last.tolist() == [False, True, False, False, True, True]


@pytest.mark.parametrize("descending", [False, True])
def test_sort(meaning, descending):
    keys = SEED.integers(0, 5, 16).astype(np.int32)
    keys[3] = -1
    values = np.arange(16, dtype=np.float32)
    mask = SEED.random(16) < 0.7
    flag = " {descending = true}" if descending else ""
    types = "(vector<16xi32>, vector<16xf32>, vector<16xi1>)"
    results = "(vector<16xi1>, vector<16xi32>, vector<16xf32>)"
    text = f"%m, %k, %v = tpu.sort %a, %b masked %c{flag} : {types} -> {results}"
    function = meaning(text, a="vector<16xi32>", b="vector<16xf32>", c="vector<16xi1>")
    valid, sorted_keys, sorted_values = function(keys, values, mask)
    sign = -1 if descending else 1
    kept = sorted(
        (i for i in range(16) if mask[i]), key=lambda i: sign * (int(keys[i]) & 0xFFFFFFFF)
    )
    assert valid.tolist() == [i < len(kept) for i in range(16)]
    assert sorted_values[: len(kept)].tolist() == kept
    np.testing.assert_array_equal(sorted_keys[: len(kept)], keys[kept])
