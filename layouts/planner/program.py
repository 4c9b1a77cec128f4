"""Builds plans: values and steps, with views that are as cheap as possible."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from pallasite.layouts.plan import (
    Elements,
    Format,
    GatherLanes,
    GatherSublanes,
    GridConcat,
    GridReshape,
    GridTake,
    Interleave,
    KeepElements,
    Or,
    Pack,
    Plan,
    RotateLanes,
    Select,
    ShiftLeft,
    ShiftRight,
    Step,
    SublaneShuffle,
    TransposeBlocks,
    Unpack,
    Value,
    Way,
    Words,
)
from pallasite.layouts.planner.budget import Budget
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.fields import FULL, Field, Mask
from pallasite.layouts.planner.lines import Array
from pallasite.layouts.planner.patterns import (
    IDENTITY,
    filled,
    moves,
    one_shuffle,
    one_source,
    quarters_of,
    stacked_rows,
    sublane_mask,
)
from pallasite.layouts.planner.strided import strided
from pallasite.layouts.registers import LANES, SUBLANES


@dataclass(frozen=True)
class _View(Step):
    """Registers of a flat value, selected by a table; becomes steps only in a finished plan."""

    table: bytes


class Program(Budget):
    """A plan under construction.

    Values are numbered; most are *flat*, that is, a list of registers. An equal step is added only
    once. A strategy works on a `fork`, which leaves the original unchanged. `TooDear` is raised
    when the budget is exceeded.
    """

    def __init__(
        self,
        sources: Sequence[Value],
        bits: int,
        costs: Costs,
        limit: float = math.inf,
        most: float = math.inf,
    ) -> None:
        super().__init__(limit, most)
        self.bits = bits
        self.costs = costs
        self.sources = len(sources)
        self.values: list[Value] = list(sources)
        self.steps: list[Step] = []
        self._prices: list[float] = []
        self._known: dict[Step, int] = {}
        # What a flat value is a view of: (value, table), to compose views instead of stacking them.
        self._views: dict[int, tuple[int, Array]] = {}
        self._parts: dict[int, tuple[list[int], list[int]]] = {}

    def fork(self) -> Program:
        """A copy to try something on; steps that it makes count against the same budget."""
        copy = Program((), self.bits, self.costs)
        copy.share(self)
        copy.sources = self.sources
        copy.values, copy.steps = list(self.values), list(self.steps)
        copy._prices = list(self._prices)
        copy._known = dict(self._known)
        copy._views, copy._parts = dict(self._views), dict(self._parts)
        return copy

    def adopt(self, other: Program) -> None:
        """Takes over the state of a fork."""
        self.__dict__.update({**other.__dict__, "limit": self.limit})

    def size(self, value: int) -> int:
        """The number of registers of a value."""
        return self.values[value].registers

    def add(self, step: Step, value: Value, price: float | None = None) -> int:
        """Appends `step`, which defines `value`, unless an equal step exists; returns its number.

        `price` is the cost of the step if the caller knows it.
        """
        number = len(self.values)
        known = self._known.setdefault(step, number)
        if known != number:
            return known
        self.steps.append(step)
        self.values.append(value)
        if price is None:
            price = 0.0 if type(step) is _View else self.costs.step(step, value)
        self._prices.append(price)
        self.pay(price, step)
        self.afford()
        return number

    # Renaming.

    def reshape(self, value: int, shape: Sequence[int]) -> int:
        """The same registers as a grid of another shape."""
        shape = tuple(shape)
        if self.values[value].grid == shape:
            return value
        maker = self._maker(value)
        if isinstance(maker, GridReshape):
            return self.reshape(maker.operands[0], shape)
        return self.add(GridReshape((value,), shape), self.values[value].on(shape))

    def _maker(self, value: int) -> Step | None:
        return self.steps[value - self.sources] if value >= self.sources else None

    def flat(self, value: int) -> int:
        """The same registers as a list."""
        return self.reshape(value, (self.size(value),))

    def concat(self, values: Sequence[int]) -> int:
        """Several flat values concatenated."""
        values = list(values)
        if len(values) == 1:
            return values[0]
        if len({self.values[v].kind for v in values}) > 1:
            values = [self.words(v) for v in values]
        sizes = [self.size(v) for v in values]
        made = self.add(GridConcat(tuple(values), 0), self.values[values[0]].on((sum(sizes),)))
        self._parts[made] = (values, [0, *accumulate(sizes)])
        return made

    def take(self, value: int, table: Array) -> int:
        """The registers `table` of a flat value as a flat value; -1 is an undefined register."""
        table = np.asarray(table, np.int64)
        while True:
            if value in self._views:
                value, base = self._views[value]
                # Most have no gaps, for which this takes a fraction of the time.
                whole = table.size > 0 and table.min() >= 0
                table = base[table] if whole else np.where(table >= 0, base[table], -1)
                continue
            if value in self._parts:
                values, starts = self._parts[value]
                last = int(table.max(initial=-1))
                if last >= 0:
                    whole = int(table.min()) >= 0
                    first = int((table if whole else table[table >= 0]).min())
                    part = bisect_right(starts, last) - 1
                    if first >= starts[part]:
                        value = values[part]
                        moved = table - starts[part]
                        table = moved if whole else np.where(table >= 0, moved, -1)
                        continue
            break
        size = self.size(value)
        if table.size == size and (table == np.arange(size)).all():
            return value
        made = self.add(_View((value,), table.tobytes()), self.values[value].on((table.size,)))
        self._views[made] = (value, table)
        return made

    def _taken(self, value: int, table: Array) -> int:
        """A view as steps of the plan: a strided box if it is one, else a `GridTake`."""
        made = strided(self, value, table)
        if made is None:
            step = GridTake.of(value, table, (table.size,))
            made = self.add(step, self.values[value].on((table.size,)))
        return made

    def words(self, value: int) -> int:
        """The same registers as 32-bit words; unchanged for 32-bit elements."""
        v = self.values[value]
        if v.kind == "word" or self.bits == 32:
            return value
        if value in self._views:
            base, table = self._views[value]
            return self.take(self.words(base), table)
        if isinstance(self._maker(value), Elements):
            return self.steps[value - self.sources].operands[0]
        return self.add(Words((value,)), Value(v.grid, v.elements, "word"))

    def elements(self, value: int) -> int:
        """Words as registers of the element type that is moved."""
        v = self.values[value]
        if v.kind == "element":
            return value
        if value in self._views:
            base, table = self._views[value]
            return self.take(self.elements(base), table)
        if isinstance(self._maker(value), Words):
            return self.steps[value - self.sources].operands[0]
        return self.add(Elements((value,)), Value(v.grid, v.elements))

    # Instructions, on flat values.

    def shuffle(self, a: int, b: int | None, pattern: Sequence[int]) -> int:
        """Sublane s of each register is row `pattern[s]` of `a`, or of `a` and `b` stacked."""
        pattern = tuple(int(p) for p in pattern)
        if b is None and pattern == IDENTITY:
            return a
        operands = (self.words(a),) if b is None else (self.words(a), self.words(b))
        return self.add(SublaneShuffle(operands, pattern), self.values[operands[0]])

    def merge(self, a: int, b: int, pattern: Sequence[int], costs: Costs) -> int:
        """Combines rows of two registers by a pattern (`patterns.py`); negative rows may be
        anything."""
        if costs.any_shuffle or one_shuffle(pattern):
            return self.shuffle(a, b, filled(pattern))
        first, second = stacked_rows(pattern)
        quarters = quarters_of(pattern)
        if quarters is not None and costs.merge(pattern) < 1 + moves(first) + moves(second):
            # Bring the two quarters together, then order their rows.
            half = SUBLANES // 2
            both = self.shuffle(a, b, [q * half + i for q in quarters for i in range(half)])
            rows = {
                s: quarters.index(p // half) * half + p % half
                for s, p in enumerate(pattern)
                if p >= 0
            }
            return self.shuffle(both, None, one_source(rows))
        a = self.shuffle(a, None, one_source(first))
        b = self.shuffle(b, None, one_source(second))
        return self.select(sublane_mask(list(second), list(first)), b, a)

    def rotate_lanes(self, value: int, amount: int) -> int:
        """Lane l moves to lane l + `amount`."""
        if amount % LANES == 0:
            return value
        value = self.words(value)
        return self.add(RotateLanes((value,), amount % LANES), self.values[value])

    def select(self, mask: Mask, a: int, b: int) -> int:
        """The words of `a` where the mask is set, those of `b` elsewhere."""
        if a == b or mask.boxes == (FULL,):
            return a
        if not mask.boxes and mask.field is None:
            return b
        a, b = self.words(a), self.words(b)
        return self.add(Select((a, b), mask), self.values[a])

    def gather_lanes(self, value: int, index: Field) -> int:
        """Lane l of each sublane is lane `index` of the same sublane."""
        constant, grid, across, along = index.base
        if (grid, across, along, index.modulus) == (0, 0, 1, LANES) and not index.overlays:
            # Needs no index registers.
            return self.rotate_lanes(value, -constant)
        value = self.words(value)
        return self.add(GatherLanes((value,), index), self.values[value])

    def gather_sublanes(self, value: int, index: Field) -> int:
        """Sublane s of each lane is sublane `index` of the same lane."""
        value = self.words(value)
        return self.add(GatherSublanes((value,), index), self.values[value])

    def shift(self, value: int, amount: int) -> int:
        """Moves elements up by `amount` places within their word, down if it is negative."""
        value = self.words(value)
        kind = ShiftLeft if amount > 0 else ShiftRight
        return self.add(kind((value,), abs(amount)), self.values[value]) if amount else value

    def keep(self, value: int, mask: Field) -> int:
        """Keeps the elements of words that `mask` selects and clears the others."""
        value = self.words(value)
        return self.add(KeepElements((value,), mask, self.bits), self.values[value])

    def either(self, a: int, b: int) -> int:
        """The bitwise or of two values."""
        a, b = self.words(a), self.words(b)
        return self.add(Or((a, b)), self.values[a])

    def interleave(self, a: int, b: int, width: int, odd: bool, way: Way) -> int:
        """Groups of `width` elements of words of `a` and `b` by turns, as `Interleave` says."""
        a, b = self.words(a), self.words(b)
        halves = 2 * width == self.values[a].elements
        return self.add(Interleave((a, b), width, odd, way, halves), self.values[a])

    def unpack(self, value: int, index: int, format: Format) -> int:
        """Part `index` of packed registers, with one element per word."""
        value = self.elements(value)
        grid = self.values[value].grid
        return self.add(Unpack((value,), index, format), Value(grid, 1, "word"))

    def pack(self, values: Sequence[int], format: Format) -> int:
        """Packed registers of the lowest elements of words, the inverse of `unpack`."""
        values = [self.words(v) for v in values]
        count = len(values)
        grid = self.values[values[0]].grid
        return self.add(Pack(tuple(values), format, count), Value(grid, count))

    def transpose_blocks(self, value: int, used: float = math.inf) -> int:
        """The transpose of the last two grid dimensions, in blocks of 128 x 128 elements.

        `used` as in `TransposeBlocks`.
        """
        v = self.values[value]
        side = 16 // v.elements
        *lead, rows, columns = v.grid
        grid = (*lead, columns * side, rows // side)
        return self.add(TransposeBlocks((value,), used), v.on(grid))

    # Results.

    def _live(self, result: int) -> list[int]:
        needed = bytearray(result + 1)
        needed[result] = 1
        # Operands come before what is made of them.
        for value in range(result, self.sources - 1, -1):
            if needed[value]:
                for operand in self.steps[value - self.sources].operands:
                    needed[operand] = 1
        return [value for value in range(self.sources, result + 1) if needed[value]]

    def cost(self, result: int, known: int = 0) -> float:
        """The cost of the steps that `result` needs, except those of the first `known` values."""
        return self._price([v for v in self._live(result) if v >= known])

    def _price(self, values: Sequence[int]) -> float:
        return sum([self._prices[v - self.sources] for v in values])

    def plan(self, result: int, how: str) -> Plan:
        """The finished plan: the steps that `result` needs, renumbered."""
        done = Program(self.values[: self.sources], self.bits, self.costs)
        number = {v: v for v in range(self.sources)}
        for v in self._live(result):
            step = self.steps[v - self.sources]
            operands = tuple([number[o] for o in step.operands])
            if isinstance(step, _View):
                number[v] = done._taken(operands[0], self._views[v][1])
            elif isinstance(step, GridReshape):
                number[v] = done.reshape(operands[0], step.shape)
            else:
                price = self._prices[v - self.sources]
                number[v] = done.add(step.on(operands), self.values[v], price)
        return done._finished(number[result], how)

    def _finished(self, result: int, how: str) -> Plan:
        live = self._live(result)
        cost = self._price(live)
        if len(live) == len(self.steps):  # So it is, as a rule: nothing has another number.
            values, steps = tuple(self.values), tuple(self.steps)
            return Plan(self.sources, values, steps, result, self.bits, cost, how)
        number = {v: v for v in range(self.sources)}
        number |= {v: self.sources + i for i, v in enumerate(live)}
        steps = tuple(
            [
                step.on(tuple([number[o] for o in step.operands]))
                for step in [self.steps[v - self.sources] for v in live]
            ]
        )
        values = (*self.values[: self.sources], *[self.values[v] for v in live])
        return Plan(self.sources, values, steps, number[result], self.bits, cost, how)
