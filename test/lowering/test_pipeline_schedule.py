"""`pallas.emit_pipeline`, lowered, follows the specification's schedule, with any buffer counts.

Blocks are numbered, or slices of a size that the index map gives (`pl.BoundedSlice`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pallasite
from pallasite.dialects import pallas
from pallasite.dialects.kernel import kernel_function

from .dma_traces import BLOCK, BoxTrace, Trace, boxed
from .schedule_model import TERMS, Operand, model, term
from .window_model import Box, tiles

# Only the order of what happens is looked at: outputs are loaded and stored as they are.
pytestmark = pytest.mark.filterwarnings("ignore:.*uninitialised-read")


def kernel(grid: Sequence[int], operands: Sequence[Operand], dynamic: Sequence[int]) -> str:
    """A pipeline that says at each step which point it is at and which slots it sees."""
    points = list(itertools.product(*map(range, grid)))
    heads, windows, body = [f"prefetch %sizes: tensor<{len(grid)}xi32>"], [], []
    for n, operand in enumerate(operands):
        role = "output" if operand.output else "input"
        last = [max((operand.index(p)[d] for p in points), default=0) for d in range(2)]
        rows, columns = ((i + 1) * size for i, size in zip(last, BLOCK, strict=True))
        heads.append(f"{role} %a{n}: tensor<{rows}x{columns}xf32> in any")
        at = ", ".join(text.replace("/", " floordiv ") for text in (operand.rows, operand.columns))
        windows.append(
            f"{role} %w{n} = %a{n}: memref<{rows}x{columns}xf32, #tpu.memory_space<any>> in vmem "
            f"block (8, 128) at ({at}) buffers {operand.buffers}"
        )
        body.append(f"%v{n} = pallas.load %w{n}[...] : memref<8x128xf32, #tpu.memory_space<vmem>>")
        if operand.output:
            block = "memref<8x128xf32, #tpu.memory_space<vmem>>"
            body.append(f"pallas.store %v{n}, %w{n}[...] : {block}")
    ids = [
        f'%d{a} = pallas.program_id {a}\ntpu.trace_value %d{a}, "d{a}" : i32' for a in _axes(grid)
    ]
    sizes = [f"%s{axis}" if axis in dynamic else str(size) for axis, size in enumerate(grid)]
    table = f"memref<{len(grid)}xi32, #tpu.memory_space<smem>>"
    loads = [f"%s{axis} = pallas.load %sizes[{axis}] : {table}" for axis in dynamic]
    lines = [
        *("pallas.kernel @pipeline", *heads, "{", *loads),
        *(f"pallas.emit_pipeline grid ({', '.join(sizes)})", *windows, "{", *ids, *body, "}", "}"),
    ]
    return "\n".join(lines)


def _axes(grid: Sequence[int]) -> range:
    return range(len(grid))


def lowered(text: str) -> Any:
    """The kernel function in form `mosaic`; its arrays are called w0, w1, ..."""
    module = pallasite.parse(text)
    for op in module.walk():
        if isinstance(op, pallas.KernelOp):
            for n, array in enumerate(op.body.block.args[1:]):
                array.name_hint = f"w{n}"
    function = kernel_function(pallasite.lower(module, form="mosaic"))
    assert function is not None
    return function


def compare(grid: Sequence[int], operands: Sequence[Operand], dynamic: Sequence[int] = ()) -> None:
    function = lowered(kernel(grid, operands, dynamic))
    trace = Trace(function, [list(grid), *(None for _ in operands)])

    def trivial(operand: Operand) -> bool:
        maps = operand.rows + operand.columns
        varying = (f"d{n}" for n, size in enumerate(grid) if size != 1 or n in dynamic)
        points = itertools.product(*map(range, grid))
        whole = all(operand.index(p) == (0, 0) for p in points)
        return whole and not any(axis in maps for axis in varying)

    assert trace.events == model(grid, operands, trivial)
    assert not any(trace.semaphores.values())


def _deep(rows: str, buffers: int, columns: str = "0") -> Operand:
    return Operand(False, rows, columns, buffers)


OUT = Operand(True, "d0", "d1")


@pytest.mark.parametrize(
    ("grid", "dynamic"),
    [((1, 1), ()), ((2, 1), (0,)), ((3, 2), (1,)), ((5, 3), ()), ((0, 2), (0,))],
)
def test_several_buffers(grid: tuple[int, int], dynamic: tuple[int, ...]) -> None:
    compare(grid, [_deep("d0", 3), _deep("d1", 4, "d0"), _deep("0", 3), OUT], dynamic)


def test_blocks_known_before_the_loop() -> None:
    compare((1, 2), [_deep("0", 3, "1"), OUT])


@st.composite
def configurations(draw: st.DrawFn):
    grid = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    terms = st.sampled_from(TERMS)
    operand = st.builds(Operand, st.just(False), terms, terms, st.integers(1, 5))
    inputs = draw(st.lists(operand, min_size=1, max_size=3))
    outputs = draw(st.lists(operand, min_size=1, max_size=2))
    results = [Operand(True, o.rows, o.columns, min(o.buffers, 2)) for o in outputs]
    dynamic = draw(st.sampled_from([(), (1,)]))
    return grid, [*inputs, *results], dynamic


@settings(max_examples=10, deadline=None)
@given(configurations())
def test_any_configuration(
    configuration: tuple[tuple[int, int], list[Operand], tuple[int, ...]],
) -> None:
    compare(*configuration)


# Slices of run-time sizes.


@dataclass(frozen=True)
class Slice:
    """Rows of an array, `start` and `size` being terms that count 8 rows; at most 24 at once."""

    output: bool
    start: str
    size: str
    rows: int
    buffers: int = 2
    block: tuple[int, ...] = (24, 128)

    @property
    def fetched(self) -> bool:
        return not self.output

    def index(self, point: Sequence[int]) -> tuple[int, int, int]:
        return 8 * term(self.start, point), 8 * term(self.size, point), 0

    def box(self, index: Sequence[int]) -> Box:
        """The transfer: cut by the array, whose memory is whole tiles."""
        tile = tiles((self.rows, 128))[0]
        rows = min(index[1], -(-self.rows // tile) * tile - index[0])
        return Box((index[0], 0), (0, 0), (rows, 128))

    def text(self, n: int) -> str:
        role = "output" if self.output else "input"
        start, size = (t.replace("/", " floordiv ") for t in (self.start, self.size))
        array = f"memref<{self.rows}x128xf32, #tpu.memory_space<any>>"
        return (
            f"{role} %w{n} = %a{n}: {array} in vmem block (bounded(24), 128) "
            f"at (({start}) * 8, ({size}) * 8, 0) buffers {self.buffers}"
        )


def compare_slices(grid: Sequence[int], operands: Sequence[Slice]) -> None:
    heads = ["prefetch %sizes: tensor<2xi32>"]
    body = [f'%d{a} = pallas.program_id {a}\ntpu.trace_value %d{a}, "d{a}" : i32' for a in (0, 1)]
    block = "memref<24x128xf32, #tpu.memory_space<vmem>>"
    for n, o in enumerate(operands):
        heads.append(f"{'output' if o.output else 'input'} %a{n}: tensor<{o.rows}x128xf32> in any")
        body.append(f"%v{n} = pallas.load %w{n}[...] : {block}")
        if o.output:
            body.append(f"pallas.store %v{n}, %w{n}[...] : {block}")
    windows = [o.text(n) for n, o in enumerate(operands)]
    first = f"pallas.emit_pipeline grid ({', '.join(map(str, grid))})"
    lines = ["pallas.kernel @slices", *heads, "{", first, *windows, "{", *body, "}", "}"]
    trace = BoxTrace(lowered("\n".join(lines)), [None] * (1 + len(operands)), operands)
    events = model(grid, operands, lambda o: False)
    assert trace.events == [boxed(event, operands) for event in events]
    assert not any(trace.semaphores.values())


SIZES = ["1", "2", "3", "d0/2+1", "d1/2+1", "1+d0/3"]


@st.composite
def slices(draw: st.DrawFn):
    grid = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    points = list(itertools.product(*map(range, grid)))
    operands: list[Slice] = []
    for output in [False] * draw(st.integers(1, 2)) + [True]:
        start, size = draw(st.sampled_from(TERMS)), draw(st.sampled_from(SIZES))
        last = max(term(start, p) for p in points)
        rows = 8 * last + draw(st.integers(1, 24))
        buffers = draw(st.integers(1, 2 if output else 4))
        operands.append(Slice(output, start, size, rows, buffers))
    return grid, operands


@settings(max_examples=10, deadline=None)
@given(slices())
def test_bounded_slices(case: tuple[tuple[int, int], list[Slice]]) -> None:
    compare_slices(*case)
