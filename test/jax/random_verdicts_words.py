"""Random kernels of single numbers of every type, of bits, and of parts at unknown places."""

from __future__ import annotations

from .random_verdicts import BITS, HALVES, KINDS, WORDS, Kernel, Ref
from .random_verdicts_memory import SMEM, VMEM
from .random_verdicts_values import Values

_NUMBERS = ("int32", "int32", "uint32", "float32", "float32", "bfloat16", "int16", "uint16", "int8",
            "uint8")  # fmt: skip
_WHOLE = (
    "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} // {y}", "{x} % {y}", "lax.div({x}, {y})",
    "lax.rem({x}, {y})", "{x} & {y}", "{x} | {y}", "{x} ^ {y}", "~{x}", "-{x}", "abs({x})",
    "{x} << ({y} & {three})", "{x} >> ({y} & {three})",
    "lax.shift_right_logical({x}, {y} & {three})", "jnp.minimum({x}, {y})",
    "jnp.maximum({x}, {y})", "jnp.sign({x})", "lax.population_count({x})", "lax.clz({x})",
    "jnp.where({x} > {y}, {x}, {y})", "lax.max({x}, {y})", "lax.integer_pow({x}, 2)",
    "jnp.clip({x}, {three}, {y})", "lax.cond({x} > {y}, lambda: {x}, lambda: {y})",
)  # fmt: skip
_FLOAT = (
    "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / {y}", "-{x}", "abs({x})", "jnp.minimum({x}, {y})",
    "jnp.maximum({x}, {y})", "jnp.where({x} > {y}, {x}, {y})", "jnp.floor({x})", "jnp.sqrt({y})",
    "jnp.exp({x})", "lax.rsqrt({y})", "jnp.tanh({x})", "jnp.sign({x})", "{x} % {y}",
    "lax.integer_pow({x}, 2)", "lax.cond({x} > {y}, lambda: {x}, lambda: {y})", "jnp.round({x})",
    "lax.reduce_precision({x}, 8, 7)",
)  # fmt: skip


class Numbers(Kernel):
    """Arithmetic, choices, casts and loops of scalars of every type, from and to SMEM."""

    tolerance = 2e-2

    def fill(self) -> None:
        draw = self.draw
        self.kind = draw.choice(_NUMBERS)
        self.table = self.input((8,), self.kind, SMEM, "smem")
        self.line(f"v = {self.table.name}[{draw.randrange(8)}]")
        for _ in range(draw.choice([1, 2, 2, 3])):
            self.step()
        self.end()

    def step(self) -> None:
        draw, table, kind = self.draw, self.table, self.kind
        if draw.random() < 0.25:
            self.kind = draw.choice(_NUMBERS)
            if BITS[self.kind] == BITS[kind] and draw.random() < 0.4:
                self.line(f"v = lax.bitcast_convert_type(v, jnp.{self.kind})")
            else:
                self.line(f"v = v.astype(jnp.{self.kind})")
            return
        three = f"jnp.asarray(3, jnp.{kind})"
        if kind == table.kind and draw.random() < 0.6:
            place = self.position(7) if draw.random() < 0.3 else str(draw.randrange(8))
            y = f"{table.name}[{place}]"
            y = f"(abs({y}) + {three})" if kind in ("float32", "bfloat16") else f"({y} | {three})"
        else:
            y = three
        floats = kind in ("float32", "bfloat16")
        text = draw.choice(_FLOAT if floats else _WHOLE).format(x="v", y=y, three=three)
        if draw.random() < 0.12:
            head = draw.choice(["0, 3", f"0, {self.position(3)}", "1, 2"])
            self.line(f"v = lax.fori_loop({head}, lambda i, v: {text}, v)")
        else:
            self.line(f"v = {text}")

    def end(self) -> None:
        draw, kind = self.draw, self.kind
        if draw.random() < 0.5:
            out = self.output((8,), kind, SMEM)
            for place in range(8):
                self.line(f"{out.name}[{place}] = v")
        elif BITS[kind] == 32 or draw.random() < 0.5:
            out = self.output((16, 128), kind, VMEM)
            self.line(f"{out.name}[...] = jnp.full((16, 128), v)")
        else:
            wide = "float32" if kind == "bfloat16" else "int32"
            out = self.output((8, 128), wide, VMEM)
            self.line(f"{out.name}[...] = jnp.full((8, 128), v.astype(jnp.{wide}))")


class Bits(Values):
    """Bits: casts between widths, packed and unpacked elements, counts, precision."""

    def fill(self) -> None:
        kind = self.draw.choice(KINDS)
        value = self.load(self.shape(), kind)
        for _ in range(self.draw.choice([1, 1, 2])):
            value = self.changed(value)
        self.show(value)

    def changed(self, value: Ref) -> Ref:
        draw, shape, name, kind = self.draw, value.shape, value.name, value.kind
        ways = ["cast", "cast", "count", "precision", "pack", "unpack", "same", "lanes"]
        way = draw.choice(ways)
        whole = not kind.startswith(("float", "bf"))
        if way == "cast" and len(shape) > 1:
            *lead, rows, columns = shape
            kinds = [k for k in BITS if rows * BITS[kind] % BITS[k] == 0]
            to = draw.choice(kinds)
            new = (*lead, rows * BITS[kind] // BITS[to], columns)
            return self.let(f"pltpu.bitcast({name}, jnp.{to})", new, to)
        if way == "same":
            to = draw.choice([k for k in BITS if BITS[k] == BITS[kind]])
            return self.let(f"lax.bitcast_convert_type({name}, jnp.{to})", shape, to)
        if way == "lanes" and BITS[kind] >= 8:
            to = draw.choice([k for k in BITS if BITS[k] in (8, 16, 32)])
            ratio = BITS[kind] // BITS[to]
            if ratio > 1:
                text = f"lax.bitcast_convert_type({name}, jnp.{to})"
                return self.let(text, (*shape, ratio), to)
        if way == "count" and whole:
            return self.let(f"lax.{draw.choice(['population_count', 'clz'])}({name})", shape, kind)
        if way == "precision" and kind in ("float32", "bfloat16"):
            digits = draw.choice(["8, 7", "5, 10", "8, 10", "4, 3", "8, 23"])
            return self.let(f"lax.reduce_precision({name}, {digits})", shape, kind)
        if way == "pack" and kind in ("float32", "int32"):
            to = draw.choice(["bfloat16", "int16", "int8"] if kind == "int32" else ["bfloat16"])
            to = to if kind == "float32" or to != "bfloat16" else "int16"
            count = 32 // BITS[to]
            given = ", ".join([name] * count)
            text = f"pltpu.pack_elementwise([{given}], packed_dtype=jnp.{to})"
            packed = self.let(text, shape, "uint32")
            if draw.random() < 0.6:
                index = draw.randrange(count)
                text = (f"pltpu.unpack_elementwise({packed.name}, index={index}, "
                        f"packed_dtype=jnp.{to}, unpacked_dtype=jnp.{kind})")  # fmt: skip
                return self.let(text, shape, kind)
            return packed
        if way == "unpack" and BITS[kind] == 32:
            to, into = draw.choice([("bfloat16", "float32"), ("int16", "int32"), ("int8", "int32")])
            words = f"lax.bitcast_convert_type({name}, jnp.uint32)"
            text = (f"pltpu.unpack_elementwise({words}, index={draw.randrange(32 // BITS[to])}, "
                    f"packed_dtype=jnp.{to}, unpacked_dtype=jnp.{into})")  # fmt: skip
            return self.let(text, shape, into)
        return value


class Starts(Values):
    """Loads and stores with masks and strides at places known at run time."""

    def fill(self) -> None:
        draw = self.draw
        kind = draw.choice((*WORDS, *WORDS, *HALVES, "int8"))
        shape = self.shape(ranks=(1, 2, 2, 2, 3, 3, 4))
        ref = self.input(shape, kind, VMEM)
        indices, part = [], []
        for dim, held in enumerate(shape):
            back = len(shape) - dim
            if draw.random() < 0.4:
                indices.append(":")
                part.append(held)
                continue
            if back > 1 and draw.random() < 0.3:
                indices.append(self.position(held - 1) if draw.random() < 0.6 else "0")
                continue
            step = draw.choice([1, 1, 1, 1, 2, 3, 4]) if back > 1 else 1
            sizes = [n for n in (1, 2, 4, 8, 16, 32, 128, 256) if (n - 1) * step < held]
            size = draw.choice(sizes)
            room = held - 1 - (size - 1) * step
            unit = draw.choice([n for n in (1, 8, 16, 32, 128) if n <= max(1, room)])
            start = self.position(room, unit) if draw.random() < 0.6 else str(room)
            end = f", stride={step}" if step > 1 else ""
            indices.append(f"pl.ds({start}, {size}{end})")
            part.append(size)
        text, size = ", ".join(indices), tuple(part)
        if not size:
            self.show(self.let(f"{ref.name}[...]", shape, kind))
            return
        if draw.random() < 0.5:
            value = self.let(f"{ref.name}[{text}]", size, kind)
            if draw.random() < 0.3 and BITS[kind] >= 16:
                value = self.let(f"{value.name} + {value.name}", size, kind)
            self.show(value)
            return
        out = self.output(shape, kind, VMEM)
        value = self.load(size, kind)
        self.line(f"{out.name}[...] = {ref.name}[...]")
        if draw.random() < 0.4:
            axis = draw.randrange(len(size))
            iota = f"lax.broadcasted_iota(jnp.int32, {size}, {axis})"
            mask = self.let(f"{iota} < {self.position(size[axis])}", size, "bool").name
            self.line(f"pltpu.store({out.name}.at[{text}], {value.name}, mask={mask})")
        elif draw.random() < 0.3 and BITS[kind] >= 16:
            self.line(f"{out.name}[{text}] = {out.name}[{text}] + {value.name}")
        else:
            self.line(f"{out.name}[{text}] = {value.name}")
