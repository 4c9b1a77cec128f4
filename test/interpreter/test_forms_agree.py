"""Kernels as text that every form, and both drivers, must answer alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pallasite.api import simulate
from pallasite.frontend import read

RING = Path(__file__).parents[1] / "pallas" / "data" / "ring.mlir"
POSITIONS = """
pallas.kernel @positions
  input %x: tensor<1x384xf32> in vmem
  output %o: tensor<2xi32> in smem
{
  %a = pallas.load %x[0, :] : memref<1x384xf32, #tpu.memory_space<vmem>>
  %r = pallas.arg_reduce max %a axis 0 : vector<384xf32> -> i32
  %s = pallas.arg_reduce min %a axis 0 : vector<384xf32> -> i32
  pallas.store %r, %o[0] : memref<2xi32, #tpu.memory_space<smem>>
  pallas.store %s, %o[1] : memref<2xi32, #tpu.memory_space<smem>>
}"""


@pytest.mark.parametrize("driver", ["compiled", "reference"])
@pytest.mark.parametrize("form", ["pallas", "mosaic", "dma", "tiles", "vreg"])
def test_the_position_in_a_flat_vector(form: str, driver: Any) -> None:
    x = np.random.default_rng(0).integers(-9, 9, (1, 384)).astype(np.float32)
    nan = x.copy()
    nan[0, [200, 300]] = np.nan
    for array, want in ((x, (x.argmax(), x.argmin())), (nan, (200, 200))):
        module = read(POSITIONS.encode(), "kernel.mlir")
        found = simulate(module, [array], form=form, driver=driver).outputs
        assert np.reshape(found, -1).tolist() == list(want)


@pytest.mark.parametrize("form", ["tiles", "vreg"])
def test_time_goes_by_the_signals_of_other_devices(form: str) -> None:
    x = np.arange(8 * 128, dtype=np.float32).reshape(8, 128)
    module = read(RING.read_bytes(), "ring.mlir")
    profile = simulate(
        module, [[x + n] for n in range(4)], form=form, devices=4, profile=True
    ).profile
    assert profile is not None and profile["ici_bytes"] == 4 * 8 * 128 * 4
    assert profile["seconds"] > profile["ici_seconds"] > 0
