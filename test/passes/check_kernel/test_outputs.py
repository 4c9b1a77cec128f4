"""Warnings of parts of outputs that a kernel cannot write, whatever it is given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pallasite import run
from pallasite.diagnostics import KernelWarning
from pallasite.frontend.text import read_text as read

from ..checking import told_of

VMEM = "#tpu.memory_space<vmem>"
ROWS = f"%a = pallas.load %x[ds(0, 8), :] : memref<16x128xf32, {VMEM}>\n"
LOWER, UPPER = (
    f"pallas.store %a, %o[ds({start}, 8), :] : memref<16x128xf32, {VMEM}>\n" for start in (0, 8)
)
BLOCK = f"pallas.store %a, %o[...] : memref<8x128xf32, {VMEM}>\n"
IN_BLOCKS = "in vmem block (8, 128) at"


def kernel(body: str, output: str = "in vmem", grid: str = "", shape: str = "16x128xf32") -> str:
    return f"""pallas.kernel @k {grid}
      input %x: tensor<16x128xf32> in vmem
      output %o: tensor<{shape}> {output}
    {{
      {body}
    }}"""


def guarded(axis: int, step: int) -> str:
    """Stores a block in one step of a grid axis only."""
    return f"""%i{step} = pallas.program_id {axis}
    %n{step} = arith.constant {step} : i32
    %at{step} = arith.cmpi eq, %i{step}, %n{step} : i32
    scf.if %at{step} {{
      {BLOCK}
    }}
    """


@pytest.mark.parametrize("form", ["pallas", "mosaic", "dma", "tiles", "vreg"])
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (kernel(""), "output 0 (%o) is written nowhere in the kernel"),
        (kernel(ROWS + BLOCK, f"{IN_BLOCKS} (i, 0)", "grid (i = 1)"), "come to 1 of 2 blocks of"),
        (kernel(ROWS + BLOCK, f"{IN_BLOCKS} (0, 0)", "grid (i = 4)"), "come to 1 of 2 blocks of"),
        (kernel(ROWS + guarded(0, 1), f"{IN_BLOCKS} (i, 0)", "grid (i = 2)"), "comes to 1 of 2"),
    ],
)  # fmt: skip
def test_what_is_written_nowhere(text: str, says: str, form: str) -> None:
    (found,) = told_of(text, form)
    assert (found.code, found.severity) == ("unwritten-output", "warning")
    assert says in found.message and found.location is not None and len(found.notes) == 2


@pytest.mark.parametrize(
    "text",
    [
        kernel(ROWS + LOWER + UPPER),
        # Who returns one number need not write the rest of its tile.
        kernel(ROWS + LOWER),
        kernel(ROWS + UPPER),
        kernel(ROWS + BLOCK, f"{IN_BLOCKS} (i, 0)", "grid (i = 2)"),
        kernel(ROWS + guarded(1, 2), f"{IN_BLOCKS} (i, 0)", "grid (i = 2, j = 3)"),
        kernel(ROWS + guarded(0, 0) + guarded(0, 1), f"{IN_BLOCKS} (i, 0)", "grid (i = 2)"),
        # What only a run tells: which of the steps come to which block, which rows are stored.
        kernel(ROWS + BLOCK, f"{IN_BLOCKS} (i floordiv 2, 0)", "grid (i = 2)"),
        kernel(
            f"%n = pallas.program_id 0\n%e = arith.constant 8 : i32\n%i = arith.muli %n, %e : i32\n"
            f"{ROWS}pallas.store %a, %o[ds(%i, 8), :] : memref<16x128xf32, {VMEM}>",
            grid="grid (i = 2)",
        ),
        kernel(
            f"{ROWS}%part = pallas.at %o[ds(0, 8), :] : memref<16x128xf32, {VMEM}>\n"
            f"pallas.store %a, %part[...] : memref<8x128xf32, {VMEM}>"
        ),
        # The rows behind the end of the array are no part of it.
        kernel(ROWS + LOWER, f"{IN_BLOCKS.replace('8', '16', 1)} (0, 0)", "grid (i = 1)",
               "8x128xf32"),
        # It may be for what it prints.
        kernel('%n = arith.constant 1 : i32\ntpu.log "here" : [%n] : i32'),
        # What nobody writes of it is the input's.
        kernel("", "in vmem aliasing %x"),
        kernel("", shape="0x128xf32"),
    ],
)  # fmt: skip
def test_what_may_be_written(text: str) -> None:
    assert not told_of(text, "mosaic")


@pytest.mark.parametrize("checks", [(), ("init",)])
def test_nobody_is_told_twice(checks: Any) -> None:
    """The check `init` counts what nobody writes."""
    with pytest.warns(KernelWarning) as told:
        run(read(kernel("")), [np.ones((16, 128), np.float32)], checks=checks)
    (only,) = told
    assert ("2048 of 2048 elements" in str(only.message)) == bool(checks)
