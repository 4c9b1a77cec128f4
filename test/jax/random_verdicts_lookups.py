"""Random kernels of elements that indices choose, and of the largest and the counted ones."""

from __future__ import annotations

from .random_verdicts import Ref, Shape
from .random_verdicts_loops import Loops
from .random_verdicts_values import VMEM


class Lookups(Loops):
    """Elements chosen by indices: along lanes or rows, by products with ones, by comparisons."""

    def fill(self) -> None:
        draw = self.draw
        kind = draw.choice(["float32", "int32", "bfloat16", "int8", "uint32", "int16"])
        way = draw.choice(["along", "along", "rows", "ones", "compared", "table", "top", "count"])
        rows, columns = draw.choice([1, 8, 8, 16, 24, 32]), draw.choice([64, 128, 128, 256])
        getattr(self, f"_{way}")((rows, columns), kind)

    def _indices(self, shape: Shape, most: int) -> Ref:
        given = self.load(shape, self.draw.choice(["int32", "int32", "int32", "int8", "uint32"]))
        return self.let(f"jnp.abs({given.name}.astype(jnp.int32)) % {most}", shape, "int32")

    def _along(self, shape: Shape, kind: str) -> None:
        axis = self.draw.choice([0, 1])
        size = self.draw.choice([shape[axis], shape[axis], 8, 1])
        wanted = tuple(size if d == axis else n for d, n in enumerate(shape))
        x, index = self.load(shape, kind), self._indices(wanted, shape[axis])
        mode = self.draw.choice(["", "", ", mode='promise_in_bounds'", ", mode='clip'"])
        text = f"jnp.take_along_axis({x.name}, {index.name}, axis={axis}{mode})"
        self.show(self.let(text, wanted, kind))

    def _rows(self, shape: Shape, kind: str) -> None:
        """Rows whose numbers are in SMEM."""
        table = self.input(shape, kind, VMEM)
        out = self.output((8, shape[1]), kind, VMEM)
        _ = self.scalars
        self.line(f"@pl.loop(0, {self.draw.choice([4, 8])}{self.way()})")
        self.line("def _(i):")
        row = f"n[i % 4] % {shape[0]}"
        if self.draw.random() < 0.5:
            self.line(f"    {out.name}[pl.ds(i, 1), :] = {table.name}[pl.ds({row}, 1), :]")
        else:
            self.line(f"    {out.name}[i, :] = {table.name}[{row}, :]")

    def _ones(self, shape: Shape, kind: str) -> None:
        """A product with a matrix of ones and zeros."""
        kind = "float32" if kind not in ("bfloat16", "int8") else kind
        x, count = self.load(shape, kind), self.draw.choice([8, 16, 128])
        index = self._indices((count, 1), shape[0])
        iota = f"lax.broadcasted_iota(jnp.int32, ({count}, {shape[0]}), 1)"
        ones = self.let(f"({iota} == {index.name}).astype(jnp.{kind})", (count, shape[0]), kind)
        whole = "int32" if kind == "int8" else "float32"
        text = f"jnp.dot({ones.name}, {x.name}, preferred_element_type=jnp.{whole})"
        self.show(self.let(text, (count, shape[1]), whole))

    def _compared(self, shape: Shape, kind: str) -> None:
        x, axis = self.load(shape, kind), self.draw.choice([0, 1])
        small = tuple(1 if d == axis else n for d, n in enumerate(shape))
        index = self._indices(small, shape[axis])
        iota = f"lax.broadcasted_iota(jnp.int32, {shape}, {axis})"
        wide = "float32" if kind in ("bfloat16", "float32") else "int32"
        zero = f"jnp.zeros({shape}, jnp.{wide})"
        text = f"jnp.where({iota} == {index.name}, {x.name}.astype(jnp.{wide}), {zero})"
        chosen = self.let(text, shape, wide)
        self.show(self.let(f"jnp.sum({chosen.name}, axis={axis}, keepdims=True)", small, wide))

    def _table(self, shape: Shape, kind: str) -> None:
        """A row of 128 entries for every element."""
        entries, index = self.load((1, 128), kind), self._indices((shape[0], 128), 128)
        spread = self.let(f"jnp.broadcast_to({entries.name}, {index.shape})", index.shape, kind)
        word = self.draw.choice(
            [
                "jnp.take_along_axis({}, {}, axis=1)",
                "jnp.take_along_axis({}, {}, 1, mode='promise_in_bounds')",
            ]
        )
        self.show(self.let(word.format(spread.name, index.name), index.shape, kind))

    def _top(self, shape: Shape, kind: str) -> None:
        """The largest, time and again."""
        kind = kind if kind in ("int32", "bfloat16") else "float32"
        axis = self.draw.choice([1, 1, 0])
        x, small = self.load(shape, kind), tuple(1 if d == axis else n for d, n in enumerate(shape))
        self.line(f"place = lax.broadcasted_iota(jnp.int32, {shape}, {axis})")
        self.line("def step(i, rest):")
        self.line(f"    best = jnp.argmax(rest.astype(jnp.float32), axis={axis}).reshape({small})")
        least = "-1000"
        self.line(f"    return jnp.where(place == best, jnp.asarray({least}, jnp.{kind}), rest)")
        self.show(self.let(f"lax.fori_loop(0, 3, step, {x.name}{self.way()})", shape, kind))

    def _count(self, shape: Shape, kind: str) -> None:
        x = self.load(shape, kind)
        self.line(f"counts = jnp.zeros((1, {shape[1]}), jnp.int32)")
        for value in range(self.draw.choice([1, 3])):
            hit = f"({x.name} == jnp.asarray({value}, jnp.{kind})).astype(jnp.int32)"
            self.line(f"counts += jnp.sum({hit}, axis=0, keepdims=True)")
        self.show(Ref("counts", (1, shape[1]), "int32"))
