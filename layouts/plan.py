"""Plans: the short lists of grid instructions by which data move between registers.

Every step works on whole grids of registers, so the length of a plan does not depend on the size
of the block. The first values of a plan are its sources; each step defines the next value
(spec/grid_form.md section 2; spec/vreg_lowering.md section 10.4).

A value holds `element` registers, of the moved type, or `word` registers, i32: either the same
bits (`Words`, `Elements` convert for free) or one element per word, after `Unpack`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from pallasite.layouts.planner.fields import Field, Mask
from pallasite.layouts.planner.lines import Array

Shape = tuple[int, ...]
Format = Literal["compressed", "interleaved"]
Way = Literal["masks", "differences", "pack"]
"""How groups of elements are interleaved: each operand is masked; both results share the masked
differences of the operands; or the lower halves of words are packed."""


@dataclass(frozen=True)
class Value:
    """A grid of registers; `elements` is how many moved elements one 32-bit word holds."""

    grid: Shape
    elements: int
    kind: Literal["element", "word"] = "element"

    @property
    def registers(self) -> int:
        """How many registers the grid has."""
        return math.prod(self.grid)

    def on(self, grid: Shape) -> Value:
        """The same kind of registers on another grid."""
        if grid == self.grid:
            return self
        other = object.__new__(Value)  # As `Step.on`: this is asked of every step that is tried.
        other.__dict__.update(self.__dict__, grid=grid)
        return other


@dataclass(frozen=True)
class Step:
    """An instruction on grids; `operands` number earlier values."""

    operands: tuple[int, ...]

    def on(self, operands: tuple[int, ...]) -> Self:
        """The same instruction on other values; several times as fast as `dataclasses.replace`."""
        if operands == self.operands:
            return self
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, operands=operands)
        return other


# Renaming: these cost nothing once unrolled.


@dataclass(frozen=True)
class GridReshape(Step):
    """The same registers, row-major, as a grid of another shape."""

    shape: Shape


@dataclass(frozen=True)
class GridSlice(Step):
    """The registers at `offsets + strides * i`, for i below `sizes`."""

    offsets: Shape
    sizes: Shape
    strides: Shape


@dataclass(frozen=True)
class GridTranspose(Step):
    """Dimension i of the grid is dimension `permutation[i]` of the operand."""

    permutation: Shape


@dataclass(frozen=True)
class GridBroadcast(Step):
    """Registers repeated by NumPy's rule on grid dimensions."""

    shape: Shape


@dataclass(frozen=True)
class GridConcat(Step):
    """Grids after one another along one grid dimension."""

    dim: int


@dataclass(frozen=True)
class GridTake(Step):
    """Registers by flat number; -1 is an undefined register."""

    table: bytes
    """The numbers, of eight bytes: there may be very many."""
    shape: Shape

    @classmethod
    def of(cls, operand: int, numbers: Array, shape: Shape) -> GridTake:
        """The registers `numbers` of value `operand`, as a grid of `shape`."""
        return cls((operand,), numbers.astype(np.int64, copy=False).tobytes(), shape)

    def numbers(self) -> Array:
        """The flat numbers of the registers, row-major."""
        return np.frombuffer(self.table, np.int64)


@dataclass(frozen=True)
class Words(Step):
    """The same registers as i32 words."""


@dataclass(frozen=True)
class Elements(Step):
    """Words as registers of the moved type again."""


RENAMING = (
    GridReshape, GridSlice, GridTranspose, GridBroadcast, GridConcat, GridTake, Words,
    Elements,
)  # fmt: skip


# Instructions: one per register.


@dataclass(frozen=True)
class SublaneShuffle(Step):
    """Sublane s of the result is sublane `pattern[s]` of the operands after one another."""

    pattern: Shape


@dataclass(frozen=True)
class RotateLanes(Step):
    """Lane l moves to lane l + amount."""

    amount: int


@dataclass(frozen=True)
class Select(Step):
    """Where the mask is set the first operand, elsewhere the second."""

    mask: Mask


@dataclass(frozen=True)
class GatherLanes(Step):
    """Lane l of the result is lane `index` of the same sublane."""

    index: Field


@dataclass(frozen=True)
class GatherSublanes(Step):
    """Sublane s of the result is sublane `index` of the same lane."""

    index: Field


@dataclass(frozen=True)
class ShiftLeft(Step):
    """Moves every element of a word up by `amount` elements; zeros follow."""

    amount: int


@dataclass(frozen=True)
class ShiftRight(Step):
    """Moves every element of a word down by `amount` elements; zeros follow."""

    amount: int


@dataclass(frozen=True)
class KeepElements(Step):
    """Ands every word with `mask`, which keeps or clears whole elements of `bits` bits."""

    mask: Field
    bits: int


@dataclass(frozen=True)
class Or(Step):
    """The bitwise or of two values, word by word."""


@dataclass(frozen=True)
class Interleave(Step):
    """Groups of `width` elements of two words by turns: of both the even ones, or the `odd` ones.

    If `odd` is o, groups 2i and 2i + 1 of the result are group 2i + o of the first and of the
    second operand.
    """

    width: int
    odd: bool
    way: Way
    halves: bool
    """Whether a group is half a word, so that a shift leaves nothing to clear."""

    @property
    def each(self) -> int:
        """How many instructions it takes for a register."""
        if self.way == "pack":
            return 1
        return 3 if self.halves or self.way == "differences" else 4


@dataclass(frozen=True)
class Unpack(Step):
    """Part `index` of packed registers, one element per word."""

    index: int
    format: Format


@dataclass(frozen=True)
class Pack(Step):
    """Inverse of `Unpack`: operand i is part i."""

    format: Format
    elements: int


@dataclass(frozen=True)
class TransposeBlocks(Step):
    """Transposes the matrix of native tiles of the last two grid dimensions, 128x128 blocks."""

    used: float = math.inf
    """Registers of a block that go in and hold something, and that come out and are wanted, on
    average."""


_STEP_BYTES, _BOX_BYTES, _OVERLAY_BYTES = 600, 200, 500
"""About what a step takes with its value, and parts of masks and index registers."""


@dataclass(frozen=True)
class Plan:
    """`values[i]` describes value i; the sources come first, then one value per step."""

    sources: int
    values: tuple[Value, ...]
    steps: tuple[Step, ...]
    result: int
    bits: int
    cost: float = 0.0
    how: str = ""
    checked: bool = True
    """Whether it has moved the numbers of elements correctly; if not, the parts have that it is put
    together of."""

    def count(self) -> dict[str, int]:
        """Register instructions after unrolling, by kind; renaming costs nothing."""
        counts: dict[str, int] = {}
        for number, step in enumerate(self.steps):
            if not isinstance(step, RENAMING):
                name = type(step).__name__
                counts[name] = counts.get(name, 0) + instructions(
                    step, self.values[self.sources + number]
                )
        return counts

    @property
    def instructions(self) -> int:
        """Register instructions after unrolling."""
        return sum(self.count().values())

    @property
    def grid_instructions(self) -> int:
        """Instructions on grids, those that only rename registers left out."""
        return sum(not isinstance(step, RENAMING) for step in self.steps)

    def bytes_held(self) -> int:
        """About what it takes (`kept.py`): to look at each number would take longer."""
        held = 0
        for step in self.steps:
            held += _STEP_BYTES
            field = None
            match step:
                case GridTake():
                    held += len(step.table)
                case Select():
                    held += _BOX_BYTES * len(step.mask.boxes)
                    field = step.mask.field
                case GatherLanes() | GatherSublanes():
                    field = step.index
                case KeepElements():
                    field = step.mask
                case _:
                    pass
            if field is not None:
                held += _OVERLAY_BYTES * len(field.overlays) + len(field.table)
        return held

    def __str__(self) -> str:
        lines = [f"%{i} : {v.grid}" for i, v in enumerate(self.values[: self.sources])]
        for number, step in enumerate(self.steps, self.sources):
            value = self.values[number]
            operands = ", ".join(f"%{o}" for o in step.operands)
            fields = {k: v for k, v in vars(step).items() if k != "operands"}
            if isinstance(step, GridTake):
                fields["table"] = step.numbers().tolist()
            text = ", ".join(f"{k}={v}" for k, v in fields.items())
            if len(text) > 100:
                text = text[:97] + "..."
            lines.append(f"%{number} = {type(step).__name__} {operands} {{{text}}} : {value.grid}")
        return "\n".join([*lines, f"-> %{self.result}"])


def instructions(step: Step, value: Value) -> int:
    """How many register (or group) instructions `step` unrolls to."""
    if isinstance(step, TransposeBlocks):
        # One group per 128x128 block: 16 / elements row blocks of the result.
        return value.registers * value.elements // 16
    if isinstance(step, Interleave):
        return value.registers * step.each
    return value.registers
