"""Random small Mosaic kernels as text, with inputs, built so that most answers are exact.

Float inputs are small integers, so sums and products give the same bits in any order as long as
the element type holds them; a value whose bits may depend on the order (`exact` false) is compared
with a tolerance and never reaches an operation that would magnify the difference.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Shape = tuple[int, ...]

DTYPES: dict[str, Any] = {
    "f32": np.float32, "bf16": ml_dtypes.bfloat16, "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "i32": np.int32, "i16": np.int16, "i8": np.int8,
}  # fmt: skip
BITS = {"f32": 32, "bf16": 16, "f8E5M2": 8, "f8E4M3FN": 8, "i32": 32, "i16": 16, "i8": 8, "i1": 1}
FLOATS, INTEGERS = ("f32", "bf16"), ("i32", "i16", "i8")
EXACT_UP_TO = {"f32": 1 << 24, "bf16": 256, "f8E5M2": 8, "f8E4M3FN": 16}
"""Largest magnitude below which a float type holds every integer."""
RANGES = {"f32": 8, "bf16": 8, "f8E5M2": 4, "f8E4M3FN": 8, "i32": 1000, "i16": 1000, "i8": 127}
LANE_SIZES = (1, 2, 7, 8, 16, 32, 64, 100, 127, 128, 128, 128, 129, 200, 256, 256, 300, 384)
ROW_SIZES = (1, 2, 3, 4, 5, 7, 8, 8, 8, 9, 13, 16, 16, 17, 24, 32, 32, 33, 40, 64)
LEADING_SIZES = (1, 1, 2, 2, 3, 4, 5)
DYNAMIC_SCALARS = 8
MAX_ELEMENTS = 1 << 15


def is_float(element: str) -> bool:
    return element in EXACT_UP_TO


def vector(shape: Iterable[int], element: str) -> str:
    return f"vector<{''.join(f'{n}x' for n in shape)}{element}>"


def memref(shape: Iterable[int], element: str, space: str = "vmem") -> str:
    return f"memref<{''.join(f'{n}x' for n in shape)}{element}, #tpu.memory_space<{space}>>"


@dataclass(frozen=True)
class Value:
    """A vector of the kernel, what is known of its numbers, and how exact they are."""

    name: str
    shape: Shape
    element: str
    bound: float
    """No element has a larger magnitude."""
    scale: float = 0.0
    """The largest bound on the way to an inexact value; 0 if its bits do not depend on order."""
    coarse: bool = False
    """True if an inexact value was rounded to a narrow type on the way."""

    @property
    def exact(self) -> bool:
        return not self.scale

    @property
    def type(self) -> str:
        return vector(self.shape, self.element)

    @property
    def size(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True)
class Argument:
    """A memref of the kernel: name, block shape, element, memory space."""

    name: str
    shape: Shape
    element: str
    space: str = "vmem"
    scale: float = 0.0
    coarse: bool = False

    @property
    def type(self) -> str:
        return memref(self.shape, self.element, self.space)


@dataclass(frozen=True)
class Case:
    """A kernel module and what to call it with."""

    text: str
    inputs: tuple[Array, ...]
    tolerances: tuple[float, ...]
    """Per output: the largest absolute difference between two correct answers."""
    families: tuple[str, ...]


class Builder:
    """The body of one kernel under construction."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.inputs: list[Argument] = []
        self.outputs: list[Argument] = []
        self.scratch: list[Argument] = []
        self.scalars: list[int] = []
        self.values: list[Value] = []
        self.families: list[str] = []
        self._count = 0

    # Text.

    def name(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def emit(self, operation: str) -> str:
        """Adds an operation with one result; returns its name."""
        name = self.name()
        self.lines.append(f"{name} = {operation}")
        return name

    def run(self, operation: str) -> None:
        """Adds an operation without results."""
        self.lines.append(operation)

    def index(self, number: int) -> str:
        return self.emit(f"arith.constant {number} : index")

    def integer(self, number: int) -> str:
        return self.emit(f"arith.constant {number} : i32")

    def dynamic(self, number: int) -> str:
        """An i32 that is `number` in the run and unknown to the compiler."""
        if len(self.scalars) == DYNAMIC_SCALARS:
            return self.integer(number)
        self.scalars.append(number)
        place = self.index(len(self.scalars) - 1)
        kind = memref((DYNAMIC_SCALARS,), "i32", "smem")
        return self.emit(f"memref.load %scalars[{place}] : {kind}")

    def splat(self, shape: Shape, element: str, number: int) -> Value:
        text = f"{number}.0" if is_float(element) else str(number)
        name = self.emit(f"arith.constant dense<{text}> : {vector(shape, element)}")
        return Value(name, shape, element, abs(number))

    # Choices.

    def pick(self, of: Sequence[Any]) -> Any:
        return self.rng.choice(of)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def shape(self, rank: int | None = None) -> Shape:
        """A ragged shape of a modest number of elements."""
        dimensions = rank or self.pick((1, 2, 2, 2, 2, 3, 3, 4))
        while True:
            pools = ([LEADING_SIZES] * dimensions + [ROW_SIZES, LANE_SIZES])[-dimensions:]
            shape = tuple(self.pick(pool) for pool in pools)
            if prod(shape) <= MAX_ELEMENTS:
                return shape

    def element(self, among: Sequence[str] = ("f32", "bf16", "i32", "i16", "i8")) -> str:
        return self.pick(among)

    # Values.

    def define(self, operation: str, like: Value, **changes: Any) -> Value:
        """The value of `operation`, as `like` but for `changes`; floats may become inexact."""
        changes.setdefault("name", "")
        value = replace(like, **changes)
        value = replace(value, name=self.emit(operation.replace("$T", value.type)))
        if is_float(value.element) and value.bound > EXACT_UP_TO[value.element]:
            value = replace(value, scale=max(value.scale, value.bound))
        if value.scale and value.element != "f32":
            value = replace(value, coarse=True)
        self.values.append(value)
        return value

    def value(self, wanted: Callable[[Value], bool] = lambda v: True) -> Value:
        """A known value that is `wanted`, or a new input of some kind that is."""
        known = [v for v in self.values if wanted(v)]
        if known and self.chance(0.85):
            return self.pick(known[-4:])
        for _ in range(200):
            shape, element = self.shape(), self.element()
            if wanted(Value("", shape, element, RANGES[element])):
                return self.input(shape, element)
        return self.pick(known) if known else self.input((8, 128), "f32")

    def data(self, wanted: Callable[[Value], bool] = lambda v: True) -> Value:
        """A value that is not a mask."""
        return self.value(lambda v: v.element != "i1" and wanted(v))

    def same(self, like: Value) -> Value:
        """A value of the type of `like`, perhaps `like` itself or a splat."""
        if like.element == "i1":
            return self.pick([v for v in self.values if v.type == like.type])
        kind = self.rng.random()
        if kind < 0.2:
            value = self.splat(like.shape, like.element, self.rng.randint(-4, 4))
            self.values.append(value)
            return value
        known = [v for v in self.values if v.type == like.type]
        return self.pick(known) if known and kind < 0.6 else self.input(like.shape, like.element)

    def input(self, shape: Shape, element: str) -> Value:
        """A vector loaded whole from an input of its own."""
        ref = self.argument(shape, element)
        zero = self.index(0)
        at = ", ".join([zero] * len(shape))
        value = Value("", shape, element, RANGES[element])
        return self.define(f"vector.load %{ref.name}[{at}] : {ref.type}, $T", value)

    def argument(self, shape: Shape, element: str) -> Argument:
        made = Argument(f"in{len(self.inputs)}", shape, element)
        self.inputs.append(made)
        return made

    def output(self, value: Value, shape: Shape | None = None) -> Argument:
        made = Argument(
            f"out{len(self.outputs)}", shape or value.shape, value.element,
            scale=value.scale, coarse=value.coarse,
        )  # fmt: skip
        self.outputs.append(made)
        return made


def tolerance(argument: Argument) -> float:
    """Narrow types keep 8 bits, f8 two; the scale is the largest number on the way."""
    if not argument.scale:
        return 0.0
    relative = 0.25 if "f8" in argument.element else 0.04 if argument.coarse else 1e-4
    return argument.scale * relative


def finish(b: Builder, grid: Shape) -> Case:
    """The module around the body of `b`; a grid repeats the leading dimension of its blocks."""
    arguments = [*b.inputs, *b.outputs]
    divided = [bool(grid) and _may_divide(a) for a in arguments]
    arrays = [
        (a.shape[0] * prod(grid), *a.shape[1:]) if cut else a.shape
        for a, cut in zip(arguments, divided, strict=True)
    ]
    rng = np.random.default_rng(b.rng.randrange(1 << 30))
    scalars = [*b.scalars, *[0] * (DYNAMIC_SCALARS - len(b.scalars))]
    inputs = [np.array(scalars, np.int32)]
    for argument, shape in zip(b.inputs, arrays, strict=False):
        top = RANGES[argument.element]
        inputs.append(rng.integers(-top, top + 1, shape).astype(DTYPES[argument.element]))

    tensors = [
        f"tensor<{''.join(f'{n}x' for n in shape)}{a.element}>"
        for a, shape in zip(arguments, arrays, strict=True)
    ]
    operands = ", ".join([f"tensor<{DYNAMIC_SCALARS}xi32>", *tensors[: len(b.inputs)]])
    call = (
        f"tpu.call = {{operands = [{operands}], results = [{', '.join(tensors[len(b.inputs) :])}], "
        f'aliases = array<i64>, settings = "{{}}"}}'
    )
    steps = [f"%i{d}: i32" for d in range(len(grid))]
    refs = [f"%{a.name}: {a.type}" for a in (*arguments, *b.scratch)]
    table = f"%scalars: {memref((DYNAMIC_SCALARS,), 'i32', 'smem')}"
    attributes = "tpu.core_type = #tpu.core_type<tc>, scalar_prefetch = 1 : i64, "
    attributes += f"scratch_operands = {len(b.scratch)} : i64"
    maps = ""
    if grid:
        semantics = ", ".join(["#tpu.dimension_semantics<arbitrary>"] * len(grid))
        attributes += f", dimension_semantics = [{semantics}], "
        attributes += f"iteration_bounds = array<i64: {', '.join(map(str, grid))}>, "
        windows = [
            f"{{transform_indices = @map_{a.name}, "
            f"window_bounds = array<i64: {', '.join(map(str, a.shape))}>}}"
            for a in arguments
        ]
        attributes += f"window_params = [{', '.join(windows)}]"
        maps = "".join(_index_map(a, grid, cut) for a, cut in zip(arguments, divided, strict=True))
    else:
        attributes += ", dimension_semantics = []"
    body = "\n".join(f"    {line}" for line in b.lines)
    text = (
        f"module attributes {{{call}}} {{\n"
        f"  func.func @kernel({', '.join([*steps, table, *refs])}) attributes {{{attributes}}} {{\n"
        f"{body}\n    return\n  }}\n{maps}}}\n"
    )
    return Case(text, tuple(inputs), tuple(tolerance(o) for o in b.outputs), tuple(b.families))


def _may_divide(argument: Argument) -> bool:
    """Blocks must be whole tiles, so only leading dimensions and aligned rows are cut."""
    rank = len(argument.shape)
    return rank > 2 or (rank == 2 and argument.shape[0] % 32 == 0)


def _index_map(argument: Argument, grid: Shape, cut: bool) -> str:
    steps = ", ".join(f"%i{d}: i32" for d in range(len(grid)))
    steps += f", %scalars: {memref((DYNAMIC_SCALARS,), 'i32', 'smem')}"
    rank = len(argument.shape)
    block = "%zero"
    lines = ["%zero = arith.constant 0 : i32"]
    if cut:
        block = "%i0"
        if len(grid) == 2:
            lines += [
                f"%n = arith.constant {grid[1]} : i32",
                "%p = arith.muli %i0, %n : i32",
                "%q = arith.addi %p, %i1 : i32",
            ]
            block = "%q"
    places = ", ".join([block, *["%zero"] * (rank - 1)])
    kinds = ", ".join(["i32"] * rank)
    body = "\n".join(f"    {line}" for line in lines)
    return (
        f"  func.func @map_{argument.name}({steps}) -> ({kinds}) {{\n{body}\n"
        f"    return {places} : {kinds}\n  }}\n"
    )


def generate(seed: int, families: Sequence[str] = (), length: int | None = None) -> Case:
    """The kernel of `seed`: a few random steps, drawn from `families` if any are named."""
    from .random_families import FAMILIES, store_all

    rng = random.Random(seed)
    b = Builder(rng)
    names = list(families) or list(FAMILIES)
    for _ in range(length or rng.choice((1, 1, 2, 3, 4, 6))):
        name = rng.choice(names)
        b.families.append(name)
        FAMILIES[name](b)
    store_all(b)
    grid: Shape = rng.choice(((), (), (), (2,), (3,), (2, 2)))
    if sum(prod(a.shape) for a in b.inputs) > MAX_ELEMENTS:
        grid = ()
    return finish(b, grid)
