"""Warnings of buffers that are loaded before anything has written them."""

from __future__ import annotations

import pytest

from ..checking import told_of

VMEM = "#tpu.memory_space<vmem>"
BLOCK = f"memref<8x128xf32, {VMEM}>"
IN_BLOCKS = "in vmem block (8, 128) at (i, 0)"
GRID = "grid (i = 2)"


def load(name: str, of: str) -> str:
    return f"%{name} = pallas.load %{of}[...] : {BLOCK}\n"


def store(value: str, to: str) -> str:
    return f"pallas.store %{value}, %{to}[...] : {BLOCK}\n"


FIRST = """%i = pallas.program_id 0
%zero = arith.constant 0 : i32
%first = arith.cmpi eq, %i, %zero : i32
"""
SUM = "%c = arith.addf %a, %b : vector<8x128xf32>\n"
TAKEN = load("a", "x") + load("b", "o") + SUM


def guarded(body: str) -> str:
    return FIRST + f"scf.if %first {{\n{body}}}\n"


def turned(body: str, turns: int) -> str:
    return (
        "%low = arith.constant 0 : i32\n%step = arith.constant 1 : i32\n"
        f"%high = arith.constant {turns} : i32\n"
        f"scf.for %turn = %low to %high step %step : i32 {{\n{body}}}\n"
    )


def kernel(body: str, output: str = IN_BLOCKS, aliased: str = "", grid: str = GRID) -> str:
    rows = "16" if grid else "8"
    block = IN_BLOCKS if grid else "in vmem"
    return f"""pallas.kernel @k {grid}
      input %x: tensor<{rows}x128xf32> {block}
      output %o: tensor<{rows}x128xf32> {output} {aliased}
      scratch %s: {BLOCK}
    {{
      {body}
    }}"""


@pytest.mark.parametrize("form", ["pallas", "mosaic", "dma", "tiles", "vreg"])
@pytest.mark.parametrize(
    ("text", "what", "rewrite"),
    [
        (kernel(TAKEN + store("c", "o")), "block of output 0 (%o)", "@pl.when"),
        (kernel(TAKEN + store("c", "o"), aliased="aliasing %x"), "output 0 (%o)", "input 0 (%x)"),
        (kernel(TAKEN + store("c", "o"), "in vmem", grid=""), "output 0 (%o)", "@pl.when"),
        (kernel(load("a", "s") + store("a", "o")), "scratch 0 (%s)", "@pl.when"),
        (kernel(turned(TAKEN + store("c", "o"), 3)), "output 0 (%o)", "@pl.when"),
    ],
)  # fmt: skip
def test_what_is_loaded_first(text: str, what: str, rewrite: str, form: str) -> None:
    (found,) = told_of(text, form)
    assert (found.code, found.severity) == ("uninitialised-read", "warning")
    assert f"{what} is loaded before" in found.message and rewrite in found.notes[0].message
    assert found.location is not None


@pytest.mark.parametrize(
    "text",
    [
        # A condition, or a loop that may not turn, may write before or not come to the load.
        kernel(guarded(load("z", "x") + store("z", "o")) + TAKEN + store("c", "o")),
        kernel(load("z", "x") + store("z", "o") + guarded(TAKEN + store("c", "o"))),
        kernel(load("z", "x") + store("z", "o") + TAKEN + store("c", "o")),
        kernel(turned(TAKEN + store("c", "o"), 0) + load("z", "x") + store("z", "o")),
        # What is loaded may not be taken.
        kernel(FIRST + TAKEN + "%d = arith.select %first, %a, %c : vector<8x128xf32>\n"
               + store("d", "o")),
        kernel(load("b", "o") + load("a", "x") + guarded(SUM + store("c", "o")) + store("a", "o")),
        kernel(load("b", "o") + load("a", "x") + store("a", "o")),
        # An output without blocks is the array of its input.
        kernel(TAKEN + store("c", "o"), "in vmem", "aliasing %x", ""),
    ],
)  # fmt: skip
def test_what_may_be_written_first(text: str) -> None:
    assert not told_of(text)


SET_FIRST = guarded(load("z", "x") + store("z", "s")) + load("a", "s") + store("a", "o")


@pytest.mark.parametrize(
    ("grid", "told"),
    [
        ("grid (i = 2 parallel)", True),
        ("grid (i = 2 arbitrary)", False),
        ("grid (i = 1 parallel)", False),
        # Each core comes to the first step of the axis that is not shared.
        ("grid (i = 2 parallel, j = 2 parallel)", False),
        ("grid (i = 2 parallel, j = 2 arbitrary)", True),
        ("grid (j = 2 parallel, i = 2 arbitrary)", False),
    ],
)
@pytest.mark.parametrize("form", ["pallas", "mosaic", "tiles"])
def test_scratch_that_is_set_for_one_core(grid: str, told: bool, form: str) -> None:
    text = kernel(SET_FIRST, grid=grid)
    if grid.startswith("grid (j"):
        text = text.replace("pallas.program_id 0", "pallas.program_id 1").replace(
            "(i, 0)", "(j, 0)"
        )
    if "i = 1" in grid:
        text = text.replace("tensor<16x", "tensor<8x")
    # Blocks that cores share are told of, too.
    found = [d for d in told_of(text, form) if d.code != "parallel-shared-block"]
    assert [d.code for d in found] == ["parallel-carried-scratch"] * told
    assert all(d.location is not None for d in found)
