"""Random chains of integer operations on numbers at the ends of their types, and what they give.

A value is a NumPy array of int64, of the shape of its kernel value: of no dimensions for scalars,
(8, 128) for vectors. Bits are 0 or 1, other integers have signs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

import pallasite

SHAPE = (8, 128)
COUNT = 16
"""Numbers that only the running kernel knows, and results of each kind."""
BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "index": 32}
SMEM, VMEM = "#tpu.memory_space<smem>", "#tpu.memory_space<vmem>"
NUMBERS, WORDS = f"memref<{COUNT}xi32, {SMEM}>", f"memref<8x128xi32, {VMEM}>"


def wrapped(number: Any, bits: int) -> Any:
    """The low `bits` of `number`, with their sign; one bit is 0 or 1."""
    low = number & ((1 << bits) - 1)
    return low if bits == 1 else low - ((low >> (bits - 1)) << bits)


def _unsigned(number: Any, bits: int) -> Any:
    return number & ((1 << bits) - 1)


def _signed(number: Any, bits: int) -> Any:
    """As it compares: the only bit of an i1 is its sign."""
    return -number if bits == 1 else number


def _toward_zero(a: Any, b: Any) -> Any:
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))


Compute = Callable[[Any, Any, int], Any]
"""From two operands and the bits of their type."""


def _either(compute: Callable[[Any, Any], Any], read: Callable[[Any, int], Any]) -> Compute:
    def both(a: Any, b: Any, bits: int) -> Any:
        return compute(read(a, bits), read(b, bits))

    return both


ARITHMETIC: dict[str, Compute] = {
    "addi": lambda a, b, bits: a + b, "subi": lambda a, b, bits: a - b,
    "muli": lambda a, b, bits: a * b, "andi": lambda a, b, bits: a & b,
    "ori": lambda a, b, bits: a | b, "xori": lambda a, b, bits: a ^ b,
    "minsi": _either(np.minimum, _signed), "maxsi": _either(np.maximum, _signed),
    "minui": _either(np.minimum, _unsigned), "maxui": _either(np.maximum, _unsigned),
}  # fmt: skip
BY_CONSTANTS: dict[str, Compute] = {
    "divsi": lambda a, b, bits: _toward_zero(a, b),
    "remsi": lambda a, b, bits: a - b * _toward_zero(a, b),
    "divui": _either(np.floor_divide, _unsigned), "remui": _either(np.remainder, _unsigned),
    "shli": lambda a, b, bits: a << b, "shrsi": lambda a, b, bits: a >> b,
    "shrui": lambda a, b, bits: _unsigned(a, bits) >> b,
}  # fmt: skip
PREDICATES: dict[str, Compute] = {"eq": _either(np.equal, _signed)}
PREDICATES["ne"] = _either(np.not_equal, _signed)
for _name, _compare in (
    ("lt", np.less), ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal),
):  # fmt: skip
    PREDICATES["s" + _name] = _either(_compare, _signed)
    PREDICATES["u" + _name] = _either(_compare, _unsigned)


def ends(bits: int) -> list[int]:
    """Numbers of `bits` bits at the ends of this and of narrower types."""
    if bits == 1:
        return [0, 1]
    half = 1 << (bits - 1)
    numbers = [0, 1, -1, 2, -8, half - 1, -half, half - 2, 1 - half, half // 2 + 5, -half // 2]
    wider = [127, 128, -128, -129, 255, 300, 32767, 32768, 65535, -32769, 70000]
    return numbers + [n for n in wider if -half <= n < half]


@dataclass
class Chain:
    """The lines of a body, and the values that they make: name, element type, what it is."""

    rng: Random
    given: Any
    lines: list[str] = field(default_factory=list[str])
    values: list[tuple[str, str, Any]] = field(default_factory=list[tuple[str, str, Any]])

    def emit(self, text: str) -> str:
        self.lines.append(f"%v{len(self.lines)} = {text}")
        return f"%v{len(self.lines) - 1}"

    def keep(self, text: str, element: str, number: Any) -> tuple[str, str, Any]:
        made = self.emit(text), element, wrapped(np.asarray(number).astype(np.int64), BITS[element])
        self.values.append(made)
        return made

    def constant(self, element: str, number: int, shape: tuple[int, ...]) -> tuple[str, str, Any]:
        text = ("false", "true")[number] if element == "i1" else str(number)
        text = f"dense<{text}> : {typed(element, shape)}" if shape else text
        typing = "" if shape or element == "i1" else f" : {element}"
        return self.keep(f"arith.constant {text}{typing}", element, np.full(shape, number))

    def given_number(self, place: int) -> tuple[str, str, Any]:
        at = self.emit(f"arith.constant {place} : index")
        return self.keep(f"memref.load %s[{at}] : {NUMBERS}", "i32", self.given[place])

    def positions(self, dim: int) -> tuple[str, str, Any]:
        text = f"tpu.iota {{dimensions = array<i32: {dim}>}} : {typed('i32', SHAPE)}"
        return self.keep(text, "i32", np.broadcast_to(np.indices(SHAPE)[dim], SHAPE))

    def pick(self, like: tuple[str, str, Any] | None = None, element: str = "") -> Any:
        """A recent value, of the type of `like` or a constant of it."""
        if like is not None:
            element, shape = element or like[1], like[2].shape
            known = [v for v in self.values if v[1] == element and v[2].shape == shape]
            if not known or self.rng.random() < 0.35:
                return self.constant(element, self.rng.choice(ends(BITS[element])), shape)
            return self.rng.choice(known[-5:])
        return self.rng.choice(self.values[-8:])

    def step(self) -> None:
        x = self.pick()
        name, element, number = x
        bits, kind = BITS[element], typed(element, number.shape)
        narrow_vector = bool(number.shape) and bits < 32
        choice = self.rng.random()
        if choice < 0.3:
            self.cast(x)
        elif choice < 0.55:
            # Vectors of narrow integers have no more; sums of an index go on beyond 32 bits.
            ops = tuple(ARITHMETIC)[3:6] if narrow_vector else tuple(ARITHMETIC)
            ops = ops[3:] if element == "index" else ops
            op, y = self.rng.choice(ops), self.pick(x)
            self.keep(f"arith.{op} {name}, {y[0]} : {kind}", element,
                      ARITHMETIC[op](number, y[2], bits))  # fmt: skip
        elif choice < 0.7 and bits > 1 and element != "index" and not narrow_vector:
            op = self.rng.choice(tuple(BY_CONSTANTS))
            by = self.rng.choice(
                (0, 1, bits // 2, bits - 1) if op[:2] == "sh" else (1, 2, 3, 8, -7)
            )
            y = self.constant(element, by, number.shape)
            self.keep(f"arith.{op} {name}, {y[0]} : {kind}", element,
                      BY_CONSTANTS[op](number, y[2], bits))  # fmt: skip
        elif choice < 0.85:
            predicate, y = self.rng.choice(tuple(PREDICATES)), self.pick(x)
            self.keep(f"arith.cmpi {predicate}, {name}, {y[0]} : {kind}", "i1",
                      PREDICATES[predicate](number, y[2], bits))  # fmt: skip
        else:
            mask, y = self.pick(x, "i1"), self.pick(x)
            masks = f"{typed('i1', number.shape)}, " if number.shape else ""
            self.keep(f"arith.select {mask[0]}, {name}, {y[0]} : {masks}{kind}", element,
                      np.where(mask[2], number, y[2]))  # fmt: skip

    def cast(self, x: tuple[str, str, Any]) -> tuple[str, str, Any]:
        kinds = [k for k in BITS if k != x[1] and not (x[2].shape and k == "index")]
        return self.cast_to(x, self.rng.choice(kinds))

    def cast_to(self, x: tuple[str, str, Any], wanted: str) -> tuple[str, str, Any]:
        name, element, number = x
        op, extended = "extui", _unsigned(number, BITS[element])
        if "index" in (element, wanted):
            op, extended = "index_cast", _signed(number, BITS[element])
        elif BITS[wanted] < BITS[element]:
            op, extended = "trunci", number
        elif self.rng.random() < 0.5:
            op, extended = "extsi", _signed(number, BITS[element])
        kinds = (typed(k, number.shape) for k in (element, wanted))
        return self.keep(f"arith.{op} {name} : {' to '.join(kinds)}", wanted, extended)


def typed(element: str, shape: tuple[int, ...]) -> str:
    return f"vector<{'x'.join(map(str, shape))}x{element}>" if shape else element


def chain(seed: int, steps: int = 24) -> tuple[ModuleOp, Any, list[Any]]:
    """A kernel of the numbers in SMEM, those numbers, and its results: the last scalars in SMEM,
    and the last vector."""
    rng = Random(seed)
    given = np.array([rng.choice(ends(32)) for _ in range(COUNT)], np.int64)
    made = Chain(rng, given)
    for place in rng.sample(range(COUNT), 4):
        name, element, number = made.given_number(place)
        made.keep(f"vector.broadcast {name} : i32 to {typed('i32', SHAPE)}", element,
                  np.full(SHAPE, number))  # fmt: skip
    made.positions(rng.randrange(2))
    for _ in range(steps):
        made.step()
    ended = [v if v[1] == "i32" else made.cast_to(v, "i32") for v in made.values]
    scalars = [v for v in ended if not v[2].shape][-COUNT:]
    (vector,) = [v for v in ended if v[2].shape][-1:]
    stores = ["%z = arith.constant 0 : index\n%none = arith.constant 0 : i32"]
    for place in range(COUNT):
        name = scalars[place][0] if place < len(scalars) else "%none"
        stores.append(f"%p{place} = arith.constant {place} : index")
        stores.append(f"memref.store {name}, %n[%p{place}] : {NUMBERS}")
    body = "\n".join([*made.lines, *stores])
    module = pallasite.parse(f"""
func.func @kernel(%s: {NUMBERS}, %n: {NUMBERS}, %o: {WORDS}) attributes {{
    dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
    tpu.core_type = #tpu.core_type<tc>}} {{
  {body}
  tpu.vector_store %o[%z, %z], {vector[0]} {{strides = array<i32>}} : {WORDS},
      {typed("i32", SHAPE)},
  return
}}""")
    numbers = np.zeros(COUNT, np.int32)
    numbers[: len(scalars)] = [int(v[2]) for v in scalars]
    return module, given.astype(np.int32), [numbers, vector[2].astype(np.int32)]
