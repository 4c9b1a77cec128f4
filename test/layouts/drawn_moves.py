"""Random movements between any layouts, always the same ones: for bounds that are not of time."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import prod

from pallasite.layouts.move import Laid, Move, Shape
from pallasite.layouts.strategies.stages import Stages
from pallasite.layouts.vector_layout import VectorLayout

_SIDES = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 64, 96, 100, 128, 130, 200, 257, 384, 500, 640, 1040)
_ELEMENTS, _REGISTERS = 1 << 17, 400
"""The most that movements have: plans of more repeat these."""


def shape(rng: random.Random, least: int = 1) -> Shape:
    while True:
        drawn = tuple(rng.choice(_SIDES) for _ in range(rng.randint(least, 4)))
        if prod(drawn) <= _ELEMENTS:
            return drawn


def layout(rng: random.Random, shape: Shape, bits: int) -> VectorLayout:
    """Native tiles or those of fewer rows, begun anywhere, sometimes along other dimensions."""
    rank = len(shape)
    sublane, lane = (rank - 2 if rank > 1 else None), rank - 1
    if rank > 1 and rng.random() < 0.15:
        sublane, lane = rng.sample(range(rank), 2)
    native = 256 // bits
    tile = native >> rng.choice((0, 0, 0, rng.randrange(native.bit_length())))
    row: int | None = rng.choice((0, 0, rng.randrange(tile)))
    column: int | None = rng.choice((0, 0, rng.randrange(native // tile * 128)))
    if sublane is None or shape[sublane] == 1:
        row = rng.choice((row, None))
    if shape[lane] == 1:
        column = rng.choice((column, None))
    return VectorLayout(bits, sublane, lane, row, column, tile)


def _factored(rng: random.Random, total: int) -> Shape:
    drawn: list[int] = []
    for _ in range(rng.randrange(3)):
        drawn.append(rng.choice([d for d in range(1, min(total, 2000) + 1) if total % d == 0]))
        total //= drawn[-1]
    return (*drawn, total)


def _slice(rng: random.Random, source: Laid) -> Move:
    _, old = source
    offsets = [rng.randrange(n) for n in old]
    strides = [rng.choice((1, 1, 1, 2)) for _ in old]
    counts = zip(old, offsets, strides, strict=True)
    sizes = tuple(rng.randint(1, -(-(n - o) // s)) for n, o, s in counts)
    return Move.slice(source, layout(rng, sizes, source[0].bits), offsets, sizes, strides)


def _concat(rng: random.Random, source: Laid) -> Move:
    (first, old), dim = source, rng.randrange(len(source[1]))
    others = [(*old[:dim], rng.choice(_SIDES), *old[dim + 1 :]) for _ in range(rng.randint(1, 2))]
    sources = [source, *((layout(rng, other, first.bits), other) for other in others)]
    whole = (*old[:dim], sum(s[dim] for _, s in sources), *old[dim + 1 :])
    return Move.concat(sources, layout(rng, whole, first.bits), dim)


def _reshape(rng: random.Random, source: Laid) -> Move:
    new = _factored(rng, prod(source[1]))
    return Move.reshape(source, layout(rng, new, source[0].bits), new)


def _transpose(rng: random.Random, source: Laid) -> Move:
    order = rng.sample(range(len(source[1])), len(source[1]))
    new = tuple(source[1][d] for d in order)
    return Move.transpose(source, layout(rng, new, source[0].bits), order)


def _broadcast(rng: random.Random, source: Laid) -> Move:
    small = tuple(rng.choice((1, n)) for n in source[1])
    bits = source[0].bits
    return Move.broadcast((layout(rng, small, bits), small), source[0], source[1])


def _repeat(rng: random.Random, source: Laid) -> Move:
    times = [rng.choice((1, 1, 2, 3)) for _ in source[1]]
    new = tuple(n * t for n, t in zip(source[1], times, strict=True))
    return Move.repeat(source, layout(rng, new, source[0].bits), times)


def _roll(rng: random.Random, source: Laid) -> Move:
    dim = rng.randrange(len(source[1]))
    target = layout(rng, source[1], source[0].bits)
    return Move.roll(source, target, dim, rng.randrange(source[1][dim]))


def _relayout(rng: random.Random, source: Laid) -> Move:
    return Move.relayout(source[0], source[1], layout(rng, source[1], source[0].bits))


def _turned_reshape(rng: random.Random, source: Laid) -> Move:
    first = _transpose(rng, source)
    then = _reshape(rng, first.destination)
    return Move(first.sources, then.destination, (*first.steps, *then.steps))


FAMILIES: dict[str, Callable[[random.Random, Laid], Move]] = {
    "slice": _slice, "concat": _concat, "reshape": _reshape, "transpose": _transpose,
    "broadcast": _broadcast, "repeat": _repeat, "roll": _roll, "relayout": _relayout,
    "transpose and reshape": _turned_reshape,
}  # fmt: skip


def registers(move: Move) -> int:
    """What is read and written."""
    return sum(la.register_count(extents) for la, extents in (*move.sources, move.destination))


def words(move: Move) -> int:
    """Registers that are read and written in stages, one element in each word."""
    stages = Stages.of(move)
    each = [m for m in (*stages.before, *stages.between, stages.after) if m is not None]
    return 32 // move.bits * (sum(registers(m) for m in each) or registers(move))


def drawn(family: str, bits: int, number: int) -> Move:
    """One movement: always the same for the same arguments."""
    rng = random.Random(f"{family} {bits} {number}")
    while True:
        old = shape(rng)
        move = FAMILIES[family](rng, (layout(rng, old, bits), old))
        if 8 <= registers(move) <= _REGISTERS:
            return move
