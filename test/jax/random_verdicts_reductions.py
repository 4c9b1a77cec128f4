"""Random kernels of reductions along every set of axes, and of elements that change places."""

from __future__ import annotations

import math

from .random_verdicts import BITS, Ref
from .random_verdicts_values import Values

_KINDS = (*["float32", "int32"] * 5, *["bool"] * 3, "bfloat16", "uint32", "int16")


class Reductions(Values):
    """Sums, extrema, their places, any and all along every set of axes."""

    def fill(self) -> None:
        draw, shape = self.draw, self.shape()
        kind = draw.choice(_KINDS)
        value = self.load(shape, kind if kind != "bool" else "int32")
        if kind == "bool":
            value = self.let(f"{value.name} > 1", shape, kind)
        axes = tuple(sorted(draw.sample(range(len(shape)), draw.randint(1, len(shape)))))
        names = ["any", "all"] if kind == "bool" else ["sum", "sum", "max", "min"]
        name, keep = draw.choice(names), draw.random() < 0.5
        if kind != "bool" and draw.random() < 0.2:
            self.index(value)
            return
        given = f"axis={axes if len(axes) > 1 else axes[0]}, keepdims={keep}"
        if name == "sum" and kind != "float32" and draw.random() < 0.7:
            given += f", dtype=jnp.{kind}"
        out = tuple(1 if d in axes else n for d, n in enumerate(shape) if keep or d not in axes)
        if name == "sum" and kind == "bfloat16":
            self.tolerance = 5e-2
        result = self.let(f"jnp.{name}({value.name}, {given})", out, kind)
        if kind != "bool":
            result = self.let(f"{result.name}.astype(jnp.{kind})", out, kind)
        if draw.random() < 0.3 and keep:
            result = self.let(f"jnp.broadcast_to({result.name}, {shape})", shape, kind)
        self.show(result)

    def index(self, value: Ref) -> None:
        axis = self.draw.randrange(len(value.shape))
        name, keep = self.draw.choice(["argmax", "argmin"]), self.draw.random() < 0.4
        out = tuple(1 if d == axis else n for d, n in enumerate(value.shape) if keep or d != axis)
        self.show(self.let(f"jnp.{name}({value.name}, {axis}, keepdims={keep})", out, "int32"))


class Arrangements(Values):
    """Elements that change places: rolls, padding, tiles, stacks, halves, triangles, new lanes."""

    def fill(self) -> None:
        draw, shape = self.draw, self.shape()
        kind = draw.choice(("float32", "int32", "bfloat16", "int16", "uint32"))
        value = self.load(shape, kind)
        axis = draw.randrange(len(shape))
        way = draw.choice(["tril", "roll", "pad", "tile", "stack", "split", "outer", "repeat"])
        name, total = value.name, math.prod(shape)
        if way == "tril" and len(shape) > 1:
            text = f"jnp.{draw.choice(['tril', 'triu'])}({name}, {draw.choice([-1, 0, 1])})"
            self.show(self.let(text, shape, kind))
        elif way == "roll":
            shift = draw.choice([1, shape[axis] - 1, 3, shape[axis] // 2])
            self.show(self.let(f"jnp.roll({name}, {shift}, {axis})", shape, kind))
        elif way == "pad" and BITS[kind] >= 16:
            widths = [(0, 0)] * len(shape)
            widths[axis] = draw.choice([(0, 8), (8, 0), (0, 128), (1, 0), (0, 1), (128, 0), (3, 5)])
            grown = tuple(n + sum(w) for n, w in zip(shape, widths, strict=True))
            self.show(self.let(f"jnp.pad({name}, {tuple(widths)})", grown, kind))
        elif way == "tile":
            times = tuple(draw.choice([1, 1, 2, 3]) for _ in shape)
            new = tuple(n * t for n, t in zip(shape, times, strict=True))
            self.show(self.let(f"jnp.tile({name}, {times})", new, kind))
        elif way == "stack":
            at = draw.randint(0, len(shape))
            new = (*shape[:at], 2, *shape[at:])
            self.show(self.let(f"jnp.stack([{name}, {name}], {at})", new, kind))
        elif way == "split" and shape[axis] % 2 == 0:
            new = (*shape[:axis], shape[axis] // 2, *shape[axis + 1 :])
            self.show(self.let(f"jnp.split({name}, 2, {axis})[1]", new, kind))
        elif way == "repeat":
            new = (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])
            self.show(self.let(f"jnp.repeat({name}, 2, {axis})", new, kind))
        elif way == "outer" and total <= 1 << 13:
            new = (*shape, 8)
            text = f"{name}[..., None] * jnp.ones((8,), jnp.{kind})"
            self.show(self.let(text, new, kind))
        else:
            self.show(value)
