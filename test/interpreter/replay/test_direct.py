"""Scripts whose values are views of memory where they can be see and leave the same."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from pallasite.interpreter.call_plan import ArrayType
from pallasite.interpreter.replay import direct as module
from pallasite.interpreter.replay.direct import Kind, direct
from pallasite.interpreter.replay.lines import COPY, LOOK, STORE, Box, Line, Whole
from pallasite.interpreter.replay.recorder import Room
from pallasite.interpreter.replay.script import Script

from .random_lines import RandomLines

F32 = np.dtype(np.float32)
SLOT, SLOTS = 128, 3
"""Bytes of a block, and blocks of each memory."""
LOOKS: list[Any] = [
    lambda x: x.reshape(32),
    lambda x: x.reshape(2, 16),
    lambda x: x.reshape(4, 8),
    lambda x: x.T,
    lambda x: x[::-1],
    lambda x: x.reshape(-1, 8)[:, ::2].reshape(-1, 4),
    lambda x: x,
]


def seen_in_memory(look: Any, x: Any) -> Any:
    return look(x).copy() if x.base is None else look(x)


class Random(RandomLines):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.kinds: list[Kind] = []
        self.loaded: set[int] = set()
        self.bound: dict[str, Any] = {"add": np.add, "negative": np.negative}
        self.rooms = [Room(f"m{n}", SLOT * SLOTS, 0x3F800000 + n) for n in range(2)]

    def bind(self, prefix: str, value: Any) -> str:
        name = f"{prefix}_{len(self.bound)}"
        self.bound[name] = value
        return name

    def box(self, kinds: str, shape: tuple[int, ...] = (4, 8)) -> Box:
        memory = self.memory(kinds)
        strides = [0] * len(shape)
        step = 4
        for axis in self.random.permutation(len(shape)):
            strides[axis] = step
            step *= shape[axis]
        first = int(self.random.integers(SLOTS)) * SLOT
        return Box(memory, shape, F32, first, tuple(strides))

    def make(self, text: str, shape: Any, takes: tuple[int, ...] = (), **more: Any) -> None:
        number = len(self.kinds)
        self.kinds.append(Kind(tuple(shape), F32))
        through, memory = more.get("seen_through", ()), None
        owner = number
        if through:
            memory, owner = self.alive[through[0]]
        elif text == LOOK:
            memory = more["read"].memory
        self.alive[number] = memory, owner
        self.lines.append(Line(text, takes, (number,), **more))

    def value(self, shape: tuple[int, ...] | None = None) -> int:
        found = [v for v in self.alive if shape is None or self.kinds[v].shape == shape]
        return int(self.random.choice(found))

    def line(self) -> None:
        kind = self.random.integers(14) if self.alive else 0
        match kind:
            case 0 | 1 | 2:
                read = self.box("im")
                if self.random.random() < 0.3:
                    self.make(LOOK, read.shape, read=read)
                else:
                    text = "{} = {r}.copy()"
                    self.loaded.add(len(self.kinds))
                    self.make(text, read.shape, read=read, is_load=True, made_bytes=SLOT)
            case 3 | 4 | 5:
                self.look(self.value())
            case 6 | 7:
                first = self.value()
                shape = self.kinds[first].shape
                second = self.value(shape)
                text = "{2} = add({0}, {1})"
                self.make(text, shape, (first, second), ufunc=np.add, made_bytes=SLOT)
            case 8:
                value = self.value()
                if self.alive[value][0] is None:
                    text, takes = "negative({0}, out={1})", (value, value)
                    self.overwrite(Line(text, takes, overwritten=value, ufunc=np.negative))
            case 9 | 10 | 11:
                # What was just made is likely to be stored.
                last = max(self.alive)
                value = last if self.random.random() < 0.7 else self.value()
                write = self.box("mo", self.kinds[value].shape)
                self.write(Line(STORE, (value,), write=write))
            case 12:
                memory = f"m{self.random.integers(2)}"
                self.write(Line("{w}[:9] += 1", read=Whole(memory), write=Whole(memory)))
            case _:
                self.lines.append(Line("seen.append({0}.tobytes())", (self.value(),)))

    def look(self, value: int) -> None:
        look = LOOKS[self.random.integers(len(LOOKS))]
        base = np.zeros(self.kinds[value].shape, F32)
        try:
            found = look(base)
        except (ValueError, IndexError):
            return
        if value in self.loaded and self.random.random() < 0.7:
            # Of memory it makes a view, and of what is loaded of that an array.
            look = partial(seen_in_memory, look)
            text = f"{{1}} = {self.bind('f', look)}({{0}})"
            return self.make(text, found.shape, (value,), look=look, made_bytes=SLOT)
        if np.may_share_memory(found, base):
            text = f"{{1}} = {self.bind('f', look)}({{0}})"
            # As memory lies elsewhere, it may be a copy there.
            self.make(text, found.shape, (value,), seen_through=(value,), look=look)


def results(random: Random, patch: pytest.MonkeyPatch, directly: bool) -> Any:
    seen: list[bytes] = []
    random.bound["seen"] = seen
    with patch.context() as only:
        for name in ("forwarded", "once"):
            only.setattr(f"pallasite.interpreter.replay.script.{name}", lambda lines: lines)
        if not directly:
            only.setattr(
                "pallasite.interpreter.replay.script.direct", lambda lines, *rest: (lines, {})
            )
        end = Line(COPY, read=Box("m0", (96,), F32, 0, (4,)), write=Box("o0", (96,), F32, 0, (4,)))
        begin = Line("{w}[...] = 0", write=Box("o0", (96,), F32, 0, (4,)))
        random.lines = [begin, *random.lines, end]
        script = Script.of(random, 1, [ArrayType((SLOTS, SLOT), np.dtype(np.uint8))])  # pyright: ignore[reportArgumentType]
        random.lines = random.lines[1:-1]
    x = np.random.default_rng(0).integers(-9, 9, (SLOTS, SLOT // 4)).astype(np.float32)
    (out,), _ = script.run([x], None)
    return out.tobytes(), seen


def test_random_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    fewer = 0
    for seed in range(600, 1000):
        random = Random(seed)
        # What is used more than once is read where it lies, or is not, as rows are 32 bytes.
        monkeypatch.setattr(module, "LEAST_ROW", 32 << seed % 2)
        for _ in range(int(random.random.integers(2, 30))):
            random.line()
        expected = results(random, monkeypatch, False)
        assert results(random, monkeypatch, True) == expected, seed
        fewer += len(direct(random.lines, random.kinds, random.bind)[0]) < len(random.lines)
    assert fewer > 300


def block(memory: str, slot: int = 0) -> Box:
    return Box(memory, (4, 8), F32, slot * SLOT, (32, 4))


def load(number: int, memory: str, slot: int = 0) -> Line:
    text, size = "{} = {r}.copy()", SLOT
    return Line(text, (), (number,), read=block(memory, slot), is_load=True, made_bytes=size)


def flat(taken: int, number: int) -> Line:
    return Line(
        "{1} = f({0})", (taken,), (number,), seen_through=(taken,), look=lambda x: x.reshape(32)
    )


def double(taken: int, number: int) -> Line:
    return Line("{2} = g({0}, {1})", (taken, taken), (number,), ufunc=np.add, made_bytes=SLOT)


def store(taken: int, box: Box) -> Line:
    return Line(STORE, (taken,), write=box)


FLAT, SQUARE = Kind((32,), F32), Kind((4, 8), F32)


def named(prefix: str, value: Any) -> str:
    return prefix


def test_a_result_is_computed_where_it_is_stored_of_what_lies_in_memory() -> None:
    row = Box("o0", (32,), F32, 0, (4,))
    lines = [load(0, "i0"), flat(0, 1), double(1, 2), store(2, row)]
    left, seen = direct(lines, [SQUARE, FLAT, FLAT], named)
    assert seen[1] == Box("i0", (32,), F32, 0, (4,))
    assert left == [Line("f({0}, {1}, out={w})", (1, 1), write=row, ufunc=np.add)]


def test_a_result_of_another_shape_is_computed_where_it_is_stored() -> None:
    row = Box("o0", (32,), F32, 0, (4,))
    lines = [load(0, "i0"), double(0, 1), flat(1, 2), store(2, row)]
    left, _ = direct(lines, [SQUARE, SQUARE, FLAT], named)
    assert left == [Line("f({0}, {1}, out={w})", (0, 0), write=block("o0"), ufunc=np.add)]


def test_what_is_used_again_is_stored_without_another_shape() -> None:
    row, tell = Box("o0", (32,), F32, 0, (4,)), Line("f({0})", (1,))
    lines = [load(0, "i0"), double(0, 1), flat(1, 2), store(2, row), tell]
    left, _ = direct(lines, [SQUARE, SQUARE, FLAT], named)
    assert left == [double(0, 1), store(1, block("o0")), tell]


@pytest.mark.parametrize("slot", [0, 1])
def test_what_changes_while_it_is_used_is_copied(slot: int) -> None:
    change = Line("{w}[...] = 1", write=block("m0", slot))
    tell = Line("f({0})", (0,))
    left, _ = direct([load(0, "m0"), change, tell], [SQUARE], named)
    assert left == ([load(0, "m0"), change, tell] if slot == 0 else [change, tell])


@pytest.mark.parametrize("slot", [0, 1])
def test_an_array_is_no_view_of_what_changes_while_it_is_used(slot: int) -> None:
    """Where the load is a view, so is what was made an array of the array that was loaded."""
    array = flat(0, 1)._replace(seen_through=(), made_bytes=SLOT)
    change = Line("{w}[...] = 1", write=block("m0", slot))
    tell = Line("f({0})", (1,))
    left, _ = direct([load(0, "m0"), array, change, tell], [SQUARE, FLAT], named)
    assert left == [load(0, "m0"), array, change, tell][slot:]


def test_what_is_used_again_is_copied_where_it_lies_scattered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A row of 8 numbers has 32 bytes."""
    tells = [Line("f({0})", (0,)), Line("g({0})", (0,))]
    for least, count in ((32, 2), (64, 3)):
        monkeypatch.setattr(module, "LEAST_ROW", least)
        assert len(direct([load(0, "i0"), *tells], [SQUARE], named)[0]) == count


def test_what_is_used_otherwise_is_not_computed_where_it_is_stored() -> None:
    tell = Line("f({0})", (1,))
    lines = [load(0, "i0"), double(0, 1), store(1, block("o0")), tell]
    assert direct(lines, [SQUARE, SQUARE], named)[0] == lines[1:]
