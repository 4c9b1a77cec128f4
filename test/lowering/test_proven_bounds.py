"""Block and slot numbers are written so that the TPU compiler proves them: it checks no bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, UnknownLoc, i32
from xdsl.ir import Block
from xdsl.parser import Parser

import pallasite
from pallasite import Diagnostic
from pallasite.dialects import make_context
from pallasite.frontend.aot import compile_ahead_of_time
from pallasite.lowering.windows_to_dma.scalars import ScalarBuilder
from pallasite.passes.ranges import Range, range_of
from pallasite.targets import get_target

from .dma_traces import Trace

ROWS, LANES = 32, 128
BLOCK = f"memref<{ROWS}x{LANES}xf32, #tpu.memory_space<vmem>>"


class Scalars(Trace):
    """Executes arithmetic only."""

    def __init__(self, block: Block, argument: int):
        self.values = {block.args[0]: argument}
        self.run(block)


@pytest.mark.parametrize("bound", range(1, 70))
def test_the_range_of_a_number_can_be_read_off(bound: int) -> None:
    block = Block(arg_types=[i32])
    build = ScalarBuilder(block, UnknownLoc())
    result = build.value(build.below(block.args[0], bound))
    assert [Scalars(block, n).values[result] for n in range(bound)] == list(range(bound))
    assert range_of(result) == Range(0, bound - 1)


def sums(grid: Sequence[int], maps: Sequence[tuple[str, ...]], outside: str = "") -> ModuleOp:
    """A kernel that adds up a block per map, the last of which is the result's."""
    axes = range(len(grid))
    counters = ", ".join(f"%i{axis}: i32" for axis in axes)
    sizes = {f"%i{axis}": grid[axis] for axis in axes}
    arrays = [
        f"tensor<{sizes.get(row, 1) * ROWS}x{sizes.get(column, 1) * LANES}xf32>"
        for row, column in maps
    ]
    windows = [
        f"{{transform_indices = @transform_{n}, window_bounds = array<i64: {ROWS}, {LANES}>}}"
        for n in range(len(maps))
    ]
    refs = ", ".join(f"%w{n}: {BLOCK}" for n in range(len(maps)))
    vector = f"vector<{ROWS}x{LANES}xf32>"
    loads = "".join(
        f"%v{n} = vector.load %w{n}[%c, %c] : {BLOCK}, {vector}\n" for n in range(len(maps) - 1)
    )
    adds = "".join(
        f"%s{n} = arith.addf %{'v0' if n == 1 else f's{n - 1}'}, %v{n} : {vector}\n"
        for n in range(1, len(maps) - 1)
    )
    total = f"%s{len(maps) - 2}" if len(maps) > 2 else "%v0"
    functions = "".join(
        f"""func.func @transform_{n}({counters}) -> (i32, i32) {{
          %zero = arith.constant 0 : i32
          %many = arith.constant 7 : i32
          func.return {outside if outside and n == 0 else row}, {column} : i32, i32
        }}
        """
        for n, (row, column) in enumerate(maps)
    )
    semantics = ", ".join("#tpu.dimension_semantics<arbitrary>" for _ in axes)
    return Parser(make_context(), f"""
      module attributes {{tpu.call = {{
          operands = [{', '.join(arrays[:-1])}], results = [{arrays[-1]}],
          aliases = array<i64>, settings = "{{}}"}}}} {{
        func.func @sums({counters}, {refs}) attributes {{
            dimension_semantics = [{semantics}], scalar_prefetch = 0 : i64,
            iteration_bounds = array<i64: {', '.join(map(str, grid))}>, scratch_operands = 0 : i64,
            tpu.core_type = #tpu.core_type<tc>, window_params = [{', '.join(windows)}]}} {{
          %c = arith.constant 0 : index
          {loads}{adds}
          tpu.vector_store %w{len(maps) - 1}[%c, %c], {total} {{strides = array<i32>}}
            : {BLOCK}, {vector},
          func.return
        }}
        {functions}
      }}""").parse_module()  # fmt: skip


ROW, BOTH = ("%i0", "%zero"), ("%i0", "%i1")
KERNELS: dict[str, tuple[tuple[int, ...], list[Any]]] = {
    "six-blocks": ((6,), [ROW] * 4),
    "two-axes": ((4, 4), [BOTH] * 4),
    "eight-windows": ((4, 4), [BOTH] * 8),
    "panels": ((4, 3), [BOTH, ("%i0", "%zero"), ("%zero", "%i1"), BOTH]),
}


@pytest.mark.aot
@pytest.mark.parametrize("target", ["v5e", "v6e"])
@pytest.mark.parametrize("name", KERNELS)
def test_code_is_about_as_long_as_of_the_compilers_own_pipeline(
    name: str, target: str, compiler: Any
) -> None:
    sizes: list[int] = []
    for form in ("mosaic", "dma"):
        verdict = compile_ahead_of_time(
            pallasite.lower(sums(*KERNELS[name]), form, target),
            topology=get_target(target).topology,
            layout_passes=True,
            compiler=compiler,
        )
        assert verdict.code_bytes, verdict.message
        sizes.append(verdict.code_bytes)
    # With checks of bounds, eight windows took 1.14 on v5e and 1.08 on v6e.
    assert sizes[1] <= 1.03 * sizes[0]


@pytest.mark.parametrize("form", ["mosaic", "dma", "tiles", "vreg"])
def test_a_block_that_does_not_exist_is_not_hidden(form: str) -> None:
    module = pallasite.lower(
        sums((4,), [ROW, ROW], outside="%many"), form, "v5e", allow_beyond_reference=True
    )
    with pytest.raises(Diagnostic, match="outside") as error:
        pallasite.run(
            module, [np.zeros((4 * ROWS, LANES), np.float32)], form=form, target="v5e",
            allow_beyond_reference=True,
        )  # fmt: skip
    assert error.value.code.endswith("out-of-bounds")
