"""Small kernels as text, with seeded inputs, for tests that plant a fault and look for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
DTYPES: dict[str, Any] = {
    "f32": np.float32, "bf16": ml_dtypes.bfloat16, "i32": np.int32, "i16": np.int16, "i8": np.int8,
}  # fmt: skip


@dataclass(frozen=True)
class Argument:
    """A memref argument: its name, the block the kernel sees, the whole array, its element."""

    name: str
    block: tuple[int, ...]
    element: str
    array: tuple[int, ...] = ()
    index: str = ""
    """The results of its index map over `%i` and `%j`; without one the kernel sees it whole."""
    space: str = "vmem"

    @property
    def memref(self) -> str:
        shape = "".join(f"{n}x" for n in self.block)
        return f"memref<{shape}{self.element}, #tpu.memory_space<{self.space}>>"

    @property
    def vector(self) -> str:
        return f"vector<{''.join(f'{n}x' for n in self.block)}{self.element}>"

    @property
    def whole(self) -> tuple[int, ...]:
        return self.array or self.block


def argument(text: str, array: tuple[int, ...] = (), index: str = "") -> Argument:
    """`x:8x128xf32` as an argument."""
    name, _, kind = text.partition(":")
    *sizes, element = kind.split("x")
    return Argument(name, tuple(map(int, sizes)), element, array, index)


@dataclass(frozen=True)
class Kernel:
    """A module and what it is called with."""

    text: str
    inputs: tuple[Argument, ...]

    def arrays(self, seed: int = 0) -> list[Array]:
        """Normal floats; integers of the whole range of a narrow type, small ones else."""
        rng = np.random.default_rng(seed)
        arrays: list[Array] = []
        for one in self.inputs:
            if one.element in ("f32", "bf16"):
                arrays.append(rng.standard_normal(one.whole).astype(DTYPES[one.element]))
            else:
                top = 128 if one.element == "i8" else 1000
                arrays.append(rng.integers(-top, top, one.whole).astype(DTYPES[one.element]))
        return arrays


def kernel(
    arguments: Sequence[Argument],
    body: str,
    results: int = 1,
    grid: tuple[int, ...] = (),
) -> Kernel:
    """A kernel of `arguments`, the last `results` of them outputs, with zero indices `%c0`.

    In `body`, `LOAD %v, x` loads the whole of argument x, and `STORE %v, x` stores it.
    """
    by_name = {a.name: a for a in arguments}
    lines = [_expanded(line.strip(), by_name) for line in body.strip().splitlines()]
    points = [f"%{name}: i32" for name in "ij"[: len(grid)]]
    signature = ", ".join([*points, *(f"%{a.name}: {a.memref}" for a in arguments)])
    order = ", ".join("#tpu.dimension_semantics<arbitrary>" for _ in grid)
    windows = f"""iteration_bounds = array<i64: {", ".join(map(str, grid))}>,
        window_params = [{", ".join(_window(a) for a in arguments)}],"""
    text = f"""module attributes {{{_call(arguments, results)}}} {{
  func.func @kernel({signature}) attributes {{dimension_semantics = [{order}],
        {windows if grid else ""}
        scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
        tpu.core_type = #tpu.core_type<tc>}} {{
    %c0 = arith.constant 0 : index
    {chr(10).join(lines)}
    return
  }}{"".join(_index_map(a, points) for a in arguments) if grid else ""}
}}
"""
    return Kernel(text, tuple(arguments[:-results]))


def _expanded(line: str, arguments: dict[str, Argument]) -> str:
    operation, _, rest = line.partition(" ")
    if operation not in ("LOAD", "STORE"):
        return line
    value, name = (part.strip() for part in rest.split(","))
    ref = arguments[name]
    at = ", ".join("%c0" for _ in ref.block)
    if operation == "LOAD":
        return f"{value} = vector.load %{name}[{at}] : {ref.memref}, {ref.vector}"
    return store_at(value, ref, ref.vector)


def store_at(value: str, ref: Argument, kind: str) -> str:
    """The store of `value` of vector type `kind` in the first corner of `ref`."""
    at = ", ".join("%c0" for _ in ref.block)
    return (
        f"tpu.vector_store %{ref.name}[{at}], {value} {{strides = array<i32>}} : "
        f"{ref.memref}, {kind},"
    )


def _call(arguments: Sequence[Argument], results: int) -> str:
    types = [f"tensor<{''.join(f'{n}x' for n in a.whole)}{a.element}>" for a in arguments]
    return (
        f"tpu.call = {{operands = [{', '.join(types[:-results])}], "
        f"results = [{', '.join(types[-results:])}], "
        f'aliases = array<i64>, settings = "{{}}"}}'
    )


def _window(one: Argument) -> str:
    bounds = ", ".join(map(str, one.block))
    return f"{{transform_indices = @map_{one.name}, window_bounds = array<i64: {bounds}>}}"


def _index_map(one: Argument, points: Sequence[str]) -> str:
    kinds = ", ".join("i32" for _ in one.block)
    return f"""
  func.func @map_{one.name}({", ".join(points)}) -> ({kinds}) {{
    %c0 = arith.constant 0 : i32
    return {one.index} : {kinds}
  }}"""
