"""Random kernels of memory: scalars in SMEM, views of refs with their transfers, blocks."""

from __future__ import annotations

import math

from .random_verdicts import BITS, COLUMNS, KINDS, LEADING, LONG, ROWS, Kernel, Ref, Shape

ANY = "pl.BlockSpec(memory_space=pl.ANY)"
SMEM = "pl.BlockSpec(memory_space=pltpu.SMEM)"
VMEM = "pl.BlockSpec(memory_space=pltpu.VMEM)"


class Views(Kernel):
    """Parts of refs, refs in other shapes and types, loaded and copied."""

    def fill(self) -> None:
        kind = self.draw.choice(KINDS)
        space = self.draw.choice(["hbm", "hbm", "vmem", "vmem", "scratch"])
        whole = self.input(self.shape(), kind, VMEM if space == "vmem" else ANY, space)
        if space == "scratch":
            held = self.buffer(whole.shape, kind)
            self.line(f"pltpu.sync_copy({whole.name}, {held.name})")
            whole = held
        view = whole
        for _ in range(self.draw.choice([1, 1, 1, 2, 2, 3])):
            view = self.view(view)
        self.take(view, in_hbm=space == "hbm")

    def view(self, ref: Ref) -> Ref:
        roll = self.draw.random()
        if roll < 0.2 and len(ref.shape) > 1:
            return self.reshaped(ref)
        if roll < 0.3 and len(ref.shape) > 1:
            return self.bitcast(ref)
        return self.part(ref)

    def part(self, ref: Ref) -> Ref:
        indices: list[str] = []
        shape: list[int] = []
        for dim, held in enumerate(ref.shape):
            back = len(ref.shape) - dim
            if self.draw.random() < (0.6 if back == 1 else 0.45):
                indices.append(":")
                shape.append(held)
                continue
            if back > 1 and self.draw.random() < (0.6 if back > 2 else 0.25):
                dynamic = self.draw.random() < 0.5
                place = self.position(held - 1) if dynamic else self.draw.randrange(held)
                indices.append(str(place))
                continue
            index, size = self.cut(held, back)
            indices.append(index)
            shape.append(size)
        return Ref(f"{ref.name}.at[{', '.join(indices)}]", tuple(shape), ref.kind, ref.space)

    def cut(self, held: int, back: int) -> tuple[str, int]:
        sizes = [1, 2, 4, 8, 16, 24, 32, 128, 256, held - 1, held - 8, held // 2]
        size = self.draw.choice([n for n in sizes if 0 < n <= held])
        units = [n for n in (1, 2, 4, 8, 16, 32, 128, size) if n <= max(1, held - size)]
        unit = self.draw.choice(units)
        if self.draw.random() < 0.4:
            return f"pl.ds({self.position(held - size, unit)}, {size})", size
        start = self.draw.choice([self.draw.randint(0, held - size) // unit * unit, held - size])
        return f"pl.ds({start}, {size})", size

    def reshaped(self, ref: Ref) -> Ref:
        *lead, rows, columns = ref.shape
        parts = [n for n in (2, 4, 8, 16, 32) if rows % n == 0]
        shapes: list[Shape] = [(math.prod(lead) * rows, columns)]
        shapes += [(*lead, rows // n, n, columns) for n in parts]
        if len(lead) > 1:
            shapes.append((math.prod(lead), rows, columns))
        if columns % 256 == 0:
            shapes += [(*lead, rows, columns // 128, 128), (*lead, rows * columns // 128, 128)]
        if columns == 128 and rows % 2 == 0:
            shapes.append((*lead, rows // 2, 256))
        shape = self.draw.choice(shapes)
        return Ref(f"{ref.name}.reshape{shape}", shape, ref.kind, ref.space)

    def bitcast(self, ref: Ref) -> Ref:
        *lead, rows, columns = ref.shape
        kinds = [k for k in BITS if rows * BITS[ref.kind] % BITS[k] == 0]
        kind = self.draw.choice(kinds)
        shape = (*lead, rows * BITS[ref.kind] // BITS[kind], columns)
        return Ref(f"{ref.name}.bitcast(jnp.{kind})", shape, kind, ref.space)

    def take(self, view: Ref, in_hbm: bool) -> None:
        """Loads the view or copies it: into scratch, an output, or a part of an output."""
        way = self.draw.choice(["load", "scratch", "output", "part", "store"])
        name = view.name
        if in_hbm and way in ("load", "store"):
            way = "scratch"
        if not view.shape:
            name, view = f"{name}.at[...]", view
        if way == "load":
            out = self.output(view.shape, view.kind, VMEM)
            self.line(f"{out.name}[...] = {name}[...]")
        elif way == "scratch":
            held = self.buffer(view.shape, view.kind)
            out = self.output(view.shape, view.kind, VMEM)
            self.line(f"pltpu.sync_copy({name}, {held.name})")
            self.line(f"{out.name}[...] = {held.name}[...]")
        elif way == "output":
            out = self.output(view.shape, view.kind, ANY)
            self.line(f"pltpu.sync_copy({name}, {out.name})")
        elif way == "store":
            other = self.input(view.shape, view.kind, VMEM)
            base = name.split(".")[0]
            whole = next(r for r, _ in (*self.inputs_of, *self.scratch) if r.name == base)
            out = self.output(whole.shape, whole.kind, VMEM)
            self.line(f"{out.name}[...] = {base}[...]")
            self.line(f"{out.name}{name[len(base) :]}[...] = {other.name}[...]")
        else:
            self._copy_into_part(name, view)

    def _copy_into_part(self, name: str, view: Ref) -> None:
        """The output begins as a copy of an input, so all of it is defined."""
        grown = tuple(n + self.draw.choice([0, 0, 1, 8, 16]) for n in view.shape)
        lead = (self.draw.choice(LEADING),) if self.draw.random() < 0.4 else ()
        space = self.draw.choice([ANY, VMEM])
        source = self.input((*lead, *grown), view.kind, ANY)
        out = self.output((*lead, *grown), view.kind, space)
        indices = [str(self.draw.randrange(n)) for n in lead]
        for size, held in zip(view.shape, grown, strict=True):
            start = self.draw.choice([0, held - size])
            indices.append(":" if size == held else f"pl.ds({start}, {size})")
        self.line(f"pltpu.sync_copy({source.name}, {out.name})")
        self.line(f"pltpu.sync_copy({name}, {out.name}.at[{', '.join(indices) or '...'}])")


class Scalars(Views):
    """Arrays in SMEM: scalars at known and unknown places, of parts too, and transfers."""

    def fill(self) -> None:
        kind = self.draw.choice([k for k in KINDS if not k.startswith("float8")])
        shape = self.shape(ranks=(1, 1, 2, 2, 2, 3))
        way = self.draw.choice(["operand", "operand", "prefetch", "copied", "part"])
        if way == "operand":
            table = self.input(shape, kind, SMEM, "smem")
        elif way == "prefetch":
            _ = self.scalars
            table = Ref("p", shape, kind, "smem")
            self.prefetched.append(table)
        else:
            source = self.input(shape, kind, ANY, "hbm")
            part = self.part(source) if way == "part" else source
            table = self.buffer(part.shape, kind, "SMEM")
            self.line(f"pltpu.sync_copy({part.name}, {table.name})")
        total = self.output((8, 128), "float32", VMEM)
        self.line("total = jnp.float32(0)")
        for _ in range(self.draw.choice([1, 2])):
            self.read(table)
        self.line(f"{total.name}[...] = jnp.full((8, 128), total)")
        if self.draw.random() < 0.4:
            self.copy(table)
        if self.draw.random() < 0.3:
            self.write(table)

    def read(self, table: Ref) -> None:
        view = table
        while self.draw.random() < 0.5 and view.shape:
            view = self.part(view)
        self.line(f"total += {view.name}[{self.place(view)}].astype(jnp.float32)")

    def place(self, view: Ref) -> str:
        return ", ".join(
            self.position(n - 1) if self.draw.random() < 0.5 else str(self.draw.randrange(n))
            for n in view.shape
        ) or "..."  # fmt: skip

    def copy(self, table: Ref) -> None:
        view = self.part(table)
        if not view.shape:
            return
        space = self.draw.choice([ANY, SMEM, VMEM])
        out = self.output(view.shape, view.kind, space)
        self.line(f"pltpu.sync_copy({view.name}, {out.name})")

    def write(self, table: Ref) -> None:
        """Writes some scalars of an output that is a copy of the table."""
        out = self.output(table.shape, table.kind, SMEM)
        self.line(f"pltpu.sync_copy({table.name}, {out.name})")
        for _ in range(self.draw.choice([1, 3])):
            place = self.place(out)
            self.line(f"{out.name}[{place}] = {table.name}[{self.place(table)}]")


class Blocks(Kernel):
    """Grids whose blocks are ragged, squeezed, counted in elements or buffered in another way."""

    def fill(self) -> None:
        draw = self.draw
        kind = draw.choice(KINDS)
        rank = draw.choice([1, 2, 2, 2, 3, 3])
        self.block = tuple(self._size(rank, rank - dim) for dim in range(rank))
        self.moved = sorted(draw.sample(range(rank), min(draw.choice([1, 1, 2]), rank)))
        self.whole = tuple(
            self._held(size, rank - dim) if dim in self.moved else size
            for dim, size in enumerate(self.block)
        )
        self.grid = tuple(-(-self.whole[dim] // self.block[dim]) for dim in self.moved)
        x = self.input(self.whole, kind, self._spec(of_input=True))
        o = self.output(self.whole, kind, self._spec())
        self.line(f"value = {x.name}[...].reshape({self.block})")
        self.line(f"{o.name}[...] = {self._changed(kind)}.reshape({o.name}.shape)")

    def _size(self, rank: int, back: int) -> int:
        """JAX wants blocks of 8 rows and 128 columns, or all of them."""
        if rank == 1:
            return self.draw.choice([n for n in LONG if n % 128 == 0] * 2 + [100, 1000])
        return self.draw.choice({1: COLUMNS, 2: ROWS}.get(back, LEADING))

    def _held(self, size: int, back: int) -> int:
        """How much the array has in a dimension in which blocks move."""
        unit = {1: 128, 2: 8}.get(back, 1)
        if size % unit:
            return size
        count = self.draw.choice([1, 2, 2, 3])
        missing = [0, 0, 1, 3, size // 2, size - 1]
        return max(1, size * count - self.draw.choice([n for n in missing if n < size]))

    def _changed(self, kind: str) -> str:
        way = self.draw.choice(["stored", "stored", "added", "added", "rolled"])
        if BITS[kind] < 16 or way == "stored":
            return "value"
        axis = self.draw.randrange(len(self.block))
        # What lies behind the end of an array must not come round into it.
        whole = self.whole[axis] % self.block[axis] == 0
        if way == "rolled" and BITS[kind] == 32 and self.block[axis] > 1 and whole:
            return f"jnp.roll(value, 1, {axis})"
        return f"(value + jnp.asarray(1, jnp.{kind}))"

    def _spec(self, of_input: bool = False) -> str:
        """Squeezed, in elements, or a part of the array with a buffer of its own."""
        style = self.draw.choice(["", "", "squeezed", "elements"])
        modes = ["", "", "", ", pipeline_mode=pl.Buffered(1)", ", pipeline_mode=pl.Buffered(2)"]
        mode = self.draw.choice(modes) if of_input else ""
        names = [f"i{axis}" for axis in range(len(self.moved))]
        sizes: list[str] = []
        index: list[str] = []
        for dim, size in enumerate(self.block):
            place = names[self.moved.index(dim)] if dim in self.moved else "0"
            if style == "elements":
                sizes.append(f"pl.Element({size}, (0, {-self.whole[dim] % size}))")
                place = f"{place} * {size}"
            elif style == "squeezed" and size == 1 and dim < len(self.block) - 2:
                sizes.append("None")
            else:
                sizes.append(str(size))
            index.append(place)
        block, indices = "".join(f"{n}, " for n in sizes), "".join(f"{n}, " for n in index)
        return f"pl.BlockSpec(({block}), lambda {', '.join(names)}: ({indices}){mode})"
