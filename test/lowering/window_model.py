"""Windows of every kind as spec/pallas_semantics.md words them, and kernels that use them.

`Window` says which box of its array a block transfer moves (section 2.4), `text_of` writes a kernel
over windows, and `values_after` is what the kernel leaves in its arrays when steps follow one
another and nothing overlaps (sections 1.3 to 1.9); NaN stands for what is not specified.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pallasite.dialects.kernel import DYNAMIC

from .index_terms import evaluate, term

Point = Sequence[int]
Shape = tuple[int, ...]
Array = NDArray[np.float64]
TABLE = (1, 0, 2, 2)
"""What is prefetched; a term `t` reads it at the first grid index."""


@dataclass(frozen=True)
class Box:
    """What a transfer moves: where it starts in the array and in the block, and its size."""

    start: Shape
    inner: Shape
    sizes: Shape


@dataclass(frozen=True)
class Window:
    """One operand; `terms` is its index map (see `index_terms.term`)."""

    output: bool
    array: Shape
    block: Shape
    terms: Sequence[str]
    buffers: int = 2
    low: Shape | None = None
    """Padding before the array, of an element window."""
    high: Shape | None = None
    revisits: bool = False

    @property
    def fetched(self) -> bool:
        return not self.output or self.revisits

    def index(self, point: Point) -> Shape:
        return tuple(evaluate(text, point, TABLE) for text in self.terms)

    def trivial(self, grid: Sequence[int], dynamic: Sequence[int]) -> bool:
        """The block is the array, and the map gives 0 without knowing the grid point."""
        known = [0 if size == 1 and axis not in dynamic else None for axis, size in enumerate(grid)]
        fixed = all(
            text == "0" or any(value == 0 and f"d{axis}" == text.split("/")[0].split("*")[0]
                               and "+" not in text for axis, value in enumerate(known))
            for text in self.terms
        )  # fmt: skip
        padded = any((*(self.low or ()), *(self.high or ())))
        return self.block == self.array and not padded and fixed

    def box(self, index: Sequence[int]) -> Box:
        """The transfer of the block at `index`, cut to whole tiles of the array."""
        rows: list[tuple[int, int, int]] = []
        columns = zip(index, self.array, self.block, tiles(self.array), strict=True)
        for d, (position, size, block, tile) in enumerate(columns):
            if self.low is None:
                cut = min(block, _up(size % block, tile))
                last = size % block != 0 and position == size // block
                rows.append((position * block, 0, cut if last else block))
            else:
                start = position - self.low[d]
                inner = max(-start, 0)
                start = max(start, 0)
                rows.append((start, inner, min(block - inner, _up(size, tile) - start)))
        return Box(*(tuple(column) for column in zip(*rows, strict=True)))

    def place(self, index: Sequence[int]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """The elements of the array, and of the block, that both have."""
        near: list[slice] = []
        far: list[slice] = []
        for d, (position, size, block) in enumerate(
            zip(index, self.array, self.block, strict=True)
        ):
            start = position * block if self.low is None else position - self.low[d]
            first, last = max(start, 0), min(start + block, size)
            far.append(slice(first, last))
            near.append(slice(first - start, last - start))
        return tuple(far), tuple(near)


def tiles(array: Shape) -> Shape:
    """The granule of transfers of float32 in each dimension."""
    if len(array) == 1:
        return (128,)
    rows = 1
    while rows < min(array[-2], 8):
        rows *= 2
    return (*(1 for _ in array[:-2]), rows, 128)


def _up(size: int, tile: int) -> int:
    return -(-size // tile) * tile


@dataclass(frozen=True)
class Case:
    """A kernel: each output is the block of one input plus a number of the step, or the latter."""

    grid: Sequence[int]
    windows: Sequence[Window]
    partners: Mapping[int, int] = field(default_factory=dict[int, int])
    """The input whose block an output gets, both by position."""
    aliases: Mapping[int, int] = field(default_factory=dict[int, int])
    """The output that shares the array of an input, by positions among inputs and outputs."""
    dynamic: Sequence[int] = ()
    parallel: bool = False

    @property
    def inputs(self) -> int:
        return sum(not window.output for window in self.windows)


def values_after(case: Case, arrays: Sequence[Array]) -> list[Array] | None:
    """The results, one step after another; None if an output block is visited again."""
    held = [np.array(a) for a in arrays]
    for number, window in enumerate(case.windows[case.inputs :]):
        shared = [i for i, o in case.aliases.items() if o == number]
        held.append(held[shared[0]] if shared else np.full(window.array, np.nan))
    blocks: dict[int, Array] = {}
    current: dict[int, Shape] = {}
    left: set[tuple[int, Shape]] = set()
    points = list(itertools.product(*map(range, case.grid)))

    def leave(n: int) -> None:
        window = case.windows[n]
        if window.output:
            far, near = window.place(current[n])
            held[n][far] = blocks[n][near]
            left.add((n, current[n]))

    for point in points:
        wanted = {n: window.index(point) for n, window in enumerate(case.windows)}
        moved = [n for n, index in wanted.items() if current.get(n) != index]
        for n in moved:
            if n in current:
                leave(n)
        for n in moved:
            window, index = case.windows[n], wanted[n]
            aliased = n - case.inputs in case.aliases.values()
            if window.output and (n, index) in left and not (window.revisits or aliased):
                return None
            blocks[n], current[n] = np.full(window.block, np.nan), index
            if window.fetched:
                far, near = window.place(index)
                blocks[n][near] = held[n][far]
        for n, window in enumerate(case.windows):
            if window.output:
                source = case.partners.get(n)
                blocks[n] = (0 if source is None else blocks[source]) + np.full(
                    window.block, float(number_of(point))
                )
    for n in current:
        leave(n)
    return held[case.inputs :]


def number_of(point: Point) -> int:
    """What the kernel adds at a step."""
    return sum(1000 * 10**axis * place for axis, place in enumerate(point))


def text_of(case: Case, *, touching: bool = False) -> str:
    """The kernel in form `mosaic`; it says where it is, and may touch every block."""
    grid = [DYNAMIC if axis in case.dynamic else size for axis, size in enumerate(case.grid)]
    dims = [f"%d{axis}: i32" for axis in range(len(grid))]
    kind = "parallel" if case.parallel else "arbitrary"
    body = [f'tpu.trace_value %d{axis}, "d{axis}" : i32' for axis in range(len(grid))]
    body += ["%n0 = arith.constant 0 : i32"]
    for axis in range(len(grid)):
        body += [
            f"%w{axis}_scale = arith.constant {1000 * 10**axis} : i32",
            f"%p{axis} = arith.muli %d{axis}, %w{axis}_scale : i32",
            f"%n{axis + 1} = arith.addi %n{axis}, %p{axis} : i32",
        ]
    body += [f"%number = arith.sitofp %n{len(grid)} : i32 to f32"]
    functions: list[str] = []
    parameters: list[str] = []
    windows: list[str] = []
    stores: list[str] = []
    for n, window in enumerate(case.windows):
        ref, vector = _typed("memref", window.block, VMEM), _typed("vector", window.block)
        zeros = ", ".join("%c" for _ in window.block)
        parameters.append(f"%w{n}: {ref}")
        windows.append(_window_text(n, window))
        body.append(f"%v{n} = vector.load %w{n}[{zeros}] : {ref}, {vector}")
        if touching:
            body.append(_store(f"%w{n}[{zeros}]", f"%v{n}", f"{ref}, {vector}"))
        elif window.output:
            stores.append(f"%b{n} = vector.broadcast %number : f32 to {vector}")
            value = f"%b{n}"
            if n in case.partners:
                stores.append(f"%s{n} = arith.addf %v{case.partners[n]}, {value} : {vector}")
                value = f"%s{n}"
            stores.append(_store(f"%w{n}[{zeros}]", value, f"{ref}, {vector}"))
        functions.append(_map_text(n, window, dims))
    given, made = (
        ", ".join(_typed("tensor", w.array) for w in case.windows if w.output is output)
        for output in (False, True)
    )
    first = len(case.dynamic) + 1
    pairs = ", ".join(f"{i + first}, {o}" for i, o in case.aliases.items())
    leading = ["tensor<i32>"] * len(case.dynamic) + [f"tensor<{len(TABLE)}xi32>"]
    lines = "\n    ".join([*body, *stores])
    return f"""
!table = memref<{len(TABLE)}xi32, #tpu.memory_space<smem>>
module attributes {{tpu.call = {{operands = [{", ".join([*leading, given])}], results = [{made}],
    aliases = array<i64{": " if pairs else ""}{pairs}>, settings = "{{}}"}}}} {{
  func.func @kernel({", ".join([*dims, "%t: !table", *parameters])}) attributes {{
      dimension_semantics = [{", ".join(f"#tpu.dimension_semantics<{kind}>" for _ in grid)}],
      iteration_bounds = array<i64: {", ".join(map(str, grid))}>, scalar_prefetch = 1 : i64,
      scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>,
      window_params = [{", ".join(windows)}]}} {{
    %c = arith.constant 0 : index
    {lines}
    func.return
  }}
  {chr(10).join(functions)}
}}"""


def _store(where: str, value: str, types: str) -> str:
    return f"tpu.vector_store {where}, {value} {{strides = array<i32>}} : {types},"


VMEM = ", #tpu.memory_space<vmem>"


def _typed(kind: str, shape: Shape, tail: str = "") -> str:
    return f"{kind}<{'x'.join(map(str, shape))}xf32{tail}>"


def _window_text(n: int, window: Window) -> str:
    entries = [f"transform_indices = @t{n}", f"window_bounds = array<i64: {_listed(window.block)}>"]
    mode = "synchronous" if window.buffers == 1 else "double_buffered"
    entries.append(f"pipeline_mode = #tpu.pipeline_mode<{mode}>")
    if window.low is not None:
        high = window.high or (0,) * len(window.low)
        kind = f"#tpu.element_window<[{_listed(window.low)}], [{_listed(high)}]>"
        entries.append(f"window_kind = {kind}")
    if window.revisits:
        entries.append("revisit_mode = #tpu.revisit_mode<any>")
    return f"{{{', '.join(entries)}}}"


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _map_text(n: int, window: Window, dims: Sequence[str]) -> str:
    lines: list[str] = []
    values = [term(text, "x", lines) for text in window.terms]
    types = ", ".join("i32" for _ in values)
    results = f"({types})" if len(values) > 1 else "i32"
    return (
        f"func.func @t{n}({', '.join([*dims, '%t: !table'])}) -> {results} {{\n"
        + "\n".join(lines)
        + f"\nfunc.return {', '.join(values)} : {types} }}"
    )
