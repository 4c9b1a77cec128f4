"""Random kernels that put together what other families draw alone: outputs of several types that
share memory with inputs, masks that nested branches and loops carry, arithmetic of narrow types,
tables of odd shapes, products of odd sizes in loops, numbers that steer stores."""

from __future__ import annotations

from .random_verdicts import KINDS, Ref, Shape
from .random_verdicts_loops import Loops
from .random_verdicts_values import VMEM

SMEM = "pl.BlockSpec(memory_space=pltpu.SMEM)"
NARROW = ("int4", "uint4", "int8", "uint8", "float8_e5m2", "float8_e4m3fn")
SHAPES: tuple[Shape, ...] = (
    (8, 128),
    (16, 128),
    (32, 256),
    (64, 128),
    (24, 200),
    (5, 100),
    (1, 128),
)


def is_float(kind: str) -> bool:
    return "float" in kind


class Results(Loops):
    """Several results of different types, of which some share the memory of an input."""

    def fill(self) -> None:
        draw = self.draw
        count = draw.choice([2, 2, 3])
        kinds = [draw.choice(KINDS) for _ in range(count)]
        shape = draw.choice(SHAPES)
        inputs = [self.input(shape, kind, VMEM) for kind in kinds]
        outputs = [self.output(shape, kind, VMEM) for kind in kinds]
        pairs = draw.sample(range(count), draw.choice([1, 1, count]))
        _ = self.scalars
        first = len(self.prefetched)
        self.options = f", input_output_aliases={ {first + i: i for i in pairs} }"
        whole = draw.choice(["int32", "float32"])
        # A result in VMEM that shares the memory of an input is that input: all is loaded first.
        values = [self.let(f"{x.name}[...]", shape, x.kind) for x in inputs]
        total = " + ".join(f"{x.name}.astype(jnp.{whole})" for x in values)
        self.line(f"total = {total}")
        for i in draw.sample(range(count), count):
            out, value = outputs[i], values[i].name
            plain = "float8" in out.kind or out.kind.startswith("u") or out.kind == "int4"
            if not plain and draw.random() < 0.7:
                value = f"total.astype(jnp.{out.kind})"
            self.line(f"{out.name}[...] = {value}")
            if draw.random() < 0.5 and shape[0] > 8:
                row = "pl.ds(pl.multiple_of(n[1] % 2 * 8, 8), 8)"
                self.line(f"{out.name}[{row}, :] = {values[i].name}[0:8, :]")


class Nested(Loops):
    """Conditions within loops that carry masks, or numbers that masks are made of."""

    def fill(self) -> None:
        draw = self.draw
        kind = draw.choice(["float32", "int32", "bfloat16", "int16", "int8"])
        shape = draw.choice(SHAPES)
        x, y = self.load(shape, kind), self.load(shape, kind)
        _ = self.scalars
        self.line(f"m = {x.name} > {y.name}")
        self.line("def step(i, carry):")
        carries = draw.choice(["mask", "both", "number"])
        condition = draw.choice(
            ["i % 2 == 0", "n[i % 4] > 2", "jnp.max(v.astype(jnp.float32)) > 3"]
        )
        if carries == "mask":
            self.line(f"    m, v = carry, {x.name}")
        elif carries == "both":
            self.line("    m, v = carry")
        else:
            self.line(f"    v = carry; m = v > {y.name}")
        one = draw.choice([f"m & (v < {y.name})", "~m", f"m | (v == {y.name})", "m"])
        other = draw.choice(["m", f"m ^ (v > {x.name})", f"v >= {y.name}"])
        if carries == "number":
            one, other = (f"jnp.where({text}, v, {y.name})" for text in (one, other))
        self.line(f"    r = lax.cond({condition}, lambda: {one}, lambda: {other})")
        last = {"mask": "r", "both": f"r, jnp.where(r, v, {y.name})", "number": "r"}[carries]
        self.line(f"    return {last}")
        begin = {"mask": "m", "both": f"m, {x.name}", "number": x.name}[carries]
        self.line(f"end = lax.fori_loop(0, {draw.choice([2, 4])}, step, ({begin}){self.way()})")
        if carries == "both":
            self.line("end = end[0]")
        self.show(Ref("end", shape, kind if carries == "number" else "bool"))


class Narrow(Loops):
    """Arithmetic, comparisons and reductions of elements of 4 and 8 bits."""

    def fill(self) -> None:
        draw = self.draw
        shape = draw.choice([*SHAPES, (2, 32, 128), (64, 256), (128, 128)])
        kind = draw.choice(NARROW)
        values = [self.load(shape, kind), self.load(shape, kind)]
        for _ in range(draw.choice([1, 2, 3])):
            a, b = draw.choice(values), draw.choice(values)
            if a.kind != b.kind:
                wide = "float32" if is_float(a.kind) or is_float(b.kind) else "int32"
                a, b = (self.let(f"{v.name}.astype(jnp.{wide})", shape, wide) for v in (a, b))
            roll = draw.random()
            if roll < 0.35:
                op = draw.choice(
                    ["+", "-", "*"] if is_float(a.kind) else ["+", "-", "*", "&", "|", "^"]
                )
                values.append(self.let(f"{a.name} {op} {b.name}", shape, a.kind))
            elif roll < 0.55:
                mask = f"{a.name} {draw.choice(['<', '>=', '==', '!='])} {b.name}"
                values.append(self.let(f"jnp.where({mask}, {a.name}, {b.name})", shape, a.kind))
            elif roll < 0.65:
                name = draw.choice(["maximum", "minimum"])
                values.append(self.let(f"jnp.{name}({a.name}, {b.name})", shape, a.kind))
            elif roll < 0.75:
                values.append(self.let(f"-{a.name}", shape, a.kind))
            else:
                other = draw.choice(["int8", "bfloat16", "float32", "int32", "float8_e5m2", "int4"])
                values.append(self.let(f"{a.name}.astype(jnp.{other})", shape, other))
        last = values[-1]
        if draw.random() < 0.3:
            whole = "float32" if is_float(last.kind) else "int32"
            text = f"jnp.sum({last.name}.astype(jnp.{whole}), axis=-1, keepdims=True)"
            last = self.let(text, (*shape[:-1], 1), whole)
        self.show(last)


class OddTables(Loops):
    """Tables in SMEM of any shape and type: scalars computed with, broadcast and stored."""

    def fill(self) -> None:
        draw = self.draw
        table_shape = draw.choice(
            [(3,), (7, 5), (130,), (2, 3, 5), (1, 1), (5, 129), (17, 2), (300,)]
        )
        kind = draw.choice(["int32", "float32", "int32", "uint32", "int16", "int8", "bfloat16"])
        table = self.input(table_shape, kind, SMEM, "smem")
        shape = draw.choice([*SHAPES, (2, 8, 128)])
        x = self.load(shape, draw.choice(["float32", "int32", "bfloat16"]))
        _ = self.scalars

        def at(step: str) -> str:
            places = [f"({step} + {draw.randrange(4)}) % {size}" for size in table_shape]
            return f"{table.name}[{', '.join(places)}]"

        wide = "float32" if is_float(kind) else "int32"
        start = draw.choice(["0", "n[0]", "n[2]"])
        larger = "jnp.where({0} > s, {0}, s + 1)"
        body = draw.choice(["s + {0}", "jnp.maximum(s, {0})", larger, "s * 2 - {0}"])
        body = body.format(f"{at('i')}.astype(jnp.{wide})")
        self.line(f"s = lax.fori_loop({start}, 6, lambda i, s: {body}, jnp.{wide}(1){self.way()})")
        ways = ["add", "where", "full", "row", "store"]
        way = draw.choice(ways)
        cast = f"s.astype(jnp.{x.kind})"
        if way == "add":
            self.show(self.let(f"{x.name} + {cast}", shape, x.kind))
        elif way == "where":
            text = f"jnp.where(s > {draw.choice(['2', '100', at('n[1]')])}, {x.name}, -{x.name})"
            self.show(self.let(text, shape, x.kind))
        elif way == "full":
            self.show(self.let(f"jnp.full({shape}, {cast}) * {x.name}", shape, x.kind))
        elif way == "row":
            iota = f"lax.broadcasted_iota(jnp.int32, {shape}, {draw.randrange(len(shape))})"
            text = f"jnp.where({iota} == s.astype(jnp.int32), {x.name}, jnp.zeros_like({x.name}))"
            self.show(self.let(text, shape, x.kind))
        else:
            out = self.output(table_shape, kind, SMEM)
            zeros = ", ".join(["0"] * len(table_shape))
            for place in (zeros, ", ".join(f"n[1] % {size}" for size in table_shape)):
                self.line(f"{out.name}[{place}] = s.astype(jnp.{kind})")
            self.compared = False
            self.show(x)


class OddProducts(Loops):
    """Products of odd sizes within loops, accumulated in a buffer or carried."""

    def fill(self) -> None:
        draw = self.draw
        m, k, n = (draw.choice([1, 5, 8, 16, 24, 40, 100, 128, 130, 200]) for _ in range(3))
        kind = draw.choice(["float32", "bfloat16", "int8", "float8_e5m2", "float32"])
        total = "int32" if kind == "int8" else "float32"
        steps = draw.choice([2, 3])
        form = draw.choice(["nn", "nt", "tn"])
        left, right = (k, m) if form == "tn" else (m, k), (n, k) if form == "nt" else (k, n)
        x, y = self.input((steps, *left), kind, VMEM), self.input((steps, *right), kind, VMEM)
        numbers = {"nn": "((1,), (0,))", "nt": "((1,), (1,))", "tn": "((0,), (0,))"}[form]
        _ = self.scalars
        step = draw.choice(["i", "i", f"n[i] % {steps}"])
        product = (
            f"lax.dot_general({x.name}[{step}], {y.name}[i], ({numbers}, ((), ())), "
            f"preferred_element_type=jnp.{total})"
        )
        if draw.random() < 0.5:
            text = f"lambda i, c: c + {product}, jnp.zeros({(m, n)}, jnp.{total})"
            done = self.let(f"lax.fori_loop(0, {steps}, {text}{self.way()})", (m, n), total)
        else:
            held = self.buffer((m, n), total)
            self.line(f"{held.name}[...] = jnp.zeros({(m, n)}, jnp.{total})")
            self.line(f"@pl.loop(0, {steps}{self.way()})")
            self.line("def _(i):")
            guard = draw.choice(["", "n[i] > 1"])
            if guard:
                self.line(f"    @pl.when({guard})")
                self.line("    def _():")
            self.line(f"    {'    ' if guard else ''}{held.name}[...] += {product}")
            done = self.let(f"{held.name}[...]", (m, n), total)
        if draw.random() < 0.5:
            done = self.let(f"jnp.max({done.name}, axis=1, keepdims=True)", (m, 1), total)
        self.show(done)


class Steered(Loops):
    """Numbers that reductions give decide where, and whether, something is stored."""

    def fill(self) -> None:
        draw = self.draw
        kind = draw.choice(["float32", "int32", "bfloat16", "int8"])
        shape = draw.choice([(16, 128), (32, 128), (32, 256), (64, 100), (4, 8, 128)])
        x = self.load(shape, kind)
        wide = "float32" if is_float(kind) else "int32"
        value = f"{x.name}.astype(jnp.{wide})"
        found = draw.choice([
            f"jnp.max({value})", f"jnp.sum({value})", f"jnp.min({value})",
            f"jnp.sum(({value} > 2).astype(jnp.int32))", f"jnp.max(jnp.argmax({value}, axis=-1))",
            f"jnp.max({value}[..., :1])",
        ])  # fmt: skip
        self.line(f"s = {found}")
        self.line("s = jnp.abs(s.astype(jnp.int32))")
        out = self.output(shape, kind, VMEM)
        self.line(f"{out.name}[...] = {x.name}")
        way = draw.choice(["when", "place", "leading", "loop", "scalar"])
        if way == "leading" and len(shape) == 3:
            self.line(f"{out.name}[s % {shape[0]}] = {x.name}[0]")
        elif way in ("place", "leading"):
            unit = draw.choice([8, 8, 16, 1]) if len(shape) == 2 else 1
            place = f"s % {max(1, shape[-2] // unit)}"
            place = place if unit == 1 else f"pl.multiple_of({place} * {unit}, {unit})"
            lead = "0, " if len(shape) == 3 else ""
            part = f"{lead}pl.ds({place}, {unit}), :"
            self.line(f"{out.name}[{part}] = {out.name}[{part}] + {out.name}[{part}]")
        elif way == "loop":
            self.line("@pl.loop(0, s % 4)")
            self.line("def _(i):")
            self.line(f"    {out.name}[...] = {out.name}[...] + {x.name}")
        elif way == "scalar":
            numbers = self.output((2, 3), "int32", SMEM)
            for i in range(6):
                self.line(f"{numbers.name}[{i // 3}, {i % 3}] = s + {i}")
        else:
            self.line(f"@pl.when(s > {draw.choice([3, 7, 100])})")
            self.line("def _():")
            self.line(f"    {out.name}[...] = -{x.name}")
