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


REF = "memref<8x128xf32, #tpu.memory_space<vmem>>"
UNUSED = {
    "transpose": f"memref.transpose %x (i, j) -> (j, i) : {REF} to "
    "memref<128x8xf32, strided<[1, 128]>, #tpu.memory_space<vmem>>",
    "address": f'"memref.extract_aligned_pointer_as_index"(%x) : ({REF}) -> index',
    "collapse": f"memref.collapse_shape %x [[0, 1]] : {REF} into "
    "memref<1024xf32, #tpu.memory_space<vmem>>",
}


@pytest.mark.parametrize("driver", ["compiled", "reference"])
@pytest.mark.parametrize("form", ["mosaic", "dma", "tiles", "vreg"])
@pytest.mark.parametrize("name", UNUSED)
def test_what_nobody_uses_need_not_have_a_meaning(name: str, form: str, driver: Any) -> None:
    module = read(
        f"""func.func @main(%x: {REF}, %o: {REF}) attributes {{
          tpu.core_type = #tpu.core_type<tc>}} {{
          %c = arith.constant 0 : index
          %unused = {UNUSED[name]}
          %v = vector.load %x[%c, %c] : {REF}, vector<8x128xf32>
          vector.store %v, %o[%c, %c] : {REF}, vector<8x128xf32>
          return
        }}""".encode(),
        "kernel.mlir",
    )
    x = np.arange(1024, dtype=np.float32).reshape(8, 128)
    assert np.array_equal(simulate(module, [x], form=form, driver=driver).outputs[0][-1], x)
