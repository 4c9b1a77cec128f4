"""The record of a call: what its settings say is taken only where it has its meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, f32

from pallasite.diagnostics import UsageError
from pallasite.dialects.kernel_call import Call
from pallasite.interpreter.arrays import checked

ARRAY = TensorType(f32, [8, 128])


def call(**settings: Any) -> Call:
    return Call((ARRAY, ARRAY), (ARRAY, ARRAY), (), settings)


def colored(colors: Any) -> Call:
    return call(custom_call_config={"output_memory_space_colors": colors})


@pytest.mark.parametrize(
    "colors, results",
    [
        ([{"color": 1, "shape_index": [1]}, {"color": 0, "shape_index": [0]}], {1}),
        ([{"color": 1}], {0}),
        ([{"color": 1, "shape_index": [2, -1, None, True, 0]}], {0}),
        ([{"color": 1, "shape_index": "1"}, {"color": "1"}, None, 1], set()),
        (None, set()),
        (1, set()),
    ],
)
def test_results_in_vmem(colors: Any, results: set[int]) -> None:
    assert colored(colors).results_in_vmem == results


@pytest.mark.parametrize("numbers", [None, True, "0", {"0": 0}, [2], [-1], [[0]], [0.0]])
def test_booleans_are_numbers_of_arrays(numbers: Any) -> None:
    strange = call(boolean_results=numbers, boolean_operands=numbers)
    assert strange.boolean_results == strange.boolean_operands == ()
    assert call(boolean_results=[1, 0]).boolean_results == (1, 0)


@pytest.mark.parametrize("granted", [None, 1, [None], [{"memory_space": 1, "size": "x"}]])
def test_limit_of_vmem(granted: Any) -> None:
    assert call(scoped_memory_configs=granted).vmem_limit is None


def test_records_are_no_raw_bytes() -> None:
    array = np.zeros((8, 128), np.float32)
    assert checked(array.view("V4"), ARRAY, "input 0").dtype == np.float32
    with pytest.raises(UsageError, match="expected float32"):
        checked(array.view([("bits", "<i4")]), ARRAY, "input 0")
