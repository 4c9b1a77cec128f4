"""Random kernels of values: what loops and branches carry, casts, movements, masks."""

from __future__ import annotations

import math

from .random_verdicts import BITS, KINDS, Kernel, Ref, Shape

VMEM = "pl.BlockSpec(memory_space=pltpu.VMEM)"


class Values(Kernel):
    """A kernel that loads some arrays, computes one value, and stores it."""

    def load(self, shape: Shape, kind: str) -> Ref:
        x = self.input(shape, kind, VMEM)
        return self.let(f"{x.name}[...]", shape, kind)

    def let(self, text: str, shape: Shape, kind: str) -> Ref:
        name = self.fresh()
        self.line(f"{name} = {text}")
        return Ref(name, shape, kind)

    def show(self, value: Ref) -> None:
        if value.kind == "bool":
            value = self.let(f"jnp.where({value.name}, 1, 0)", value.shape, "int32")
        if not value.shape:
            value = self.let(f"jnp.full((8, 128), {value.name})", (8, 128), value.kind)
        out = self.output(value.shape, value.kind, VMEM)
        self.line(f"{out.name}[...] = {value.name}")


class Casts(Values):
    """Casts between all types, of vectors of any shape and of scalars."""

    def fill(self) -> None:
        kinds = (*KINDS, "bool")
        value = self.load(self.shape(), self.draw.choice(KINDS))
        if self.draw.random() < 0.15:
            index = ", ".join("0" for _ in value.shape)
            value = self.let(f"{value.name}[{index}]", (), value.kind)
        for _ in range(self.draw.choice([1, 1, 2, 3])):
            kind = self.draw.choice(kinds)
            named = "bool_" if kind == "bool" else kind
            if kind.startswith("u") or value.kind == "bool" or self.draw.random() < 0.8:
                value = self.let(f"{value.name}.astype(jnp.{named})", value.shape, kind)
            elif kind != "bool" and BITS[kind] == BITS[value.kind]:
                text = f"lax.bitcast_convert_type({value.name}, jnp.{kind})"
                value = self.let(text, value.shape, kind)
        self.show(value)


class Movements(Values):
    """Reshapes, transposes, slices, joins and repeats of random shapes and types."""

    def fill(self) -> None:
        value = self.load(self.shape(), self.draw.choice(KINDS))
        for _ in range(self.draw.choice([1, 1, 2])):
            value = self.moved(value)
        self.show(value)

    def moved(self, value: Ref) -> Ref:
        draw, shape, name = self.draw, value.shape, value.name
        axis = draw.randrange(len(shape)) if shape else 0
        way = draw.choice(["reshape", "reshape", "transpose", "slice", "join", "repeat", "sum"])
        if not shape:
            return value
        if way == "reshape":
            new = self._other_shape(shape)
            return self.let(f"{name}.reshape({new})", new, value.kind)
        if way == "transpose" and len(shape) > 1:
            order = draw.sample(range(len(shape)), len(shape))
            new = tuple(shape[d] for d in order)
            return self.let(f"jnp.transpose({name}, {tuple(order)})", new, value.kind)
        if way == "slice":
            start = draw.randrange(shape[axis])
            end = draw.randint(start + 1, shape[axis])
            new = (*shape[:axis], end - start, *shape[axis + 1 :])
            text = f"lax.slice_in_dim({name}, {start}, {end}, 1, {axis})"
            return self.let(text, new, value.kind)
        if way == "join":
            new = (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])
            return self.let(f"jnp.concatenate([{name}, {name}], {axis})", new, value.kind)
        if way == "repeat":
            new = (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])
            return self.let(f"jnp.repeat({name}, 2, {axis})", new, value.kind)
        if way == "sum" and value.kind in ("float32", "int32", "bfloat16"):
            new = (*shape[:axis], 1, *shape[axis + 1 :])
            return self.let(f"jnp.max({name}, axis={axis}, keepdims=True)", new, value.kind)
        return value

    def _other_shape(self, shape: Shape) -> Shape:
        """Splits, joins or drops dimensions."""
        total = math.prod(shape)
        *lead, last = shape
        choices: list[Shape] = [(total,), (math.prod(lead), last), (*lead, last, 1), (1, *shape)]
        for dim, size in enumerate(shape):
            for n in (2, 4, 8, 16, 128):
                if size % n == 0:
                    choices.append((*shape[:dim], size // n, n, *shape[dim + 1 :]))
            if dim:
                joined = shape[dim - 1] * size
                choices.append((*shape[: dim - 1], joined, *shape[dim + 1 :]))
        for n in (128, 8, 64, 256):
            if total % n == 0:
                choices.append((total // n, n))
        return self.draw.choice([c for c in choices if len(c) <= 5])


class Masks(Values):
    """Comparisons of any type, masks that are combined, moved, cast and chosen by."""

    def fill(self) -> None:
        draw, shape = self.draw, self.shape(ranks=(1, 2, 2, 2, 3))
        kinds = [k for k in KINDS if not k.startswith("float8")]
        one = self.load(shape, draw.choice(kinds))
        mask = self._compared(one)
        for _ in range(draw.choice([0, 1, 2])):
            mask = self._changed(mask)
        way = draw.choice(["show", "choose", "choose", "sum", "cast", "any"])
        if way == "choose":
            kind = draw.choice(KINDS)
            values = [self.load(mask.shape, kind) for _ in range(2)]
            text = f"jnp.where({mask.name}, {values[0].name}, {values[1].name})"
            self.show(self.let(text, mask.shape, kind))
        elif way == "sum":
            axis = draw.randrange(len(mask.shape))
            new = (*mask.shape[:axis], 1, *mask.shape[axis + 1 :])
            text = f"jnp.sum({mask.name}.astype(jnp.int32), axis={axis}, keepdims=True)"
            self.show(self.let(text, new, "int32"))
        elif way == "cast":
            kind = draw.choice(KINDS)
            self.show(self.let(f"{mask.name}.astype(jnp.{kind})", mask.shape, kind))
        elif way == "any":
            axis = draw.randrange(len(mask.shape))
            new = (*mask.shape[:axis], 1, *mask.shape[axis + 1 :])
            word = draw.choice(["any", "all"])
            text = f"jnp.{word}({mask.name}, axis={axis}, keepdims=True)"
            self.show(self.let(text, new, "bool"))
        else:
            self.show(mask)

    def _compared(self, value: Ref) -> Ref:
        way, shape = self.draw.random(), value.shape
        compare = self.draw.choice(["<", "<=", "==", "!=", ">", ">="])
        if way < 0.4:
            text = f"{value.name} {compare} jnp.asarray(3, jnp.{value.kind})"
        elif way < 0.7:
            other = self.load(shape, value.kind)
            text = f"{value.name} {compare} {other.name}"
        else:
            axis = self.draw.randrange(len(shape))
            iota = f"lax.broadcasted_iota(jnp.int32, {shape}, {axis})"
            bound = self.draw.choice(["1", "3", "8", self.position(9)])
            text = f"{iota} {compare} {bound}"
        return self.let(text, shape, "bool")

    def _changed(self, mask: Ref) -> Ref:
        draw, shape, name = self.draw, mask.shape, mask.name
        way = draw.choice(["and", "or", "xor", "not", "reshape", "lead", "bits", "slice"])
        if way in ("and", "or", "xor"):
            other = self._compared(self.load(shape, draw.choice(["int32", "float32", "bfloat16"])))
            sign = {"and": "&", "or": "|", "xor": "^"}[way]
            return self.let(f"{name} {sign} {other.name}", shape, "bool")
        if way == "not":
            return self.let(f"~{name}", shape, "bool")
        if way == "reshape" and len(shape) > 1:
            new = (math.prod(shape[:-1]), shape[-1])
            return self.let(f"{name}.reshape({new})", new, "bool")
        if way == "lead":
            return self.let(f"jnp.broadcast_to({name}, {(2, *shape)})", (2, *shape), "bool")
        if way == "bits":
            kind = draw.choice(["int8", "int16", "bfloat16", "int32", "float32"])
            given = self.let(f"{name}.astype(jnp.{kind})", shape, kind)
            return self.let(f"{given.name} != jnp.asarray(0, jnp.{kind})", shape, "bool")
        if way == "slice" and shape[0] > 1:
            return self.let(f"{name}[1:]", (shape[0] - 1, *shape[1:]), "bool")
        return mask


class Carried(Values):
    """Loops and branches that carry vectors: loaded, splats, rows, columns, masks."""

    def fill(self) -> None:
        kinds = ("float32", "int32", "bfloat16", "int16", "uint16", "int8", "uint32", "bool")
        shape = self.shape(ranks=(1, 2, 2, 2, 2, 3))
        kind = self.draw.choice(kinds)
        first = [self.source(shape, kind) for _ in range(self.draw.choice([1, 1, 2, 3]))]
        way = self.draw.choice(["for", "for", "while", "cond", "cond", "nested"])
        result = getattr(self, f"_{way}")(first)
        for value in result:
            self.show(value)

    def source(self, shape: Shape, kind: str) -> Ref:
        """A value of a shape: loaded, computed, or a repeated part."""
        draw = self.draw
        if kind == "bool":
            value = self.source(shape, "int32")
            return self.let(f"{value.name} > {draw.choice([0, 2])}", shape, "bool")
        way = draw.choice(["load", "splat", "dynamic", "row", "column", "iota", "sum", "one"])
        if way == "splat":
            return self.let(f"jnp.full({shape}, 3, jnp.{kind})", shape, kind)
        if way == "dynamic":
            scalar = f"{draw.choice(self.scalars)}.astype(jnp.{kind})"
            return self.let(f"jnp.full({shape}, {scalar})", shape, kind)
        if way == "iota" and BITS[kind] == 32 and kind != "uint32":
            axis = draw.randrange(len(shape))
            return self.let(f"lax.broadcasted_iota(jnp.{kind}, {shape}, {axis})"
                            if kind == "int32" else
                            f"lax.broadcasted_iota(jnp.int32, {shape}, {axis}).astype(jnp.{kind})",
                            shape, kind)  # fmt: skip
        if way in ("row", "column", "one") and len(shape) > 1:
            *lead, rows, columns = shape
            small = (*lead, *{"row": (1, columns), "column": (rows, 1), "one": (1, 1)}[way])
            part = self.load(small, kind)
            return self.let(f"jnp.broadcast_to({part.name}, {shape})", shape, kind)
        if way == "sum" and kind in ("float32", "int32") and len(shape) > 1:
            x = self.load(shape, kind)
            axis = draw.randrange(len(shape))
            total = f"jnp.sum({x.name}, axis={axis}, keepdims=True)"
            return self.let(f"jnp.broadcast_to({total}, {shape})", shape, kind)
        return self.load(shape, kind)

    def step(self, values: list[Ref]) -> list[Ref]:
        """What one turn makes of the values; some stay, some change places."""
        made: list[Ref] = []
        for value in values:
            other = self.draw.choice(values)
            way = self.draw.choice(["same", "other", "add", "add", "source", "double"])
            if value.kind == "bool":
                text = {"add": f"{value.name} ^ {other.name}", "double": f"~{value.name}"}.get(way)
            else:
                one = f"jnp.asarray(1, jnp.{value.kind})"
                text = {"add": f"{value.name} + {other.name}", "double": f"{value.name} + {one}"}
                text = text.get(way)
            if way == "other":
                made.append(other)
            elif way == "source":
                made.append(self.source(value.shape, value.kind))
            else:
                made.append(self.let(text, value.shape, value.kind) if text else value)
        return made

    def _function(self, head: str, names: str, values: list[Ref]) -> list[Ref]:
        self.line(head)
        self.depth += 1
        inner = [Ref(self.fresh(), v.shape, v.kind) for v in values]
        self.line(f"{''.join(v.name + ', ' for v in inner)} = {names}")
        ends = self.step(inner)
        self.line(f"return {''.join(v.name + ', ' for v in ends)}")
        self.depth -= 1
        return ends

    def _results(self, text: str, values: list[Ref]) -> list[Ref]:
        made = [Ref(self.fresh(), v.shape, v.kind) for v in values]
        self.line(f"{''.join(v.name + ', ' for v in made)} = {text}")
        return made

    def _for(self, first: list[Ref]) -> list[Ref]:
        number = self.fresh("f")
        self._function(f"def {number}(i, carried):", "carried", first)
        bounds = self.draw.choice(["0, 1", "0, 3", "1, 3", f"0, {self.position(3)}", "2, 3"])
        given = "".join(v.name + ", " for v in first)
        return self._results(f"lax.fori_loop({bounds}, {number}, ({given}))", first)

    def _nested(self, first: list[Ref]) -> list[Ref]:
        outer = self.fresh("f")
        self.line(f"def {outer}(i, carried):")
        self.depth += 1
        inner = [Ref(self.fresh(), v.shape, v.kind) for v in first]
        self.line(f"{''.join(v.name + ', ' for v in inner)} = carried")
        ends = self._cond(inner) if self.draw.random() < 0.5 else self._for(inner)
        self.line(f"return {''.join(v.name + ', ' for v in ends)}")
        self.depth -= 1
        bounds = self.draw.choice(["0, 1", "0, 2", f"0, {self.position(3)}"])
        given = "".join(v.name + ", " for v in first)
        return self._results(f"lax.fori_loop({bounds}, {outer}, ({given}))", first)

    def _while(self, first: list[Ref]) -> list[Ref]:
        number = self.fresh("f")
        self.line(f"def {number}(carried):")
        self.depth += 1
        inner = [Ref(self.fresh(), v.shape, v.kind) for v in first]
        self.line(f"i, {''.join(v.name + ', ' for v in inner)} = carried")
        ends = self.step(inner)
        self.line(f"return i + 1, {''.join(v.name + ', ' for v in ends)}")
        self.depth -= 1
        given = "".join(v.name + ", " for v in first)
        bound = self.position(4)
        text = f"lax.while_loop(lambda c: c[0] < {bound}, {number}, (jnp.int32(0), {given}))[1:]"
        return self._results(text, first)

    def _cond(self, first: list[Ref]) -> list[Ref]:
        names = [self.fresh("f"), self.fresh("f")]
        for name in names:
            given = ", ".join(v.name for v in first)
            self._function(f"def {name}():", f"{given},", first)
        text = f"lax.cond({self.position(5)} > 1, {names[0]}, {names[1]})"
        return self._results(text, first)
