"""Random kernels of blocks at places that are computed, and of conditions on where the grid is."""

from __future__ import annotations

from .random_verdicts import BITS, Shape
from .random_verdicts_pipelines import COLUMNS, KINDS, ROWS, Blocked


class Windows(Blocked):
    """Blocks at places that are computed: halos, elements, tables of prefetched numbers."""

    def fill(self) -> None:
        draw = self.draw
        kind = draw.choice(KINDS)
        rows, columns = draw.choice(ROWS), draw.choice(COLUMNS)
        steps = draw.choice([2, 3, 4])
        self.grid = (steps,) if draw.random() < 0.6 else (2, steps)
        names = ["i"] if len(self.grid) == 1 else ["j", "i"]
        if draw.random() < 0.6:
            _ = self.scalars
        args = ", ".join([*names, *(["n"] if self.prefetched else [])])
        way = draw.choice(
            ["halo", "element", "table", "clamped", "back", "squeezed", "lanes", "small"]
        )
        shape, block, index = self._place(way, rows, columns, steps)
        mode = draw.choice(
            ["", "", "", ", pipeline_mode=pl.Buffered(1)", ", pipeline_mode=pl.Buffered(3)"]
        )
        x = self.input(shape, kind, f"pl.BlockSpec({block}, lambda {args}: {index}{mode})")
        out_block = {"lanes": (rows, columns)}.get(way, (rows, columns))
        lead = "j, " if len(names) == 2 else ""
        whole = (*self.grid[:-1], steps * out_block[0], out_block[1])
        sizes = f"({'None, ' if lead else ''}{out_block[0]}, {out_block[1]})"
        o = self.output(whole, kind, f"pl.BlockSpec({sizes}, lambda {args}: ({lead}i, 0))")
        value = f"{x.name}[...]"
        if way in ("halo", "element") and self.extra:
            start = draw.choice([0, self.extra])
            value = (
                f"{x.name}[{start}:{start + rows}, :]"
                if draw.random() < 0.5
                else f"{x.name}[pl.ds({self.position(self.extra)}, {rows}), :]"
            )
        if way == "small":
            value = f"jnp.broadcast_to({value}, {(rows, columns)})"
        if way == "squeezed":
            value = f"{value}.reshape({(rows, columns)})"
        self.line(f"{o.name}[...] = {self.spread(kind, value)}")
        if draw.random() < 0.3:
            words = [draw.choice(["parallel", "arbitrary"]) for _ in self.grid]
            words = tuple(sorted(words, reverse=True))  # Cores share the first ones only.
            self.options = f", compiler_params=pltpu.CompilerParams(dimension_semantics={words})"

    extra = 0

    def _place(self, way: str, rows: int, columns: int, steps: int) -> tuple[Shape, str, str]:
        draw = self.draw
        shape, block, index = (rows * steps, columns), f"({rows}, {columns})", "(i, 0)"
        if way in ("halo", "element"):
            self.extra = draw.choice([0, 8, 8, 1, 2, 16])
            unit = draw.choice([rows, rows, 8])
            size = rows + self.extra
            whole = unit * (steps - 1) + size
            padding = draw.choice(["", "", f", ({draw.choice([0, 8])}, {draw.choice([0, 8])})"])
            return (whole, columns), f"(pl.Element({size}{padding}), {columns})", f"(i * {unit}, 0)"
        if way == "table" and self.prefetched:
            return (
                shape,
                block,
                f"({draw.choice(['n[i]', 'n[n[i] % 4]', '(n[i] + i)'])} % {steps}, 0)",
            )
        if way == "clamped":
            last = steps - 1
            places = [f"jnp.minimum(i + 1, {last})", "jnp.maximum(i - 1, 0)",
                      f"lax.select(i > 0, i - 1, jnp.int32({last}))"]  # fmt: skip
            return shape, block, f"({draw.choice(places)}, 0)"
        if way == "back":
            return shape, block, f"({steps} - 1 - i, 0)"
        if way == "squeezed":
            lead = draw.choice(["None", "1", "pl.squeezed"])
            return (steps, rows, columns), f"({lead}, {rows}, {columns})", "(i, 0, 0)"
        if way == "lanes":
            return (rows, columns * steps), block, "(0, i)"
        if way == "small":
            return (steps, 1, columns), f"(None, 1, {columns})", "(i, 0, 0)"
        return shape, block, index


class Whens(Blocked):
    """Conditions on grids and scalars: blocks that are set up, added to, finished, or left out."""

    def fill(self) -> None:
        draw = self.draw
        kind = draw.choice(
            ["float32", "float32", "int32", "bfloat16", "int16", "int8", "bool", "uint8"]
        )
        rows, columns = draw.choice([*ROWS, 1, 5]), draw.choice([*COLUMNS, 1, 100])
        self.grid = (draw.choice([1, 2, 3]), draw.choice([2, 3]))
        whole = (self.grid[0] * rows, columns)
        if rows % 8 and self.grid[0] > 1:
            self.grid = (1, self.grid[1])
            whole = (rows, columns)
        x = self.input(
            (self.grid[1], *whole),
            kind,
            f"pl.BlockSpec((None, {rows}, {columns}), lambda i, j, *n: (j, i, 0))",
        )
        o = self.output(whole, kind, f"pl.BlockSpec(({rows}, {columns}), lambda i, j, *n: (i, 0))")
        self.line("i, j = pl.program_id(0), pl.program_id(1)")
        self.line("@pl.when(j == 0)")
        self.line("def _():")
        zero = "False" if kind == "bool" else "0"
        self.line(f"    {o.name}[...] = jnp.full({(rows, columns)}, {zero}, jnp.{kind})")
        test = draw.choice(
            [
                "j > 0",
                "(i + j) % 2 == 0",
                f"j < {self.position(3)}",
                f"({self.position(3)} > 1) & (j > 0)",
                "n[0] > n[1] + i",
            ]
        )
        if "n[" in test:
            _ = self.scalars
        changed = self._changed(kind, f"{o.name}[...]", f"{x.name}[...]", (rows, columns))
        way = draw.choice(["when", "when", "cond", "switch", "else"])
        if way in ("when", "else"):
            self.line(f"@pl.when({test})")
            self.line("def _():")
            self.line(f"    {o.name}[...] = {changed}")
            if way == "else":
                self.line(f"@pl.when(jnp.logical_not({test}))")
                self.line("def _():")
                other = self._changed(kind, f"{x.name}[...]", f"{o.name}[...]", (rows, columns))
                self.line(f"    {o.name}[...] = {other}")
        elif way == "cond":
            other = self._changed(kind, f"{x.name}[...]", f"{o.name}[...]", (rows, columns))
            self.line(f"{o.name}[...] = lax.cond({test}, lambda: {changed}, lambda: {other})")
        else:
            number = draw.choice(["j", "i + j", self.position(2)])
            branches = [f"lambda: {changed}", f"lambda: {o.name}[...]", f"lambda: {x.name}[...]"]
            self.line(
                f"{o.name}[...] = lax.switch(jnp.minimum({number}, 2), [{', '.join(branches)}])"
            )

    def _changed(self, kind: str, one: str, other: str, shape: Shape) -> str:
        draw = self.draw
        if kind == "bool":
            return draw.choice([f"{one} | {other}", f"{one} ^ {other}", f"~{other}"])
        if BITS[kind] < 16:
            chosen = f"jnp.where({one} > {other}, jnp.asarray(1, jnp.{kind}), {other})"
            return draw.choice([one if "float" in kind else f"{one} | {other}", other, chosen])
        iota = f"lax.broadcasted_iota(jnp.int32, {shape}, {draw.choice([0, 1])})"
        mask = f"{iota} < {draw.choice(['j', '3', self.position(8)])}"
        return draw.choice([
            f"{one} + {other}", f"{one} - {other}", f"jnp.where({mask}, {one}, {other})",
            f"jnp.where({one} > {other}, {one}, jnp.asarray(2, jnp.{kind}))", other,
        ])  # fmt: skip
