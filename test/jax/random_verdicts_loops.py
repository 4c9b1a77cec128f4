"""Random kernels of loops over memory: scans, scatters, states that loops carry."""

from __future__ import annotations

from .random_verdicts import BITS, KINDS, Ref, Shape
from .random_verdicts_values import VMEM, Values

_STATES = ("float32", "float32", "int32", "bfloat16", "int16", "int8", "bool", "uint32")


class Loops(Values):
    tolerance = 5e-2

    def bounds(self, most: int) -> str:
        draw = self.draw
        return draw.choice([f"0, {most}", f"0, {most}", f"1, {most}", f"0, {self.position(most)}"])

    def way(self) -> str:
        """How a loop is unrolled."""
        return self.draw.choice(["", "", "", ", unroll=True", ", unroll=2"])

    def one(self, kind: str) -> str:
        return f"jnp.asarray(1, jnp.{kind})"


class Scatters(Loops):
    """Rows, lanes and tiles of a buffer written or added to at places known at run time."""

    def fill(self) -> None:
        draw = self.draw
        kind = draw.choice(KINDS)
        lead = draw.choice([(), (), (), (2,), (4,)])
        rows, columns = draw.choice([8, 16, 24, 32, 64]), draw.choice([1, 72, 128, 128, 256, 384])
        held = self.buffer((*lead, rows, columns), kind)
        zero = "False" if kind == "bool" else "0"
        self.line(f"{held.name}[...] = jnp.full({held.shape}, {zero}, jnp.{kind})")
        count = draw.choice([1, 1, 2, 4, 8])
        source = self.input((8 * count, columns), kind, VMEM)
        looped = draw.random() < 0.7
        if looped:
            self.line(f"@pl.loop({self.bounds(draw.choice([1, 4, 7]))}{self.way()})")
            self.line("def _(i):")
            self.depth += 1
            step = "i"
        else:
            step = self.position(3)
        for _ in range(draw.choice([1, 1, 2])):
            self._written(held, source, count, step)
        if looped:
            self.depth -= 1
        self.show(self.let(f"{held.name}[...]", held.shape, kind))

    def _written(self, held: Ref, source: Ref, count: int, step: str) -> None:
        draw = self.draw
        *lead, rows, columns = held.shape
        place = draw.choice([step, f"(n[{step}] % {rows // 8})" if step == "i" else "n[2] % 2"])
        if "n[" in place:
            _ = self.scalars
        row = self._row(place, rows, count)
        few = min(128, columns)
        aligned = f"pl.ds({few} * ({place} % {max(columns // 128, 1)}), {few})"
        lane = draw.choice([":", ":", ":", aligned])
        first = f"{place} % {lead[0]}, " if lead else ""
        part = f"{first}{row}, {lane}"
        some = draw.choice([f"pl.ds({step}, {count})", f"0:{count}"])
        given = f"{source.name}[{some}, {':' if lane == ':' else f'0:{few}'}]"
        way = draw.choice(["set", "set", "add", "masked", "one", "max"])
        target = f"{held.name}[{part}]"
        if way == "add" and BITS[held.kind] >= 16:
            self.line(f"{target} += {given}")
        elif way == "max" and held.kind in ("float32", "int32", "bfloat16"):
            self.line(f"{target} = jnp.maximum({target}, {given})")
        elif way == "masked" and count > 1:
            self.line(f"mask = lax.broadcasted_iota(jnp.int32, {given}.shape, 0) < {place} + 1")
            self.line(f"pltpu.store({held.name}.at[{part}], {given}, mask=mask)")
        elif way == "one" and not lead:
            self.line(f"{held.name}[{place} % {rows}, :] = {source.name}[{step}, :]")
        else:
            self.line(f"{target} = {given}")

    def _row(self, place: str, rows: int, count: int) -> str:
        """Some rows: at any place, or at a multiple of their number."""
        most = rows - count
        style = self.draw.choice(["any", "multiple", "said", "strided"])
        if style == "any" or not most:
            return f"pl.ds({place} % {most + 1}, {count})"
        if style == "strided" and rows >= 2 * count:
            return f"pl.ds({place} % {rows - 2 * count + 1}, {count}, 2)"
        index = f"({place} % {rows // count}) * {count}"
        return (
            f"pl.ds({f'pl.multiple_of({index}, {count})' if style == 'said' else index}, {count})"
        )


class Scans(Loops):
    """Sums, maxima and recurrences along rows or lanes, by loops and by rotations."""

    def fill(self) -> None:
        draw = self.draw
        kind = draw.choice(["float32", "float32", "int32", "bfloat16", "int16"])
        rows, columns = draw.choice([8, 16, 20, 32, 64]), draw.choice([1, 8, 100, 128, 256])
        self.shape_of: Shape = (rows, columns)
        x = self.input(self.shape_of, kind, VMEM)
        getattr(
            self, f"_{draw.choice(['carried', 'stored', 'shifted', 'steps', 'blocks', 'rolled'])}"
        )(x)

    def _gate(self, x: Ref) -> str:
        return self.draw.choice(["0.5 * ", "", ""]) if x.kind == "float32" else ""

    def _row(self, x: Ref, i: str) -> tuple[str, Shape]:
        columns = x.shape[1]
        if self.draw.random() < 0.6:
            return f"{x.name}[pl.ds({i}, 1), :]", (1, columns)
        return f"{x.name}[{i}, :]", (columns,)

    def _carried(self, x: Ref) -> None:
        """One row is carried, all are stored."""
        out = self.output(x.shape, x.kind, VMEM)
        given, shape = self._row(x, "i")
        place = f"{out.name}[{'pl.ds(i, 1)' if len(shape) == 2 else 'i'}, :]"
        self.line("def step(i, total):")
        self.line(f"    total = {self._gate(x)}total + {given}")
        self.line(f"    {place} = total")
        self.line("    return total")
        bounds = f"0, {x.shape[0]}"
        self.line(f"lax.fori_loop({bounds}, step, jnp.zeros({shape}, jnp.{x.kind}){self.way()})")

    def _stored(self, x: Ref) -> None:
        """Each row is made of the one before it, in memory."""
        out = self.output(x.shape, x.kind, VMEM)
        self.line(f"{out.name}[...] = {x.name}[...]")
        self.line(f"@pl.loop(1, {x.shape[0]}{self.way()})")
        self.line("def _(i):")
        rows = self.draw.choice(["pl.ds(i, 1)", "i"])
        before = rows.replace("i", "i - 1", 1) if rows == "i" else "pl.ds(i - 1, 1)"
        self.line(
            f"    {out.name}[{rows}, :] = "
            f"{self._gate(x)}{out.name}[{before}, :] + {x.name}[{rows}, :]"
        )

    def _shifted(self, x: Ref) -> None:
        """Sums of twice as many, by joins with zeros."""
        value = self.let(f"{x.name}[...]", x.shape, x.kind)
        axis = self.draw.choice([0, 1])
        distance = 1
        for _ in range(3):
            if distance >= x.shape[axis]:
                break
            gone = tuple(distance if d == axis else n for d, n in enumerate(x.shape))
            part = f"lax.slice_in_dim({value.name}, 0, {x.shape[axis] - distance}, 1, {axis})"
            text = (
                f"{value.name} + jnp.concatenate([jnp.zeros({gone}, jnp.{x.kind}), {part}], {axis})"
            )
            value, distance = self.let(text, x.shape, x.kind), 2 * distance
        self.show(value)

    def _rolled(self, x: Ref) -> None:
        """The same by rotations and a mask."""
        value = self.let(f"{x.name}[...]", x.shape, x.kind)
        axis = self.draw.choice([0, 1])
        self.line(f"place = lax.broadcasted_iota(jnp.int32, {x.shape}, {axis})")
        word = self.draw.choice(["jnp.roll", "pltpu.roll"])
        for distance in (1, 2, 4):
            if distance < x.shape[axis]:
                turned = f"{word}({value.name}, {distance}, {axis})"
                zero = f"jnp.zeros({x.shape}, jnp.{x.kind})"
                text = f"{value.name} + jnp.where(place >= {distance}, {turned}, {zero})"
                value = self.let(text, x.shape, x.kind)
        self.show(value)

    def _steps(self, x: Ref) -> None:
        """While some lane is small."""
        first = self.let(f"{x.name}[0:8, :]", (8, x.shape[1]), x.kind)
        self.line("def more(carried):")
        self.line(f"    return carried[0] < {self.position(4)}")
        self.line("def step(carried):")
        self.line("    i, total, most = carried")
        self.line(f"    row = {x.name}[pl.ds(i, 8), :]")
        bigger = "jnp.maximum(most, row)" if x.kind != "int16" else "most - row"
        self.line(f"    return i + 1, total + row, {bigger}")
        given = f"(jnp.int32(0), jnp.zeros_like({first.name}), {first.name})"
        self.line(f"_, total, most = lax.while_loop(more, step, {given})")
        self.show(Ref("total", first.shape, x.kind))
        self.show(Ref("most", first.shape, x.kind))

    def _blocks(self, x: Ref) -> None:
        """A state that is multiplied by blocks of a matrix."""
        if x.kind in ("int16", "int32"):
            return self._carried(x)
        rows, columns = x.shape
        w = self.load((columns, columns), x.kind)
        out = self.output(x.shape, x.kind, VMEM)
        self.line("@pl.loop(0, " + str(rows // 8) + self.way() + ")")
        self.line("def _(i):")
        place = self.draw.choice(["pl.ds(i * 8, 8)", "pl.ds(pl.multiple_of(i * 8, 8), 8)"])
        self.line(f"    part = {x.name}[{place}, :]")
        self.line(f"    total = jnp.dot(part, {w.name}, preferred_element_type=jnp.float32)")
        self.line(f"    {out.name}[{place}, :] = total.astype(jnp.{x.kind})")
        if rows % 8:
            self.line(f"{out.name}[{rows // 8 * 8}:, :] = {x.name}[{rows // 8 * 8}:, :]")


class States(Loops):
    """Loops within loops and branches, which carry vectors of several types at once."""

    def fill(self) -> None:
        draw = self.draw
        names: list[Ref] = []
        shapes = [self._shape() for _ in range(draw.choice([1, 1, 2]))]
        for _ in range(draw.choice([1, 2, 2, 3])):
            names.append(self._state(draw.choice(shapes), draw.choice(_STATES)))
        ends = self._loop(names, draw.choice([1, 1, 2, 2, 3]), 0)
        for end in ends:
            self.show(end)

    def _shape(self) -> Shape:
        return self.draw.choice([
            (8, 128), (8, 128), (16, 128), (1, 128), (8, 1), (8, 256), (3, 128), (12, 200),
            (32, 128), (2, 8, 128), (1, 1), (128,), (256,), (4, 1, 128),
        ])  # fmt: skip

    def _state(self, shape: Shape, kind: str) -> Ref:
        if kind == "bool":
            value = self.load(shape, self.draw.choice(["int32", "float32"]))
            return self.let(f"{value.name} > 1", shape, "bool")
        way = self.draw.choice(["load", "load", "zero", "full", "cast"])
        if way == "load":
            return self.load(shape, kind)
        if way == "cast" and BITS[kind] == 32:
            value = self.load(shape, self.draw.choice(["bfloat16", "int8", "float32"]))
            return self.let(f"{value.name}.astype(jnp.{kind})", shape, kind)
        return self.let(f"jnp.full({shape}, {0 if way == 'zero' else 2}, jnp.{kind})", shape, kind)

    def _loop(self, states: list[Ref], deep: int, level: int) -> list[Ref]:
        draw = self.draw
        name, i = self.fresh("f"), f"i{level}"
        kind = draw.choice(["for", "for", "for", "while", "cond"])
        first = {"for": f"{i}, carried", "while": "carried", "cond": ""}[kind]
        self.line(f"def {name}({first}):")
        self.depth += 1
        inner = [Ref(self.fresh(), s.shape, s.kind) for s in states]
        given = "".join(f"{s.name}, " for s in states)
        taken = "".join(f"{s.name}, " for s in inner)
        if kind == "while":
            self.line(f"{i}, {taken} = carried")
        elif kind == "for":
            self.line(f"{taken} = carried")
        else:
            self.line(f"{i} = jnp.int32({level})")
            self.line(f"{taken} = {given}")
        ends = self._loop(inner, deep - 1, level + 1) if deep > 1 else inner
        ends = [self._changed(end, ends, i) for end in ends]
        back = "".join(f"{s.name}, " for s in ends)
        self.line(f"return {i} + 1, {back}" if kind == "while" else f"return {back}")
        self.depth -= 1
        results = [Ref(self.fresh(), s.shape, s.kind) for s in states]
        made = "".join(f"{s.name}, " for s in results)
        if kind == "for":
            bounds = self.bounds(draw.choice([2, 3, 4]))
            self.line(
                f"{made} = lax.fori_loop({bounds}, {name}, ({given}){self._unrolled(bounds)})"
            )
        elif kind == "while":
            test = f"lambda c: c[0] < {self.position(3)}"
            self.line(f"_, {made} = lax.while_loop({test}, {name}, (jnp.int32(0), {given}))")
        else:
            self.line(f"{made} = lax.cond({self.position(3)} > 1, {name}, lambda: ({given}))")
        return results

    def _unrolled(self, bounds: str) -> str:
        return "" if "n[" in bounds else self.draw.choice(["", "", ", unroll=True"])

    def _changed(self, value: Ref, all_of: list[Ref], i: str) -> Ref:
        draw, name, shape, kind = self.draw, value.name, value.shape, value.kind
        alike = [v for v in all_of if v.shape == shape]
        other = draw.choice(alike)
        if kind == "bool":
            text = {"bool": f"{name} ^ {other.name}"}.get(
                other.kind, f"{name} | ({other.name} > 2)"
            )
            text = f"~{name}" if other.name == name else text
            return self.let(text, shape, kind)
        if BITS[kind] < 16:
            if other.kind == kind or draw.random() < 0.3:
                return other if other.kind == kind else value
            if other.kind == "bool":
                return value
            return self.let(f"{other.name}.astype(jnp.{kind})", shape, kind)
        cast = other.name if other.kind == kind else f"{other.name}.astype(jnp.{kind})"
        ways = [
            f"{name} + {cast}", f"{name} - {cast}", f"{name} + {self.one(kind)}", name,
            f"jnp.where({name} > {cast}, {name}, {self.one(kind)})",
            f"{name} + {i}.astype(jnp.{kind})",
        ]  # fmt: skip
        if len(shape) > 1:
            ways.append(f"jnp.roll({name}, 1, {len(shape) - 1})")
            if BITS[kind] == 32 and kind != "uint32":
                ways.append(f"{name} + jnp.sum({name}, axis=-1, keepdims=True).astype(jnp.{kind})")
                ways.append(f"{name} + jnp.max({name}, axis=-2, keepdims=True)")
        return self.let(draw.choice(ways), shape, kind)
