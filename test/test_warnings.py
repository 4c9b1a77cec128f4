"""Warnings are of the line of the program that asks, however deep in Pallasite they are found."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import pallasite
from pallasite.diagnostics import Diagnostic, KernelWarning

HALF_WRITTEN = pallasite.parse("""
pallas.kernel @half
  input %x: tensor<16x128xf32> in vmem
  output %o: tensor<16x128xf32> in vmem
{
  %a = pallas.load %x[ds(0, 8), :] : memref<16x128xf32, #tpu.memory_space<vmem>>
  pallas.store %a, %o[ds(0, 8), :] : memref<16x128xf32, #tpu.memory_space<vmem>>
}""")
X = np.zeros((16, 128), np.float32)


@pytest.mark.parametrize("form", ["pallas", "mosaic", "tiles", "vreg"])
def test_part_of_a_result_that_nobody_writes(form: str) -> None:
    with pytest.warns(KernelWarning, match="1024 of 2048 elements") as told:
        pallasite.run(HALF_WRITTEN, [X], form=form, checks=("init",))
    assert [warning.filename for warning in told] == [__file__]


def test_a_warning_that_is_an_error_is_the_diagnostic() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", KernelWarning)
        with pytest.raises(Diagnostic, match="1024 of 2048") as raised:
            pallasite.run(HALF_WRITTEN, [X], checks=("init",))
    assert raised.value.severity == "warning"


def test_a_line_is_warned_once() -> None:
    """As Python does it: what counts is the line of the program, not that of the warning."""
    with warnings.catch_warnings(record=True) as told:
        warnings.resetwarnings()
        warnings.simplefilter("default")
        for _ in range(3):
            pallasite.run(HALF_WRITTEN, [X], checks=("init",))
        pallasite.run(HALF_WRITTEN, [X], checks=("init",))
    assert len(told) == 2
