"""Buffers of any tiling give the right answer in every form, or a diagnostic."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import pallasite
from pallasite.diagnostics import Unsupported

HBM = "memref<32x256x{0}, #tpu.memory_space<any>>"
SEMAPHORE = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>"


def copied(element: str, tiles: str) -> str:
    """A kernel in form `dma` that doubles a block in buffers of `tiles`."""
    array = HBM.format(element)
    buffer = f"memref<32x256x{element}, #tpu.tiled<{tiles}>, #tpu.memory_space<vmem>>"
    block = f"vector<32x256x{element}>"
    move = (
        "tpu.enqueue_dma source({0} : {2}) target({1} : {3}) target_semaphore(%s : {4})\n"
        "tpu.wait_dma2 semaphore(%s : {4}) src({0} : {2}) dst({1} : {3})"
    )
    return f"""
      module attributes {{tpu.form = "dma", tpu.call = {{operands = [tensor<32x256x{element}>],
          results = [tensor<32x256x{element}>], aliases = array<i64>, settings = "{{}}"}}}} {{
        func.func @main(%x: {array}, %o: {array}) attributes {{dimension_semantics = [],
            scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
            tpu.core_type = #tpu.core_type<tc>}} {{
          "tpu.region"() ({{
            %a = memref.alloca() : {buffer}
            %s = tpu.sem_alloc : {SEMAPHORE}
            %c = arith.constant 0 : index
            {move.format("%x", "%a", array, buffer, SEMAPHORE)}
            %v = vector.load %a[%c, %c] : {buffer}, {block}
            %w = arith.addf %v, %v : {block}
            vector.store %w, %a[%c, %c] : {buffer}, {block}
            {move.format("%a", "%o", buffer, array, SEMAPHORE)}
            tpu.yield
          }}) : () -> ()
          return
        }}
      }}"""


DTYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16}
TILINGS = {
    "f32": ("(8,128),[2,1]", "(8,128),[1,4]", "(16,128),[2,1]", "(8,128),[3,1]"),
    "bf16": ("(16,128)(2,1),[2,1]", "(16,128)(2,1),[1,2]"),
}
"""What registers may be loaded from: words hold as many elements as fit, of rows below."""
WORDS = {
    "f32": ("(8,128)(4,1),[2,1]", "(8,128)(2,1),[2,1]", "(8,256)(1,128),[1,1]"),
    "bf16": ("(16,128),[2,1]", "(16,128)(4,1),[2,1]", "(16,128)(1,2),[2,1]"),
}
"""Other orders of elements in words."""


@pytest.mark.parametrize("form", ["dma", "tiles", "vreg"])
@pytest.mark.parametrize(("element", "tiles"), [(e, t) for e, ts in TILINGS.items() for t in ts])
def test_tiles_of_registers(element: str, tiles: str, form: str) -> None:
    x = np.arange(32 * 256).reshape(32, 256) % 101
    kernel = pallasite.parse(copied(element, tiles))
    (result,) = pallasite.run(kernel, [x.astype(DTYPES[element])], form=form)
    np.testing.assert_array_equal(result.astype(np.float32), 2 * x)


@pytest.mark.parametrize("form", ["dma", "tiles", "vreg"])
@pytest.mark.parametrize(("element", "tiles"), [(e, t) for e, ts in WORDS.items() for t in ts])
def test_words_that_registers_do_not_have(element: str, tiles: str, form: str) -> None:
    x = np.arange(32 * 256).reshape(32, 256) % 101
    kernel = pallasite.parse(copied(element, tiles))
    if form == "dma":
        (result,) = pallasite.run(kernel, [x.astype(DTYPES[element])], form=form)
        np.testing.assert_array_equal(result.astype(np.float32), 2 * x)
        return
    with pytest.raises(Unsupported, match=r"cannot load registers of \w+ from tiles"):
        pallasite.lower(kernel, form=form)
