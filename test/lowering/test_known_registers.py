"""Arithmetic on the numbers of rows, lanes and matrices: right, and gone where it is known."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pallasite
from pallasite.frontend.aot import Compiler, compile_ahead_of_time
from pallasite.targets import get_target

SHAPES = ((8, 128), (64, 256), (40, 200), (4, 8, 128), (3, 13, 130), (2, 3, 8, 128), (1, 256))
CONSTANTS = (-8, -3, 0, 1, 2, 3, 4, 7, 8, 16, 60, 127, 128, 200)


def _quotient(a: Any, b: Any) -> Any:
    return np.sign(a) * np.sign(b) * (abs(a) // abs(b))


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "addi": np.add, "subi": np.subtract, "muli": np.multiply, "minsi": np.minimum,
    "maxsi": np.maximum, "andi": np.bitwise_and, "divsi": _quotient,
    "remsi": lambda a, b: a - b * _quotient(a, b), "shrsi": lambda a, b: a >> b,
    "shrui": lambda a, b: (a.astype(np.uint32) >> b).astype(np.int32), "shli": lambda a, b: a << b,
}  # fmt: skip
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal, "ne": np.not_equal, "slt": np.less, "sle": np.less_equal, "sgt": np.greater,
    "sge": np.greater_equal, "ult": lambda a, b: a.view(np.uint32) < b.view(np.uint32),
}  # fmt: skip
LOGIC = {"andi": np.logical_and, "ori": np.logical_or, "xori": np.logical_xor}


class Drawn:
    """A random program on numbers of places, and what it gives for `x`."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.shape = self.draw.choice(SHAPES)
        self.kind = f"vector<{'x'.join(map(str, self.shape))}xi32>"
        self.lines: list[str] = []
        self.numbers: list[tuple[str, Any]] = []
        self.masks: list[tuple[str, Any]] = []
        for _ in range(2):
            self.count()
        for _ in range(self.draw.randint(2, 6)):
            self.compute()
        for _ in range(self.draw.randint(1, 3)):
            self.compare()
        while len(self.masks) > 1:
            self.combine()

    def define(self, text: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def constant(self, choices: tuple[int, ...] = CONSTANTS) -> tuple[str, Any]:
        number = self.draw.choice(choices)
        name = self.define(f"arith.constant dense<{number}> : {self.kind}")
        return name, np.full(self.shape, number, np.int32)

    def count(self) -> None:
        dim = self.draw.randrange(len(self.shape))
        name = self.define(f"tpu.iota {{dimensions = array<i32: {dim}>}} : {self.kind}")
        self.numbers.append((name, np.indices(self.shape, np.int32)[dim]))

    def compute(self) -> None:
        name = self.draw.choice([*OPERATIONS])
        (left, a), (right, b) = (self.draw.choice(self.numbers) for _ in range(2))
        if name.startswith("sh"):
            right, b = self.constant((1, 2, 3, 5))
        elif name in ("divsi", "remsi") or self.draw.random() < 0.5:
            right, b = self.constant(tuple(c for c in CONSTANTS if c))
        made = self.define(f"arith.{name} {left}, {right} : {self.kind}")
        self.numbers.append((made, OPERATIONS[name](a, b).astype(np.int32)))

    def compare(self) -> None:
        predicate = self.draw.choice([*COMPARISONS])
        left, a = self.draw.choice(self.numbers[-3:])
        right, b = self.constant() if self.draw.random() < 0.5 else self.draw.choice(self.numbers)
        made = self.define(f"arith.cmpi {predicate}, {left}, {right} : {self.kind}")
        self.masks.append((made, COMPARISONS[predicate](a, b)))

    def combine(self) -> None:
        (left, a), (right, b) = self.masks.pop(), self.masks.pop()
        name = self.draw.choice([*LOGIC])
        made = self.define(f"arith.{name} {left}, {right} : {self.kind.replace('i32', 'i1')}")
        self.masks.append((made, LOGIC[name](a, b)))

    def module(self) -> str:
        words = self.kind.removeprefix("vector<")
        ref = f"memref<{words[:-1]}, #tpu.memory_space<vmem>>"
        mask = self.kind.replace("i32", "i1")
        lines = "\n  ".join(self.lines)
        return f"""
pallas.kernel @k
  input %x: tensor<{words} in vmem
  output %o: tensor<{words} in vmem
{{
  {lines}
  %l = pallas.load %x[...] : {ref}
  %c = arith.select {self.masks[0][0]}, %l, {self.numbers[-1][0]} : {mask}, {self.kind}
  pallas.store %c, %o[...] : {ref}
}}
"""

    def expected(self, x: Any) -> Any:
        return np.where(self.masks[0][1], x, self.numbers[-1][1])


@pytest.mark.parametrize("seed", range(40))
def test_numbers_of_places(seed: int) -> None:
    drawn = Drawn(seed)
    x = np.random.default_rng(seed).integers(-999, 999, drawn.shape).astype(np.int32)
    with np.errstate(over="ignore"):
        expected = drawn.expected(x)
    target = ("v5e", "v6e", "v4")[seed % 3]
    for form in ("mosaic", "tiles", "vreg"):
        (result,) = pallasite.run(pallasite.parse(drawn.module()), [x], form=form, target=target)
        np.testing.assert_array_equal(result, expected, err_msg=form)


@pytest.mark.aot
def test_the_tpu_compiler_takes_what_is_left() -> None:
    pytest.importorskip("libtpu")
    with Compiler() as compiler:
        for seed in range(0, 40, 5):
            for target in ("v5e", "v6e"):
                module = pallasite.lower(pallasite.parse(Drawn(seed).module()), "vreg", target)
                verdict = compile_ahead_of_time(
                    module,
                    topology=get_target(target).topology,
                    layout_passes=False,
                    compiler=compiler,
                )
                assert verdict.accepted, (seed, target, verdict)


def registers(body: str, shape: str) -> Counter[str]:
    """Vector operations of form `vreg` of a kernel that makes `%r` of `%x`, by name."""
    ref = f"memref<{shape}xf32, #tpu.memory_space<vmem>>"
    module = pallasite.parse(f"""
pallas.kernel @k
  input %x: tensor<{shape}xf32> in vmem
  output %o: tensor<{shape}xf32> in vmem
{{
  %v = pallas.load %x[...] : {ref}
  {body}
  pallas.store %r, %o[...] : {ref}
}}
""")
    lowered = pallasite.lower(module, "vreg", "v5e")
    return Counter(op.name for op in lowered.walk() if op.name.split(".")[0] in ("arith", "tpu"))


def test_a_mask_below_the_diagonal_is_known_off_the_diagonal() -> None:
    found = registers(
        """
  %i = tpu.iota {dimensions = array<i32: 0>} : vector<256x256xi32>
  %j = tpu.iota {dimensions = array<i32: 1>} : vector<256x256xi32>
  %m = arith.cmpi sge, %i, %j : vector<256x256xi32>
  %z = arith.constant dense<0.0> : vector<256x256xf32>
  %r = arith.select %m, %v, %z : vector<256x256xi1>, vector<256x256xf32>
""",
        "256x256",
    )
    # Of 32 by 2 registers, the diagonal goes through 32; 16 lie above it.
    assert (found["arith.cmpi"], found["arith.select"], found["tpu.load"]) == (32, 32, 48)


def test_matrices_that_a_mask_leaves_out_are_not_loaded() -> None:
    found = registers(
        """
  %i = tpu.iota {dimensions = array<i32: 0>} : vector<4x8x128xi32>
  %two = arith.constant dense<2> : vector<4x8x128xi32>
  %m = arith.cmpi slt, %i, %two : vector<4x8x128xi32>
  %z = arith.constant dense<0.0> : vector<4x8x128xf32>
  %r = arith.select %m, %v, %z : vector<4x8x128xi1>, vector<4x8x128xf32>
""",
        "4x8x128",
    )
    assert (found["arith.cmpi"], found["arith.select"], found["tpu.load"]) == (0, 0, 2)


def test_numbers_of_matrices_are_constants() -> None:
    found = registers(
        """
  %i = tpu.iota {dimensions = array<i32: 0>} : vector<4x8x128xi32>
  %two = arith.constant dense<2> : vector<4x8x128xi32>
  %k = arith.muli %i, %two : vector<4x8x128xi32>
  %f = arith.sitofp %k : vector<4x8x128xi32> to vector<4x8x128xf32>
  %r = arith.addf %v, %f : vector<4x8x128xf32>
""",
        "4x8x128",
    )
    assert (found["arith.muli"], found["tpu.sitofp"], found["arith.addf"]) == (0, 0, 4)
