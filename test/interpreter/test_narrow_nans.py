"""Numbers narrower than float32 keep their bits where they are only moved, NaNs as well."""

from __future__ import annotations

import warnings

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import AnyFloat, BFloat16Type, Float16Type
from xdsl.dialects.builtin import Float8E3M4Type as E3M4
from xdsl.dialects.builtin import Float8E4M3FNType as E4M3FN
from xdsl.dialects.builtin import Float8E4M3Type as E4M3
from xdsl.dialects.builtin import Float8E5M2Type as E5M2

from pallasite.interpreter.values import bits_of, round_to, unsigned_dtype, values_of, width


@pytest.mark.parametrize("type", [BFloat16Type(), Float16Type(), E5M2(), E4M3(), E4M3FN(), E3M4()])
def test_every_pattern_survives(type: AnyFloat) -> None:
    patterns = np.arange(1 << width(type), dtype=unsigned_dtype(width(type)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        carriers = values_of(type)(patterns)
        assert carriers.dtype == np.float32
        assert np.array_equal(bits_of(type)(carriers), patterns)


@pytest.mark.parametrize("type", [E5M2(), E4M3(), E3M4()])
def test_numbers_are_those_of_ml_dtypes(type: AnyFloat) -> None:
    name = {"f8E5M2": "float8_e5m2", "f8E4M3": "float8_e4m3", "f8E3M4": "float8_e3m4"}[type.name]
    storage = getattr(ml_dtypes, name)
    patterns = np.arange(256, dtype=np.uint8)
    expected = patterns.view(storage).astype(np.float32)
    np.testing.assert_array_equal(values_of(type)(patterns), expected)
    computed = np.array([np.nan, -np.nan, np.inf, 1e9, -0.0, 0.3], np.float32)
    with np.errstate(all="ignore"):
        rounded = computed.astype(storage).view(np.uint8)
        assert np.array_equal(bits_of(type)(round_to(type, computed)), rounded)
    assert bits_of(type)(computed[0]) == rounded[0]
