"""Scripts without transfers that they need not make leave and see the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pallasite.interpreter.call_plan import ArrayType
from pallasite.interpreter.replay import forward
from pallasite.interpreter.replay.forward import composed, forwarded
from pallasite.interpreter.replay.lines import COPY, Box, Line, Whole
from pallasite.interpreter.replay.recorder import Room
from pallasite.interpreter.replay.script import Script

F32, U8 = np.dtype(np.float32), np.dtype(np.uint8)
SLOT, SLOTS = 512, 4
"""Bytes of a block, and blocks of each memory."""
SHAPES = ((128,), (16, 8), (8, 16), (4, 4, 8), (2, 8, 8), (4, 32))


class Random:
    """Random lines on an operand, two memories and a result."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.lines: list[Line] = []
        self.left = list(range(SLOTS))
        self.values = 0

    def box(self, memory: str, slot: int, shape: tuple[int, ...]) -> Box:
        """A block, its dimensions in any order in memory."""
        strides = [0] * len(shape)
        step = 4
        for axis in self.random.permutation(len(shape)):
            strides[axis] = step
            step *= shape[axis]
        return Box(memory, shape, F32, slot * SLOT, tuple(strides))

    def part(self, memory: str, slot: int) -> Box:
        """Some of a block: half of a dimension, or every other position."""
        box = self.box(memory, slot, self.shape())
        axis = int(self.random.integers(len(box.shape)))
        shape, strides = list(box.shape), list(box.strides)
        shape[axis] //= 2
        first = box.first
        match self.random.integers(3):
            case 0:
                first += strides[axis] * shape[axis]
            case 1:
                strides[axis] *= 2
            case _:
                pass
        return Box(memory, tuple(shape), F32, first, tuple(strides))

    def shape(self) -> tuple[int, ...]:
        return SHAPES[self.random.integers(len(SHAPES))]

    def any(self) -> tuple[str, int]:
        return f"m{self.random.integers(2)}", int(self.random.integers(SLOTS))

    def line(self) -> None:
        random = self.random
        shape = self.shape()
        match random.integers(8):
            case 0 | 1:
                read = self.box("i0", int(random.integers(SLOTS)), shape)
                self.lines.append(Line(COPY, read=read, write=self.box(*self.any(), shape)))
            case 2:
                pair = self.box(*self.any(), shape), self.box(*self.any(), shape)
                self.lines.append(Line(COPY, read=pair[0], write=pair[1]))
            case 3:
                pair = self.box("i0", 0, shape), self.box(*self.any(), shape)
                text = "{w}[:1] = {r}[:1]"
                self.lines.append(Line(text, read=pair[0], write=pair[1], whole=False))
            case 4 | 5:
                box = (
                    self.part(*self.any())
                    if random.random() < 0.5
                    else self.box(*self.any(), shape)
                )
                self.lines.append(Line("{} = {r}.copy()", (), (self.values,), read=box))
                self.lines.append(Line("seen.append({}.tobytes())", (self.values,)))
                self.values += 1
            case 6:
                box = (
                    self.part(*self.any())
                    if random.random() < 0.3
                    else self.box(*self.any(), shape)
                )
                self.lines.append(Line(f"{{w}}[...] = {random.integers(100)}", write=box))
            case _:
                # A block may be written back twice.
                new = self.left and random.random() < 0.8
                slot = self.left.pop() if new else int(random.integers(SLOTS))
                pair = self.box(*self.any(), shape), self.box("o0", slot, shape)
                self.lines.append(Line(COPY, read=pair[0], write=pair[1]))


class Told:
    """What a script is written of."""

    def __init__(self, lines: list[Line], seen: list[bytes]) -> None:
        self.lines = lines
        self.rooms = [Room(f"m{n}", SLOT * SLOTS, 0x3F800000 + n) for n in range(2)]
        self.bound: dict[str, Any] = {"seen": seen}
        self.kinds: list[Any] = []

    def bind(self, prefix: str, value: Any) -> str:
        name = f"{prefix}_{len(self.bound)}"
        self.bound[name] = value
        return name


def results(lines: list[Line], monkeypatch: pytest.MonkeyPatch, forward: bool) -> Any:
    seen: list[bytes] = []
    with monkeypatch.context() as patch:
        if not forward:
            patch.setattr("pallasite.interpreter.replay.script.forwarded", lambda lines: lines)
        script = Script.of(Told(lines, seen), 1, [ArrayType((SLOTS, SLOT), U8)])
    x = np.random.default_rng(0).standard_normal((SLOTS, SLOT // 4)).astype(np.float32)
    written = sorted(
        {line.write.first for line in lines if line.write and line.write.memory == "o0"}
    )
    (out,), _ = script.run([x], None)
    return [out[first // SLOT].tobytes() for first in written], seen


def test_random_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    fewer = 0
    for seed in range(400):
        random = Random(seed)
        for _ in range(int(random.random.integers(2, 16))):
            random.line()
        expected = results(random.lines, monkeypatch, False)
        assert results(random.lines, monkeypatch, True) == expected, seed
        fewer += len(forwarded(random.lines)) < len(random.lines)
    assert fewer > 100


def block(memory: str, strides: tuple[int, ...] = (32, 4), first: int = 0) -> Box:
    return Box(memory, (16, 8), F32, first, strides)


def test_a_block_that_is_only_loaded_is_not_fetched() -> None:
    fetch = Line(COPY, read=block("i0", (256, 4)), write=block("m0"))
    load = Line("{} = {r}[...]", (), (0,), read=block("m0"))
    assert forwarded([fetch, load]) == [load._replace(read=block("i0", (256, 4)))]
    for other in (
        Line("f({r})", read=Whole("m0")),
        Line("{w}[...] = 1", write=Box("m0", (4,), F32, 0, (4,))),
    ):
        assert forwarded([fetch, other, load]) == [fetch, other, load]


def test_a_result_is_stored_where_it_is_written_back() -> None:
    store = Line("f(out={w})", write=block("m0"))
    back = Line(COPY, read=block("m0"), write=block("o0", (256, 4), 1024))
    assert forwarded([store, back]) == [store._replace(write=block("o0", (256, 4), 1024))]
    load = Line("{} = {r}[...]", (), (0,), read=block("m0"))
    for lines in ([store, load, back], [store, back, load], [back], [load, back]):
        assert forwarded(lines) == lines


def test_parts_are_stored_where_all_is_written_back() -> None:
    def half(memory: str, row: int) -> Box:
        first, step = (row * 256 + 1024, 256) if memory == "o0" else (row * 32, 32)
        return Box(memory, (8, 8), F32, first, (step, 4))

    stores = [Line(f"f{row}(out={{w}})", write=half("m0", row)) for row in (0, 8)]
    back = Line(COPY, read=block("m0"), write=block("o0", (256, 4), 1024))
    moved = [
        store._replace(write=half("o0", row)) for store, row in zip(stores, (0, 8), strict=True)
    ]
    assert forwarded([*stores, back]) == moved
    load = Line("{} = {r}[...]", (), (0,), read=half("m0", 0))
    for lines in ([stores[0], back], [stores[0], load, stores[1], back]):
        assert forwarded(lines) == lines


def test_words_whose_elements_lie_apart_elsewhere_are_copied_in_elements() -> None:
    """Words of two elements of two rows, as memory holds 16-bit types."""
    half, word = np.dtype(np.uint16), np.dtype(np.uint32)
    rows = Box("i0", (8, 2, 16), half, 0, (64, 32, 2))
    packed = Box("m0", (8, 2, 16), half, 0, (64, 2, 4))
    some, there = (Box(m, (2, 16), word, 64 * 3, (64, 4)) for m in ("m0", "m1"))
    tell = Line("f({r})", read=Whole("m1"))
    assert forwarded(
        [Line(COPY, read=rows, write=packed), Line(COPY, read=some, write=there), tell]
    ) == [
        Line(
            COPY,
            read=Box("i0", (2, 16, 2), half, 64 * 3, (64, 2, 32)),
            write=Box("m1", (2, 16, 2), half, 64 * 3, (64, 4, 2)),
        ),
        tell,
    ]


def test_results_that_are_written_back_in_turn() -> None:
    """The second of two stores is written back first, to the same place, or to columns between."""
    stores = [Line("f(out={w})", write=block("m0")), Line("f(out={w})", write=block("m1"))]
    for first, moved in ((1024, False), (1024 + 16, False), (1024 + 32, True)):
        places = block("o0", (256, 4), 1024), block("o0", (256, 4), first)
        ends = zip(("m1", "m0"), places, strict=True)
        backs = [Line(COPY, read=block(memory), write=place) for memory, place in ends]
        found = forwarded([*stores, *backs])
        assert (backs[1] not in found) == moved
        assert backs[0] not in found


def test_views_of_views() -> None:
    over, under = block("m0"), block("i0", (256, 4), 64)
    part = Box("m0", (2, 8), F32, 32 * 3, (64, 4))
    assert composed(part, over, under) == Box("i0", (2, 8), F32, 64 + 256 * 3, (512, 4))
    halves = Box("m0", (16, 8, 2), np.dtype(np.int16), 2, (32, 4, 0))
    assert composed(halves, over, under) == Box(
        "i0", (16, 8, 2), np.dtype(np.int16), 66, (256, 4, 0)
    )
    for beyond in (
        Box("m0", (128,), F32, 0, (4,)),  # Rows that follow each other do not below.
        Box("m0", (17, 8), F32, 0, (32, 4)),
        Box("m0", (2, 8), F32, 4, (32, 4)),
        Box("m0", (2,), F32, 2, (4,)),
    ):
        assert composed(beyond, over, under) is None


def pipeline(steps: int) -> list[Line]:
    """Blocks that are fetched to one of two places, doubled there, and written back."""
    lines: list[Line] = []
    for step in range(steps):
        there, here = (Box(m, (128,), F32, step * SLOT, (4,)) for m in ("i0", "o0"))
        block, result = (Box(m, (128,), F32, step % 2 * SLOT, (4,)) for m in ("m0", "m1"))
        lines += [
            Line(COPY, read=there, write=block),
            Line("{} = {r}[...]", (), (step,), read=block),
            Line("{w}[...] = {0} * 2", (step,), write=result),
            Line(COPY, read=result, write=here),
        ]
    return lines


def test_a_script_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    meet, asked = forward.meet, 0

    def counted(*boxes: Any) -> bool:
        nonlocal asked
        asked += 1
        return meet(*boxes)

    monkeypatch.setattr(forward, "meet", counted)
    counts: list[int] = []
    for steps in (20, 40):
        asked = 0
        assert len(forwarded(pipeline(steps))) == 2 * steps
        counts.append(asked)
    assert counts[1] < 2.1 * counts[0]
