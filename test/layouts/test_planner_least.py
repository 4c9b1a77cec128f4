"""What moving words costs at least, and by estimate: what decides that a strategy is not tried."""

from __future__ import annotations

import numpy as np
import pytest

from pallasite.layouts.move import Move
from pallasite.layouts.plan import Value
from pallasite.layouts.planner.bit_networks import (
    Bits,
    Groups,
    best_order,
    exchanges_of,
    network_of,
)
from pallasite.layouts.planner.budget import TooDear
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.least import afford
from pallasite.layouts.planner.program import Program
from pallasite.layouts.planner.solve import solve
from pallasite.layouts.planner.trace import trace
from pallasite.layouts.planner.words import WordMove, whole_words
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.targets import get_target

from .drawn_moves import FAMILIES, drawn

V5E = Costs.of(get_target("v5e"))
N2 = VectorLayout.native(2, 32)


def words_of(move: Move) -> WordMove | None:
    """The words that `move` moves, if all elements of each stay together."""
    return whole_words(trace(move), move.destination[0].packing)


def sources_of(move: Move) -> list[Value]:
    return [Value(layout.grid_shape(shape), layout.packing) for layout, shape in move.sources]


def is_affordable(move: Move, words: WordMove, limit: float) -> bool:
    try:
        afford(Program(sources_of(move), move.bits, V5E, limit), [words], V5E)
    except TooDear:
        return False
    return True


@pytest.mark.parametrize("family", FAMILIES)
def test_what_a_search_finds_is_affordable(family: str):
    compared = 0
    for number in range(8):
        move = drawn(family, 32, number)
        words = words_of(move)
        if words is None:
            continue
        program = Program(sources_of(move), 32, V5E, most=2000)
        x = program.concat([program.flat(i) for i in range(len(move.sources))])
        try:
            made = solve(program, x, words, V5E)
        except TooDear:
            continue
        if made is not None:
            assert is_affordable(move, words, program.cost(made)), move
            compared += 1
    assert compared >= 3


def test_words_in_other_lanes_are_rotated_or_gathered():
    """16 registers of 1024 words of two source registers: a rotation and a select for each."""
    move = Move.roll((N2, (64, 256)), N2, 1, 5)
    words = words_of(move)
    assert words is not None
    assert is_affordable(move, words, 16 * (V5E.cross_lane + 1))
    assert not is_affordable(move, words, 16 * (V5E.cross_lane + 1) - 1)


def test_rows_in_other_sublanes_take_an_instruction_for_each_register():
    move = Move.roll((N2, (64, 128)), N2, 0, 5)
    words = words_of(move)
    assert words is not None
    assert is_affordable(move, words, 8)
    assert not is_affordable(move, words, 7)


def test_what_stays_and_what_is_repeated_costs_nothing_more():
    """Of equal registers one is made, and of those that are source registers none."""
    repeated = Move.repeat((N2, (8, 128)), N2, (6, 1))
    words = words_of(repeated)
    assert words is not None
    assert is_affordable(repeated, words, 0)
    moved = Move.repeat((VectorLayout(32, 0, 1, 3, 0), (8, 128)), N2, (6, 1))
    words = words_of(moved)
    assert words is not None
    assert is_affordable(moved, words, 1)


def test_the_cheapest_order_of_exchanges_is_found():
    """As by making the network of each order, and counting what it computes."""
    rng = np.random.default_rng(0)
    for weights in ([8, 16, 32, 1, 2, 4], [2, 8, 24, 1, 4], [64, 1, 8, 2, 4, 16]):
        wanted = rng.random((3, 1 << len(weights))) < 0.8
        groups = Groups(wanted.shape, wanted.tobytes(), (1, 4, 2))
        bits = Bits(np.zeros(3, np.int64), wanted, weights)
        counted: list[tuple[int, int]] = []
        orders = list(exchanges_of(bits))
        for order in orders:
            network = network_of(bits, order)
            registers = steps = 0
            for stage, kinds in zip(network.stages, network.copies, strict=True):
                for (made, _, _), pattern in zip(kinds, (stage.low, stage.high), strict=True):
                    count = int(made.reshape(3, -1).sum(1) @ groups.repeats)
                    registers += count * V5E.merge(pattern)
                    steps += (count > 0) * V5E.merge(pattern)
            counted.append((registers, steps))
        found = best_order(tuple(weights), groups, V5E)
        assert found is not None
        assert found[1:] == min(counted)
        assert found[0] == orders[counted.index(min(counted))]
