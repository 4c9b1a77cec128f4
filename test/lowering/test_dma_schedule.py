"""The DMA form's event order against an independent model of spec/pallas_semantics.md section 2.3.

`schedule_model.model` is the schedule as the specification words it; `Trace` executes only the
scalar, DMA and loop operations of an emitted module, and records what it starts and awaits.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import DYNAMIC_INDEX, Block, Float32Type, IntegerAttr, TensorType
from xdsl.dialects.builtin import IntegerType as Integer
from xdsl.ir import SSAValue
from xdsl.parser import Parser

from pallasite.dialects import make_context
from pallasite.dialects.kernel import DYNAMIC, kernel_function
from pallasite.dialects.kernel_call import Call, set_call
from pallasite.lowering.windows_to_dma import WindowsToDmaPass

from .schedule_model import Operand, model, stays

BLOCK = (8, 128)


# What an emitted module does.


@dataclass(frozen=True)
class View:
    """A box of a buffer or array; `root` is the value that was allocated or passed in."""

    root: SSAValue
    start: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def elements(self) -> int:
        return math.prod(self.sizes)


class Trace:
    """Executes the scalar, DMA and loop operations of a kernel in form `dma`."""

    def __init__(self, function: Any, arguments: Sequence[Any]):
        self.events: list[tuple[Any, ...]] = []
        self.values: dict[SSAValue, Any] = {}
        self.semaphores = Counter[tuple[SSAValue, tuple[int, ...]]]()
        for argument, value in zip(function.args, arguments, strict=True):
            self.values[argument] = self.whole(argument) if value is None else value
        self.run(function.body.block)

    def whole(self, value: SSAValue) -> View:
        shape = value.type.get_shape()  # pyright: ignore
        return View(value, (0,) * len(shape), shape)

    def run(self, block: Block) -> list[Any]:
        for op in block.ops:
            values = [self.values.get(operand) for operand in op.operands]
            name = op.name.replace(".", "_")
            if hasattr(self, name):
                result = getattr(self, name)(op, *values)
            else:
                result = ARITHMETIC[op.name](*values) if op.name in ARITHMETIC else None
            if op.name in ("scf.yield", "tpu.yield", "func.return"):
                return values
            results = result if isinstance(result, list) else [result]
            self.values.update(zip(op.results, results, strict=False))
        return []

    def arith_constant(self, op: Any):
        return op.value.value.data if isinstance(op.value, IntegerAttr) else None

    def arith_cmpi(self, op: Any, a: int, b: int):
        return (a == b, a != b, a < b, a <= b, a > b, a >= b)[op.predicate.value.data]

    def memref_alloca(self, op: Any):
        return self.whole(op.results[0])

    tpu_sem_alloc = memref_alloca

    def memref_load(self, op: Any, table: Any, *indices: int):
        return table[indices[0]] if indices else table

    def tpu_memref_slice(self, op: Any, base: View, *rest: int):
        count = len(op.base_idx)
        dynamic = iter(rest[count:])
        shape = [next(dynamic) if n == DYNAMIC_INDEX else n for n in op.result.type.get_shape()]
        start = tuple(a + b for a, b in zip(base.start, rest[:count], strict=True))
        return View(base.root, start, tuple(shape))

    def tpu_memref_squeeze(self, op: Any, base: View):
        return base

    def tpu_region(self, op: Any):
        self.run(op.regions[0].block)

    def scf_if(self, op: Any, condition: bool):
        region = op.true_region if condition else op.false_region
        return self.run(region.block) if region.blocks else []

    def scf_for(self, op: Any, lower: int, upper: int, step: int, *carried: Any):
        state = list(carried)
        for i in range(lower, upper, step):
            for argument, value in zip(op.body.block.args, [i, *state], strict=True):
                self.values[argument] = value
            state = self.run(op.body.block)
        return state

    def tpu_trace_value(self, op: Any, value: int):
        if op.label.data == "d0":
            self.events.append(("body", ()))
        self.events[-1] = ("body", (*self.events[-1][1], value))

    def tpu_assume_multiple(self, op: Any, value: int):
        assert value % op.multiple.value.data == 0
        return value

    def vector_load(self, op: Any, view: View, *indices: int):
        self.events.append(("see", operand_of(view), slot_of(view)))

    def tpu_enqueue_dma(self, op: Any, source: View, target: View, semaphore: View):
        fetching = op.source.type.memory_space.space.data == "any"
        array, buffer = (source, target) if fetching else (target, source)
        self.semaphores[semaphore.root, semaphore.start] += target.elements
        self.record("fetch" if fetching else "store", array, buffer, semaphore)

    def tpu_wait_dma2(self, op: Any, semaphore: View, source: View, target: View):
        fetching = op.src.type.memory_space.space.data == "any"
        array, buffer = (source, target) if fetching else (target, source)
        self.semaphores[semaphore.root, semaphore.start] -= target.elements
        assert self.semaphores[semaphore.root, semaphore.start] >= 0
        name = "await-fetch" if fetching else "await-store"
        self.record(name, array, buffer, semaphore)

    def record(self, event: str, array: View, buffer: View, semaphore: View) -> None:
        b, slot = operand_of(array), slot_of(buffer)
        assert operand_of(buffer) == b
        if semaphore.root.name_hint == "copied":
            if event in ("fetch", "store"):
                self.events.append(("copy-in" if event == "fetch" else "copy-out", b))
            return
        assert semaphore.start in ((), (slot,))
        assert all(s % n == 0 for s, n in zip(array.start, BLOCK, strict=True))
        index = tuple(s // n for s, n in zip(array.start, BLOCK, strict=True))
        self.events.append((event, b, index, slot))


def operand_of(view: View) -> int:
    """Arrays keep the names w0, w1, ... of the windows, and buffers are called after them."""
    return int((view.root.name_hint or "").removeprefix("w").removesuffix("_window"))


def slot_of(view: View) -> int:
    return view.start[0] if len(view.start) == 3 else 0


ARITHMETIC: dict[str, Callable[..., int]] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.minsi": min,
    "arith.maxsi": max,
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
    "arith.divsi": lambda a, b: int(a / b),
    "arith.select": lambda c, a, b: a if c else b,
    "arith.index_cast": lambda a: a,
}


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


TERMS = st.sampled_from(["0", "1", "d0", "d1", "d0/2", "d1/2", "d0+d1"])


@st.composite
def configurations(draw: st.DrawFn):
    grid = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    operand = st.builds(Operand, st.just(False), TERMS, TERMS, st.sampled_from([1, 2]))
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
