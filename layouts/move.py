"""Movements of data between laid-out vectors: what has to end up where.

A `Move` names source values, the destination and an index map, and says nothing about
instructions. Slices, concatenations, reshapes, transposes, broadcasts, rolls and changes of layout
all are Moves; nothing else moves data (spec/grid_form.md section 2.5). The index map is a
chain of steps that is read backwards: from an index of the destination to one of a source.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pallasite.diagnostics import UsageError
from pallasite.layouts.planner.lines import Line, Lines
from pallasite.layouts.vector_layout import VectorLayout

Shape = tuple[int, ...]
Laid = tuple[VectorLayout, Shape]
"""A value in registers: its layout and its logical shape."""


class IndexStep(Protocol):
    """One operation on logical arrays; `pull` maps an index of its result to one of its operand."""

    @property
    def shape(self) -> Shape:
        """The shape of the result."""
        ...

    def pull(self, lines: Lines, index: list[Line]) -> list[Line]:
        """The index in the operand of the element that is at `index` of the result."""
        ...


@dataclass(frozen=True)
class Slice:
    """Element i of the result is element `offset + stride * i` of the operand."""

    shape: Shape
    offsets: Shape
    strides: Shape

    def pull(self, lines: Lines, index: list[Line]) -> list[Line]:
        terms = zip(index, self.offsets, self.strides, strict=True)
        return [line.scaled(stride, offset) for line, offset, stride in terms]


@dataclass(frozen=True)
class Reshape:
    """Both shapes list the same elements row-major."""

    source_shape: Shape
    shape: Shape

    def pull(self, lines: Lines, index: list[Line]) -> list[Line]:
        # Dimensions that both shapes split alike are kept apart: smaller numbers, fewer breaks.
        result: list[Line] = [lines.constant(0)] * len(self.source_shape)
        for outer, inner in groups(self.source_shape, self.shape):
            linear = lines.constant(0)
            for dim in inner:
                linear = linear.scaled(self.shape[dim], 0).plus(index[dim])
            for dim in reversed(outer[1:]):
                linear, result[dim] = lines.divide(linear, self.source_shape[dim])
            if outer:
                result[outer[0]] = linear
        return result


@dataclass(frozen=True)
class Transpose:
    """Dimension i of the result is dimension `permutation[i]` of the operand."""

    shape: Shape
    permutation: Shape

    def pull(self, lines: Lines, index: list[Line]) -> list[Line]:
        result: list[Line] = [lines.constant(0)] * len(index)
        for dim, line in zip(self.permutation, index, strict=True):
            result[dim] = line
        return result


@dataclass(frozen=True)
class Broadcast:
    """NumPy's rule: missing leading dimensions and those of extent 1 are repeated."""

    source_shape: Shape
    shape: Shape

    def pull(self, lines: Lines, index: list[Line]) -> list[Line]:
        kept = index[len(self.shape) - len(self.source_shape) :]
        return [
            lines.constant(0) if extent == 1 else line
            for extent, line in zip(self.source_shape, kept, strict=True)
        ]


@dataclass(frozen=True)
class Roll:
    """Element i of the result is element `(i - amount) mod extent`, as `jnp.roll`."""

    shape: Shape
    dim: int
    amount: int

    def pull(self, lines: Lines, index: list[Line]) -> list[Line]:
        shifted = index[self.dim].scaled(1, -self.amount)
        rolled = lines.divide(shifted, self.shape[self.dim])[1]
        return [*index[: self.dim], rolled, *index[self.dim + 1 :]]


@dataclass(frozen=True)
class Repeat:
    """The operand, several times after itself along each dimension, as `jnp.tile`."""

    source_shape: Shape
    shape: Shape

    def pull(self, lines: Lines, index: list[Line]) -> list[Line]:
        return [
            line if extent == whole else lines.divide(line, extent)[1]
            for line, extent, whole in zip(index, self.source_shape, self.shape, strict=True)
        ]


@dataclass(frozen=True)
class Move:
    """Fills `destination` from `sources`.

    The sources are first concatenated along `concat_dim` (a single source is taken as it is), then
    `steps` apply in order. The elements of all sources and of the destination have equal width.
    """

    sources: tuple[Laid, ...]
    destination: Laid
    steps: tuple[IndexStep, ...] = ()
    concat_dim: int = 0

    def __post_init__(self) -> None:
        shape = self.steps[-1].shape if self.steps else self.concatenated
        if shape != self.destination[1]:
            raise UsageError(
                "move-shape",
                f"destination shape must be {shape}, got {self.destination[1]}",
            )
        widths = {layout.bits for layout, _ in (*self.sources, self.destination)}
        if len(widths) != 1:
            raise UsageError("move-bits", f"one element width expected, got {sorted(widths)}")

    @property
    def bits(self) -> int:
        """The element width."""
        return self.destination[0].bits

    @property
    def concatenated(self) -> Shape:
        """The shape of all sources after one another."""
        first = self.sources[0][1]
        if len(self.sources) == 1:
            return first
        total = sum(shape[self.concat_dim] for _, shape in self.sources)
        return (*first[: self.concat_dim], total, *first[self.concat_dim + 1 :])

    def __str__(self) -> str:
        sources = ", ".join(f"{'x'.join(map(str, s)) or 'scalar'} {la}" for la, s in self.sources)
        layout, shape = self.destination
        names = " ".join(type(step).__name__.lower() for step in self.steps)
        if len(self.sources) > 1:
            names = f"concat {names}".strip()
        target = "x".join(map(str, shape)) or "scalar"
        return f"{names or 'relayout'} from [{sources}] to [{target} {layout}]"

    @classmethod
    def relayout(cls, source: VectorLayout, shape: Sequence[int], target: VectorLayout) -> Move:
        """The same value in another layout."""
        return cls(((source, tuple(shape)),), (target, tuple(shape)))

    @classmethod
    def slice(
        cls,
        source: Laid,
        target: VectorLayout,
        offsets: Sequence[int],
        sizes: Sequence[int],
        strides: Sequence[int] | None = None,
    ) -> Move:
        """The elements at `offsets + strides * i`, for i below `sizes`."""
        step = Slice(tuple(sizes), tuple(offsets), tuple(strides or (1,) * len(sizes)))
        return cls((source,), (target, step.shape), (step,))

    @classmethod
    def concat(cls, sources: Sequence[Laid], target: VectorLayout, dim: int) -> Move:
        """Values after one another along dimension `dim`."""
        shape = list(sources[0][1])
        shape[dim] = sum(s[dim] for _, s in sources)
        return cls(tuple(sources), (target, tuple(shape)), (), dim)

    @classmethod
    def reshape(cls, source: Laid, target: VectorLayout, shape: Sequence[int]) -> Move:
        """Also inserts and drops unit dimensions."""
        return cls((source,), (target, tuple(shape)), (Reshape(source[1], tuple(shape)),))

    @classmethod
    def transpose(cls, source: Laid, target: VectorLayout, permutation: Sequence[int]) -> Move:
        """Dimension i of the result is dimension `permutation[i]` of the source."""
        step = Transpose(tuple(source[1][d] for d in permutation), tuple(permutation))
        return cls((source,), (target, step.shape), (step,))

    @classmethod
    def broadcast(cls, source: Laid, target: VectorLayout, shape: Sequence[int]) -> Move:
        """The source repeated to `shape` by NumPy's rule."""
        return cls((source,), (target, tuple(shape)), (Broadcast(source[1], tuple(shape)),))

    @classmethod
    def roll(cls, source: Laid, target: VectorLayout, dim: int, amount: int) -> Move:
        """The source turned along `dim`, as `jnp.roll` does."""
        return cls((source,), (target, source[1]), (Roll(source[1], dim, amount),))

    @classmethod
    def repeat(cls, source: Laid, target: VectorLayout, times: Sequence[int]) -> Move:
        """The source `times[d]` times after itself along each dimension d, as `jnp.tile` does."""
        shape = tuple(n * t for n, t in zip(source[1], times, strict=True))
        return cls((source,), (target, shape), (Repeat(source[1], shape),))


def groups(left: Shape, right: Shape) -> list[tuple[list[int], list[int]]]:
    """Cuts two shapes of equal size into the finest runs of dimensions with equal products."""
    if math.prod(left) != math.prod(right):
        raise UsageError("move-reshape", f"cannot reshape {left} to {right}")
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(left) or j < len(right):
        a, b = [i] if i < len(left) else [], [j] if j < len(right) else []
        i, j = i + len(a), j + len(b)
        size, other = math.prod(left[d] for d in a), math.prod(right[d] for d in b)
        while size != other:
            if size < other and i < len(left):
                size, i = size * left[i], i + 1
                a.append(i - 1)
            else:
                other, j = other * right[j], j + 1
                b.append(j - 1)
        groups.append((a, b))
    return groups
