"""Constants of one number are one element, with the same bits."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import VectorType, f32

from pallasite.interpreter.compiled.fold import Folder, uniform

SHAPE = (5, 4, 8, 128)
NUMBERS = (0.0, -0.0, 1.0, -2.5, 1e-40, float("inf"), float("-inf"))
QUICK: tuple[Callable[..., Any], ...] = (
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    np.maximum,
    np.minimum,
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
)


def register(number: float) -> Any:
    """A grid whose registers are one and the same, as constants come out of a broadcast."""
    return np.broadcast_to(np.full((8, 128), number, np.float32), SHAPE)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_constant_of_one_number_has_no_strides(number: float) -> None:
    found = uniform(register(number))
    assert found is not None and not any(found.strides)
    np.testing.assert_array_equal(found.view(np.uint32), register(number).view(np.uint32))


def test_other_constants_stay_as_they_are() -> None:
    zeros = np.zeros(SHAPE, np.float32)
    zeros[1, 1] = -0.0
    assert uniform(zeros) is None
    assert uniform(np.arange(8)) is None
    assert uniform(np.ones(SHAPE, np.bool_)) is None
    assert uniform(register(float("nan"))) is None, "which of two NaNs comes out depends on loops"


def test_large_constants_are_kept_if_they_are_one_number() -> None:
    (large, small), kept = (VectorType(f32, shape) for shape in ((64, 8, 128), (8, 128))), Folder()
    value = test.TestOp(result_types=[small]).results[0]
    op = test.TestOp([value], result_types=[large])

    def spread(x: Any) -> Any:
        return np.ascontiguousarray(np.broadcast_to(x, (64, 8, 128)))

    found = kept.fold(op, spread, {value: np.zeros((8, 128), np.float32)})
    assert found is not None and found.shape == (64, 8, 128) and not any(found.strides)
    ramp = np.arange(1024, dtype=np.float32).reshape(8, 128)
    assert kept.fold(op, spread, {value: ramp}) is None
    assert kept.fold(op, lambda x: x + 1, {value: ramp}) is not None, "it takes little"


@pytest.mark.parametrize("function", QUICK)
@pytest.mark.parametrize("number", NUMBERS)
def test_results_have_the_same_bits(function: Callable[..., Any], number: float) -> None:
    generator = np.random.default_rng(0)
    bits = generator.integers(0, 1 << 32, SHAPE, np.uint32)
    bits[generator.random(SHAPE) < 0.2] |= 0x7F800000
    values, constant = bits.view(np.float32), register(number)
    one = uniform(constant)
    for x in (values, values.reshape(5, 8, 4, 128).transpose(0, 2, 1, 3)):
        with np.errstate(all="ignore"):
            pairs = (
                (function(x, one), function(x, constant)),
                (function(one, x), function(constant, x)),
            )
        for found, expected in pairs:
            np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))
