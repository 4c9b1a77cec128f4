"""Networks of shuffles that exchange bits of register numbers with bits of sublane numbers.

Number the source rows by (register, sublane). If the destination row numbers are a permutation of
the bits of the source row numbers, as for many transposes and reshapes, the rows can be moved in
stages. Each stage exchanges one bit of the register number with one bit of the sublane number: it
pairs registers that differ in the former, and makes both registers of the new pair by a shuffle of
the two old ones. There are several orders of exchanges; the cheapest one for the rows that are
wanted is taken (design note "Form 4", section 2.1, strategy d).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

import numpy as np

from pallasite.kept import kept
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.lines import Array, any_along
from pallasite.layouts.planner.program import Program
from pallasite.layouts.planner.words import unique_rows
from pallasite.layouts.registers import SUBLANES

VIRTUAL = 1 << 40
"""Weight of the first row-number bit that only padding would use."""
Pattern = tuple[int, ...]
"""Per sublane of a result, the row of two stacked registers that it gets."""


@dataclass(frozen=True)
class Bits:
    """What a network has to do: destination rows come in groups of 2^n registers, and `weights[i]`
    is by how much source row numbers grow with bit i of the place in the group."""

    base: Array
    """First source row of each group."""
    wanted: Array
    """Whether each destination row is wanted: [groups, rows of a group]."""
    weights: list[int]

    @property
    def registers(self) -> int:
        """The number of registers in a destination group."""
        return self.wanted.shape[1] // SUBLANES

    @property
    def register_weights(self) -> list[int]:
        """The weights of the bits that number source registers, in rows, rising."""
        return sorted(w for w in self.weights if w >= SUBLANES)


@dataclass(frozen=True)
class Stage:
    """Pairs registers that differ in bit `register_bit` of their number; `low` and `high` are the
    shuffles that make the two registers of a pair."""

    register_bit: int
    low: Pattern
    high: Pattern

    def pairs(self, table: Array) -> tuple[Array, Array]:
        """Splits `table` [groups, registers, ...] into what it has for the first and for the second
        register of each pair."""
        split = table.reshape(table.shape[0], -1, 2, 1 << self.register_bit, *table.shape[2:])
        return split[:, :, 0], split[:, :, 1]


@dataclass(frozen=True)
class Network:
    """The stages that make the groups of `bits`, including registers that are only padding."""

    bits: Bits
    stages: list[Stage]
    order: Array
    """Which register of the last stage each destination register of a group is."""
    copies: list[list[tuple[Array, Array, Array]]]
    """Per stage and half: which outputs are computed, which are copies of the first or second."""


def best_network(bits: Bits, program: Program, costs: Costs) -> Network | None:
    """The cheapest network for `bits`; None if no register bit has to be exchanged.

    Equal groups are priced once. Raises `TooDear` if the budget of `program` cannot afford it.
    """
    wanted, _, inverse = unique_rows(bits.wanted)
    few = Groups(wanted.shape, wanted.tobytes(), tuple(np.bincount(inverse).tolist()))
    found = best_order(tuple(bits.weights), few, costs)
    if found is None:
        return None
    order, registers, steps = found
    program.afford(costs.copies * registers + steps * costs.grid_instruction)
    return network_of(bits, order)


@dataclass(frozen=True)
class Groups:
    """The different groups of wanted rows, and how often each occurs."""

    shape: tuple[int, ...]
    wanted: bytes
    repeats: tuple[int, ...]


@kept
def best_order(
    weights: tuple[int, ...], groups: Groups, costs: Costs
) -> tuple[list[tuple[int, int]], int, int] | None:
    """The cheapest order of exchanges, with its numbers of register and grid instructions; None if
    there is none.

    Where groups begin does not matter, so the parts of a packed movement share the cached answer.
    """
    wanted = np.frombuffer(groups.wanted, np.bool_).reshape(groups.shape)
    bits = Bits(np.zeros(len(wanted), np.int64), wanted, list(weights))
    orders = list(exchanges_of(bits))
    if not orders:
        return None
    registers, steps = _prices(bits, orders, np.array(groups.repeats), costs)
    best = int(np.lexsort((steps, registers))[0])
    return orders[best], int(registers[best]), int(steps[best])


def _prices(
    bits: Bits, orders: Sequence[list[tuple[int, int]]], repeats: Array, costs: Costs
) -> tuple[Array, Array]:
    """The register and grid instructions of each of several orders of exchanges, of which group g
    stands for `repeats[g]` groups."""
    made = [_stages_of(bits, order) for order in orders]
    patterns = {p: 0 for stages, _ in made for stage in stages for p in (stage.low, stage.high)}
    for number, pattern in enumerate(patterns):
        patterns[pattern] = number
    computed, _, _, read = _tables(tuple(patterns))
    each = np.array([costs.merge(pattern) for pattern in patterns])
    groups, size = len(bits.base), 1 << len(bits.register_weights)
    rows = np.packbits(bits.wanted.reshape(groups, -1, SUBLANES), axis=-1, bitorder="little")
    needed = np.zeros((len(orders), groups, size), np.uint8)
    places = np.stack([order for _, order in made])[:, None]
    np.put_along_axis(needed, places, rows[None, ..., 0], 2)
    registers, steps = np.zeros(len(orders), np.int64), np.zeros(len(orders), np.int64)
    number = np.arange(size)
    for position in range(len(orders[0]) - 1, -1, -1):
        stages = [stages[position] for stages, _ in made]
        # The registers of which the bit is 0, ascending, and their partners.
        bit = np.array([[1 << stage.register_bit] for stage in stages])
        first = np.nonzero((number & bit) == 0)[1].reshape(len(orders), 1, -1)
        halves: list[Array] = [first, first + bit[:, None]]
        reads: Array | None = None
        for half, names in zip(halves, ("low", "high"), strict=True):
            which = np.array([patterns[getattr(stage, names)] for stage in stages])
            sets = np.take_along_axis(needed, half, 2)
            place = (which[:, None, None] << SUBLANES) + sets
            count = computed.take(place).sum(2) @ repeats
            registers += count * each[which]
            steps += (count > 0) * each[which]
            mine = read.take(place)
            reads = mine if reads is None else reads | mine
        assert reads is not None
        np.put_along_axis(needed, halves[0], (reads & 255).astype(np.uint8), 2)
        np.put_along_axis(needed, halves[1], (reads >> SUBLANES).astype(np.uint8), 2)
    return registers, steps


def find_bits(numbers: Array, base: Array) -> Bits | None:
    """The bits that describe the source row `numbers` [groups, rows] (negative: not wanted), None
    if no permutation of bits does.

    `base` is the first source row of each group.
    """
    size = numbers.shape[1]
    wanted = np.asarray(numbers >= 0)
    relative = np.where(wanted, numbers - base[:, None], -1)
    pattern = relative.max(0)
    used = any_along(wanted, 0)
    if (wanted & (relative != pattern)).any() or (pattern[used] < 0).any():
        return None
    weights = [int(pattern[1 << i]) for i in range(size.bit_length() - 1)]
    known = [w for w in weights if w > 0]
    if 0 in weights or len(set(known)) != len(known):
        return None
    # Registers may lie any distance apart; within one, rows are numbered by bits.
    if any(w & (w - 1) if w < SUBLANES else w % SUBLANES for w in known):
        return None
    place = np.arange(size)
    expected = sum(((place >> i) & 1) * max(w, 0) for i, w in enumerate(weights))
    if (used & (expected != pattern)).any():
        return None
    if any(w < 0 and used[(place >> i) & 1 == 1].any() for i, w in enumerate(weights)):
        return None
    filled = [w if w > 0 else VIRTUAL << i for i, w in enumerate(weights)]
    # Sublane bits of the source that no destination bit uses are carried along.
    filled += [w for w in (1, 2, 4) if w not in known]
    return Bits(base, wanted, filled)


def exchanges_of(bits: Bits) -> Iterator[list[tuple[int, int]]]:
    """Every order of exchanges, as pairs: the destination sublane bit that comes in, and the
    sublane bit that goes out."""
    incoming = [i for i in range(3) if bits.weights[i] >= SUBLANES]
    outgoing = [j for j in range(3) if 1 << j not in bits.weights[:3]]
    if not incoming:
        return
    for sources in permutations(incoming):
        for places in permutations(outgoing):
            yield list(zip(sources, places, strict=True))


def network_of(bits: Bits, exchanges: list[tuple[int, int]]) -> Network:
    """The network of one order of exchanges."""
    stages, order = _stages_of(bits, exchanges)
    copies: list[list[tuple[Array, Array, Array]]] = []
    for stage, halves in _wanted(bits, stages, order):
        kinds: list[tuple[Array, Array, Array]] = []
        for wanted, pattern in zip(halves, (stage.low, stage.high), strict=True):
            computed, first, second = _subsets(pattern).kinds
            kinds.append((computed[wanted], first[wanted], second[wanted]))
        copies.insert(0, kinds)
    return Network(bits, stages, order, copies)


def _stages_of(bits: Bits, exchanges: list[tuple[int, int]]) -> tuple[list[Stage], Array]:
    """The stages of an order of exchanges, and for each destination register of a group its number
    among the registers of the last stage."""
    outside = sorted({w for w in bits.weights if w >= SUBLANES})
    # The stages depend on the order of the distances, not on how far they are.
    ranked = [w if w < SUBLANES else SUBLANES << outside.index(w) for w in bits.weights]
    return _stages(tuple(ranked), bits.registers, tuple(exchanges))


@lru_cache(maxsize=1024)
def _stages(
    weights: tuple[int, ...], registers: int, exchanges: tuple[tuple[int, int], ...]
) -> tuple[list[Stage], Array]:
    location = [1, 2, 4, *sorted(w for w in weights if w >= SUBLANES)]
    stages: list[Stage] = []
    for number, (incoming, place) in enumerate(exchanges):
        position = location.index(weights[incoming])
        location[place], location[position] = location[position], location[place]
        final = [0, 1, 2]
        if number == len(exchanges) - 1:
            # The remaining permutation of sublanes is part of the last stage.
            final = [location.index(weights[q]) for q in range(3)]
            location[:3] = [location[f] for f in final]
        stages.append(Stage(position - 3, *_patterns(place, tuple(final))))
    order = [location.index(w) - 3 for w in weights[3 : len(location)]]
    number = np.arange(registers)
    index = np.zeros_like(number)
    for q, place in enumerate(order):
        index |= ((number >> q) & 1) << place
    return stages, index


@lru_cache(maxsize=64)
def _patterns(place: int, final: tuple[int, ...]) -> tuple[Pattern, Pattern]:
    """The shuffles that make both registers of a pair when bit `place` of the sublane is exchanged.

    Bit q of the resulting sublane is bit `final[q]` of what the exchange gives.
    """
    bit = 1 << place
    low = [SUBLANES + (row & ~bit) if row & bit else row for row in range(SUBLANES)]
    high = [SUBLANES + row if row & bit else row | bit for row in range(SUBLANES)]
    inside = [sum((row >> q & 1) << final[q] for q in range(3)) for row in range(SUBLANES)]
    return tuple([low[row] for row in inside]), tuple([high[row] for row in inside])


@dataclass(frozen=True)
class _Subsets:
    """What a shuffle of two registers amounts to, for every set of sublanes that are wanted; a set
    is a number with one bit per sublane."""

    kinds: tuple[Array, Array, Array]
    """Whether it is computed, a copy of the first, or of the second."""
    read: Array
    """Which of the stacked rows it needs, bit by bit."""


def _subsets(pattern: Pattern) -> _Subsets:
    computed, first, second, read = (table[0] for table in _tables((pattern,)))
    return _Subsets((computed, first, second), read)


@lru_cache(maxsize=256)
def _tables(patterns: tuple[Pattern, ...]) -> tuple[Array, Array, Array, Array]:
    """The fields of `_Subsets` for several patterns: [patterns, sets]."""
    # Bit by bit, sublane s is wanted in the upper half of what the first s bits make.
    rows = np.array(patterns)
    moved, turned, read = (np.zeros((len(rows), 1 << SUBLANES), np.uint16) for _ in range(3))
    for s in range(SUBLANES):
        half, row = 1 << s, rows[:, s, None]
        for table, bits in ((moved, row != s), (turned, row != s + SUBLANES), (read, 1 << row)):
            table[:, half : 2 * half] = table[:, :half] | bits
    first, second = moved == 0, turned == 0
    return ~first & ~second, first, second & ~first, read


def _wanted(
    bits: Bits, stages: list[Stage], order: Array
) -> Iterator[tuple[Stage, tuple[Array, Array]]]:
    """For each stage, from the last to the first: the sublanes that are wanted of its outputs, one
    bit per sublane."""
    groups = len(bits.base)
    needed = np.zeros((groups, 1 << len(bits.register_weights)), np.uint8)
    rows = bits.wanted.reshape(groups, -1, SUBLANES)
    needed[:, order] = np.packbits(rows, axis=-1, bitorder="little")[..., 0]
    for stage in reversed(stages):
        halves = stage.pairs(needed)
        yield stage, halves
        read = _subsets(stage.low).read[halves[0]] | _subsets(stage.high).read[halves[1]]
        joined = np.stack([read & 255, read >> SUBLANES], 2).astype(np.uint8)
        needed = joined.reshape(needed.shape)
