"""Where the elements of a logical vector lie in registers.

A register holds 8 sublanes x 128 lanes of 32-bit words, so `8 x packing` *rows* of 128 lanes: row
`r` of a packed type is subelement `r % packing` of sublane `r // packing` (spec/vreg_lowering.md
sections 1.1, 1.2). A layout says which logical dimension runs along the rows, which along the
lanes, where the first element sits, and how large the tiles are; all other dimensions number
registers. Everything here is divmod on whole arrays of indices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pallasite.diagnostics import Unsupported, UsageError
from pallasite.layouts.registers import LANES, SUBLANES, packing, register_shape

Indices = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True)
class VectorLayout:
    """Places a logical vector of any rank in a grid of registers.

    `sublane_dim` and `lane_dim` name logical dimensions (None: no dimension there, extent 1).
    `row` and `column` are the place of element 0 of those dimensions in the first register; None
    means *replicated*: the value is the same all along that register axis, one register block
    serves the whole dimension, whatever its extent. Tiles are `tile_rows` x 128; 0 asks for the
    native tiling, whose one tile fills a register. With smaller tiles a register holds several
    tiles that follow each other along the lane dimension.

    A mask (i1) carries the bits of the data that it governs.
    """

    bits: int
    sublane_dim: int | None
    lane_dim: int | None
    row: int | None = 0
    column: int | None = 0
    tile_rows: int = 0

    def __post_init__(self) -> None:
        if self.bits not in (1, 2, 4, 8, 16, 32):
            message = f"registers hold elements of 1, 2, 4, 8, 16 or 32 bits, got {self.bits}"
            raise Unsupported("layout-bits", message)
        if self.tile_rows == 0:
            object.__setattr__(self, "tile_rows", self.native_rows)
        if self.native_rows % self.tile_rows:
            raise UsageError(
                "layout-tile",
                f"tile rows must divide {self.native_rows}, got {self.tile_rows}",
            )
        if self.sublane_dim is not None and self.sublane_dim == self.lane_dim:
            raise UsageError(
                "layout-dims", f"dimension {self.lane_dim} cannot lie on sublanes and on lanes"
            )
        for name, offset, limit in (
            ("row", self.row, self.tile_rows),
            ("column", self.column, self.block[1]),
        ):
            if offset is not None and not 0 <= offset < limit:
                raise UsageError(
                    "layout-offset", f"{name} offset must be in [0, {limit}), got {offset}"
                )

    @classmethod
    def native(
        cls, rank: int, bits: int, row: int | None = 0, column: int | None = 0
    ) -> VectorLayout:
        """The last dimension on lanes, the one before it on sublanes, native tiles."""
        return cls(
            bits, rank - 2 if rank > 1 else None, rank - 1 if rank > 0 else None, row, column
        )

    @classmethod
    def replicated(cls, rank: int, bits: int) -> VectorLayout:
        """As `native`, but the same value in every sublane and lane: splats, broadcast scalars."""
        return cls.native(rank, bits, None, None)

    @property
    def packing(self) -> int:
        """Elements of one 32-bit word."""
        return packing(self.bits)

    @property
    def native_rows(self) -> int:
        """Rows of a register."""
        return SUBLANES * self.packing

    @property
    def block(self) -> tuple[int, int]:
        """Extent of the logical block that one register covers: rows, columns."""
        return (self.tile_rows, self.native_rows // self.tile_rows * LANES)

    @property
    def is_native(self) -> bool:
        """Whether a register is one tile: all of its rows in one column of 128 lanes."""
        return self.tile_rows == self.native_rows

    def with_offsets(self, row: int | None, column: int | None) -> VectorLayout:
        """The same layout with element 0 elsewhere."""
        return replace(self, row=row, column=column)

    def leading_dims(self, rank: int) -> tuple[int, ...]:
        """The logical dimensions that number registers, in order."""
        return tuple(d for d in range(rank) if d != self.sublane_dim and d != self.lane_dim)

    def extents(self, shape: Sequence[int]) -> tuple[int, int]:
        """How many logical elements lie along the rows and along the lanes."""
        return (
            1 if self.sublane_dim is None else shape[self.sublane_dim],
            1 if self.lane_dim is None else shape[self.lane_dim],
        )

    def grid_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Registers along each leading dimension, then row blocks, then column blocks."""
        rows, columns = self.extents(shape)
        blocks = (
            1 if self.row is None else -(-(self.row + rows) // self.block[0]),
            1 if self.column is None else -(-(self.column + columns) // self.block[1]),
        )
        return (*(shape[d] for d in self.leading_dims(len(shape))), *blocks)

    def register_count(self, shape: Sequence[int]) -> int:
        """Registers that hold a value of `shape`."""
        return math.prod(self.grid_shape(shape))

    def live_rows(self, shape: Sequence[int]) -> NDArray[Any]:
        """The rows, ascending, that hold data in some register."""
        rows = np.arange(self.native_rows)
        extent, _ = self.extents(shape)
        if self.row is None or self.row + extent > self.tile_rows:
            return rows
        place = rows % self.tile_rows - self.row
        return rows[(place >= 0) & (place < extent)]

    def register_shape(self) -> tuple[int, ...]:
        """The vector shape of one register."""
        return register_shape(self.bits)

    def strides(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Row-major strides of the grid, in registers."""
        grid = self.grid_shape(shape)
        return tuple(math.prod(grid[d + 1 :]) for d in range(len(grid)))

    def locate(
        self, shape: Sequence[int], index: Sequence[Indices]
    ) -> tuple[Indices, Indices, Indices]:
        """(flat register number, row in the register, lane) of logical elements.

        `index` has one array per logical dimension. Along a replicated axis the first row or lane
        is named, although all hold the element.
        """
        strides = self.strides(shape)
        register = np.zeros((), np.int64)
        for dim, stride in zip(self.leading_dims(len(shape)), strides, strict=False):
            register = register + index[dim] * stride
        row, lane = np.zeros((), np.int64), np.zeros((), np.int64)
        if self.row is not None:
            position = self.row + (0 if self.sublane_dim is None else index[self.sublane_dim])
            register = register + position // self.block[0] * strides[-2]
            row = row + position % self.block[0]
        if self.column is not None:
            position = self.column + (0 if self.lane_dim is None else index[self.lane_dim])
            register = register + position // self.block[1] * strides[-1]
            row = row + position % self.block[1] // LANES * self.tile_rows
            lane = lane + position % LANES
        return register, row, lane

    def elements(
        self, shape: Sequence[int], register: Indices, row: Indices, lane: Indices
    ) -> tuple[list[Indices], NDArray[np.bool_]]:
        """The inverse of `locate`: the logical index held at a position, and whether it is data.

        A replicated axis answers index 0. Indices of padding are out of the logical range.
        """
        # Not np.unravel_index: NumPy 2.4 returns wrong digits for arrays above its buffer size.
        grid: list[Indices] = []
        for stride in self.strides(shape):
            digit = register // stride  # `np.divmod` takes several times as long
            register = register - digit * stride
            grid.append(digit)
        return self.elements_on(shape, grid, row, lane)

    def elements_on(
        self, shape: Sequence[int], grid: Sequence[Indices], row: Indices, lane: Indices
    ) -> tuple[list[Indices], NDArray[np.bool_]]:
        """`elements` of registers that are given by their places along every dimension of the grid.

        Arrays that each vary along one axis only give an index that does so, too.
        """
        rows, columns = self.extents(shape)
        index: list[Indices] = [np.zeros((), grid[0].dtype)] * len(shape)
        for dim, number in zip(self.leading_dims(len(shape)), grid, strict=False):
            index[dim] = number
        valid: NDArray[np.bool_] = np.ones((), np.bool_)
        if self.row is not None:
            number = grid[-2] * self.block[0] + row % self.tile_rows - self.row
            valid = valid & (number >= 0) & (number < rows)
            if self.sublane_dim is not None:
                index[self.sublane_dim] = number
        if self.column is not None:
            number = grid[-1] * self.block[1] + row // self.tile_rows * LANES + lane - self.column
            valid = valid & (number >= 0) & (number < columns)
            if self.lane_dim is not None:
                index[self.lane_dim] = number
        return index, valid

    def __str__(self) -> str:
        def place(dim: int | None, offset: int | None) -> str:
            return f"d{'-' if dim is None else dim}@{'*' if offset is None else offset}"

        return (
            f"{self.bits},{{{place(self.sublane_dim, self.row)},"
            f"{place(self.lane_dim, self.column)}}},({self.tile_rows},{LANES})"
        )
