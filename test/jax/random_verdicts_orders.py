"""Random kernels of orders: joins, transposes, einsums, iotas."""

from __future__ import annotations

import math

from .random_verdicts import BITS, BYTES, HALVES, KINDS, WORDS, Ref
from .random_verdicts_values import Values


class Joins(Values):
    """Shifted, subtracted, swapped, cut and joined along an axis, under masks."""

    tolerance = 2e-2

    def fill(self) -> None:
        draw, shape = self.draw, self.shape()
        kind = draw.choice((*WORDS, *HALVES, "int8"))
        value = self.load(shape, kind)
        axis = draw.randrange(len(shape))
        size, name = shape[axis], value.name
        way = draw.choice(["shift", "diff", "swap", "take", "onehot", "where"])
        if way == "shift":
            new = (*shape[:axis], 2 * size, *shape[axis + 1 :])
            text = f"jnp.concatenate([{name}, jnp.zeros_like({name})], {axis})"
            self.show(self.let(text, new, kind))
        elif way == "diff" and size > 1:
            new = (*shape[:axis], size - 1, *shape[axis + 1 :])
            self.show(self.let(f"jnp.diff({name}, axis={axis})", new, kind))
        elif way == "swap" and len(shape) > 1:
            one, two = draw.sample(range(len(shape)), 2)
            new = list(shape)
            new[one], new[two] = new[two], new[one]
            self.show(self.let(f"jnp.swapaxes({name}, {one}, {two})", tuple(new), kind))
        elif way == "take":
            places = [draw.randrange(size) for _ in range(draw.choice([1, 2, 3]))]
            parts = ", ".join(f"lax.slice_in_dim({name}, {p}, {p + 1}, 1, {axis})" for p in places)
            new = (*shape[:axis], len(places), *shape[axis + 1 :])
            self.show(self.let(f"jnp.concatenate([{parts}], {axis})", new, kind))
        elif way == "onehot" and len(shape) > 1:
            iota = f"lax.broadcasted_iota(jnp.int32, {shape}, {axis})"
            text = f"({iota} == {self.position(size - 1)}).astype(jnp.{kind})"
            hot = self.let(text, shape, kind)
            self.show(self.let(f"{hot.name} * {name}", shape, kind))
        else:
            compared = f"{name} > jnp.mean({name}.astype(jnp.float32)).astype(jnp.{kind})"
            self.show(self.let(f"jnp.where({compared}, {name}, -{name})", shape, kind))


class Transposed(Values):
    """Transposes of rank 2 to 4 and `pltpu.einshape`, also of parts and of what was computed."""

    def fill(self) -> None:
        draw = self.draw
        kind = draw.choice(KINDS)
        rank = draw.choice([2, 3, 3, 4])
        rows = draw.choice([1, 2, 4, 8, 8, 16, 32, 64, 128])
        columns = draw.choice([8, 16, 64, 128, 128, 128, 256])
        lead = [draw.choice([1, 2, 3, 4, 8, 16]) for _ in range(rank - 2)]
        while math.prod([*lead, rows, columns]) > 1 << 14 and rows > 1:
            rows //= 2
        shape = (*lead, rows, columns)
        value = self.load(shape, kind)
        if draw.random() < 0.3 and BITS[kind] >= 16:
            value = self.let(f"{value.name} + {value.name}", shape, kind)
        if draw.random() < 0.25 and rank in (2, 3):
            self.einshape(value)
            return
        order = tuple(draw.sample(range(rank), rank))
        new = tuple(shape[d] for d in order)
        value = self.let(f"jnp.transpose({value.name}, {order})", new, kind)
        if draw.random() < 0.2:
            flat = (math.prod(new[:-1]), new[-1])
            value = self.let(f"{value.name}.reshape({flat})", flat, kind)
        self.show(value)

    def einshape(self, value: Ref) -> None:
        draw = self.draw
        *lead, rows, columns = value.shape
        cut = draw.choice([n for n in (2, 8, 64, 128) if columns % n == 0] or [1])
        parts = columns // cut
        if lead:
            text, new = draw.choice(
                [("abc->bac", (rows, lead[0], columns)), ("abc->(ab)c", (lead[0] * rows, columns)),
                 ("abc->b(ac)", (rows, lead[0] * columns))]
            )  # fmt: skip
            given = ""
        else:
            text, new = draw.choice(
                [("a(bc)->abc", (rows, parts, cut)), ("a(bc)->bac", (parts, rows, cut)),
                 ("ab->ba", (columns, rows))]
            )  # fmt: skip
            given = f", c={cut}" if "c" in text else ""
        self.show(self.let(f"pltpu.einshape('{text}', {value.name}{given})", new, value.kind))


_SUMS = (
    "ij,jk->ik", "ij,kj->ik", "ji,jk->ik", "bij,bjk->bik", "bij,bkj->bik", "bij,jk->bik",
    "ij,j->i", "j,jk->k", "bij,bj->bi", "ij,ij->i", "ibj,bjk->ibk", "bji,bjk->bik",
    "ij,jk->ki", "bihd,bjhd->bhij", "ij->ji", "bij->bj", "hij,hjk->ihk", "ij,bjk->bik",
)  # fmt: skip
_TYPES = (*["float32", "bfloat16"] * 4, "int8", "int8", "float8_e5m2", "float8_e4m3fn", "int32")


class Einsums(Values):
    """`jnp.einsum` and `jnp.matmul` of every order of dimensions, types and precisions."""

    tolerance = 3e-2

    def fill(self) -> None:
        draw = self.draw
        numbers = draw.choice(_SUMS)
        given, result = numbers.split("->")
        sizes = {label: draw.choice([2, 8, 16, 64, 128]) for label in "ijkd"}
        sizes |= {label: draw.choice([1, 2, 4]) for label in "bh"}
        kinds = [draw.choice(_TYPES)] * 2 if draw.random() < 0.8 else draw.choices(_TYPES, k=2)
        operands = [
            self.load(tuple(sizes[label] for label in part), kind)
            for part, kind in zip(given.split(","), kinds, strict=False)
        ]
        whole = all(v.kind.startswith("int") for v in operands)
        wide = draw.choice(["int32" if whole else "float32"] * 6 + ["bfloat16"])
        text = ", ".join(v.name for v in operands)
        text = f"jnp.einsum('{numbers}', {text}, preferred_element_type=jnp.{wide}"
        if draw.random() < 0.25:
            text += f", precision='{draw.choice(['highest', 'default'])}'"
        out = tuple(sizes[label] for label in result)
        value = self.let(f"{text})", out, wide)
        if draw.random() < 0.3:
            value = self.let(f"{value.name} * 2", out, wide)
        self.show(value)


class Counts(Values):
    """Iotas of every rank and type, compared, multiplied, cast, and added to what is loaded."""

    def fill(self) -> None:
        draw, shape = self.draw, self.shape()
        kind = draw.choice((*WORDS, "int32", *HALVES, *BYTES))
        value = self.iota(shape, kind)
        for _ in range(draw.choice([1, 1, 2])):
            way = draw.choice(["add", "mul", "compare", "cast", "load", "mod", "select"])
            other = self.iota(shape, value.kind)
            one = f"jnp.asarray(2, jnp.{value.kind})"
            if way == "cast":
                to = draw.choice(["int32", "float32", "bfloat16", "int16", "int8"])
                value = self.let(f"{value.name}.astype(jnp.{to})", shape, to)
                continue
            if way == "load":
                other = self.load(shape, value.kind)
            text = {
                "mul": f"{value.name} * {one}", "mod": f"{value.name} % {one}",
                "compare": f"({value.name} >= {other.name}).astype(jnp.{value.kind})",
                "select": f"jnp.where({value.name} > {one}, {value.name}, {other.name})",
            }.get(way, f"{value.name} + {other.name}")  # fmt: skip
            value = self.let(text, shape, value.kind)
        self.show(value)

    def iota(self, shape: tuple[int, ...], kind: str) -> Ref:
        axis = self.draw.randrange(len(shape))
        way = self.draw.choice(["broadcasted", "cast", "arange"])
        if way == "broadcasted":
            text = f"lax.broadcasted_iota(jnp.{kind}, {shape}, {axis})"
        elif way == "cast":
            text = f"lax.broadcasted_iota(jnp.int32, {shape}, {axis}).astype(jnp.{kind})"
        else:
            spread = tuple(n if d == axis else 1 for d, n in enumerate(shape))
            text = f"jnp.arange({shape[axis]}, dtype=jnp.{kind}).reshape({spread})"
            text = f"jnp.broadcast_to({text}, {shape})"
        return self.let(text, shape, kind)
