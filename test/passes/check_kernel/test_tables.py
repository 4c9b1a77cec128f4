"""Warnings of prefetched scalars that a kernel changes although blocks are chosen by them."""

from __future__ import annotations

import pytest

from ..checking import told_of

BLOCK = "memref<8x128xf32, #tpu.memory_space<vmem>>"
TABLE = "memref<4xi32, #tpu.memory_space<smem>>"
CHANGE = f"""%one = arith.constant 1 : i32
      pallas.store %one, %t[1] : {TABLE}"""
READ = f"%n = pallas.load %t[1] : {TABLE}"
BY_TABLE = f"""(%i, %table) {{
        %row = pallas.load %table[%i] : {TABLE}
        %zero = arith.constant 0 : i32
        pallas.yield %row, %zero : i32, i32
      }}"""


def kernel(change: str, source: str = "(i, 0)", target: str = "(i, 0)", steps: int = 4) -> str:
    return f"""pallas.kernel @k grid (i = {steps})
      prefetch %t: tensor<4xi32>
      input %x: tensor<32x128xf32> in vmem block (8, 128) at {source}
      output %o: tensor<{8 * steps}x128xf32> in vmem block (8, 128) at {target}
    {{
      {change}
      %a = pallas.load %x[...] : {BLOCK}
      pallas.store %a, %o[...] : {BLOCK}
    }}"""


@pytest.mark.parametrize("form", ["mosaic", "dma", "vreg"])
@pytest.mark.parametrize(
    ("text", "which"),
    [
        (kernel(CHANGE, source=BY_TABLE), "input 0 (%x)"),
        (kernel(CHANGE, target=BY_TABLE), "output 0 (%o)"),
    ],
)
def test_blocks_chosen_by_what_changes(text: str, which: str, form: str) -> None:
    (told,) = told_of(text, form)
    assert told.code == "changed-table"
    assert "scalar prefetch operand 0 (%t)" in told.message
    assert which in told.message
    assert "change a copy in scratch" in str(told)


@pytest.mark.parametrize(
    "text",
    [
        kernel(READ, source=BY_TABLE),
        kernel(CHANGE),
        kernel(CHANGE, source=BY_TABLE, steps=1),
    ],
)
def test_what_stays_or_chooses_nothing(text: str) -> None:
    assert told_of(text) == []
