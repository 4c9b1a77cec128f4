"""Scopes of memory that the subcores of a SparseCore share, each coming and going at its pace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pallasite.api import simulate
from pallasite.frontend import read

X = np.arange(512, dtype=np.int32).reshape(32, 16)
CHECKS = ("race", "init", "sync")


BARRIER = "tpu.barrier barrier_id(%z)"


def kernel(taken: str, barrier: str, last: str | None = None) -> str:
    """Three times, every subcore puts its row into a table and takes the row `taken` from it."""
    return f"""
    !dma = memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    !row = memref<16xi32, #tpu.memory_space<vmem>>
    !far = memref<16xi32, #tpu.memory_space<hbm>>
    !table = memref<16x16xi32, #tpu.memory_space<vmem_shared>>
    !line = memref<16xi32, #tpu.memory_space<vmem_shared>>
    pallas.kernel @k mesh (core = 2 core_parallel, subcore = 16 subcore_parallel)
        on sc_vector_subcore
      input %x: tensor<32x16xi32> in hbm
      output %o: tensor<32x16xi32> in hbm
      scratch %mine: !row
      params {{needs_layout_passes = false}}
    {{
      %core = pallas.axis_index "core"
      %own = pallas.axis_index "subcore"
      %zero = arith.constant 0 : i32
      %z = arith.constant 0 : index
      %one = arith.constant 1 : i32
      %three = arith.constant 3 : i32
      %all = arith.constant 16 : i32
      %before = arith.muli %core, %all : i32
      %number = arith.addi %before, %own : i32
      %up = arith.addi %own, %one : i32
      %next = arith.remsi %up, %all : i32
      pallas.run_scoped (%there: !dma) {{
        %from = pallas.at %x[%number, :] : memref<32x16xi32, #tpu.memory_space<hbm>>
        tpu.enqueue_dma source(%from : !far) target(%mine : !row) target_semaphore(%there : !dma)
        tpu.wait_dma2 semaphore(%there : !dma) src(%from : !far) dst(%mine : !row)
        scf.for %i = %zero to %three step %one : i32 {{
          pallas.run_scoped (%table: !table) {{
            %put = pallas.at %table[%own, :] : !table
            tpu.enqueue_dma source(%mine : !row) target(%put : !line)
              target_semaphore(%there : !dma)
            tpu.wait_dma2 semaphore(%there : !dma) src(%mine : !row) dst(%put : !line)
            {barrier}
            %get = pallas.at %table[{taken}, :] : !table
            tpu.enqueue_dma source(%get : !line) target(%mine : !row)
              target_semaphore(%there : !dma)
            tpu.wait_dma2 semaphore(%there : !dma) src(%get : !line) dst(%mine : !row)
            {barrier if last is None else last}
          }}
        }}
        %to = pallas.at %o[%number, :] : memref<32x16xi32, #tpu.memory_space<hbm>>
        tpu.enqueue_dma source(%mine : !row) target(%to : !far) target_semaphore(%there : !dma)
        tpu.wait_dma2 semaphore(%there : !dma) src(%mine : !row) dst(%to : !far)
      }}
    }}"""


def outcome(text: str, **options: Any) -> Any:
    return simulate(read(text.encode(), "kernel.mlir"), [X], target="v7x", **options)


@pytest.mark.parametrize("checks", [(), CHECKS], ids=["plain", "checked"])
@pytest.mark.parametrize("driver", ["compiled", "reference"])
@pytest.mark.parametrize("form", ["pallas", "tiles"])
def test_a_scope_is_the_same_memory_for_all(form: str, driver: Any, checks: Any) -> None:
    text = kernel("%next", BARRIER)
    found = outcome(text, form=form, driver=driver, checks=checks)
    want = np.roll(X.reshape(2, 16, 16), -3, 1).reshape(32, 16)
    np.testing.assert_array_equal(np.reshape(found.outputs[0], (32, 16)), want)
    assert not found.findings


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("driver", ["compiled", "reference"])
def test_who_meets_nobody_in_a_scope_may_come_late(driver: Any, seed: int) -> None:
    for checks in ((), CHECKS):
        text = kernel("%own", "")
        found = outcome(text, form="pallas", driver=driver, seed=seed, checks=checks)
        np.testing.assert_array_equal(np.reshape(found.outputs[0], (32, 16)), X)
        assert not found.findings


@pytest.mark.parametrize("driver", ["compiled", "reference"])
def test_the_next_scope_has_the_same_place(driver: Any) -> None:
    """Without a barrier at its end, a neighbour may still read what the next scope writes to."""
    text = kernel("%next", BARRIER, "")
    found = outcome(text, form="pallas", driver=driver, checks=CHECKS).findings
    assert found and {finding.code for finding in found} == {"data-race"}
