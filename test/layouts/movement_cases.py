"""The movements that the design note "Form 4" measured, with their register instruction counts.

Each case is (name, move, ceiling): a plan for the newest targets unrolls to at most `ceiling`
register instructions.
"""

from __future__ import annotations

from pallasite.layouts.move import Move
from pallasite.layouts.vector_layout import VectorLayout

Shape = tuple[int, ...]
Case = tuple[str, Move, int]
BITS = {"f32": 32, "bf16": 16, "i8": 8}


def laid(
    shape: Shape, kind: str = "f32", row: int | None = 0, column: int | None = 0, tile: int = 0
):
    rank = len(shape)
    return VectorLayout(BITS[kind], rank - 2, rank - 1, row, column, tile), shape


def native(rank: int, kind: str = "f32") -> VectorLayout:
    return VectorLayout.native(rank, BITS[kind])


def text(shape: Shape) -> str:
    return "x".join(map(str, shape))


def slices(source: Shape, begin: Shape, end: Shape, ceiling: int, kind: str = "f32") -> Case:
    sizes = tuple(e - b for b, e in zip(begin, end, strict=True))
    ranges = ",".join(f"{b}:{e}" for b, e in zip(begin, end, strict=True))
    move = Move.slice(laid(source, kind), native(len(source), kind), begin, sizes)
    return f"slice {ranges} of {text(source)} {kind}", move, ceiling


def concat(source: Shape, dim: int, ceiling: int, kind: str = "f32") -> Case:
    # Both halves are one value, as in the note.
    move = Move.repeat(laid(source, kind), native(2, kind), (2, 1) if dim == 0 else (1, 2))
    return f"concat {text(source)} twice along {dim} {kind}", move, ceiling


def reshape(
    source: Shape, result: Shape, ceiling: int, kind: str = "f32", tiles: tuple[int, int] = (0, 0)
) -> Case:
    target = laid(result, kind, tile=tiles[1])[0]
    move = Move.reshape(laid(source, kind, tile=tiles[0]), target, result)
    return f"reshape {text(source)} to {text(result)} {kind}", move, ceiling


def transpose(source: Shape, permutation: Shape, ceiling: int, kind: str = "f32") -> Case:
    move = Move.transpose(laid(source, kind), native(len(source), kind), permutation)
    return f"transpose {text(source)} {list(permutation)} {kind}", move, ceiling


def broadcast(
    source: Shape, result: Shape, ceiling: int, kind: str = "f32", column: int | None = 0
) -> Case:
    move = Move.broadcast(laid(source, kind, column=column), native(len(result), kind), result)
    star = "" if column is not None else ", lanes *"
    return f"broadcast {text(source)} to {text(result)} {kind}{star}", move, ceiling


def roll(source: Shape, amount: int, dim: int, ceiling: int, kind: str = "f32") -> Case:
    move = Move.roll(laid(source, kind), native(len(source), kind), dim, amount)
    return f"roll {text(source)} by {amount} dim {dim} {kind}", move, ceiling


def relayout(
    shape: Shape, old: tuple[int, int, int], new: tuple[int, int, int], ceiling: int, kind="f32"
) -> Case:
    """Layouts as (tile rows, row, column)."""
    source, target = (laid(shape, kind, o[1], o[2], o[0]) for o in (old, new))
    name = f"relayout {text(shape)} {old} to {new} {kind}"
    return name, Move.relayout(source[0], shape, target[0]), ceiling


CASES: list[Case] = [
    slices((16, 128), (4, 0), (12, 128), 1),
    slices((64, 256), (8, 0), (24, 256), 0),
    slices((8, 256), (0, 64), (8, 192), 2),
    slices((256, 1024), (0, 64), (256, 576), 256),
    slices((24, 300), (5, 111), (14, 181), 8),
    slices((256, 1024), (5, 111), (205, 811), 600),
    slices((128, 128), (0, 0), (128, 1), 0),
    slices((16, 128), (3, 0), (11, 128), 4, "bf16"),
    slices((256, 256), (3, 0), (243, 256), 150, "bf16"),
    slices((256, 256), (5, 0), (133, 256), 40, "i8"),
    slices((64, 256), (4, 0), (20, 256), 2, "bf16"),
    slices((32, 256), (0, 100), (32, 228), 4, "bf16"),
    concat((5, 128), 0, 2),
    concat((100, 256), 0, 26),
    concat((8, 64), 1, 1),
    concat((64, 200), 1, 32),
    concat((8, 128), 0, 1, "bf16"),
    concat((13, 256), 0, 14, "bf16"),
    concat((9, 128), 0, 5, "i8"),
    reshape((16, 128), (2, 8, 128), 0),
    reshape((12, 128), (3, 4, 128), 1),
    reshape((24, 128), (3, 8, 128), 0),
    reshape((8, 256), (16, 128), 2),
    reshape((256, 1024), (1024, 256), 512),
    reshape((16, 64), (8, 128), 4),
    reshape((512, 64), (256, 128), 128),
    reshape((8, 10, 128), (8, 1280), 32),
    reshape((8, 1280), (8, 10, 128), 32),
    reshape((64, 8, 128), (64, 1024), 192),
    reshape((64, 256), (64, 2, 128), 64),
    reshape((64, 2, 128), (64, 256), 64),
    reshape((3, 5, 128), (15, 128), 2),
    reshape((16, 256), (32, 128), 6, "bf16"),
    reshape((64, 256), (64, 2, 128), 144, "bf16"),
    reshape((64, 2, 128), (64, 256), 128, "bf16"),
    reshape((32, 256), (64, 128), 18, "i8"),
    reshape((48, 128), (3, 16, 128), 0, "bf16"),
    reshape((24, 128), (3, 8, 128), 1, "bf16"),
    reshape((8, 128), (1, 1024), 0, tiles=(0, 1)),
    reshape((256, 256), (1, 65536), 64, tiles=(0, 1)),
    reshape((1, 65536), (256, 256), 64, tiles=(1, 0)),
    reshape((1, 128), (128, 1), 17),
    reshape((1, 1024), (1024, 1), 136),
    reshape((128, 1), (1, 128), 32),
    reshape((1024, 1), (1, 1024), 256),
    ("reshape 128x1, lanes *, to 128x1", Move.relayout(laid((128, 1), column=None)[0], (128, 1),
                                                       native(2)), 0),
    reshape((100, 130), (130, 100), 136),
    reshape((64, 96), (96, 64), 71),
    reshape((128, 72), (96, 96), 60),
    reshape((32, 3, 40), (32, 120), 100),
    reshape((8, 3, 128), (8, 384), 11),
    reshape((64, 384), (64, 3, 128), 88),
    reshape((6, 24, 128), (144, 128), 0),
    reshape((12, 4, 128), (48, 128), 6),
    reshape((48, 128), (12, 4, 128), 9, "bf16"),
    transpose((8, 8, 128), (1, 0, 2), 24),
    transpose((64, 8, 128), (1, 0, 2), 192),
    transpose((3, 5, 128), (1, 0, 2), 8),
    transpose((4, 16, 256), (1, 0, 2), 48),
    transpose((16, 16, 128), (1, 0, 2), 128, "bf16"),
    transpose((4, 3, 16, 128), (1, 0, 2, 3), 0),
    transpose((5, 12, 256), (1, 0, 2), 56),
    transpose((16, 24, 128), (1, 0, 2), 216, "i8"),
    transpose((8, 32, 4, 128), (0, 2, 1, 3), 384),
    broadcast((1, 128), (16, 128), 1),
    broadcast((1, 1024), (256, 1024), 8),
    broadcast((16, 1), (16, 256), 2),
    broadcast((256, 1), (256, 1024), 32),
    broadcast((256, 1), (256, 1024), 0, column=None),
    broadcast((1, 1), (16, 256), 2),
    broadcast((16, 1, 128), (16, 8, 128), 16),
    broadcast((4, 16, 1), (4, 16, 256), 8),
    broadcast((1, 128), (16, 128), 3, "bf16"),
    broadcast((64, 1), (64, 256), 4, "bf16"),
    roll((16, 256), 3, 0, 4),
    roll((256, 256), 3, 0, 64),
    roll((16, 256), 130, 1, 8),
    roll((10, 128), 3, 0, 2),
    roll((64, 200), 7, 1, 40),
    roll((8, 16, 128), 3, 0, 0),
    roll((64, 256), 3, 0, 40, "bf16"),
    relayout((11, 200), (8, 0, 0), (8, 3, 5), 15),
    relayout((256, 1024), (8, 0, 0), (8, 3, 5), 1138),
    relayout((16, 512), (8, 0, 0), (1, 0, 0), 24),
    relayout((16, 512), (1, 0, 0), (8, 0, 0), 24),
    relayout((16, 512), (2, 0, 0), (4, 0, 0), 8),
    relayout((16, 1024), (8, 0, 0), (4, 0, 0), 16),
    relayout((32, 512), (8, 0, 0), (16, 0, 0), 8, "bf16"),
    relayout((32, 512), (16, 0, 0), (8, 0, 0), 8, "bf16"),
    relayout((32, 2048), (16, 0, 0), (1, 0, 0), 256, "bf16"),
    relayout((16, 2048), (1, 0, 0), (16, 0, 0), 128, "bf16"),
    relayout((32, 512), (2, 0, 0), (16, 0, 0), 24, "bf16"),
    relayout((64, 512), (8, 0, 0), (32, 0, 0), 16, "i8"),
    relayout((64, 1024), (32, 0, 0), (8, 0, 0), 32, "i8"),
    transpose((128, 128), (1, 0), 1),
    transpose((16, 256), (1, 0), 2),
    transpose((256, 1024), (1, 0), 16),
    transpose((100, 200), (1, 0), 2),
    transpose((128, 256), (1, 0), 2, "bf16"),
    transpose((256, 512), (1, 0), 8, "bf16"),
    transpose((128, 256), (1, 0), 2, "i8"),
]  # fmt: skip
