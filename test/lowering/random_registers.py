"""Random programs of single registers, and what memory holds once they have run.

Rows are loaded under masks and at distances, put in other orders by shuffles, rotations and choices
of rows, added, and stored, so that loads and stores which are joined, moved or parted meet others
of the same memory. What is undefined in a register is never stored.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pallasite.dialects.kernel import FORM

Words = NDArray[np.int32]
State = dict[str, Words]
"""Registers, and memories as rows of 128 words in the order in which they lie."""
Step = Callable[[State], None]
REGISTER = "vector<8x128xi32>"
MEMORIES = ("x", "o", "p")


@dataclass(frozen=True)
class Value:
    """A register, and which of its sublanes are defined."""

    name: str
    defined: frozenset[int]


@dataclass(frozen=True)
class Place:
    """Where a load or store begins, and how many rows of words its sublanes are apart."""

    memory: str
    row: int
    column: int
    stride: int


@dataclass
class Program:
    """A kernel in form `tiles` and its operands; all follow from the seed."""

    seed: int
    lines: list[str] = field(default_factory=list[str])
    steps: list[Step] = field(default_factory=list[Step])
    values: list[Value] = field(default_factory=list[Value])
    constants: dict[tuple[int, str], str] = field(default_factory=dict[tuple[int, str], str])
    masks: dict[tuple[int, ...], str] = field(default_factory=dict[tuple[int, ...], str])
    last: Place | None = None
    count: int = 0
    nested: bool = False

    def __post_init__(self) -> None:
        self.draw = random.Random(f"registers{self.seed}")
        self.tile = self.draw.choice([1, 1, 1, 8])
        self.columns = self.draw.choice([1, 1, 1, 2, 3])
        self.rows = self.draw.choice([8, 16, 24, 32, *([] if self.tile == 8 else [20])])
        for _ in range(self.draw.randint(5, 22)):
            self.statement()
        shape = (self.rows, self.columns * 128)
        first = np.random.default_rng(self.seed).integers(-99, 99, shape).astype(np.int32)
        self.inputs: list[Words] = [first, first[::-1].copy(), 2 * first]

    @property
    def text(self) -> str:
        tensor = f"tensor<{self.rows}x{self.columns * 128}xi32>"
        arguments = ", ".join(f"%{n}: {self.kind}" for n in ("x", "from", "of", "o", "p"))
        constants = [f"{n} = arith.constant {v} : {k}" for (v, k), n in self.constants.items()]
        return "\n".join([
            f'module attributes {{{FORM} = "tiles", tpu.call = {{',
            f"  operands = [{tensor}, {tensor}, {tensor}], results = [{tensor}, {tensor}],",
            '  aliases = array<i64: 1, 0, 2, 1>, settings = "{}"}} {',
            f"func.func @kernel({arguments}) attributes {{dimension_semantics = [],",
            "    scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,",
            "    tpu.core_type = #tpu.core_type<tc>} {",
            *constants, *self.lines, "func.return", "}", "}",
        ])  # fmt: skip

    @property
    def expected(self) -> list[Words]:
        """The results."""
        state = {n: self._tiles(a) for n, a in zip(MEMORIES, self.inputs, strict=True)}
        for step in self.steps:
            step(state)
        return [self._array(state[n]) for n in MEMORIES[1:]]

    @property
    def kind(self) -> str:
        """The type of every memory."""
        tiles = f"#tpu.tiled<({self.tile},128),[{self.columns},1]>"
        return f"memref<{self.rows}x{self.columns * 128}xi32, {tiles}, #tpu.memory_space<vmem>>"

    def _tiles(self, array: Words) -> Words:
        cut = array.reshape(-1, self.tile, self.columns, 128)
        return cut.transpose(0, 2, 1, 3).reshape(-1, 128).copy()

    def _array(self, tiles: Words) -> Words:
        cut = tiles.reshape(-1, self.columns, self.tile, 128)
        return cut.transpose(0, 2, 1, 3).reshape(self.rows, -1)

    # What statements are made of.

    def constant(self, value: int, kind: str = "index") -> str:
        return self.constants.setdefault((value, kind), f"%c{len(self.constants)}")

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def pick(self) -> Value:
        if not self.values:
            self.load()
        return self.draw.choice(self.values[-5:])

    def place(self, memories: Iterable[str], strides: Iterable[int]) -> Place:
        """Rows may begin in front of the memory, if they are in tiles of their own."""
        draw, column = self.draw, self.draw.randrange(self.columns)
        memory = draw.choice([*memories])
        if self.tile == 8:
            return Place(memory, draw.randrange(self.rows // 8) * 8, column, 1)
        row = draw.randrange(-7 if draw.random() < 0.15 else 0, self.rows)
        return Place(memory, row, column, draw.choice([*strides]))

    def lines_of(self, place: Place) -> dict[int, int]:
        """The row of words of every sublane that memory has."""
        if self.tile == 8:
            first = place.row * self.columns + place.column * 8
        else:
            first = place.row * self.columns + place.column
        found = {n: first + n * place.stride for n in range(8)}
        return {n: line for n, line in found.items() if 0 <= line < self.rows * self.columns}

    def some(self, sublanes: Iterable[int]) -> list[int]:
        """All of them, neighbours, or any."""
        draw, found = self.draw, sorted(sublanes)
        way = draw.random()
        if not found or way < 0.35:
            return found
        if way < 0.7:
            first = draw.choice(found)
            last = first + draw.randint(1, 8)
            return [n for n in found if first <= n < last]
        return [n for n in found if draw.random() < 0.5] or found[:1]

    def access(self, place: Place, sublanes: Iterable[int]) -> tuple[str, str]:
        """The text of an access behind and in front of its value."""
        flags = ", ".join("true" if n in sublanes else "false" for n in range(8))
        stride = "" if place.stride == 1 else f" sublane_stride {place.stride}"
        at = f"{self.constant(place.row)}, {self.constant(place.column * 128)}"
        return f"%{place.memory}[{at}]", f"sublanes [{flags}]{stride} : {self.kind}, {REGISTER}"

    def define(self, text: str, make: Callable[[State], Words], defined: Iterable[int]) -> None:
        """A new register."""
        name = self.name()
        self.lines.append(f"{name} = {text}")
        self.steps.append(lambda state: state.update({name: make(state)}))
        self.values.append(Value(name, frozenset(defined)))

    # Statements.

    def statement(self) -> None:
        self.draw.choice([
            self.load, self.load, self.shuffle, self.shuffle, self.rotate, self.select, self.select,
            self.add, self.store, self.store, self.store, self.copy, self.copy, self.delay,
            self.loop,
        ])()  # fmt: skip

    def load(self, near: Place | None = None) -> None:
        place = self.place(MEMORIES, (1, 2, 0, *[self.columns] * 3))
        if near is not None and self.tile == 1:
            row = min(max(near.row + self.draw.randint(-8, 8), 0), self.rows - 1)
            place = Place(near.memory, row, near.column, near.stride)
        lines = self.lines_of(place)
        loaded = self.some(lines)
        if not loaded:
            return self.load()
        self.last = place
        where, what = self.access(place, loaded)

        def make(state: State) -> Words:
            register = np.full((8, 128), 7, np.int32)
            for n in loaded:
                register[n] = state[place.memory][lines[n]]
            return register

        self.define(f"tpu.load {where} {what}", make, loaded)

    def store(self, value: Value | None = None) -> None:
        value = value or self.pick()
        place = self.place(("o", "o", "p"), (1, 2, *[self.columns] * 3))
        lines = self.lines_of(place)
        stored = self.some(value.defined & {*lines})
        if not stored:
            return
        where, what = self.access(place, stored)
        self.lines.append(f"tpu.store {where}, {value.name} {what},")

        def step(state: State) -> None:
            for n in stored:
                state[place.memory][lines[n]] = state[value.name][n]

        self.steps.append(step)

    def copy(self) -> None:
        """Neighbouring rows go elsewhere."""
        self.load()
        copied = [self.values[-1]]
        for _ in range(self.draw.randint(0, 2)):
            self.load(self.last)
            copied.append(self.values[-1])
            if self.draw.random() < 0.2:
                self.store()
        for value in copied * self.draw.choice([1, 1, 2]):
            self.store(value)

    def shuffle(self) -> None:
        one, other = self.pick(), self.pick()
        if self.draw.random() < 0.4:
            other = one
        pool = [*one.defined, *(n + 8 for n in other.defined)]
        way = self.draw.choice(["same", "defined", "any"] if pool else ["any"])
        if way == "same":
            pattern = [self.draw.choice(pool)] * 8
        else:
            pattern = self.draw.choices(pool if way == "defined" else range(16), k=8)
        if one is other:
            pattern = [n % 8 for n in pattern]
        numbers, kinds = ", ".join(map(str, pattern)), f"{REGISTER}, {REGISTER} -> {REGISTER}"
        self.define(
            f"tpu.sublane_shuffle {one.name}, {other.name}, [{numbers}] : {kinds}",
            lambda state: np.concatenate([state[one.name], state[other.name]])[pattern],
            [n for n in range(8) if pattern[n] in pool],
        )

    def rotate(self) -> None:
        value, amount = self.pick(), self.draw.randrange(8)
        by = f"{self.constant(amount, 'i32')} dim 0 : {REGISTER}, i32 -> {REGISTER}"
        self.define(
            f"tpu.dynamic_rotate {value.name} by {by}",
            lambda state: np.roll(state[value.name], amount, 0),
            [(n + amount) % 8 for n in value.defined],
        )

    def select(self) -> None:
        draw, one, other = self.draw, self.pick(), self.pick()
        low = draw.randint(0, 7)
        lanes = (0, 128) if draw.random() < 0.85 else (draw.randint(0, 60), draw.randint(61, 128))
        box = (low, lanes[0], draw.randint(low, 8), lanes[1])
        mask = self.masks.get(box)
        if mask is None:
            mask = self.name()
            bounds = [self.constant(n) for n in box]
            made = f"tpu.create_mask[{bounds[0]}, {bounds[1]}] [{bounds[2]}, {bounds[3]}]"
            self.lines.append(f"{mask} = {made} : vector<8x128xi1>")
            if not self.nested:
                self.masks[box] = mask
        rows = range(box[0], box[2])
        chosen = one.defined if lanes == (0, 128) else one.defined & other.defined

        def make(state: State) -> Words:
            made = state[other.name].copy()
            inside = slice(box[0], box[2]), slice(*lanes)
            made[inside] = state[one.name][inside]
            return made

        self.define(
            f"arith.select {mask}, {one.name}, {other.name} : vector<8x128xi1>, {REGISTER}",
            make,
            [n for n in range(8) if n in (chosen if n in rows else other.defined)],
        )

    def add(self) -> None:
        one, other = self.pick(), self.pick()
        self.define(
            f"arith.addi {one.name}, {other.name} : {REGISTER}",
            lambda state: state[one.name] + state[other.name],
            one.defined & other.defined,
        )

    def delay(self) -> None:
        """Nobody knows what others do to memory meanwhile."""
        self.lines.append(f"tpu.delay {self.constant(1, 'i32')}")

    def loop(self) -> None:
        if self.nested:
            return
        outer, known, self.steps, self.nested = self.steps, [*self.values], [], True
        ends = [self.constant(n) for n in (0, 2, 1)]
        self.lines.append(f"scf.for {self.name()} = {ends[0]} to {ends[1]} step {ends[2]} {{")
        for _ in range(self.draw.randint(2, 6)):
            self.statement()
        self.lines.append("}")
        inner, self.steps, self.values, self.nested = self.steps, outer, known, False
        self.steps += [*inner, *inner]
