"""Which box of an array a window covers.

Address and size of a transfer follow spec/pallas_semantics.md section 2.4. A block that overruns
its array is cut to whole tiles of the array, whose memory is padded to whole tiles.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import MemRefType, i1, i32
from xdsl.ir import Attribute

from pallasite.dialects import arith
from pallasite.dialects.tpu import AssumeMultipleOp
from pallasite.dialects.types import bit_width
from pallasite.layouts.registers import LANES, packing
from pallasite.layouts.tiling import infer_tiling
from pallasite.lowering.windows_to_dma.scalars import Scalar, ScalarBuilder, known
from pallasite.passes.ranges import Range

LARGEST = 2**31 - 1
"""The largest number that a scalar holds."""


@dataclass(frozen=True)
class Box:
    """The part of a block that exists: its start in the array and in the block, and its size."""

    start: tuple[Scalar, ...]
    inner: tuple[Scalar, ...]
    sizes: tuple[Scalar, ...]

    def rows(self, build: ScalarBuilder, first: Scalar, count: int) -> Box:
        """`count` of the rows, from row `first` of the box."""
        start, inner = (
            (*starts[:-2], build.add(starts[-2], first), starts[-1])
            for starts in (self.start, self.inner)
        )
        return Box(start, inner, (*self.sizes[:-2], count, self.sizes[-1]))


@dataclass(frozen=True)
class Extent:
    """One dimension of a window: array size, block size, tile, and what the index may be."""

    size: int
    block: int
    tile: int
    indices: Range

    @property
    def blocks(self) -> int:
        """How many blocks it takes to cover the array."""
        return -(-self.size // self.block)

    @property
    def surely_exists(self) -> bool:
        """Whether the number of a block is in `0 .. blocks - 1` at every step."""
        low, high = self.indices.low, self.indices.high
        return low is not None and low >= 0 and high is not None and high < self.blocks

    @property
    def overruns(self) -> bool:
        """Whether a numbered block may lie partly outside the array."""
        whole, rest = divmod(self.size, self.block)
        return rest != 0 and (self.indices.high is None or self.indices.high >= whole)

    def overruns_padded(self, low: int) -> bool:
        """The same for a block that starts at any element of the array padded by `low`."""
        return self._before(low) or self._behind(low)

    def _before(self, low: int) -> bool:
        return low > 0 and (self.indices.low is None or self.indices.low < low)

    def _behind(self, low: int) -> bool:
        last = self.indices.high
        return last is None or last - low + self.block > self.size

    def blocked(self, build: ScalarBuilder, index: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        """Start in the array, start in the block and size of block number `index`."""
        start = build.mul(self._bounded(build, index), self.block)
        if known(start) is None and self.block % self.tile and self.block >= self.size:
            # The block spans the dimension, so its number is 0 wherever it is legal.
            start = self._assume_aligned(build, start)
        if not self.overruns:
            return start, 0, self.block
        whole, rest = divmod(self.size, self.block)
        cut = min(self.block, self._round_up(rest))
        if whole == 0:
            return start, 0, cut
        return start, 0, build.select(build.equal(index, whole), cut, self.block)

    def _bounded(self, build: ScalarBuilder, index: Scalar) -> Scalar:
        """`index`, or another one outside the array whose first element is a number of 32 bits:
        what wraps around might be inside. Numbers that are read from a table are taken as small."""
        most = LARGEST // self.block
        low, high = self.indices.low, self.indices.high
        if high is not None and high > most:
            index = build.smallest(index, most)
        return build.largest(index, -most) if low is not None and low < -most else index

    def element(
        self, build: ScalarBuilder, index: Scalar, low: int
    ) -> tuple[Scalar, Scalar, Scalar]:
        """The same for a window that starts at element `index` of the array padded by `low`."""
        start = build.sub(index, low) if low else index
        inner: Scalar = 0
        if self._before(low):
            inner = build.largest(build.sub(0, start), 0)
            start = build.largest(start, 0)
        if not self._behind(low):
            return start, inner, build.sub(self.block, inner)
        # The tail is rounded up to whole tiles; starts are aligned, so rounding the size is enough.
        left = build.sub(self._round_up(self.size), start)
        return start, inner, build.smallest(build.sub(self.block, inner), left)

    def sized(
        self, build: ScalarBuilder, start: Scalar, size: Scalar
    ) -> tuple[Scalar, Scalar, Scalar]:
        """The same for a slice of `size` elements from `start`, of whole tiles.

        One that overruns the array ends with the array's last tile. As JAX does, its size is
        promised, and of where it begins nothing but what the index map says.
        """
        size = build.smallest(size, build.sub(self._round_up(self.size), start))
        exact = known(size)
        if exact is None and self.tile > 1:
            size = self._assume_aligned(build, size)
        elif exact is not None and exact % self.tile:
            # Nobody may promise that of a constant: as in JAX's pipelines, it is one of two.
            operands = build.value(0, i1), build.value(self._round_up(exact)), build.value(exact)
            size = self._assume_aligned(build, build.made(arith.SelectOp, operands, i32))
        return start, 0, size

    def _assume_aligned(self, build: ScalarBuilder, start: Scalar) -> Scalar:
        return build.emit(AssumeMultipleOp.of(build.value(start), self.tile)).results[0]

    def _round_up(self, size: int) -> int:
        return -(-size // self.tile) * self.tile


def transfer_tiles(array: MemRefType[Attribute]) -> tuple[int, ...]:
    """The granule of a transfer in each dimension of `array`."""
    shape, bits = array.get_shape(), bit_width(array)
    if len(shape) == 1:
        return (LANES * packing(bits),)
    tiling = infer_tiling(shape, bits)
    return tuple(tiling.tile_of(d) for d in range(len(shape)))
