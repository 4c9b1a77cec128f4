"""Predicates of comparisons, the numbers that bits stand for, and those that constants are."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    VectorType,
    f32,
    i1,
    i32,
)
from xdsl.ir import Block

from pallasite.dialects import arith
from pallasite.dialects.directives import CMPF_PREDICATES, CMPI_PREDICATES
from pallasite.dialects.integers import greatest, least, unsigned, wrap
from pallasite.dialects.predicates import MIRRORED, OPPOSITE, ORDERS, holds
from pallasite.dialects.types import splat

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


def test_numbers_of_constants() -> None:
    bits = VectorType(i1, [8, 128])
    words = VectorType(i32, [8, 128])
    for attribute, integer, number in (
        (IntegerAttr(-7, i32), -7, -7),
        (IntegerAttr(-1, i1), 1, 1),
        (FloatAttr(0.5, f32), None, 0.5),
        (splat(words, -7), None, -7),
        (splat(bits, 1), None, 1),
        (DenseIntOrFPElementsAttr.from_list(VectorType(i32, [2]), [1, 2]), None, None),
    ):
        value = arith.ConstantOp(attribute).result
        assert arith.known_integer(value) == integer
        assert arith.known_number(value) == number
    assert arith.known_number(Block(arg_types=[i32]).args[0]) is None
