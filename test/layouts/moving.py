"""Helpers of the movement tests: laid-out element numbers, and random movements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from pallasite.layouts.move import Laid, Move
from pallasite.layouts.vector_layout import VectorLayout

Array = NDArray[Any]
Shape = tuple[int, ...]


def place(laid: Laid, values: Array, padding: Any) -> Array:
    """The registers of a value, of the full vector shape, `padding` where nothing is stored."""
    layout, shape = laid
    registers = np.arange(layout.register_count(shape))[:, None, None]
    rows = np.arange(layout.native_rows)[None, :, None]
    index, valid = layout.elements(shape, registers, rows, np.arange(128)[None, None, :])
    full = (registers.size, rows.size, 128)
    valid = np.broadcast_to(valid, full)
    found = tuple(np.where(valid, np.broadcast_to(i, full), 0) for i in index)
    data = np.where(valid, values[found] if shape else values, padding)
    packed = np.moveaxis(data.reshape(registers.size, 8, layout.packing, 128), 2, 3)
    packed = packed.reshape(*layout.grid_shape(shape), 8, 128, layout.packing)
    return packed if layout.packing > 1 else packed[..., 0]


@dataclass
class Case:
    """A movement, and what it does to logical arrays."""

    move: Move
    meaning: Callable[..., Array]

    def numbers(self) -> list[Array]:
        """Logical arrays with the element numbers of all sources, counted on."""
        arrays: list[Array] = []
        base = 0
        for _, shape in self.move.sources:
            size = math.prod(shape)
            arrays.append(np.arange(base, base + size).reshape(shape))
            base += size
        return arrays

    def __repr__(self) -> str:
        return str(self.move)


SIZES = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 40, 64, 100, 128, 130, 200, 256])


@st.composite
def shapes(draw: st.DrawFn, most: int) -> Shape:
    shape: list[int] = []
    for _ in range(draw(st.integers(0, 4))):
        size = draw(SIZES)
        if math.prod(shape) * size <= most:
            shape.append(size)
    return tuple(shape)


@st.composite
def layouts(draw: st.DrawFn, shape: Shape, bits: int) -> VectorLayout:
    rank = len(shape)
    sublane = rank - 2 if rank > 1 else None
    lane = rank - 1 if rank else None
    if rank > 1 and draw(st.integers(0, 3)) == 0:
        sublane, lane = draw(st.permutations(range(rank)))[:2]
    native = 8 * (32 // bits)
    tile = native >> draw(st.sampled_from([0, 0, 0, 1, 3]))
    rows = 1 if sublane is None else shape[sublane]
    columns = 1 if lane is None else shape[lane]
    row: int | None = draw(st.sampled_from([0, 0, tile // 2, tile - 1]))
    column: int | None = draw(st.sampled_from([0, 0, 5, 127]))
    if rows == 1 and draw(st.booleans()):
        row = None
    if columns == 1 and draw(st.booleans()):
        column = None
    return VectorLayout(bits, sublane, lane, row, column, tile)


@st.composite
def cases(draw: st.DrawFn, most: int = 6000) -> Case:
    """Any kind of movement on any shape, type and layouts."""
    bits = draw(st.sampled_from([32, 16, 8, 4]))
    shape = draw(shapes(most))
    kinds = ["slice", "reshape", "transpose", "broadcast", "relayout"]
    kind = draw(st.sampled_from(kinds + (["concat", "roll", "repeat"] if shape else [])))
    source = draw(layouts(shape, bits)), shape

    def target(result: Sequence[int]) -> VectorLayout:
        return draw(layouts(tuple(result), bits))

    if kind == "slice":
        strides = [draw(st.sampled_from([1, 1, 1, 2, 3])) for _ in shape]
        offsets = [draw(st.integers(0, n - 1)) for n in shape]
        sizes = [
            draw(st.integers(1, -(-(n - o) // s)))
            for n, o, s in zip(shape, offsets, strides, strict=True)
        ]
        box = tuple(
            slice(o, o + (n - 1) * s + 1, s)
            for o, n, s in zip(offsets, sizes, strides, strict=True)
        )
        move = Move.slice(source, target(sizes), offsets, sizes, strides)
        return Case(move, lambda x: x[box])
    if kind == "reshape":
        result, rest = list[int](), math.prod(shape)
        for _ in range(draw(st.integers(0, 3))):
            result.append(draw(st.sampled_from([k for k in range(1, rest + 1) if rest % k == 0])))
            rest //= result[-1]
        result.append(rest)
        return Case(Move.reshape(source, target(result), result), lambda x: x.reshape(result))
    if kind == "transpose":
        permutation = draw(st.permutations(range(len(shape))))
        result = [shape[d] for d in permutation]
        move = Move.transpose(source, target(result), permutation)
        return Case(move, lambda x: x.transpose(permutation))
    if kind == "broadcast":
        small = tuple(1 if draw(st.booleans()) else n for n in shape)
        small = small[draw(st.integers(0, len(shape))) :]
        source = draw(layouts(small, bits)), small
        move = Move.broadcast(source, target(shape), shape)
        return Case(move, lambda x: np.broadcast_to(x, shape))
    if kind == "relayout":
        return Case(Move.relayout(source[0], shape, target(shape)), lambda x: x)
    dim = draw(st.integers(0, len(shape) - 1))
    if kind == "roll":
        amount = draw(st.integers(0, 2 * shape[dim]))
        move = Move.roll(source, target(shape), dim, amount)
        return Case(move, lambda x: np.roll(x, amount, dim))
    if kind == "repeat":
        times = [draw(st.sampled_from([1, 1, 2, 3])) for _ in shape]
        result = [n * t for n, t in zip(shape, times, strict=True)]
        return Case(Move.repeat(source, target(result), times), lambda x: np.tile(x, times))
    others: list[Laid] = []
    for _ in range(draw(st.integers(1, 2))):
        other = (*shape[:dim], draw(SIZES), *shape[dim + 1 :])
        others.append((draw(layouts(other, bits)), other))
    result = list(shape)
    result[dim] += sum(o[dim] for _, o in others)
    move = Move.concat([source, *others], target(result), dim)
    return Case(move, lambda *x: np.concatenate(x, dim))
