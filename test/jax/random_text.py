"""The text of a random program: its lines, the values that it knows, and places in arrays.

All floats are whole numbers of at most 8, so sums and products are exact in any order.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

NAMES: dict[str, Any] = {"jax": jax, "jnp": jnp, "lax": lax, "pl": pl, "pltpu": pltpu}
FLOATS = ("float32", "bfloat16")
MOST_ELEMENTS = 1 << 14
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Value:
    """What a name of the program is; a shape of () is a scalar."""

    name: str
    shape: Shape
    kind: str


class Text:
    """Lines under construction; what is drawn follows from the seed."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.known: list[Value] = []

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def let(self, text: str, *operands: Value) -> Value | None:
        """A new value, if JAX can make it of `operands`; floats are cut to whole numbers."""
        names = ", ".join(value.name for value in operands)
        given = [jax.ShapeDtypeStruct(value.shape, value.kind) for value in operands]
        try:
            made: Any = jax.eval_shape(eval(f"lambda {names}: {text}", NAMES), *given)
        except Exception:
            return None
        if not 0 < math.prod(made.shape) <= MOST_ELEMENTS or len(made.shape) > 4:
            return None
        kind = str(made.dtype)
        if kind in FLOATS:
            text = f"jnp.clip({text}, -8, 8)"
        value = Value(self.fresh(), made.shape, kind)
        self.line(f"{value.name} = {text}")
        self.known.append(value)
        return value

    def pick(self, suits: Callable[[Value], bool] = lambda v: bool(v.shape)) -> Value | None:
        """A value, most often one of the last."""
        found = [value for value in self.known if suits(value)]
        return (
            self.draw.choice(found[-4:] if self.draw.random() < 0.7 else found) if found else None
        )

    def number(self) -> Value:
        """A scalar integer: there is always the number of a step."""
        return self.draw.choice([v for v in self.known if not v.shape and v.kind == "int32"])

    def like(self, value: Value) -> Value:
        """Another operand for `value`: a value that broadcasts to it, a cast one, or a constant."""

        def suits(other: Value) -> bool:
            sizes = zip(other.shape, value.shape, strict=False)
            return len(other.shape) == len(value.shape) and all(a in (b, 1) for a, b in sizes)

        other = self.pick(suits)
        if other is not None and other.kind == value.kind:
            return other
        cast = self.cast(other, value.kind) if other is not None else None
        number = self.draw.choice([0, 1, 2, -1, 3, -5, 7])
        return cast or Value(f"jnp.asarray({number}, jnp.{value.kind})", (), value.kind)

    def cast(self, value: Value, kind: str) -> Value | None:
        """`value` as elements of `kind`."""
        if kind == "bool":
            return self.let(f"{value.name} > 0", value)
        whole = value.name if value.kind != "int32" or kind == "int32" else f"({value.name} & 7)"
        return self.let(f"{whole}.astype(jnp.{kind})", value)

    def place(self, last: int, unit: int = 1) -> str:
        """A multiple of `unit` from 0 to `last`, known when the program runs."""
        scalar = self.number()
        count = last // unit + 1
        clipped = f"jnp.clip({scalar.name}, 0, {last // unit})"
        index = self.draw.choice([f"({scalar.name} % {count})", clipped])
        return index if unit == 1 else f"pl.multiple_of({index} * {unit}, {unit})"

    def part(self, ref: Value) -> tuple[str, Shape]:
        """Indices of a part of `ref`, some of them known at run time only, and its shape."""
        indices: list[str] = []
        shape: list[int] = []
        for dim, size in enumerate(ref.shape):
            behind = len(ref.shape) - dim
            taken = self.draw.choice([n for n in (1, 2, 8, 16, 128, size) if n <= size])
            shape.append(taken)
            if taken == size:
                indices.append(":")
            elif behind == 1 and (taken % 128 or self.draw.random() < 0.5):
                begin = self.draw.randint(0, size - taken) // 128 * 128
                indices.append(f"{begin}:{begin + taken}")
            else:
                unit = {1: 128, 2: 8 if size - taken >= 8 else 1}.get(behind, 1)
                indices.append(f"pl.ds({self.place(size - taken, unit)}, {taken})")
        return ", ".join(indices), tuple(shape)

    @contextmanager
    def inside(self, head: str) -> Iterator[None]:
        """A function whose statements the block writes; what they make is not known behind it."""
        outer = list(self.known)
        self.line(head)
        self.depth += 1
        yield
        self.depth -= 1
        self.known = outer
