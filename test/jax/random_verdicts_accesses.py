"""Random kernels of accesses: gathers, rotations, strides, masks, random numbers."""

from __future__ import annotations

from .random_verdicts import HALVES, WORDS, Ref, Shape
from .random_verdicts_memory import VMEM
from .random_verdicts_values import Values


class Gathers(Values):
    """`take_along_axis` and `jnp.take` with indices of every width, and of parts."""

    def fill(self) -> None:
        draw = self.draw
        shape = draw.choice([(8, 128), (8, 128), (16, 128), (32, 128), (8, 256), (2, 8, 128),
                             (4, 128), (8, 64), (1, 128), (16, 256), self.shape()])  # fmt: skip
        kind = draw.choice((*WORDS, *WORDS, *WORDS, *HALVES, "int8", "float8_e5m2"))
        axis = draw.randrange(max(0, len(shape) - 2), len(shape))
        table = self.load(shape, kind)
        size = shape[axis] if draw.random() < 0.9 else draw.choice([8, 16, 128])
        new = (*shape[:axis], size, *shape[axis + 1 :])
        indices = self.load(new, draw.choice([*["int32"] * 6, "int16", "int8"]))
        name = f"(abs({indices.name}) % {shape[axis]})"
        if indices.kind != "int32":
            name = f"abs({indices.name})"
            if shape[axis] < 8:
                name = f"({name} & jnp.asarray(0, jnp.{indices.kind}))"
        elif draw.random() < 0.2:
            name = f"((lax.broadcasted_iota(jnp.int32, {new}, {axis}) * 3) % {shape[axis]})"
        modes = ["", ", mode='promise_in_bounds'", ", mode='clip'"]
        text = f"jnp.take_along_axis({table.name}, {name}, {axis}{draw.choice(modes)})"
        self.show(self.let(text, new, kind))


class Rolls(Values):
    """`pltpu.roll` by known and unknown amounts, also negative, with strides, along every axis."""

    def fill(self) -> None:
        draw, shape = self.draw, self.shape(ranks=(1, 2, 2, 2, 2, 3, 4))
        kind = draw.choice((*WORDS, *WORDS, *HALVES, "int8"))
        value = self.load(shape, kind)
        for _ in range(draw.choice([1, 1, 2])):
            axis = draw.randrange(len(shape))
            size = shape[axis]
            amount = str(draw.choice([0, 1, 3, size // 2, size - 1, size]))
            if draw.random() < 0.4:
                amount = draw.choice([self.position(size - 1), f"{draw.choice(self.scalars)} - 5"])
            given = ""
            if draw.random() < 0.3 and len(shape) > 1:
                other = draw.choice([d for d in range(len(shape)) if d != axis])
                given = f", stride={draw.choice([1, 1, 2, 3, 8])}, stride_axis={other}"
            text = f"pltpu.roll({value.name}, {amount}, {axis}{given})"
            value = self.let(text, shape, kind)
        self.show(value)


class Strides(Values):
    """Loads and stores of every n-th row or column, at known and unknown places."""

    def fill(self) -> None:
        draw = self.draw
        kind = draw.choice((*WORDS, *WORDS, *HALVES, "int8"))
        shape = self.shape(ranks=(1, 2, 2, 2, 3, 3))
        ref = self.input(shape, kind, VMEM)
        view, part = self.strided(ref)
        if draw.random() < 0.5:
            self.show(self.let(f"{ref.name}[{view}]", part, kind))
            return
        out = self.output(shape, kind, VMEM)
        value = self.load(part, kind)
        self.line(f"{out.name}[...] = {ref.name}[...]")
        self.line(f"{out.name}[{view}] = {value.name}")

    def strided(self, ref: Ref) -> tuple[str, Shape]:
        draw, indices, part = self.draw, [], []
        one = draw.randrange(len(ref.shape))
        for dim, held in enumerate(ref.shape):
            if dim != one and draw.random() < 0.7:
                indices.append(":")
                part.append(held)
                continue
            step = draw.choice([1, 2, 2, 3, 4, 8]) if dim == one else 1
            most = (held - 1) // step + 1
            size = draw.choice(
                [n for n in {1, 2, 4, 8, 16, 128, most, held // step} if 0 < n <= most]
            )
            room = held - 1 - (size - 1) * step
            start = self.position(room) if draw.random() < 0.3 else str(draw.choice([0, room]))
            end = f", stride={step}" if step > 1 else ""
            indices.append(f"pl.ds({start}, {size}{end})")
            part.append(size)
        return ", ".join(indices), tuple(part)


class Masked(Values):
    """Stores under masks of whole refs and of parts, at known and unknown places."""

    def fill(self) -> None:
        draw, shape = self.draw, self.shape(ranks=(1, 2, 2, 2, 3))
        kind = draw.choice((*WORDS, *WORDS, *WORDS, "bfloat16"))
        out = self.output(shape, kind, VMEM)
        first = self.load(shape, kind)
        self.line(f"{out.name}[...] = {first.name}")
        indices, part = [], []
        for held in shape:
            size = draw.choice([n for n in (held, held, held, 8, 16, 128) if n <= held])
            start = draw.choice([0, held - size])
            dynamic = size < held and draw.random() < 0.2
            place = self.position(held - size) if dynamic else str(start)
            indices.append(":" if size == held else f"pl.ds({place}, {size})")
            part.append(size)
        mask = self.mask(tuple(part))
        ref = f"{out.name}.at[{', '.join(indices)}]"
        value = self.load(tuple(part), kind)
        self.line(f"pltpu.store({ref}, {value.name}, mask={mask})")

    def mask(self, shape: Shape) -> str:
        draw = self.draw
        axis = draw.randrange(len(shape))
        iota = f"lax.broadcasted_iota(jnp.int32, {shape}, {axis})"
        if draw.random() < 0.6:
            text = f"{iota} {draw.choice(['<', '>=', '=='])} {self.position(shape[axis])}"
        else:
            other = self.load(shape, draw.choice(["int32", "float32", "bfloat16", "int16", "int8"]))
            text = f"{other.name} > jnp.asarray(1, jnp.{other.kind})"
        return self.let(text, shape, "bool").name


class Randoms(Values):
    """Random bits of the hardware, seeded by scalars, in every form that JAX has."""

    compared = False

    def fill(self) -> None:
        draw, shape = self.draw, self.shape()
        seeds = draw.choice(["0", "n[1]", "1, 2", "n[0], n[1]"])
        if "n" in seeds:
            _ = self.scalars
        self.line(f"pltpu.prng_seed({seeds})")
        bits = self.let(f"pltpu.prng_random_bits({shape})", shape, "int32")
        way = draw.choice(["bits", "float", "stochastic", "uniform", "normal", "unsigned"])
        kind = "int32"
        if way == "float":
            kind = "float32"
            bits = self.let(f"{bits.name}.astype(jnp.float32)", shape, kind)
        elif way == "stochastic":
            kind = draw.choice(["bfloat16", "float8_e5m2", "float8_e4m3fn"])
            x = self.load(shape, "float32")
            word = f"pltpu.bitcast({bits.name}, jnp.uint32)" if len(shape) > 1 else bits.name
            text = f"pltpu.stochastic_round({x.name}, {word}, target_dtype=jnp.{kind})"
            bits = self.let(text, shape, kind)
        elif way == "uniform":
            kind = "float32"
            text = f"(lax.shift_right_logical({bits.name}, 9)).astype(jnp.float32)"
            bits = self.let(text, shape, kind)
        elif way == "normal":
            kind = "float32"
            text = f"pltpu.stateful_normal({shape}, jnp.float32)"
            bits = self.let(text, shape, kind)
        elif way == "unsigned":
            kind = draw.choice(["uint32", "int16", "int8"])
            bits = self.let(f"{bits.name}.astype(jnp.{kind})", shape, kind)
        self.show(bits)
