"""The rows of a value in terms of chunks: its elements numbered across rows, 128 per chunk."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pallasite.layouts.move import Laid
from pallasite.layouts.planner.fields import Field, Mask
from pallasite.layouts.planner.lines import Array
from pallasite.layouts.planner.program import Program
from pallasite.layouts.registers import LANES, SUBLANES

SUBLANE = np.arange(SUBLANES)


@dataclass(frozen=True)
class Rows:
    """The rows of a value; `first[g]` is the number of the first row in block g of eight sublanes.

    Each block is several registers wide.
    """

    length: int
    blocks: int
    first: Array
    valid: Array
    """[blocks, 8]: whether a sublane holds a row."""
    block: Array
    sublane: Array
    """Per row, where it is."""
    apart: int = 1
    """How many rows each sublane is further on: 0 where one row is in all of them."""

    @classmethod
    def of(cls, laid: Laid) -> Rows | None:
        """The rows of a laid-out value; None if they do not begin in lane 0, or if tiles are
        small."""
        layout, shape = laid
        rank = len(shape)
        lies = layout.lane_dim == rank - 1 and layout.sublane_dim in (None, rank - 2)
        if not lies or not layout.is_native or layout.column != 0 or layout.row not in (0, None):
            return None
        height, length = layout.extents(shape)
        if layout.row is None and height > 1:
            return None
        *lead, high, wide = layout.grid_shape(shape)
        within = np.minimum(height - SUBLANES * np.arange(high), SUBLANES)
        valid = np.tile(SUBLANE < within[:, None], (math.prod(lead), 1))
        first = np.arange(math.prod(lead))[:, None] * height + SUBLANES * np.arange(high)
        block, sublane = np.nonzero(valid)
        if layout.row is None:
            valid[:] = True
        apart = int(layout.row is not None)
        return cls(length, wide, first.reshape(-1), valid, block, sublane, apart)

    @property
    def number(self) -> Array:
        """[blocks, 8]: the number of the row in every sublane, counting on where a sublane holds
        none."""
        return self.first[:, None] + self.apart * SUBLANE

    @property
    def chunk(self) -> Array:
        """[blocks, 8]: the number of the first chunk of every row."""
        return self.number * self.length // LANES

    @property
    def last(self) -> Array:
        """[blocks, 8]: the number of the last chunk of every row."""
        return ((self.number + 1) * self.length - 1) // LANES

    def register(self, row: Array, chunk: Array) -> Array:
        """The register of chunks that holds chunk `chunk` of `row`, counted from its first one."""
        return self.block[row] * (self.blocks + 1) + chunk

    def sublane_of(self, row: Array) -> Array:
        """The sublane that holds each `row`, [..., 8]; its own position if all sublanes hold it."""
        return self.sublane[row] if self.apart else np.broadcast_to(SUBLANE, row.shape)

    @property
    def phase(self) -> Array:
        """[blocks]: the lane of a chunk in which every block begins."""
        return self.first * self.length % LANES

    @property
    def begin(self) -> Array:
        """[blocks, 8]: the lane of a chunk in which every row begins."""
        return self.number * self.length % LANES

    @property
    def aligned(self) -> bool:
        """Whether all rows begin in the first lane of a chunk."""
        return not self.begin[self.valid].any()

    @property
    def _unit(self) -> int:
        """A number of lanes such that every block begins at a multiple of it."""
        return int(np.gcd.reduce(self.phase, initial=LANES))

    def turned(self, direction: int, blocks: Array) -> Field:
        """Index registers of a gather that rotates rows into the lanes of chunks, or back.

        For registers of the given blocks.
        """
        length = self.apart * self.length
        step = (direction * length + LANES // 2) % LANES - LANES // 2
        unit = self._unit
        affine = (0, direction * unit, step, 1)
        return Field.by_table(affine, LANES, self.phase[blocks] // unit)

    def lanes_from(self, blocks: Array, first: int = 0) -> Mask:
        """A mask of the lanes from `first` lanes after the beginning of every row, for `blocks`."""
        unit = self._unit
        affine = (0, unit, self.apart * self.length % LANES, 0)
        return Mask((), Field.by_table(affine, LANES, self.phase[blocks] // unit), 0, first)


class Pieces:
    """A flat value that is assembled from pieces, each with the numbers of its registers."""

    def __init__(self, program: Program, count: int) -> None:
        self._program = program
        self._place = np.full(count, -1)
        self._pieces: list[int] = []
        self._at = 0

    def add(self, value: int, numbers: Array) -> None:
        """Adds the registers of the flat `value`, whose numbers in the result are `numbers`."""
        numbers = numbers.reshape(-1)
        self._place[numbers] = self._at + np.arange(numbers.size)
        self._at += numbers.size
        self._pieces.append(value)

    def value(self) -> int:
        """The assembled flat value; registers that no piece has are undefined."""
        return self._program.take(self._program.concat(self._pieces), self._place)
