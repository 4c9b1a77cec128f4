"""Random kernels that overwrite what they have read: parts of buffers move within and between them,
row by row, in loops, and by transfers, while values that were loaded before wait to be stored."""

from __future__ import annotations

from .random_verdicts import BITS, Kernel, Ref, Shape

VMEM = "pl.BlockSpec(memory_space=pltpu.VMEM)"
SHAPES = ((8, 128), (16, 128), (12, 128), (16, 256), (24, 384), (32, 128), (9, 200), (5, 72))
KINDS = ("float32", "float32", "float32", "int32", "bfloat16", "int8")


class Overwrites(Kernel):
    """Buffers of one element type, most of them of one shape."""

    def fill(self) -> None:
        draw = self.draw
        self.kind = draw.choice(KINDS)
        shape = draw.choice(SHAPES)
        source = self.input(shape, self.kind, VMEM)
        self.buffers = [self.buffer(self._held(shape), self.kind) for _ in range(3)]
        self.values: list[Ref] = []
        _ = self.scalars
        self.scratch.append((Ref("done", (), ""), "pltpu.SemaphoreType.DMA"))
        for buffer in self.buffers:
            first = f"{source.name}[...]" if buffer.shape == shape else self.full(buffer)
            self.line(f"{buffer.name}[...] = {first}")
        for _ in range(draw.randint(4, 9)):
            self.statement()
        for buffer in self.buffers:
            out = self.output(buffer.shape, self.kind, VMEM)
            self.line(f"{out.name}[...] = {buffer.name}[...]")
        for value in self.values[-2:]:
            out = self.output(value.shape, self.kind, VMEM)
            self.line(f"{out.name}[...] = {value.name}")

    def _held(self, shape: Shape) -> Shape:
        lead = (self.draw.choice([2, 3]),) if self.draw.random() < 0.2 else ()
        return (*lead, *(shape if self.draw.random() < 0.8 else self.draw.choice(SHAPES)))

    def full(self, ref: Ref) -> str:
        return f"jnp.full({ref.shape}, {self.draw.randint(-5, 5)}, jnp.{ref.kind})"

    def part(self, shape: Shape, wanted: Shape | None = None) -> tuple[str, Shape]:
        """Indices of a part, of `wanted` sizes if these are given, and its shape."""
        draw = self.draw
        texts: list[str] = []
        sizes: list[int] = []
        for dim, held in enumerate(shape):
            back = len(shape) - dim
            few = [n for n in (1, 2, 3, 5, 8, 9, held - 1, held - 2, held, held) if 0 < n <= held]
            many = [n for n in (held, held, held, 128, 64) if n <= held]
            size = draw.choice({1: many, 2: few}.get(back, [1, held]))
            if wanted is not None:
                size = wanted[dim]
            sizes.append(size)
            # Rows that nobody knows may begin anywhere in an array that is one tile wide.
            free = back > 2 or (BITS[self.kind] == 32 and shape[-1] <= 128)
            if back > 1 and size < held and free and draw.random() < 0.35:
                texts.append(f"pl.ds({self.position(held - size)}, {size})")
            else:
                start = draw.randint(0, held - size)
                texts.append(":" if size == held else f"{start}:{start + size}")
        return ", ".join(texts), tuple(sizes)

    def let(self, text: str, shape: Shape) -> Ref:
        value = Ref(self.fresh(), shape, self.kind)
        self.line(f"{value.name} = {text}")
        self.values.append(value)
        return value

    def load(self) -> Ref:
        buffer = self.draw.choice(self.buffers)
        index, shape = self.part(buffer.shape)
        return self.let(f"{buffer.name}[{index}]", shape)

    def value(self, shape: Shape) -> str:
        found = [v for v in self.values if v.shape == shape]
        if found and self.draw.random() < 0.7:
            return self.draw.choice(found).name
        fits = [b for b in self.buffers if len(b.shape) == len(shape)]
        fits = [b for b in fits if all(n <= m for n, m in zip(shape, b.shape, strict=True))]
        buffer = self.draw.choice(fits)
        return self.let(f"{buffer.name}[{self.part(buffer.shape, shape)[0]}]", shape).name

    def statement(self) -> None:
        plain = [self.load, self.store, self.store, self.shift, self.shift, self.rows, self.rows,
                 self.move, self.copy]  # fmt: skip
        nested = [] if self.depth > 2 else [self.loop, self.loop, self.when]
        self.draw.choice([*plain, *nested])()

    def store(self) -> None:
        buffer = self.draw.choice(self.buffers)
        index, shape = self.part(buffer.shape)
        self.line(f"{buffer.name}[{index}] = {self.value(shape)}")

    def shift(self) -> None:
        """A part moves over another one, which may move to its place."""
        buffer = self.draw.choice(self.buffers)
        first, shape = self.part(buffer.shape)
        second, _ = self.part(buffer.shape, shape)
        one = self.let(f"{buffer.name}[{first}]", shape)
        other = self.let(f"{buffer.name}[{second}]", shape)
        if self.draw.random() < 0.3:
            self.store()
        self.line(f"{buffer.name}[{second}] = {one.name}")
        if self.draw.random() < 0.5:
            self.line(f"{buffer.name}[{first}] = {other.name}")

    def rows(self) -> None:
        """Single rows go to others, some of them after something else has happened."""
        draw = self.draw
        source, target = draw.choice(self.buffers), draw.choice(self.buffers)
        if source.shape[-1] != target.shape[-1]:
            return
        lead = [["0"] * (len(ref.shape) - 2) for ref in (source, target)]
        count = draw.randint(2, min(8, source.shape[-2], target.shape[-2]))
        taken = draw.sample(range(source.shape[-2]), count)
        first = draw.randint(0, target.shape[-2] - count)
        loaded: list[str] = []
        for row in taken:
            index = ", ".join([*lead[0], f"{row}:{row + 1}"])
            value = Ref(self.fresh(), (1, source.shape[-1]), self.kind)
            self.line(f"{value.name} = {source.name}[{index}]")
            loaded.append(value.name)
        if draw.random() < 0.7:
            draw.choice(
                [self.copy, *([self.store] if self.depth > 2 else [self.loop, self.when])]
            )()
            self.line("pl.delay(1)")
        for row, name in enumerate(loaded, first):
            self.line(f"{target.name}[{', '.join([*lead[1], f'{row}:{row + 1}'])}] = {name}")
        if draw.random() < 0.5:
            self.line("pl.delay(1)")

    def move(self) -> None:
        """Rows of a value move within it."""
        value = self.draw.choice(self.values) if self.values else self.load()
        *_, rows, _ = value.shape
        axis, amount = len(value.shape) - 2, self.draw.randrange(rows)
        texts = [f"jnp.roll({value.name}, {amount}, {axis})" if amount else value.name]
        if BITS[self.kind] == 32 and rows > 1:
            texts.append(f"pltpu.roll({value.name}, {self.position(40)}, {axis})")
        if len(value.shape) == 2:
            row = f"{value.name}[{amount}:{amount + 1}]"
            texts.append(f"jnp.broadcast_to({row}, {value.shape})")
        self.let(self.draw.choice(texts), value.shape)

    def copy(self) -> None:
        """A whole buffer is copied by a transfer."""
        pairs = [(a, b) for a in self.buffers for b in self.buffers if a != b]
        pairs = [(a.name, b.name) for a, b in pairs if a.shape == b.shape]
        if not pairs:
            return
        self.line(f"copy = pltpu.make_async_copy({', '.join(self.draw.choice(pairs))}, done)")
        self.line("copy.start()")
        self.line("copy.wait()")

    def loop(self) -> None:
        name = self.fresh("f")
        self._inside(f"def {name}(i, carried):", "return carried")
        ends = self.draw.choice(["0, 2", "1, 3", "0, n[2]"])
        self.line(f"lax.fori_loop({ends}, {name}, 0)")

    def when(self) -> None:
        self.line(f"@pl.when(n[{self.draw.randrange(4)}] < {self.draw.choice([0, 3])})")
        self._inside(f"def {self.fresh('w')}():", "pass")

    def _inside(self, head: str, end: str) -> None:
        known = [*self.values]
        self.line(head)
        self.depth += 1
        for _ in range(self.draw.randint(1, 3)):
            self.statement()
        self.store()
        self.line(end)
        self.depth -= 1
        self.values = known
