"""Scripts that make values once see and leave the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pallasite.interpreter.replay import once as module
from pallasite.interpreter.replay.lines import COPY, Box, Line, Whole
from pallasite.interpreter.replay.once import once

from .random_lines import RandomLines

F32 = np.dtype(np.float32)
SLOTS, LANES = 3, 16


def slot(memory: str, number: int, half: int | None = None) -> Box:
    """A block, or one half of it."""
    first = number * LANES * 4
    if half is None:
        return Box(memory, (LANES,), F32, first, (4,))
    return Box(memory, (LANES // 2,), F32, first + half * LANES * 2, (4,))


class Random(RandomLines):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.count = 0

    def box(self, kinds: str) -> Box:
        memory = self.memory(kinds)
        half = int(self.random.integers(2)) if self.random.random() < 0.2 else None
        return slot(memory, int(self.random.integers(SLOTS)), half)

    def make(self, text: str, takes: tuple[int, ...], *, memory: str | None, **more: Any) -> None:
        number, self.count = self.count, self.count + 1
        through = more.get("seen_through", ())
        self.alive[number] = memory, self.alive[through[0]][1] if through else number
        self.lines.append(Line(text, takes, (number,), **more))

    def value(self) -> int:
        return int(self.random.choice(list(self.alive)))

    def line(self) -> None:
        kind = self.random.integers(11) if self.alive else self.random.integers(4)
        match kind:
            case 0 | 1:
                read = self.box("im")
                look = self.random.random() < 0.5
                self.make(
                    "{} = {r}[...]" if look else "{} = {r}.copy()", (), read=read,
                    memory=read.memory if look else None, made_bytes=0 if look else 64,
                )  # fmt: skip
            case 2 | 3:
                number = int(self.random.integers(SLOTS))
                ends = [self.box("im"), self.box("mo")]
                read, write = (slot(end.memory, number) for end in ends)
                if read != write:
                    self.write(Line(COPY, read=read, write=write))
            case 4:
                text = f"{{1}} = {{0}} * {self.random.integers(2)} + 1"
                self.make(text, (self.value(),), memory=None, made_bytes=64)
            case 5:
                value = self.value()
                memory = self.alive[value][0]
                self.make("{1} = {0}[::-1]", (value,), memory=memory, seen_through=(value,))
            case 6:
                value = self.value()
                if self.alive[value][0] is None:
                    self.overwrite(Line("f(-{0}, out={0})", (value,), overwritten=value))
            case 7 | 8:
                text = "{w}[...] = {0}[:len({w})] if len({0}) >= len({w}) else {0}[0]"
                self.write(Line(text, (self.value(),), write=self.box("mo")))
            case 9:
                memory = f"m{self.random.integers(2)}"
                self.write(Line("{w}[:9] += 1", read=Whole(memory), write=Whole(memory)))
            case _:
                self.lines.append(Line("seen.append({0}.tobytes())", (self.value(),)))


def left(lines: list[Line]) -> tuple[list[bytes], bytes]:
    """What `lines` see, and what they leave in the result."""
    size = SLOTS * LANES * 4
    memories = {m: np.arange(size, dtype=np.uint8) for m in ("i0", "m0", "m1", "o0")}
    memories["i0"][:] = np.random.default_rng(0).integers(0, 60, size, np.uint8)
    seen: list[bytes] = []
    scope: dict[str, Any] = {"seen": seen, "f": lambda x, out: np.copyto(out, x)}
    for line in lines:
        for name, view in (("read", line.read), ("write", line.write)):
            if isinstance(view, Box):
                bytes = memories[view.memory]
                scope[name] = np.ndarray(view.shape, F32, bytes, view.first, view.strides)
            elif view is not None:
                scope[name] = memories[view.memory]
        names = [f"x{v}" for v in line.takes + line.makes]
        exec(line.text.format(*names, r="read", w="write"), scope)
    return seen, memories["o0"].tobytes()


@pytest.mark.parametrize("held", [1 << 24, 100])
def test_random_lines(held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_HELD", held)
    fewer = 0
    with np.errstate(all="ignore"):
        for seed in range(250):
            random = Random(seed)
            for _ in range(int(random.random.integers(2, 40))):
                random.line()
            found = once(random.lines)
            made = {value for line in found for value in line.makes}
            assert made.issuperset(v for line in found for v in (*line.takes, *line.seen_through))
            assert left(found) == left(random.lines), seed
            fewer += len(found) < len(random.lines)
    assert fewer > 120


def load(number: int, memory: str = "m0") -> Line:
    return Line("{} = {r}[...]", (), (number,), read=slot(memory, 0))


def prepare(taken: int, number: int) -> Line:
    return Line("{1} = f({0})", (taken,), (number,), made_bytes=64)


def tell(number: int) -> Line:
    return Line("seen.append({0})", (number,))


def fetch(number: int) -> Line:
    return Line(COPY, read=slot("i0", number), write=slot("m0", 0))


def test_what_comes_back_is_prepared_once_and_not_fetched_again() -> None:
    lines = [
        fetch(0), load(0), prepare(0, 1), tell(1),
        fetch(1), load(2), prepare(2, 3), tell(3),
        fetch(0), load(4), prepare(4, 5), tell(5),
    ]  # fmt: skip
    assert once(lines) == [*lines[:8], tell(1)]


def test_views_of_memory_are_taken_anew() -> None:
    lines = [fetch(0), load(0), tell(0), fetch(1), load(1), tell(1), fetch(0), load(2), tell(2)]
    assert once(lines) == lines


def test_what_is_written_over_is_made_again() -> None:
    over = Line("f({0}, out={0})", (1,), overwritten=1)
    lines = [load(0, "i0"), prepare(0, 1), over, tell(1), prepare(0, 2), tell(2)]
    assert once(lines) == lines
