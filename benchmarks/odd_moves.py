"""Movements of odd shapes, whose plans few regularities shorten: what planning costs at worst."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import prod

from pallasite.layouts.move import Laid, Move, Reshape
from pallasite.layouts.vector_layout import VectorLayout

BITS = {"f32": 32, "bf16": 16, "i8": 8, "i4": 4}
Shape = tuple[int, ...]
Make = Callable[[random.Random, int], Move]


def _side(rng: random.Random, most: int) -> int:
    """Small sides are as likely as large ones."""
    return max(1, round(most ** rng.random()))


def _shape(rng: random.Random, rank: int, most: int = 3000, elements: int = 1 << 22) -> Shape:
    while True:
        shape = tuple(_side(rng, most) for _ in range(rank))
        if 1 << 14 <= prod(shape) <= elements:
            return shape


def _laid(shape: Shape, bits: int) -> Laid:
    return VectorLayout.native(len(shape), bits), shape


def _slice(rng: random.Random, bits: int) -> Move:
    shape = _shape(rng, rng.choice((2, 3)))
    offsets = [rng.randrange(n) if n < 8 else rng.randrange(n // 2) for n in shape]
    sizes = [rng.randint(max(1, (n - o) // 2), n - o) for n, o in zip(shape, offsets, strict=True)]
    return Move.slice(_laid(shape, bits), VectorLayout.native(len(shape), bits), offsets, sizes)


def _concat(rng: random.Random, bits: int) -> Move:
    shape = _shape(rng, rng.choice((2, 3)))
    dim = rng.randrange(len(shape))
    other = (*shape[:dim], _side(rng, 2000), *shape[dim + 1 :])
    sources = [_laid(shape, bits), _laid(other, bits)]
    return Move.concat(sources, VectorLayout.native(len(shape), bits), dim)


def _factored(rng: random.Random, total: int, rank: int) -> Shape:
    shape: list[int] = []
    for _ in range(rank - 1):
        shape.append(rng.choice([d for d in range(1, min(total, 4096) + 1) if total % d == 0]))
        total //= shape[-1]
    return (*shape, total)


def _reshape(rng: random.Random, bits: int) -> Move:
    while True:
        shape = _shape(rng, rng.choice((2, 3)))
        result = _factored(rng, prod(shape), rng.choice((2, 3)))
        if result != shape and max(result) <= 1 << 16:
            return Move.reshape(_laid(shape, bits), VectorLayout.native(len(result), bits), result)


def _transpose(rng: random.Random, bits: int) -> Move:
    shape = _shape(rng, rng.choice((2, 3, 3)))
    order = list(range(len(shape)))
    while order == sorted(order):
        rng.shuffle(order)
    return Move.transpose(_laid(shape, bits), VectorLayout.native(len(shape), bits), order)


def _repeat(rng: random.Random, bits: int) -> Move:
    shape = _shape(rng, rng.choice((2, 3)), 1000, 1 << 19)
    times = [1] * len(shape)
    times[rng.randrange(len(shape))] = rng.randint(2, 5)
    return Move.repeat(_laid(shape, bits), VectorLayout.native(len(shape), bits), times)


def _roll(rng: random.Random, bits: int) -> Move:
    shape = _shape(rng, rng.choice((2, 3)))
    dim = rng.randrange(len(shape))
    source = _laid(shape, bits)
    return Move.roll(source, source[0], dim, rng.randint(1, max(1, shape[dim] - 1)))


def _retiling(rng: random.Random, bits: int) -> Move:
    shape = _shape(rng, rng.choice((2, 3)))
    native = VectorLayout.native(len(shape), bits)

    def layout() -> VectorLayout:
        tile = native.tile_rows >> rng.choice((0, 1, 2, 3))
        row, column = rng.randrange(tile), rng.randrange(128)
        return VectorLayout(bits, len(shape) - 2, len(shape) - 1, row, column, tile)

    return Move.relayout(layout(), shape, layout())


def _tiled(rng: random.Random, laid: Laid) -> Laid:
    """The same value, half of the time in tiles of fewer rows, begun anywhere."""
    layout, shape = laid
    tile = layout.native_rows >> rng.choice((0, 0, 1, 2, 3))
    row = rng.choice((0, rng.randrange(tile)))
    column = rng.choice((0, rng.randrange(layout.native_rows // tile * 128)))
    sublane = None if len(shape) < 2 else len(shape) - 2
    return VectorLayout(layout.bits, sublane, len(shape) - 1, row, column, tile), shape


def _any_tiles(make: Make) -> Make:
    """Movements as `make` draws them, between tiles of any kind."""

    def made(rng: random.Random, bits: int) -> Move:
        move = make(rng, bits)
        sources = tuple(_tiled(rng, laid) for laid in move.sources)
        return replace(move, sources=sources, destination=_tiled(rng, move.destination))

    return made


def _turned_reshape(rng: random.Random, bits: int) -> Move:
    first = _transpose(rng, bits)
    shape = first.destination[1]
    result = _factored(rng, prod(shape), rng.choice((2, 3)))
    native = VectorLayout.native(len(result), bits)
    return Move(first.sources, (native, result), (*first.steps, Reshape(shape, result)))


def _replicated(rng: random.Random, bits: int) -> Move:
    """The same, of fewer elements, to one row that is in all sublanes."""
    shape = _shape(rng, 3, 300, 1 << 16)
    native = VectorLayout.native(3, bits)
    order = rng.sample(range(3), 3)
    first = Move.transpose((native, shape), native, order)
    result = (prod(shape),)
    one = VectorLayout(bits, None, 0, None, 0)
    return Move(first.sources, (one, result), (*first.steps, Reshape(first.destination[1], result)))


_FAMILIES: dict[str, Make] = {
    "slice": _slice, "concat": _concat, "reshape": _reshape, "transpose": _transpose,
    "repeat": _repeat, "roll": _roll,
}  # fmt: skip

FAMILIES: dict[str, Make] = {
    **_FAMILIES, "retiling": _retiling,
    **{f"{name}, any tiles": _any_tiles(make) for name, make in _FAMILIES.items()},
    "transpose and reshape, any tiles": _any_tiles(_turned_reshape),
    "transpose and reshape, replicated": _replicated,
}  # fmt: skip


def odd_moves(each: int, seed: int = 0) -> Iterator[tuple[str, str, Move]]:
    """`each` movements of every family and element type: family, type, movement."""
    for family, make in FAMILIES.items():
        for name, bits in BITS.items():
            rng = random.Random(f"{seed} {family} {name}")
            for _ in range(each):
                yield family, name, make(rng, bits)


def sizes(move: Move) -> str:
    """The shapes of a movement, as text."""

    def text(shape: Sequence[int]) -> str:
        return "x".join(map(str, shape))

    sources = ", ".join(text(shape) for _, shape in move.sources)
    return f"{sources} to {text(move.destination[1])}"
