"""Tiled layouts of memory: where the elements of an array lie, and which tiling the compiler picks.

`Tiling` is the arithmetic behind `#tpu.tiled<(8,128)(2,1),[4,1]>` (spec/tpu_dialect.md section
2.2); `infer_tiling` is the rule by which the TPU compiler tiles a memref that has no layout yet
(spec/vreg_lowering.md section 3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from pallasite.layouts.registers import LANES, SUBLANES, packing

Digits = tuple[tuple[int, int], ...]
"""(extent, stride in elements) of each digit, slowest first; the first extent means unbounded."""


@dataclass(frozen=True)
class Tiling:
    """Nested tiles, outermost first, and one stride per dimension.

    A stride counts whole first-level tiles (single elements when there are no tiles).
    """

    tiles: tuple[tuple[int, ...], ...]
    strides: tuple[int, ...]

    def __str__(self) -> str:
        tiles = "".join("(" + ",".join(map(str, t)) + ")" for t in self.tiles)
        return f"{tiles},[{','.join(map(str, self.strides))}]"

    @property
    def first(self) -> tuple[int, ...]:
        """The first tile level, () if there is none."""
        return self.tiles[0] if self.tiles else ()

    @property
    def nested(self) -> bool:
        """Whether smaller tiles cut larger ones into whole ones, so that no two elements meet."""
        extents = [0] * len(self.strides)
        for tile in self.tiles:
            outer = len(extents) - len(tile)
            if outer < 0 or any(n % size for n, size in zip(extents[outer:], tile, strict=True)):
                return False
            cut = [n // size for n, size in zip(extents[outer:], tile, strict=True)]
            extents = [*extents[:outer], *cut, *tile]
        return True

    def tile_of(self, dim: int) -> int:
        """Elements of dimension `dim` inside one first-level tile; 1 for dimensions outside it."""
        inner = dim - (len(self.strides) - len(self.first))
        return self.first[inner] if inner >= 0 else 1

    def padded(self, shape: Sequence[int]) -> tuple[int, ...]:
        """`shape` rounded up to whole first-level tiles."""
        return tuple(-(-n // self.tile_of(d)) * self.tile_of(d) for d, n in enumerate(shape))

    def elements(self, shape: Sequence[int]) -> int:
        """Elements that an array of `shape` spans in memory, padding included."""
        return _span(self, tuple(shape))

    def factors(self, dim: int) -> Digits:
        """Dimension `dim` as digits: (extent, stride in elements), slowest digit first.

        The slowest digit has extent 0, meaning unbounded; element index i of the dimension lies at
        the sum of its mixed-radix digits times their strides.
        """
        return _digits(self, dim)

    def offset(self, index: Sequence[int]) -> int:
        """Linear element offset of the element at `index`."""
        return sum(self.dim_offset(d, i) for d, i in enumerate(index))

    def dim_offset(self, dim: int, index: int) -> int:
        """What coordinate `index` of dimension `dim` adds to the linear element offset."""
        return offset_of(self.factors(dim), index)


def offset_of(digits: Digits, coordinate: int) -> int:
    """What `coordinate` adds to the element offset; negative ones continue the pattern down."""
    total = 0
    for extent, stride in reversed(digits[1:]):
        coordinate, digit = divmod(coordinate, extent)
        total += digit * stride
    return total + coordinate * digits[0][1]


@lru_cache(maxsize=4096)
def _span(tiling: Tiling, shape: tuple[int, ...]) -> int:
    if any(n == 0 for n in shape):
        return 0
    last = sum(
        (-(-n // tiling.tile_of(d)) - 1) * s
        for d, (n, s) in enumerate(zip(shape, tiling.strides, strict=True))
    )
    return (last + 1) * math.prod(tiling.first)


@lru_cache(maxsize=4096)
def _digits(tiling: Tiling, dim: int) -> Digits:
    # Each tile level splits the trailing entries of the expanded index into a quotient, which
    # keeps its place, and a remainder, which is appended; exactly as the layout's affine map does.
    # `significance` remembers, per dimension, which entries are its digits, slowest first.
    rank = len(tiling.strides)
    extents: list[int] = [0] * rank
    significance: list[list[int]] = [[d] for d in range(rank)]
    order = list(range(rank))
    for tile in tiling.tiles:
        remainders: list[int] = []
        for entry, size in zip(order[len(order) - len(tile) :], tile, strict=True):
            extents[entry] //= size
            extents.append(size)
            remainders.append(len(extents) - 1)
            owner = next(digits for digits in significance if entry in digits)
            owner.insert(owner.index(entry) + 1, len(extents) - 1)
        order += remainders
    outer = math.prod(tiling.first)
    strides: dict[int, int] = {d: tiling.strides[d] * outer for d in range(rank)}
    running = 1
    for entry in reversed(order[rank:]):
        strides[entry] = running
        running *= extents[entry]
    return tuple((extents[e], strides[e]) for e in significance[dim])


def contiguous_strides(shape: Sequence[int], tile: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides, in first-level tiles, of an array of `shape`."""
    strides: list[int] = []
    running = 1
    for back, size in enumerate(reversed(shape), start=1):
        strides.append(running)
        running *= -(-size // tile[-back]) if back <= len(tile) else size
    return tuple(reversed(strides))


def native_tiling(shape: Sequence[int], bits: int) -> Tiling:
    """The layout whose every first-level tile is one register: (8 x packing, 128) blocks.

    One-dimensional arrays are laid out as a row of whole registers.
    """
    p = packing(bits)
    if len(shape) <= 1:
        return packed_tiling(shape, (SUBLANES * LANES * p,), bits)
    return packed_tiling(shape, (SUBLANES * p, LANES), bits)


def infer_tiling(shape: Sequence[int], bits: int, *, large_halves: bool = False) -> Tiling:
    """The tiling that the TPU compiler gives a memref without a layout, of elements of `bits` bits
    (spec/vreg_lowering.md 3.2, 3.3).

    `large_halves`: 16-bit rows are tiled by whole registers where these divide them, as in buffers
    of some targets (`Target.large_buffer_halves`), never in arguments.
    """
    if not shape:
        return Tiling((), ())
    p = packing(bits)
    rows = -(-shape[-1] // LANES) if len(shape) == 1 else shape[-2]
    normal = max(SUBLANES, p)
    large = normal
    if len(shape) > 1 and bits == 2:
        large = 8 * 16
    elif len(shape) > 1 and bits == 16 and large_halves:
        large = 8 * 2
    if rows % large:
        large = normal
    if large <= rows:
        factor = large
    else:
        factor = p
        while factor < min(rows, normal):
            factor *= 2
    if len(shape) == 1:
        return packed_tiling(shape, (factor * LANES,), bits)
    return packed_tiling(shape, (factor, LANES), bits)


def packed_tiling(shape: Sequence[int], tile: tuple[int, ...], bits: int) -> Tiling:
    """Contiguous tiles of 1 or 2 dimensions, with the tiles of words in them."""
    return Tiling((tile, *word_tiles(len(tile), bits)), contiguous_strides(shape, tile))


def refolded(tiling: Tiling, old: Sequence[int], new: Sequence[int]) -> Tiling | None:
    """The tiling of an array of words, of shape `old` and contiguous tiles, that is seen as `new`;
    None if the elements of a tile would not be a box of it.

    The rows of a tile are spread over as many of the new dimensions as hold them: 32x256 in tiles
    of (8, 128) is 8x4x256 in tiles of (2, 4, 128). Rows that end within a tile stay one dimension.
    Columns may become several dimensions, which count tiles: 32x2x128 in tiles of (8, 1, 128).
    """
    if len(tiling.tiles) != 1 or len(tiling.first) < 2:
        return None
    rows = len(old) - 1
    while rows and tiling.tile_of(rows - 1) == 1:
        rows -= 1
    if not _is_box(old[:rows], [tiling.tile_of(dim) for dim in range(rows)]):
        return None
    left, lanes, columns = math.prod(tiling.first[:-1]), tiling.first[-1], math.prod(old[rows:])
    if _padded_rows(tiling, old) is not None:
        return _refolded_padded(tiling, old, new, rows)
    kept = _columns(new, columns, lanes)
    if kept is None:
        return None
    tile = [*[1] * (len(new) - kept - 1), lanes]
    if left == 1:
        return _tiled([1, lanes], new)
    for size in reversed(new[:kept]):
        part = math.gcd(size, left)
        if part < min(size, left):
            return None
        tile.insert(0, part)
        left //= part
        if left == 1:
            return _tiled(tile, new)
    return None


def _refolded_padded(
    tiling: Tiling, old: Sequence[int], new: Sequence[int], rows: int
) -> Tiling | None:
    """The same where dimension `rows - 1` ends within a tile, and so stays what it is."""
    lanes, outer = tiling.first[-1], math.prod(old[: rows - 1])
    place = next(
        (d for d, n in enumerate(new) if n == old[rows - 1] and math.prod(new[:d]) == outer), None
    )
    if place is None:
        return None
    columns = new[place + 1 :]
    if math.prod(columns) != math.prod(old[rows:]):
        return None
    # So the TPU compiler finds the dimensions that belong to each other.
    found = columns[-1] % lanes == 0 and (rows > 1 or place == 0)
    if len(columns) > 1 and not found:
        return None
    return _tiled([tiling.tile_of(rows - 1), *[1] * (len(columns) - 1), lanes], new)


def _columns(shape: Sequence[int], columns: int, lanes: int) -> int | None:
    """The first of the last dimensions of `shape` that hold `columns` in tiles of `lanes`."""
    for place in reversed(range(len(shape))):
        if math.prod(shape[place:]) == columns:
            whole = place == len(shape) - 1 or shape[-1] % lanes == 0
            return place if whole else None
    return None


def rows_follow(tiling: Tiling, shape: Sequence[int]) -> bool:
    """Whether the rows of a tile are rows of an array of `shape` that follow each other."""
    return _is_box(shape[:-1], [tiling.tile_of(dim) for dim in range(len(shape) - 1)])


def _is_box(shape: Sequence[int], tile: Sequence[int]) -> bool:
    """Whether all but the first of the dimensions that a tile has more than one row of are whole in
    it. The last dimension may be padded."""
    cut = next((dim for dim, rows in enumerate(tile) if rows > 1), len(tile))
    return all(n <= rows for n, rows in zip(shape[cut + 1 :], tile[cut + 1 :], strict=True))


def _tiled(tile: Sequence[int], shape: Sequence[int]) -> Tiling:
    return Tiling((tuple(tile),), contiguous_strides(shape, tile))


def _padded_rows(tiling: Tiling, shape: Sequence[int]) -> int | None:
    """The size of the dimension that ends within a tile; None if there is none."""
    sizes = zip(shape[:-1], tiling.padded(shape)[:-1], strict=True)
    return next((size for size, padded in sizes if size != padded), None)


def word_tiles(rank: int, bits: int) -> tuple[tuple[int, ...], ...]:
    """The tiles inside of a first one of `rank` dimensions, in memory that registers are loaded
    from: a word holds elements of rows below each other (spec/tpu_dialect.md section 2.2)."""
    p = packing(bits)
    if p == 1:
        return ()
    return ((p, 1),) if rank == 2 else ((LANES,), (p, 1))


def squeezed(tiling: Tiling, shape: tuple[int, ...], target: tuple[int, ...]) -> Tiling | None:
    """`tiling` without the unit dimensions that `target` lacks, matched from the minor end."""
    kept: list[int] = []
    wanted = list(target)
    for dim in reversed(range(len(shape))):
        if wanted and wanted[-1] == shape[dim]:
            wanted.pop()
            kept.insert(0, dim)
    first_tiled = len(shape) - len(tiling.first)
    dropped = [d for d in range(first_tiled, len(shape)) if d not in kept]
    if any(tiling.tile_of(d) != 1 for d in dropped) or (dropped and len(tiling.tiles) > 1):
        return None
    tile = tuple(tiling.tile_of(d) for d in kept if d >= first_tiled)
    # The dimension that moves up to a tiled one's place is tiled by one.
    tile = (1,) * (min(len(tiling.first), len(kept)) - len(tile)) + tile
    tiles = (tile, *tiling.tiles[1:]) if tile else ()
    return Tiling(tiles, tuple(tiling.strides[d] for d in kept))
