"""Which box of an array a block of a window covers: where a transfer starts and how much it moves.

The rules are those of spec/pallas_semantics.md section 2.4. A block that overruns its array is cut,
and the cut size is rounded up to whole tiles, because the memory of arrays is padded to whole
tiles. Blocks of 256 rows of an f32 array of 300 rows (tiles of 8 rows):

    block 0: rows 0 to 255, 256 rows       block 1: rows 256 to 299, 48 rows are copied
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
"""The largest i32."""


@dataclass(frozen=True)
class Box:
    """The part of a block that lies in its array, in elements of each dimension."""

    start: tuple[Scalar, ...]
    """Where it starts in the array."""
    inner: tuple[Scalar, ...]
    """Where it starts in the block; not 0 where an element window begins in front of its array."""
    sizes: tuple[Scalar, ...]

    def rows(self, build: ScalarBuilder, first: Scalar, count: int) -> Box:
        """The box of `count` rows (second minor dimension) from row `first` of this one."""
        start, inner = (
            (*starts[:-2], build.add(starts[-2], first), starts[-1])
            for starts in (self.start, self.inner)
        )
        return Box(start, inner, (*self.sizes[:-2], count, self.sizes[-1]))


@dataclass(frozen=True)
class Extent:
    """One dimension of a window.

    `blocked`, `element` and `sized` each turn a result of the index map into a column of a `Box`:
    start in the array, start in the block, and size, all in elements.
    """

    size: int
    """Elements of the array."""
    block: int
    """Elements of a block."""
    tile: int
    """Elements of a tile of the array: transfers move whole ones."""
    indices: Range
    """The values that the index map may give."""

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
        """Whether a block, counted in whole blocks, may lie partly outside the array."""
        whole, rest = divmod(self.size, self.block)
        return rest != 0 and (self.indices.high is None or self.indices.high >= whole)

    def overruns_padded(self, low: int) -> bool:
        """Whether a block of an element window may lie partly outside the array.

        Its index is an element of the array with `low` elements of padding in front.
        """
        return self._before(low) or self._behind(low)

    def _before(self, low: int) -> bool:
        return low > 0 and (self.indices.low is None or self.indices.low < low)

    def _behind(self, low: int) -> bool:
        last = self.indices.high
        return last is None or last - low + self.block > self.size

    def blocked(self, build: ScalarBuilder, index: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        """The column of the box of block number `index`, which starts at `index * block`."""
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
        """`index`, moved closer to 0 where `index * block` would overflow an i32.

        A product that wraps around could land inside the array; the index that replaces it still
        lies outside. An index whose range is not known, such as one read from a table in SMEM, is
        taken as small enough.
        """
        most = LARGEST // self.block
        low, high = self.indices.low, self.indices.high
        if high is not None and high > most:
            index = build.smallest(index, most)
        return build.largest(index, -most) if low is not None and low < -most else index

    def element(
        self, build: ScalarBuilder, index: Scalar, low: int
    ) -> tuple[Scalar, Scalar, Scalar]:
        """The column of the box of an element window that starts at element `index`.

        Elements are those of the array with `low` elements of padding in front; what lies in the
        padding is not copied.
        """
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
        """The column of the box of a bounded slice: `size` elements from element `start`.

        One that overruns the array ends with the array's last tile. As in JAX's pipelines, the size
        is promised (`tpu.assume_multiple`) to be whole tiles; nothing is promised of the start, so
        the index map itself has to show that it is aligned.
        """
        size = build.smallest(size, build.sub(self._round_up(self.size), start))
        exact = known(size)
        if exact is None and self.tile > 1:
            size = self._assume_aligned(build, size)
        elif exact is not None and exact % self.tile:
            # A promise about a constant that is no multiple is refused, so, as in JAX's pipelines,
            # the constant is hidden in a selection between two numbers.
            operands = build.value(0, i1), build.value(self._round_up(exact)), build.value(exact)
            size = self._assume_aligned(build, build.made(arith.SelectOp, operands, i32))
        return start, 0, size

    def _assume_aligned(self, build: ScalarBuilder, start: Scalar) -> Scalar:
        return build.emit(AssumeMultipleOp.of(build.value(start), self.tile)).results[0]

    def _round_up(self, size: int) -> int:
        return -(-size // self.tile) * self.tile


def transfer_tiles(array: MemRefType[Attribute]) -> tuple[int, ...]:
    """The elements in each dimension of `array` of which a transfer moves whole multiples.

    These are the array's inferred tiles; of rank 1, the 128 words of one row of a register.
    """
    shape, bits = array.get_shape(), bit_width(array)
    if len(shape) == 1:
        return (LANES * packing(bits),)
    tiling = infer_tiling(shape, bits)
    return tuple(tiling.tile_of(d) for d in range(len(shape)))
