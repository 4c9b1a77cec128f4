"""The DMA form's event order against an independent model of spec/pallas_semantics.md section 2.3.

`schedule_model.model` is the schedule as the specification words it; `dma_traces.Trace` tells what
an emitted module does.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import Float32Type, TensorType
from xdsl.dialects.builtin import IntegerType as Integer
from xdsl.parser import Parser

from pallasite.dialects import make_context
from pallasite.dialects.kernel import DYNAMIC, kernel_function
from pallasite.dialects.kernel_call import Call, set_call
from pallasite.lowering.windows_to_dma import WindowsToDmaPass

from .dma_traces import BLOCK, Trace
from .schedule_model import TERMS, Operand, model, stays

# Kernels.


def kernel(grid: Sequence[int], operands: Sequence[Operand], dynamic: Sequence[int] = ()):
    """A mosaic module that says at each step which point it is at and which slots it sees."""
    vmem = f"memref<{'x'.join(map(str, BLOCK))}xf32, #tpu.memory_space<vmem>>"
    points = list(itertools.product(*map(range, grid)))
    bounds = [DYNAMIC if axis in dynamic else size for axis, size in enumerate(grid)]
    arguments = [f"%d{n}: i32" for n in range(len(grid))]
    windows: list[str] = []
    body = [f'tpu.trace_value %d{n}, "d{n}" : i32' for n in range(len(grid))]
    maps: list[str] = []
    types: list[TensorType[Any]] = [TensorType(Integer(32), []) for _ in dynamic]
    for n, operand in enumerate(operands):
        arguments.append(f"%w{n}: {vmem}")
        mode = "pipeline_mode = #tpu.pipeline_mode<synchronous>, " if operand.buffers == 1 else ""
        windows.append(
            f"{{{mode}transform_indices = @transform_{n}, window_bounds = array<i64: 8, 128>}}"
        )
        body.append(f"%v{n} = vector.load %w{n}[%c, %c] : {vmem}, vector<8x128xf32>")
        body.append(
            f"tpu.vector_store %w{n}[%c, %c], %v{n} {{strides = array<i32>}} : {vmem}, "
            "vector<8x128xf32>, "
        )
        maps.append(_map(n, operand, len(grid)))
        last = [max((operand.index(p)[d] for p in points), default=0) for d in range(2)]
        shape = [(i + 1) * n for i, n in zip(last, BLOCK, strict=True)]
        types.append(TensorType(Float32Type(), shape))
    text = f"""
    func.func @kernel({", ".join(arguments)}) attributes {{
        dimension_semantics = [], iteration_bounds = array<i64: {", ".join(map(str, bounds))}>,
        scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
        tpu.core_type = #tpu.core_type<tc>, window_params = [{", ".join(windows)}]}} {{
      %c = arith.constant 0 : index
      {chr(10).join(body)}
      func.return
    }}
    {chr(10).join(maps)}"""
    module = Parser(make_context(), text).parse_module()
    results = sum(operand.output for operand in operands)
    split = len(types) - results
    set_call(module, Call(tuple(types[:split]), tuple(types[split:])))
    return module


def _map(n: int, operand: Operand, rank: int) -> str:
    lines: list[str] = []

    def emit(text: str) -> str:
        if "+" in text:
            a, b = (emit(part) for part in text.split("+"))
            lines.append(f"%x{len(lines)} = arith.addi {a}, {b} : i32")
        elif "/" in text:
            a, b = (emit(part) for part in text.split("/"))
            lines.append(f"%x{len(lines)} = arith.divsi {a}, {b} : i32")
        elif text.startswith("d"):
            return f"%{text}"
        else:
            lines.append(f"%x{len(lines)} = arith.constant {text} : i32")
        return f"%x{len(lines) - 1}"

    results = ", ".join((emit(operand.rows), emit(operand.columns)))
    arguments = ", ".join(f"%d{axis}: i32" for axis in range(rank))
    return (
        f"func.func @transform_{n}({arguments}) -> (i32, i32) {{\n"
        + "\n".join(lines)
        + f"\nfunc.return {results} : i32, i32 }}"
    )


def compare(grid: Sequence[int], operands: Sequence[Operand], dynamic: Sequence[int] = ()) -> None:
    module = kernel(grid, operands, dynamic)
    WindowsToDmaPass().apply(make_context(), module)
    module.verify()
    function = kernel_function(module)
    assert function is not None
    bounds = [grid[axis] for axis in dynamic]
    trace = Trace(function, [*bounds, *(None for _ in operands)])

    def trivial(operand: Operand) -> bool:
        # The array is one block, and the index map says so without knowing the grid point.
        varying = [f"d{n}" for n, size in enumerate(grid) if size != 1 or n in dynamic]
        points = itertools.product(*map(range, grid))
        maps = operand.rows + operand.columns
        return all(operand.index(p) == (0, 0) for p in points) and not any(
            axis in maps for axis in varying
        )

    single = [
        replace(o, buffers=1) if stays((o.rows, o.columns), grid, dynamic) else o for o in operands
    ]
    assert trace.events == model(grid, single, trivial)
    assert not any(trace.semaphores.values())


X, Y = Operand(False, "d0"), Operand(False, "d0", "d1")
Z, P = Operand(True, "d0"), Operand(True, "d0", "d1")
ONE = {"buffers": 1}

CASES: dict[str, tuple[Sequence[int], list[Operand]]] = {
    "one_axis": ((3,), [X, Z]),
    "two_axes": ((4, 4), [Y, X, P]),
    "matmul": ((2, 2, 3), [Operand(False, "d0", "d2"), Operand(False, "d2", "d1"), P]),
    "revisited_output": ((3, 2), [Y, Z]),
    "revisited_input": ((4,), [Operand(False, "d0/2"), X, Z]),
    "revisited_both": ((5,), [Operand(False, "d0/2"), Operand(True, "d0/3")]),
    "one_buffer": ((4,), [Operand(False, "d0", **ONE), Operand(True, "d0", **ONE)]),
    "one_buffer_revisited": (
        (4,), [Operand(False, "d0/2", **ONE), X, Operand(True, "d0/2", **ONE)]
    ),
    "mixed_buffers": ((4,), [Operand(False, "d0", **ONE), X, Z, Operand(True, "d0", **ONE)]),
    "single_step": ((1,), [X, Operand(False, "1"), Z]),
    "single_step_of_three_axes": ((1, 1, 1), [Operand(False, "d2+1"), Z]),
    "unit_axes": ((1, 4, 1), [Operand(False, "d0", "d1"), Operand(True, "d1", "d2")]),
    "trivial_input": ((3,), [Operand(False, "0"), X, Z]),
    "trivial_output": ((3,), [X, Operand(True, "0")]),
    "fixed_block": ((3,), [Operand(False, "1"), Z]),
    "diagonal": ((2, 3), [Operand(False, "d0+d1"), P]),
    "no_steps": ((0,), [X, Z]),
    "no_outputs": ((2,), [X]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_events(name: str) -> None:
    compare(*CASES[name])


@pytest.mark.parametrize("grid", [(3,), (1,), (0,), (2, 3), (3, 1), (0, 2), (2, 0)])
def test_events_with_dynamic_bounds(grid: tuple[int, ...]) -> None:
    operands = [X, Z] if len(grid) == 1 else [Y, Operand(False, "d1"), P]
    for dynamic in ([0], list(range(len(grid)))):
        compare(grid, operands, dynamic)


@st.composite
def configurations(draw: st.DrawFn):
    grid = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    terms = st.sampled_from(TERMS)
    operand = st.builds(Operand, st.just(False), terms, terms, st.sampled_from([1, 2]))
    inputs = draw(st.lists(operand, min_size=1, max_size=3))
    outputs = draw(st.lists(operand, min_size=1, max_size=2))
    return grid, [*inputs, *(Operand(True, o.rows, o.columns, o.buffers) for o in outputs)]


@settings(max_examples=30, deadline=None)
@given(configurations())
def test_events_of_any_configuration(configuration: tuple[tuple[int, int], list[Operand]]) -> None:
    compare(*configuration)


def test_size_does_not_depend_on_grid() -> None:
    sizes: set[int] = set()
    for grid in [(4, 4), (64, 32)]:
        module = kernel(grid, CASES["two_axes"][1])
        WindowsToDmaPass().apply(make_context(), module)
        # Constants are shared, so their number depends on which of them happen to be equal.
        sizes.add(sum(op.name != "arith.constant" for op in module.walk()))
    assert len(sizes) == 1
