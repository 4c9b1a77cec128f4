"""Random kernels as Python text, each of one subject: memory, views, blocks, control, values.

They ask where `random_statements` does not go: scalar memory, refs in other shapes and types,
transfers of parts, blocks of every kind, what loops carry, all element types. All numbers are small
and whole, so casts and sums are exact.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes  # noqa: F401  # NumPy learns the names of narrow types.
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

NAMES: dict[str, Any] = {"jax": jax, "jnp": jnp, "lax": lax, "pl": pl, "pltpu": pltpu}
WORDS = ("int32", "float32", "uint32")
HALVES = ("bfloat16", "int16", "uint16")
BYTES = ("int8", "uint8", "float8_e4m3fn", "float8_e5m2")
NIBBLES = ("int4", "uint4")
KINDS = (*WORDS, *WORDS, *HALVES, *HALVES, *BYTES, *NIBBLES)
BITS = {**dict.fromkeys(WORDS, 32), **dict.fromkeys(HALVES, 16), **dict.fromkeys(BYTES, 8),
        **dict.fromkeys(NIBBLES, 4)}  # fmt: skip
ROWS = (1, 2, 3, 4, 5, 8, 8, 12, 16, 16, 20, 24, 32, 32, 40, 64)
COLUMNS = (1, 2, 8, 72, 100, 128, 128, 128, 130, 200, 256, 256, 384, 512)
LONG = (1, 5, 8, 100, 128, 200, 256, 512, 640, 1000, 1024, 2048)
LEADING = (1, 2, 3, 4, 5)
MOST_ELEMENTS = 1 << 14
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Ref:
    """A ref or a value of the kernel; `space` says where a ref lies."""

    name: str
    shape: Shape
    kind: str
    space: str = ""

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Kernel:
    """The text of a kernel and of its call, and its inputs; all follow from family and seed."""

    grid: Shape = ()
    dynamic = False
    """Whether the size of the first axis of the grid is known at run time only."""
    tolerance = 0.0
    """How far numbers may be from those of the interpreter, relative and absolute."""
    compared = True
    """Whether the interpreter has the same numbers: it has none of a chip's own random ones."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(f"{type(self).__name__}{seed}")
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.inputs_of: list[tuple[Ref, str]] = []
        self.outputs_of: list[tuple[Ref, str]] = []
        self.scratch: list[tuple[Ref, str]] = []
        self.prefetched: list[Ref] = []
        self.options = ""
        self.fill()
        self.text = self._text()
        numbers = np.random.default_rng(seed)
        operands = [*self.prefetched, *(ref for ref, _ in self.inputs_of)]
        self.inputs = [self._array(numbers, ref) for ref in operands]
        if self.dynamic:
            self.inputs.insert(0, np.int32(self.grid[0]))

    def fill(self) -> None:
        """Writes the statements; of every family its own."""
        raise NotImplementedError

    def call(self, interpret: bool = False) -> Callable[..., Any]:
        names = {**NAMES, "INTERPRET": interpret}
        exec(compile(self.text, "<verdicts>", "exec"), names)
        return names["call"]

    # What families write with.

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, start: str = "v") -> str:
        self.count += 1
        return f"{start}{self.count}"

    def input(self, shape: Shape, kind: str, spec: str, space: str = "vmem") -> Ref:
        ref = Ref(f"x{len(self.inputs_of)}", shape, kind, space)
        self.inputs_of.append((ref, spec))
        return ref

    def output(self, shape: Shape, kind: str, spec: str = "pl.BlockSpec()") -> Ref:
        ref = Ref(f"o{len(self.outputs_of)}", shape, kind)
        self.outputs_of.append((ref, spec))
        return ref

    def buffer(self, shape: Shape, kind: str, space: str = "VMEM") -> Ref:
        ref = Ref(f"s{len(self.scratch)}", shape, kind, space.lower())
        self.scratch.append((ref, f"pltpu.{space}({shape}, jnp.{kind})"))
        return ref

    def position(self, most: int, unit: int = 1) -> str:
        """A multiple of `unit` from 0 to `most` that is known when the kernel runs."""
        scalar = self.draw.choice(self.scalars)
        index = f"({scalar} % {most // unit + 1})"
        return index if unit == 1 else f"pl.multiple_of({index} * {unit}, {unit})"

    @property
    def scalars(self) -> list[str]:
        """Scalars known when the kernel runs only; a first operand in SMEM holds some."""
        if not any(ref.name == "n" for ref in self.prefetched):
            self.prefetched.append(Ref("n", (4,), "int32", "smem"))
        return [f"n[{i}]" for i in range(4)]

    def shape(self, *, ranks: tuple[int, ...] = (1, 2, 2, 2, 3, 3, 4)) -> Shape:
        while True:
            rank = self.draw.choice(ranks)
            if rank == 1:
                return (self.draw.choice(LONG),)
            lead = [self.draw.choice(LEADING) for _ in range(rank - 2)]
            shape = (*lead, self.draw.choice(ROWS), self.draw.choice(COLUMNS))
            if math.prod(shape) <= MOST_ELEMENTS:
                return shape

    # The program.

    def _array(self, numbers: np.random.Generator, ref: Ref) -> Any:
        if ref.name == "n":
            return np.arange(1, 1 + ref.size, dtype=np.int32)
        low = 0 if ref.kind.startswith("u") else -7
        if ref.kind == "bool":
            low, high = 0, 1
        else:
            high = 7
        array = numbers.integers(low, high, ref.shape, endpoint=True)
        return jnp.asarray(array.astype(np.float32)).astype(jnp.dtype(ref.kind))

    def _text(self) -> str:
        refs = [*self.prefetched, *(r for r, _ in self.inputs_of), *(r for r, _ in self.outputs_of),
                *(r for r, _ in self.scratch)]  # fmt: skip
        results = ", ".join(
            f"jax.ShapeDtypeStruct({r.shape}, jnp.{r.kind if r.kind != 'bool' else 'bool_'})"
            for r, _ in self.outputs_of
        )
        sizes = f"({', '.join(['size', *map(str, self.grid[1:])])},)" if self.dynamic else self.grid
        spec = "\n".join([
            "spec = pltpu.PrefetchScalarGridSpec(",
            f"    num_scalar_prefetch={len(self.prefetched)}, grid={sizes},",
            f"    in_specs=[{', '.join(s for _, s in self.inputs_of)}],",
            f"    out_specs=[{', '.join(s for _, s in self.outputs_of)}],",
            f"    scratch_shapes=[{', '.join(s for _, s in self.scratch)}],",
            ")",
        ])  # fmt: skip
        head = f"def body({', '.join(ref.name for ref in refs)}):"
        call = (
            f"call = pl.pallas_call(body, grid_spec=spec, out_shape=[{results}], "
            f"interpret=INTERPRET{self.options})"
        )
        if not self.dynamic:
            return "\n".join([head, *self.lines, spec, call, ""])
        inner = [*spec.splitlines(), call, "return call(*operands)"]
        around = ["def call(size, *operands):", *(f"    {line}" for line in inner)]
        return "\n".join([head, *self.lines, *around, ""])
