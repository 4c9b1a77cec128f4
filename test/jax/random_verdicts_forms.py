"""Random kernels of values and refs in other forms: many dimensions, strided parts, rotations by
rows, refs seen as other types with parts at unknown places, functions within functions."""

from __future__ import annotations

import math

from .random_verdicts import BITS, Ref
from .random_verdicts_loops import Loops
from .random_verdicts_mixtures import SHAPES
from .random_verdicts_values import VMEM


class Ranks(Loops):
    """Transposes of five dimensions, strided parts of three, rotations by rows."""

    def fill(self) -> None:
        draw = self.draw
        way = draw.choice(["transpose", "transpose", "strided", "roll", "reshape"])
        kind = draw.choice(["float32", "int32", "float32", "bfloat16", "int8", "int16"])
        getattr(self, f"_{way}")(kind)

    def _transpose(self, kind: str) -> None:
        draw = self.draw
        lead = tuple(draw.choice([1, 2, 3]) for _ in range(draw.choice([2, 3])))
        shape = (*lead, draw.choice([4, 8, 16]), draw.choice([8, 64, 128]))
        x = self.load(shape, kind)
        order = list(range(len(shape)))
        if draw.random() < 0.5:
            draw.shuffle(order)
        else:
            i, j = draw.sample(order, 2)
            order[i], order[j] = order[j], order[i]
        moved = tuple(shape[d] for d in order)
        self.show(self.let(f"jnp.transpose({x.name}, {tuple(order)})", moved, kind))

    def _strided(self, kind: str) -> None:
        draw = self.draw
        shape = (draw.choice([2, 4, 6]), draw.choice([8, 16, 32]), draw.choice([128, 128, 256, 64]))
        x = self.input(shape, kind, VMEM)
        strides = [draw.choice([1, 2]), draw.choice([1, 2, 3, 4]), 1]
        starts = [draw.randrange(stride) for stride in strides]
        sizes = [-(-(n - a) // s) for n, a, s in zip(shape, starts, strides, strict=True)]
        parts = [f"pl.ds({a}, {n}, {s})" if s > 1 else f"pl.ds({a}, {n})"
                 for a, n, s in zip(starts, sizes, strides, strict=True)]  # fmt: skip
        self.show(self.let(f"{x.name}[{', '.join(parts)}]", tuple(sizes), kind))

    def _roll(self, kind: str) -> None:
        draw = self.draw
        shape = draw.choice([(8, 128), (16, 128), (32, 256), (2, 8, 128), (24, 384), (8, 100)])
        x = self.load(shape, kind)
        axis = len(shape) - draw.choice([1, 1, 2])
        amount = draw.choice([f"n[1] % {shape[axis]}", "n[2]", str(draw.randrange(shape[axis]))])
        _ = self.scalars
        rows = len(shape) - 2 if axis == len(shape) - 1 else len(shape) - 1
        stride = (
            f", stride={draw.choice([1, 2, 5])}, stride_axis={rows}" if draw.random() < 0.6 else ""
        )
        text = f"pltpu.roll({x.name}, {amount}, {axis}{stride})"
        self.compared = not stride
        self.show(self.let(text, shape, kind))

    def _reshape(self, kind: str) -> None:
        draw = self.draw
        shapes = [(2, 3, 8, 128), (4, 2, 16, 64), (2, 2, 2, 8, 128), (6, 4, 128), (3, 5, 128)]
        shape = draw.choice(shapes)
        x = self.load(shape, kind)
        size = math.prod(shape)
        last = draw.choice([n for n in (64, 128, 256, 512, shape[-1]) if size % n == 0])
        rest = size // last
        rows = draw.choice([n for n in (1, 2, 3, 4, 8, 16, rest) if rest % n == 0])
        wanted = draw.choice([(rest // rows, rows, last), (rest, last)])
        self.show(self.let(f"{x.name}.reshape({wanted})", wanted, kind))


class Recast(Loops):
    """Refs seen as words or in other shapes, of which parts at unknown places are read, written."""

    def fill(self) -> None:
        draw = self.draw
        kind = draw.choice(["bfloat16", "int8", "float32", "int16", "int32", "uint4"])
        lead = draw.choice([(), (2,), (4,)])
        shape = (*lead, draw.choice([16, 32, 64]), draw.choice([128, 256]))
        held = self.buffer(shape, kind)
        x = self.input(shape, kind, VMEM)
        self.line(f"{held.name}[...] = {x.name}[...]")
        view, now, element = held.name, list(shape), kind
        count = draw.choice([1, 2])
        # JAX's interpreter does not have all views of views.
        self.compared = count == 1
        for _ in range(count):
            if draw.random() < 0.6:
                others = [k for k in ("int32", "float32", "bfloat16", "int8") if k != element]
                last, element = element, draw.choice(others)
                now[-2] = now[-2] * BITS[last] // BITS[element]
                view = f"{view}.bitcast(jnp.{element})"
            else:
                whole = math.prod(now[:-1])
                now = [whole, now[-1]] if len(now) > 2 else [2, whole // 2, now[-1]]
                view = f"{view}.reshape({', '.join(map(str, now))})"
            if now[-2] < 8:
                break
        rows = now[-2]
        size = draw.choice([n for n in (1, 2, 8, 16) if n <= rows])
        place = self.position(rows - size, draw.choice([1, 8, 8, 16, size]))
        head = "".join(f"{self.draw.randrange(n)}, " for n in now[:-2])
        self.line(f"view = {view}")
        part = f"{head}pl.ds({place}, {size}), :"
        got = self.let(f"view[{part}]", (size, now[-1]), element)
        if draw.random() < 0.4:
            self.line(f"view[{head}pl.ds(0, {size}), :] = {got.name}")
            self.show(self.let(f"{held.name}[...]", shape, kind))
        self.show(got)


class Inner(Loops):
    """Functions within the kernel, jitted or not, called twice, with numbers from SMEM."""

    def fill(self) -> None:
        draw = self.draw
        kind = draw.choice(["float32", "int32", "bfloat16", "int8", "int16"])
        shape = draw.choice([*SHAPES, (2, 8, 128)])
        x, y = self.load(shape, kind), self.load(shape, kind)
        _ = self.scalars
        self.line(draw.choice(["@jax.jit", "@jax.jit", "@jax.named_call", "@jax.checkpoint"]))
        self.line("def f(a, b, s):")
        bodies = [
            "jnp.where(s > 1, a + b, a - b)",
            f"jnp.where(a > b, a, b * s.astype(jnp.{kind}))",
            f"a + jnp.sum(b.astype(jnp.float32), axis=-1, keepdims=True).astype(jnp.{kind})",
            "lax.fori_loop(0, s, lambda i, c: c + b, a)",
            "lax.cond(s % 2 == 0, lambda: a + b, lambda: a * b)",
            f"jnp.maximum(a, jnp.full(b.shape, s.astype(jnp.{kind})))",
            f"jnp.flip(a.astype(jnp.float32) + 1, -2).astype(jnp.{kind})",
            "jax.nn.relu(a) + jnp.clip(b, -2, 2)",
        ]
        self.line(f"    return ({draw.choice(bodies)}).astype(jnp.{kind})")
        self.line(f"u = f({x.name}, {y.name}, n[1])")
        self.line(f"w = f(u, {x.name}, n[{draw.choice([0, 2])}])")
        self.show(Ref("w", shape, kind))
