"""Stored grids whose registers share rows: the last register in row-major order stays."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.context import Context

from pallasite.lowering.tiles_to_vregs import TilesToVregsPass

SPACE = "#tpu.memory_space<vmem>"
WORDS = f"memref<32x256xf32, #tpu.tiled<(8,128),[2,1]>, {SPACE}>"
HALVES = f"memref<32x256xbf16, #tpu.tiled<(16,128)(2,1),[2,1]>, {SPACE}>"
ALL = "[true, true, true, true, true, true, true, true]"
HALF = "[true, false, true, true, false, false, false, true]"


def program(
    memref: str, grid: str, steps: str, sublanes: str = ALL, masked: bool = False, more: str = ""
) -> str:
    """Loads a grid from the first array and stores it, with other steps, to the second one."""
    mask = grid.rsplit("x", 1)[0] + "xi1"
    given = f"masked %m sublanes {sublanes}" if masked else f"sublanes {sublanes}"
    element = memref.removeprefix("memref<32x256x").split(",")[0]
    vector = f"vector<{grid.rsplit('x', 1)[0]}x{element}>"
    rows = 16 if element == "bf16" else 8
    end = f", vector<{mask}>" if masked else ","
    return f"""
    func.func @main(%a: {memref}, %b: {memref}) {{
      %c0 = arith.constant 0 : index
      %v = tpu.load %a[%c0, %c0] sublanes {ALL} {{grid.steps = array<i64: {rows}, 128>}}
        : {memref}, {vector}
      %zero = arith.constant dense<0.0> : {vector}
      %m = arith.cmpf ogt, %v, %zero : {vector}
      tpu.store %b[%c0, %c0], %v {given} {{grid.steps = array<i64: {steps}>{more}}}
        : {memref}, {vector}{end}
      return
    }}"""


CASES = {
    "halves of registers": program(WORDS, "3x1x8x128xf32", "4, 128"),
    "one place": program(WORDS, "2x2x8x128xf32", "0, 0"),
    "upwards": program(WORDS, "3x1x8x128xf32", "-1, 128").replace("%b[%c0", "%b[%c8"),
    "masked sublanes": program(WORDS, "3x2x8x128xf32", "2, 128", HALF),
    "masked words": program(WORDS, "3x2x8x128xf32", "4, 128", masked=True),
    "sums": program(WORDS, "3x1x8x128xf32", "4, 128", more=", add = true"),
    "packed": program(HALVES, "2x2x8x128x2xbf16", "8, 128"),
    "apart": program(WORDS, "2x2x8x128xf32", "16, 128"),
}


@pytest.mark.parametrize("name", CASES)
def test_grids_and_their_registers_store_the_same(run, name: str) -> None:
    text = CASES[name].replace("%c0 =", "%c8 = arith.constant 8 : index\n      %c0 =")
    rng = np.random.default_rng(0)
    a, b = rng.integers(-8, 8, (2, 32, 256)).astype(np.float32)
    run(text, a, b)
    stored = run.refs[0][1].read()
    assert not np.array_equal(stored, b)

    def unroll(module) -> None:
        TilesToVregsPass().apply(Context(), module)

    run(text, a, b, change=unroll)
    np.testing.assert_array_equal(run.refs[0][1].read(), stored)


def test_the_last_register_stays(run) -> None:
    a = np.arange(32 * 128, dtype=np.float32).reshape(32, 128)
    run(CASES["halves of registers"].replace("32x256", "32x128"), a, np.zeros((32, 128)))
    expected = np.zeros((32, 128), np.float32)
    for position in range(3):
        expected[4 * position : 4 * position + 8] = a[8 * position : 8 * position + 8]
    np.testing.assert_array_equal(run.refs[0][1].read(), expected)
