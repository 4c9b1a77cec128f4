"""Which maxima and minima of narrow integers are refused, as the TPU compiler refuses them."""

from __future__ import annotations

from functools import partial

import pytest

from ..checking import beyond, check, kernel, load, memref


def test_choosing_the_larger_of_narrow_integers() -> None:
    def choose(element: str, other: str) -> str:
        kind = f"vector<32x128x{element}>"
        return kernel(
            f"%x: {memref(f'32x128x{element}')}",
            load("a", "x", f"32x128x{element}") + f"%z = arith.constant dense<0> : {kind}\n"
            f"%w = arith.constant dense<{other}> : {kind}\n"
            f"%m = arith.cmpi sgt, %a, %z : {kind}\n"
            f"%s = arith.select %m, %a, %w : vector<32x128xi1>, {kind}",
        )

    beyond(choose("i8", "0"), "narrow-integer")
    check(choose("i8", "1"))
    check(choose("i32", "0"))


@pytest.mark.parametrize(("operation", "extension", "back", "good"), [
    ("maxsi", "extsi", "i8", False), ("minsi", "extsi", "i8", False),
    ("maxui", "extui", "i8", False), ("maxsi", "extui", "i8", True), ("minui", "extsi", "i8", True),
    ("maxsi", "extsi", "i16", True), ("maxsi", "extsi", "i8, i16", True),
])  # fmt: skip
def test_the_larger_of_extended_integers_that_are_truncated_again(
    operation: str, extension: str, back: str, good: bool
) -> None:
    narrow, wide = "vector<32x128xi8>", "vector<32x128xi32>"
    extended = "".join(
        load(v, v, "32x128xi8").replace(f"%{v} =", f"%{v}n =")
        + f"%{v}w = arith.{extension} %{v}n : {narrow} to {wide}\n"
        for v in "xy"
    )
    truncated = "".join(
        f"%t{e} = arith.trunci %m : {wide} to vector<32x128x{e}>\n" for e in back.split(", ")
    )
    arguments = ", ".join(f"%{v}: {memref('32x128xi8')}" for v in "xy")
    found = f"%m = arith.{operation} %xw, %yw : {wide}\n"
    chosen = (
        f"%c = arith.cmpi {operation[3:][0]}{'gt' if 'max' in operation else 'lt'}, %xw, %yw : "
        f"{wide}\n%m = arith.select %c, %xw, %yw : vector<32x128xi1>, {wide}\n"
    )
    opposite = chosen.replace("%c, %xw, %yw", "%c, %yw, %xw")
    for body in (found, chosen, opposite):
        text = kernel(arguments, extended + body + truncated)
        (check if good else partial(beyond, code="narrow-integer"))(text)
    check(kernel(arguments, extended + found.replace("%yw", "%xw") + truncated))
    other = f"%z = arith.constant dense<3> : {wide}\n" + chosen.replace("%xw, %yw :", "%xw, %z :")
    check(kernel(arguments, extended + other + truncated))


def chosen(element: str, between: str = "") -> str:
    """The larger of two vectors, which are loaded once to be compared and once to be chosen."""
    shape = f"32x128x{element}"
    arguments = ", ".join(f"%{ref}: {memref(shape)}" for ref in "xy")
    return kernel(
        arguments,
        load("x0", "x", shape) + load("y0", "y", shape) + between
        + load("x1", "x", shape) + load("y1", "y", shape)
        + f"%m = arith.cmpi sgt, %x0, %y0 : vector<{shape}>\n"
        + f"%s = arith.select %m, %x1, %y1 : vector<32x128xi1>, vector<{shape}>",
    )  # fmt: skip


def test_choosing_the_larger_of_what_is_loaded_twice() -> None:
    """Half words are compared as they are where the unit can, before equal loads are one."""
    beyond(chosen("i16"), "narrow-integer", "v6e")
    beyond(chosen("i16"), "narrow-integer", "v7x")
    check(chosen("i16"), "v5e")
    check(chosen("i8"), "v6e")
    kind = "vector<32x128xi16>"
    stored = f"vector.store %y0, %x[%c0, %c0] : {memref('32x128xi16')}, {kind}\n"
    check(chosen("i16", stored), "v6e")
