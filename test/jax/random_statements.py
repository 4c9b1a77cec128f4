"""Random kernels of many statements, as Python text: loops, branches, parts of refs, positions.

All floats are whole numbers of at most 8, so sums and products are exact in any order, and integers
wrap; what JAX interprets and what we lower agree bit by bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from .random_text import FLOATS, NAMES, Text, Value

MATRICES = ((8, 128), (16, 128), (8, 256), (5, 128), (13, 130), (8, 100), (1, 128), (7, 384),
            (2, 128), (3, 200), (40, 72), (32, 128), (4, 256))  # fmt: skip
KINDS = ("float32", "int32", "bfloat16")
COMPARISONS = ("<", "<=", "==", "!=", ">", ">=")


class Program(Text):
    """The text of a kernel, its call, and its inputs; all follow from the seed."""

    def __init__(self, seed: int, most: int = 14) -> None:
        super().__init__(seed)
        self.grid = self.draw.choice([(1,), (2,), (3,), (2, 2)])
        self.matrix = self.draw.choice(MATRICES)
        self.refs = [self._ref(f"a{n}") for n in range(self.draw.randint(1, 3))]
        self.scratch = self._ref("s0")
        for axis in range(len(self.grid)):
            self.line(f"p{axis} = pl.program_id({axis})")
            self.known.append(Value(f"p{axis}", (), "int32"))
        self.line(f"s0[...] = jnp.full({self.scratch.shape}, 1, jnp.{self.scratch.kind})")
        self.load()
        for _ in range(self.draw.randint(4, most)):
            self.statement()
        self.outputs = self._store_last()
        self.text = "\n".join(["def body(*refs):", f"    {self._names()} = refs", *self.lines, ""])
        numbers = np.random.default_rng(seed)
        self.inputs = [self._array(numbers, ref) for ref in self.refs]

    def call(self, interpret: bool = False) -> Callable[..., Any]:
        """The kernel as a function of the inputs: every step sees all of them."""
        names = dict(NAMES)
        exec(compile(self.text, "<statements>", "exec"), names)
        axes = len(self.grid)

        def whole(ref: Value) -> Any:
            return pl.BlockSpec(ref.shape, lambda *step: (0,) * len(ref.shape))

        def part(value: Value) -> Any:
            block = (*[None] * axes, *value.shape)
            return pl.BlockSpec(block, lambda *step: (*step, *[0] * len(value.shape)))

        return pl.pallas_call(
            names["body"],
            grid=self.grid,
            in_specs=[whole(ref) for ref in self.refs],
            out_specs=[part(value) for value in self.outputs],
            out_shape=[jax.ShapeDtypeStruct((*self.grid, *v.shape), v.kind) for v in self.outputs],
            scratch_shapes=[pltpu.VMEM(self.scratch.shape, jnp.dtype(self.scratch.kind))],
            interpret=interpret,
        )

    def _ref(self, name: str) -> Value:
        shape = self.draw.choice([self.matrix, self.matrix, self.draw.choice(MATRICES)])
        lead = (self.draw.randint(1, 3),) if self.draw.random() < 0.3 else ()
        return Value(name, (*lead, *shape), self.draw.choice(KINDS))

    def _array(self, numbers: np.random.Generator, ref: Value) -> Any:
        low, high = (-8, 8) if ref.kind in FLOATS else (-(2**31), 2**31 - 1)
        array = numbers.integers(low, high, ref.shape, endpoint=True)
        small = numbers.integers(-8, 8, ref.shape, endpoint=True)
        return np.where(numbers.random(ref.shape) < 0.5, array, small).astype(jnp.dtype(ref.kind))

    def _names(self) -> str:
        outputs = [f"o{n}" for n in range(len(self.outputs))]
        return ", ".join([*(ref.name for ref in self.refs), *outputs, "s0"])

    def _store_last(self) -> list[Value]:
        vectors = [v for v in self.known if len(v.shape) >= 2]
        shown = [vectors[-1], *self.draw.sample(vectors, min(2, len(vectors)))]
        for number, value in enumerate(shown):
            as_words = value.kind == "bool"
            text = f"jnp.where({value.name}, 1, 0)" if as_words else value.name
            self.line(f"o{number}[...] = {text}")
            if as_words:
                shown[number] = Value(value.name, value.shape, "int32")
        return shown

    def statement(self) -> None:
        plain = (
            self.load, self.arithmetic, self.arithmetic, self.positions, self.positions,
            self.choice, self.convert, self.move, self.move, self.move, self.reduce, self.scalar,
            self.product, self.store,
        )  # fmt: skip
        nested = (self.loop, self.loop, self.branch, self.conditional_store)
        self.draw.choice(plain if self.depth > 2 else plain + nested)()

    def load(self) -> None:
        ref = self.draw.choice([*self.refs, self.scratch])
        index, shape = self.part(ref) if self.draw.random() < 0.4 else ("...", ref.shape)
        value = Value(self.fresh(), shape, ref.kind)
        self.line(f"{value.name} = {ref.name}[{index}]")
        self.known.append(value)

    def store(self) -> None:
        index, shape = self.part(self.scratch)
        value = self.pick(lambda v: v.shape == shape and v.kind == self.scratch.kind)
        if value is None:
            value = self.like(Value("", shape, self.scratch.kind))
        self.line(f"s0[{index}] = jnp.broadcast_to({value.name}, {shape})")

    def scalar(self) -> None:
        one, other = self.number(), self.number()
        number = self.draw.choice([1, 2, 3, 8, -3, -8])
        text = self.draw.choice(
            ["{0} + {1}", "{0} - {2}", "{0} * {2}", "{0} // {2}", "{0} % {2}", "{0} ^ {1}",
             "jnp.minimum({0}, {1})", "jnp.where({0} < {2}, {1}, {0})",
             "lax.rem({0}, jnp.int32({2}))"]
        )  # fmt: skip
        self.let(text.format(one.name, other.name, number), one, other)

    def arithmetic(self) -> None:
        value = self.pick(lambda v: bool(v.shape) and v.kind != "bool")
        if value is None:
            return
        other = self.like(value)
        both = (value, other) if other.shape else (value,)
        if value.kind in FLOATS:
            texts = ["{0} + {1}", "{0} - {1}", "{0} * {1}", "jnp.maximum({0}, {1})", "-{0}",
                     "jnp.minimum({1}, {0})", "jnp.abs({0})", "jnp.floor({0} * 0.5)"]  # fmt: skip
        else:
            number = self.draw.choice([1, 2, 3, 5, 8, 16, 100, -3, -8])
            texts = [
                "{0} + {1}", "{1} - {0}", "{0} * {1}", "{0} & {1}", "{0} ^ {1}", "~{0}",
                "jnp.maximum({0}, {1})", "{0} >> 3", "{0} << 31", "jnp.abs({0})",
                f"{{0}} // {number}", f"{{0}} % {number}", f"lax.rem({{0}}, jnp.int32({number}))",
                "{0} // jnp.where({1} < 2, 2, {1})", "lax.shift_right_logical({0}, jnp.int32(5))",
            ]  # fmt: skip
        self.let(self.draw.choice(texts).format(value.name, other.name), *dict.fromkeys(both))

    def positions(self) -> None:
        """Numbers of rows, lanes and matrices, and what JAX writes for their arithmetic."""
        shape = getattr(self.pick(lambda v: len(v.shape) >= 2), "shape", self.matrix)
        value: Value | None = None
        for step in range(self.draw.randint(2, 4)):
            number = self.draw.choice([1, 2, 3, 7, 8, 9, 16, 64, 128, -3, -8])
            axis = self.draw.randrange(len(shape))
            iota = f"lax.broadcasted_iota(jnp.int32, {shape}, {axis})"
            if value is None or step == 0:
                value = self.let(iota)
                continue
            scalar = self.number()
            text = self.draw.choice(
                [f"{{0}} // {number}", f"{{0}} % {number}", f"{{0}} + {number}",
                 f"{{0}} * {number}", f"{{0}} - {iota}", f"{{0}} ^ {iota}", "{0} + {1}", "{0} & 5",
                 f"jnp.minimum({{0}}, {number})", f"pltpu.roll({{0}}, {shape[axis] // 2}, {axis})"]
            )  # fmt: skip
            made = self.let(text.format(value.name, scalar.name), value, scalar)
            value = made or value
        if value is not None and self.draw.random() < 0.6:
            bound = self.draw.choice([0, 1, 2, 5, 8, 127, -1])
            self.let(f"{value.name} {self.draw.choice(COMPARISONS)} {bound}", value)

    def mask(self, value: Value) -> Value | None:
        found = self.pick(lambda v: v.kind == "bool" and v.shape == value.shape)
        if found is not None or value.kind == "bool":
            return found
        other = self.like(value)
        both = dict.fromkeys((value, other) if other.shape else (value,))
        return self.let(f"{value.name} {self.draw.choice(COMPARISONS)} {other.name}", *both)

    def choice(self) -> None:
        value = self.pick()
        mask = self.mask(value) if value is not None else None
        if value is None or mask is None or value.kind == "bool":
            return
        other = self.like(value)
        given = dict.fromkeys((mask, value, other) if other.shape else (mask, value))
        self.let(f"jnp.where({mask.name}, {value.name}, {other.name})", *given)

    def convert(self) -> None:
        if (value := self.pick()) is not None:
            self.cast(value, self.draw.choice([*KINDS, "bool"]))

    def move(self) -> None:
        value = self.pick(lambda v: bool(v.shape) and v.kind != "bool")
        if value is None:
            return
        rank, axis = len(value.shape), self.draw.randrange(len(value.shape))
        size, name = value.shape[axis], value.name
        begin = self.draw.randrange(size)
        end = self.draw.randint(begin + 1, size)
        order = self.draw.sample(range(rank), rank)
        parts = [n for n in (2, 4, 8) if rank > 1 and value.shape[-2] % n == 0]
        shapes = [(*value.shape[:-2], value.shape[-2] // n, n, value.shape[-1]) for n in parts]
        shapes.append((math.prod(value.shape[:-1]), value.shape[-1]))
        same = self.pick(lambda v: v.shape == value.shape and v.kind == value.kind) or value
        cut = self.draw.randrange(value.shape[0])
        text = self.draw.choice(
            [f"{'jnp' if begin else 'pltpu'}.roll({name}, {begin}, {axis})", f"{name} - 1",
             f"lax.slice_in_dim({name}, {begin}, {end}, 1, {axis})",
             f"jnp.transpose({name}, {tuple(order)})",
             f"{name}.reshape({self.draw.choice(shapes)})",
             f"jnp.concatenate([{name}, {same.name}], {axis})", f"jnp.stack([{name}, {same.name}])",
             f"jnp.broadcast_to({name}, {(2, *value.shape)})", f"jnp.expand_dims({name}, {axis})",
             f"jnp.repeat({name}, 2, {axis})",
             f"jnp.concatenate([{name}[{cut}:], {name}[:{cut}]])" if cut else f"{name} + 1"]
        )  # fmt: skip
        if self.draw.random() < 0.2:
            amount = Value(self.fresh(), (), "int32")
            self.line(f"{amount.name} = {self.place(size - 1)}")
            self.let(f"pltpu.roll({name}, {amount.name}, {axis})", value, amount)
        else:
            self.let(text, *dict.fromkeys((value, same)))

    def reduce(self) -> None:
        value = self.pick()
        if value is None:
            return
        axis = self.draw.randrange(len(value.shape))
        names = ["any", "all"] if value.kind == "bool" else ["sum", "max", "min"]
        names += ["argmax", "argmin"] if value.kind == "float32" else []
        keep = self.draw.choice(["True", "True", "False"])
        text = f"jnp.{self.draw.choice(names)}({value.name}, axis={axis}, keepdims={keep})"
        self.let(text, value)

    def product(self) -> None:
        value = self.pick(lambda v: len(v.shape) == 2 and v.kind in FLOATS)
        if value is None:
            return
        other = self.pick(lambda v: len(v.shape) == 2 and v.kind == value.kind) or value
        for i, j in ((1, 0), (1, 1), (0, 0), (0, 1)):
            if value.shape[i] == other.shape[j]:
                text = f"{value.name}, {other.name}, ((({i},), ({j},)), ((), ()))"
                text = f"lax.dot_general({text}, preferred_element_type=jnp.float32)"
                self.let(text, *dict.fromkeys((value, other)))
                return

    def loop(self) -> None:
        carried = [self.pick(lambda v: v.kind != "bool") for _ in range(self.draw.randint(1, 3))]
        first = [value for value in dict.fromkeys(carried) if value is not None]
        if not first:
            return
        number, results = self.fresh(), [Value(self.fresh(), v.shape, v.kind) for v in first]
        turns = self.draw.choice(["0, 3", "1, 4", "0, p0", "2, 3", f"0, {self.place(3)}"])
        with self.inside(f"def f{number}(i{number}, carried):"):
            values = [Value(self.fresh(), v.shape, v.kind) for v in first]
            self.line(f"({', '.join(v.name for v in values)},) = carried")
            self.known += [*values, Value(f"i{number}", (), "int32")]
            for _ in range(self.draw.randint(1, 4)):
                self.statement()
            ends = [
                self.pick(lambda v, w=w: (v.shape, v.kind) == (w.shape, w.kind)) for w in values
            ]
            self.line(f"return ({', '.join(end.name for end in ends if end)},)")
        made, given = (", ".join(v.name for v in values) for values in (results, first))
        self.line(f"({made},) = lax.fori_loop({turns}, f{number}, ({given},))")
        self.known += results

    def branch(self) -> None:
        value = self.pick(lambda v: v.kind != "bool")
        if value is None:
            return
        names = [self.fresh(), self.fresh()]
        for name in names:
            with self.inside(f"def f{name}():"):
                for _ in range(self.draw.randint(0, 2)):
                    self.statement()
                end = self.pick(lambda v: (v.shape, v.kind) == (value.shape, value.kind))
                self.line(f"return {end.name if end else value.name}")
        result = Value(self.fresh(), value.shape, value.kind)
        condition = f"p0 {self.draw.choice(COMPARISONS)} {self.place(1)}"
        self.line(f"{result.name} = lax.cond({condition}, f{names[0]}, f{names[1]})")
        self.known.append(result)

    def conditional_store(self) -> None:
        self.line(f"@pl.when(p0 {self.draw.choice(COMPARISONS)} {self.draw.choice([0, 1])})")
        with self.inside(f"def w{self.fresh()}():"):
            self.statement()
            self.store()
