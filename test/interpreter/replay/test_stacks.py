"""Scripts whose lines are joined leave the same."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

from pallasite.interpreter.call_plan import ArrayType
from pallasite.interpreter.meanings import stacking
from pallasite.interpreter.ops.choice import Put
from pallasite.interpreter.ops.movement import rotation
from pallasite.interpreter.replay import stacks
from pallasite.interpreter.replay.direct import Kind
from pallasite.interpreter.replay.lines import COPY, LOOK, STORE, Box, Line
from pallasite.interpreter.replay.order import needs
from pallasite.interpreter.replay.recorder import Room
from pallasite.interpreter.replay.script import Script

F32, U8 = np.dtype(np.float32), np.dtype(np.uint8)
SHAPE, SLOT, SLOTS = (4, 8), 128, 12
"""The shape of values, their bytes, and how many each memory holds."""
SIZE = SLOT * SLOTS
FUNCTIONS: list[Any] = [
    np.add,
    operator.mul,
    np.maximum,
    np.where,
    Put((slice(1, 3), slice(2, 8)), 0),
    stacking(lambda x: x[:, ::-1], lambda x: x[:, :, ::-1]),
    stacking(lambda x: x.reshape(8, 4), lambda x: x.reshape(len(x), 8, 4)),
    stacking(lambda x: x.reshape(4, 8), lambda x: x.reshape(len(x), 4, 8)),
    stacking(lambda x: x.copy(), lambda x: x.copy()),
    lambda x: np.roll(x, 3),
]
ADD, MUL, MAX, WHERE, PUT, BACK, TALL, FLAT, LOAD, ALONE = range(len(FUNCTIONS))
MASK = np.arange(32).reshape(SHAPE) % 3 == 0


def box(memory: str, first: int, shape: tuple[int, ...] = SHAPE) -> Box:
    return Box(memory, shape, F32, first, (shape[1] * 4, 4))


class Steps:
    """The lines of several steps that do the same, at places that move on."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.lines: list[Line] = []
        self.kinds: list[Kind] = []
        self.rooms = [Room(f"m{n}", SIZE, 0x3F800000 + n) for n in range(2)]
        self.bound: dict[str, Any] = {f"f{n}": fn for n, fn in enumerate(FUNCTIONS)}
        self.bound |= {"c0": MASK, "c1": np.full(SHAPE, 2, np.float32), "c2": np.negative}
        self.looks: dict[int, str] = {}
        """Values that are views of memory which has not been written since."""
        steps = int(self.random.integers(2, 7))
        self.in_rows = self.random.random() < 0.4
        template = [self.draw() for _ in range(int(self.random.integers(3, 12)))]
        before: list[int] = []
        for step in range(steps):
            own: list[int] = []
            for kind, numbers in template:
                if step == 2 and numbers[5] < 20:
                    continue  # Steps need not be quite the same.
                self.line(kind, numbers, step, own, before)
            before = own

    def bind(self, prefix: str, value: Any) -> str:
        name = f"{prefix}{len(self.bound) + 100}"
        self.bound[name] = value
        return name

    def draw(self) -> tuple[int, list[int]]:
        return int(self.random.integers(16)), [int(n) for n in self.random.integers(0, 840, 6)]

    def make(self, text: str, takes: tuple[int, ...] = (), **more: Any) -> int:
        number = len(self.kinds)
        self.kinds.append(Kind(SHAPE, F32))
        self.lines.append(Line(text, takes, (number,), **more))
        return number

    def call(self, which: int, *takes: int, arguments: str | None = None) -> int:
        names = arguments or ", ".join(f"{{{n}}}" for n in range(len(takes)))
        return self.make(f"{{{len(takes)}}} = f{which}({names})", takes, made_bytes=SLOT)

    def write(self, line: Line) -> None:
        assert line.write is not None
        self.lines.append(line)
        gone = line.write.memory
        self.looks = {v: m for v, m in self.looks.items() if m != gone}

    def place(self, memories: str, numbers: list[int], step: int) -> Box:
        """A block that lies by 0 to 2 halves of one further in each step, or in rows of steps."""
        found = [memory for memory in ("i0", "m0", "m1", "o0") if memory[0] in memories]
        memory = found[numbers[0] % len(found)]
        far = (numbers[2] % 3) * SLOT // 2
        if self.in_rows:
            step = step // 2 * 4 + step % 2
        return box(memory, (numbers[1] % 5) * SLOT // 2 + step * far % (SIZE - 4 * SLOT))

    def line(
        self, kind: int, numbers: list[int], step: int, own: list[int], before: list[int]
    ) -> None:
        usable = [v for v in own + before[:1] if v not in self.gone]
        if kind < 4 or not usable:
            read = self.place("im", numbers, step)
            if kind == 0:
                own.append(self.make(LOOK, read=read))
                self.looks[own[-1]] = read.memory
            else:
                load = {"is_load": True, "made_bytes": SLOT}
                own.append(self.make(f"{{}} = f{LOAD}({{r}})", read=read, **load))
            return
        one, other = (usable[n % len(usable)] for n in numbers[3:5])
        match kind:
            case 4 | 5:
                own.append(self.call((ADD, MUL, MAX, PUT)[numbers[0] % 4], one, other))
            case 6:
                own.append(self.call(WHERE, one, other, arguments="c0, {0}, {1}"))
            case 7:
                own.append(self.call(MUL, one, arguments="{0}, c1"))
            case 8:
                own.append(self.call(ALONE if numbers[0] % 4 == 0 else BACK, one))
            case 9:
                tall = self.call(TALL, one)
                self.kinds[tall] = Kind((8, 4), F32)
                own.append(self.call(FLAT, tall))
            case 10:
                over = self.call(ADD, one, other)
                line = Line("c2({0}, out={1})", (over, over), overwritten=over, ufunc=np.negative)
                self.lines.append(line)
                own.append(over)
            case 11 | 12 | 13:
                self.write(Line(STORE, (one,), write=self.place("mo", numbers, step)))
            case 14:
                text = f"f{ADD}({{0}}, {{1}}, out={{w}})"
                self.write(Line(text, (one, other), write=self.place("mo", numbers, step)))
            case _:
                pair = self.place("im", numbers, step), self.place("mo", numbers[::-1], step)
                self.write(Line(COPY, read=pair[0], write=pair[1]))

    @property
    def gone(self) -> set[int]:
        """Views of memory that has been written since."""
        looks = {v for line in self.lines if line.text == LOOK for v in line.makes}
        return looks - self.looks.keys()


def results(steps: Steps, patch: pytest.MonkeyPatch, joined: bool) -> tuple[bytes, str]:
    with patch.context() as only:
        for name in ("forwarded", "once"):
            only.setattr(f"pallasite.interpreter.replay.script.{name}", lambda lines: lines)
        if not joined:
            only.setattr(
                "pallasite.interpreter.replay.script.stacked", lambda lines, *rest: list(lines)
            )
        whole = Box("o0", (3 * SIZE // 4,), F32, 0, (4,))
        ends = [
            Line(COPY, read=box(f"m{n}", 0, (96, 4)), write=box("o0", (n + 1) * SIZE, (96, 4)))
            for n in range(2)
        ]
        told: Any = steps
        told.lines = [Line("{w}[...] = 0", write=whole), *steps.lines, *ends]
        script = Script.of(told, 1, [ArrayType((3 * SIZE,), U8)])
    x = np.random.default_rng(0).standard_normal(SIZE // 4).astype(np.float32)
    (out,), _ = script.run([x], None)
    return out.tobytes(), script.text


def test_random_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = 0
    for seed in range(300):
        expected, text = results(Steps(seed), monkeypatch, False)
        found, left = results(Steps(seed), monkeypatch, True)
        assert found == expected, seed
        changed += left != text
    assert changed > 100


def loads(count: int, text: str = f"{{}} = f{BACK}({{r}})") -> list[Line]:
    return [Line(text, (), (n,), read=box("i0", SLOT * n)) for n in range(count)]


def joined(lines: list[Line]) -> list[Line]:
    steps = Steps(0)
    values = stacks.Values([Kind(SHAPE, F32)] * 100, {})
    return stacks.stacked(lines, values, steps.bound, steps.bind)


def test_equal_steps_are_one_line_each() -> None:
    lines = [
        line
        for n, load in enumerate(loads(4))
        for line in (load, Line(STORE, (n,), write=box("o0", SLOT * n)))
    ]
    first, last = joined(lines)
    assert first.read == Box("i0", (4, *SHAPE), F32, 0, (SLOT, 32, 4))
    assert last.write == Box("o0", (4, *SHAPE), F32, 0, (SLOT, 32, 4))
    assert last.takes == first.makes


def test_a_step_that_needs_the_one_before_stays_behind_it() -> None:
    """A block is stored where the next step loads its own."""
    lines = [
        line
        for n in range(4)
        for line in (
            Line(f"{{}} = f{BACK}({{r}})", (), (n,), read=box("m0", SLOT * n)),
            Line(STORE, (n,), write=box("m0", SLOT * (n + 1))),
        )
    ]
    assert joined(lines) == lines
    apart = [line._replace(write=box("m1", SLOT * n)) if line.write else line
             for n, line in enumerate(lines)]  # fmt: skip
    assert len(joined(apart)) == 2


def test_a_value_that_another_line_takes_is_taken_of_the_stack() -> None:
    lines = [*loads(3), Line(f"{{1}} = f{ALONE}({{0}})", (1,), (7,))]
    lines += [Line(STORE, (n,), write=box("o0", SLOT * n)) for n in (0, 7, 2)]
    texts = [line.text for line in joined(lines)]
    assert "{1} = {0}[1]" in texts and len(texts) == 6


def test_large_values_and_what_lies_anywhere_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    places = (0, 3, 1, 7)
    lines = [load._replace(read=box("i0", SLOT * place)) for load, place in zip(
        loads(4), places, strict=True
    )]  # fmt: skip
    assert len(joined(lines)) == 2  # Any two lie at one distance.
    monkeypatch.setattr(stacks, "MOST_BYTES", SLOT - 1)
    assert joined(loads(4)) == loads(4)


def test_lines_come_behind_what_they_need() -> None:
    view, part = box("m0", 0), Box("m0", (4, 4), F32, 0, (32, 4))
    other = Box("m0", (4, 4), F32, 16, (32, 4))
    write, read = Line(STORE, (0,), write=part), Line("f({r})", read=other)
    assert needs([write, read], {}) == [set(), set()]
    assert needs([write, read._replace(read=view), write], {}) == [set(), {0}, {0, 1}]
    assert needs([write, Line("g({0})", (1,))], {1: view}) == [set(), {0}]
    over = Line("f({0}, out={0})", (0,), overwritten=0)
    assert needs([Line("", (), (0,)), Line("", (0,)), over, Line("", (0,))], {}) == [
        set(), {0}, {0, 1}, {0, 2},
    ]  # fmt: skip


def test_functions_of_several() -> None:
    turn = rotation(SHAPE, 1, 2, 0)
    many = stacks.many_of(turn)
    assert many is not None
    x = np.arange(96.0).reshape(3, *SHAPE)
    np.testing.assert_array_equal(many.call(x, 3), [turn(part, 3) for part in x])
