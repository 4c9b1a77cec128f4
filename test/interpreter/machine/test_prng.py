"""The state of the random number unit."""

from __future__ import annotations

import numpy as np

from pallasite.interpreter.machine.machine import Machine
from pallasite.interpreter.machine.order import Order
from pallasite.targets import get_target

V5E = get_target("v5e")


def test_random_numbers_depend_on_the_seed_and_the_core_only():
    def draw(seed, seeds=()):
        cores = Machine(V5E, devices=2, order=Order(seed=seed)).cores
        for core in cores:
            if seeds:
                core.prng.seed(seeds)
        return [core.prng.registers((8, 128)) for core in cores]

    a, b = draw(0)
    assert (a == draw(0)[0]).all() and (a != b).any() and (a != draw(1)[0]).any()
    c, d = draw(0, (1, 2))
    assert (c == d).all() and (c != draw(0, (2, 1))[0]).any()
    assert abs(c.astype(np.float64).mean() / 2**31 - 1) < 0.1


def test_random_registers_are_drawn_in_row_major_order():
    core = Machine(V5E).cores[0]
    core.prng.seed((5,))
    whole = core.prng.registers((20, 200))
    core.prng.seed((5,))
    tiles = [core.prng.registers((8, 128)) for _ in range(6)]
    np.testing.assert_array_equal(whole[8:16, 128:], tiles[3][:, :72])
    np.testing.assert_array_equal(whole[16:, :128], tiles[4][:4])
