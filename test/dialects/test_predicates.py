"""Predicates of comparisons, and the numbers that bits stand for, against NumPy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from pallasite.dialects.directives import CMPF_PREDICATES, CMPI_PREDICATES
from pallasite.dialects.integers import greatest, least, unsigned, wrap
from pallasite.dialects.predicates import MIRRORED, OPPOSITE, ORDERS, holds

NUMBERS = (-(1 << 31), -256, -129, -128, -1, 0, 1, 127, 128, 255, 256, (1 << 32) - 1)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_numbers_of_bits(bits: int) -> None:
    kinds = np.iinfo(f"int{bits}"), np.iinfo(f"uint{bits}")
    assert (least(bits), greatest(bits)) == (kinds[0].min, kinds[0].max)
    for number, (read, kind) in product(NUMBERS, zip((wrap, unsigned), kinds, strict=True)):
        assert kind.min <= read(number, bits) <= kind.max
        assert (read(number, bits) - number) % (1 << bits) == 0


def test_a_set_bit_is_minus_one() -> None:
    assert [wrap(n, 1) for n in (0, 1, -1)] == [0, -1, -1]
    assert [unsigned(n, 1) for n in (0, 1, -1)] == [0, 1, 1]
    assert (least(1), greatest(1)) == (-1, 0)


@pytest.mark.parametrize("predicate", CMPI_PREDICATES)
def test_comparisons_of_integers(predicate: str) -> None:
    kind = np.uint8 if predicate[0] == "u" else np.int8
    for one, other in product(NUMBERS, NUMBERS):
        left, right = (np.array(n & 0xFF, np.uint8).view(kind) for n in (one, other))
        wanted = bool(ORDERS[predicate[-2:]](left, right))
        assert holds(predicate, one, other, 8) == wanted
        assert holds(MIRRORED[predicate], other, one, 8) == wanted
        assert holds(OPPOSITE[predicate], one, other, 8) != wanted


def test_which_comparisons_of_floats_are_orders() -> None:
    others = [name for name in CMPF_PREDICATES if name[-2:] not in ORDERS]
    assert others == ["false", "ord", "uno", "true"]
