"""Random kernels near the limits of memories, and whose blocks are squeezed or shared."""

from __future__ import annotations

from .random_verdicts import BITS, HALVES, KINDS, WORDS, Kernel, Ref, Shape
from .random_verdicts_memory import ANY, SMEM, VMEM

_MIB = 1 << 20


class Limits(Kernel):
    """Blocks, their buffers, scratch and operands that just fit into a memory, or just do not."""

    compared = False

    def fill(self) -> None:
        draw = self.draw
        way = draw.choice(["blocks", "blocks", "blocks", "scratch", "scoped", "whole", "smem"])
        if way == "smem":
            self.scalar_memory()
            return
        self.kind = draw.choice((*WORDS, *HALVES, "int8"))
        self.columns = draw.choice([128, 128, 256, 384, 512])
        self.unit = 8 * 32 // BITS[self.kind]
        limit = draw.choice([None, None, 4 * _MIB, 6 * _MIB, 20 * _MIB])
        if limit:
            params = f"vmem_limit_bytes={limit}"
            self.options = f", compiler_params=pltpu.CompilerParams({params})"
        self.left = limit or draw.choice([16, 32]) * _MIB
        self.left += draw.choice([-64, -8, -1, 0, 0, 1, 8, 64]) * self.row_bytes * self.unit
        getattr(self, f"_{way}")()

    @property
    def row_bytes(self) -> int:
        return -(-self.columns // 128) * 128 * BITS[self.kind] // 8

    def rows(self, share: float, buffers: int = 1) -> int:
        """As many rows, in whole registers, as a share of what is left, which they take away."""
        unit = self.row_bytes * self.unit * buffers
        count = max(1, int(self.left * share) // unit)
        self.left -= count * unit
        return count * self.unit

    def copied(self, source: Ref, target: Ref) -> None:
        self.line(f"{target.name}[0:{self.unit}, :] = {source.name}[0:{self.unit}, :]")

    def _blocks(self) -> None:
        draw = self.draw
        self.grid = (draw.choice([2, 3]),)
        count = draw.choice([1, 1, 2])
        modes = [draw.choice([1, 2, 2, 2]) for _ in range(count)]
        inputs: list[Ref] = []
        for buffers in modes:
            rows = self.rows(0.6 / count, buffers)
            mode = f", pipeline_mode=pl.Buffered({buffers})" if buffers != 2 else ""
            spec = f"pl.BlockSpec(({rows}, {self.columns}), lambda i: (i, 0){mode})"
            inputs.append(self.input((rows * self.grid[0], self.columns), self.kind, spec))
        if draw.random() < 0.5:
            rows = self.rows(0.5)
            held = self.buffer((rows, self.columns), self.kind)
            self.line("at = pl.multiple_of(pl.program_id(0) * 128, 128)")
            self.line(f"{held.name}[pl.ds(at, 1), :] = {inputs[0].name}[0:1, :]")
            self.line(f"{inputs[0].name}[0:1, :] = {held.name}[pl.ds(at, 1), :]")
        rows = self.rows(1.0, 2)
        spec = f"pl.BlockSpec(({rows}, {self.columns}), lambda i: (i, 0))"
        out = self.output((rows * self.grid[0], self.columns), self.kind, spec)
        for source in inputs:
            self.copied(source, out)

    def _scratch(self) -> None:
        """Two buffers that copies fill."""
        rows = [self.rows(share) for share in (self.draw.choice([0.3, 0.5]), 1.0)]
        for number, count in enumerate(rows):
            x = self.input((count, self.columns), self.kind, ANY, "hbm")
            held = self.buffer((count, self.columns), self.kind)
            out = self.output((count, self.columns), self.kind, ANY)
            self.line(f"pltpu.sync_copy({x.name}, {held.name})  # {number}")
            self.line(f"pltpu.sync_copy({held.name}, {out.name})")

    def _scoped(self) -> None:
        """A buffer within a scope, and another within it or after it."""
        counts = [self.rows(self.draw.choice([0.3, 0.5])), self.rows(1.0)]
        nested = self.draw.random() < 0.6
        for number, count in enumerate(counts):
            x = self.input((count, self.columns), self.kind, ANY, "hbm")
            out = self.output((count, self.columns), self.kind, ANY)
            self.line(f"def scope{number}(held):")
            self.line(f"    pltpu.sync_copy({x.name}, held)")
            if number and nested:
                self.line(f"    pl.run_scoped(scope0, {self.size(counts[0])})")
            self.line(f"    pltpu.sync_copy(held, {out.name})")
        for number in (1,) if nested else (0, 1):
            self.line(f"pl.run_scoped(scope{number}, {self.size(counts[number])})")

    def size(self, rows: int) -> str:
        return f"pltpu.VMEM(({rows}, {self.columns}), jnp.{self.kind})"

    def _whole(self) -> None:
        """Whole operands and results in VMEM."""
        x = self.input((self.rows(0.5), self.columns), self.kind, VMEM)
        out = self.output((self.rows(1.0), self.columns), self.kind, VMEM)
        self.copied(x, out)

    def scalar_memory(self) -> None:
        draw = self.draw
        kind = draw.choice(["int32", "float32", "int16", "int8"])
        size = _MIB // draw.choice([1, 2, 4]) * 8 // BITS[kind]
        size -= draw.choice([-1024, 0, 1024, 4096, 8192, 16384])
        shape: Shape = (size,) if draw.random() < 0.6 else (size // 128, 128)
        if draw.random() < 0.5:
            _ = self.scalars
            table = Ref("p", shape, kind, "smem")
            self.prefetched.append(table)
        else:
            table = self.input(shape, kind, SMEM, "smem")
        out = self.output((8, 128), "int32", VMEM)
        index = ", ".join(self.position(n - 1) for n in shape)
        self.line(f"{out.name}[...] = jnp.full((8, 128), {table.name}[{index}].astype(jnp.int32))")


class Shared(Kernel):
    """Grids of two axes with blocks that are squeezed, at elements, shared or aliased."""

    def fill(self) -> None:
        draw = self.draw
        kind = draw.choice(KINDS)
        rank = draw.choice([2, 3, 3, 4])
        rows = draw.choice([8, 8, 16, 32, 64])
        columns = draw.choice([128, 128, 256])
        self.block = (*[1] * (rank - 2), rows, columns)
        counts = [draw.choice([1, 2, 3]) for _ in range(rank)]
        self.grid = (counts[-2], draw.choice([1, 2, counts[0]]))
        self.whole = tuple(b * c for b, c in zip(self.block, counts, strict=True))
        self.table = draw.random() < 0.4
        if self.table:
            _ = self.scalars
        x = self.input(self.whole, kind, self.spec(counts, of_input=True))
        out = self.output(self.whole, kind, self.spec(counts))
        value = f"{x.name}[...].reshape({self.size(0)})"
        if draw.random() < 0.5 and BITS[kind] >= 16:
            value = f"({value} + jnp.asarray(1, jnp.{kind}))"
        if draw.random() < 0.4:
            aliases = {len(self.prefetched): 0}
            self.options = f", input_output_aliases={aliases}"
        first = draw.choice(["", "pl.program_id(1) == 0", "pl.program_id(0) >= 0"])
        if first:
            self.line(f"@pl.when({first})")
            self.line("def _():")
            self.depth += 1
        self.line(f"{out.name}[...] = {value}.reshape({out.name}.shape)")
        self.depth = 1
        words = draw.choice(["", "('parallel', 'arbitrary')", "('arbitrary', 'arbitrary')"])
        if words:
            self.options += f", compiler_params=pltpu.CompilerParams(dimension_semantics={words})"
        # Only what all steps write is defined.
        self.compared = all(n == 1 for n in (*counts[:-2], counts[-1])) and not self.table

    def size(self, skipped: int) -> Shape:
        return self.block[skipped:]

    def spec(self, counts: list[int], of_input: bool = False) -> str:
        draw = self.draw
        given = "i, j, *n" if self.table else "i, j"
        styles = ["", "", "squeezed", "element"]
        style = draw.choice(styles)
        sizes, places = [], []
        for dim, size in enumerate(self.block):
            back = len(self.block) - dim
            place = "i" if back == 2 else "0"
            if back > 2 and counts[dim] > 1 and draw.random() < 0.7:
                place = f"(j % {counts[dim]})"
                if self.table and of_input:
                    place = f"(n[0][j] % {counts[dim]})"
            text = str(size)
            if style == "squeezed" and back > 2:
                text = draw.choice(["None", "pl.squeezed", "pl.Squeezed()"])
            elif style == "element":
                text, place = f"pl.Element({size})", f"{place} * {size}"
            sizes.append(text)
            places.append(place)
        modes = ["", "", "", ", pipeline_mode=pl.Buffered(1)", ", pipeline_mode=pl.Buffered(2)"]
        mode = draw.choice(modes) if of_input else ""
        return f"pl.BlockSpec(({', '.join(sizes)},), lambda {given}: ({', '.join(places)},){mode})"
