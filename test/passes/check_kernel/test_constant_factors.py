"""Factors of 4 bits that are constant, as libtpu 0.0.51 takes and refuses them."""

from __future__ import annotations

import pytest

from ..checking import beyond, check, matmul

INTEGERS = ["v5e", "v5p", "v6e"]
"""Chips whose matrix units multiply integers of 4 bits."""


def product(made: str, element: str = "i4") -> str:
    """A product of a loaded matrix and what `made` makes of `%y`, another one."""
    total = "i32" if element[0] == "i" else "f32"
    start, end = matmul(element, total).split("%z = ")
    return f"{start}{made}\n%z = {end.replace('%x, %y', '%x, %r')}"


def constant(number: int) -> str:
    return f"%r = arith.constant dense<{number}> : vector<128x128xi4>"


@pytest.mark.parametrize("target", INTEGERS)
def test_constant_factors(target: str) -> None:
    check(product(constant(0)), target)
    for number in (1, -1):
        beyond(product(constant(number)), "matmul-constant", target)
    spread = "%s = arith.constant 1 : i4\n%r = vector.broadcast %s : i4 to vector<128x128xi4>"
    beyond(product(spread), "matmul-constant", target)
    check(product(constant(1)), "v7x")
    check(product(constant(1).replace("i4", "i8"), "i8"), target)


@pytest.mark.parametrize("target", INTEGERS)
def test_parts_of_factors_that_are_constant(target: str) -> None:
    ones = "%k1 = arith.constant dense<1> : vector<{}xi4>\n"
    beyond(
        product(
            ones.format("64x128")
            + "%p = vector.extract_strided_slice %y {offsets = [0, 0], sizes = [64, 128], "
            "strides = [1, 1]} : vector<128x128xi4> to vector<64x128xi4>\n"
            "%r = tpu.concatenate %p, %k1 in 0 : vector<64x128xi4>, vector<64x128xi4> "
            "-> vector<128x128xi4>"
        ),
        "matmul-constant",
        target,
    )
    turned = "%r = tpu.transpose %k1, [1, 0] : vector<128x128xi4> -> vector<128x128xi4>"
    beyond(product(ones.format("128x128") + turned), "matmul-constant", target)
