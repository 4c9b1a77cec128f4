"""Random kernels over ragged data: attention up to lengths in SMEM, pages and rows gathered by
tables, branches that scalars choose, pipelines whose bodies are several operations."""

from __future__ import annotations

from .random_verdicts import BITS, Ref
from .random_verdicts_grids import HBM
from .random_verdicts_loops import Loops
from .random_verdicts_memory import ANY
from .random_verdicts_values import VMEM

CACHES = ("bfloat16", "bfloat16", "float32", "int8", "float8_e4m3fn", "float8_e5m2", "int4")
PLAIN = ("float32", "float32", "bfloat16", "int32", "int16", "int8")


class Lengths(Loops):
    """Softmax over blocks of keys up to a length known at run time, running sums carried."""

    def fill(self) -> None:
        draw = self.draw
        self.rows, self.size = draw.choice([1, 8, 16, 24, 64]), draw.choice([64, 128, 128, 256])
        self.keys, blocks = draw.choice([8, 16, 64, 128, 128, 256]), draw.choice([2, 3, 4])
        kind = draw.choice(CACHES)
        batch = draw.choice([1, 2, 3])
        self.grid = (batch,)
        _ = self.scalars
        q = draw.choice(["bfloat16", "float32"])
        self.to = q
        squeezed = draw.choice(["None", "1"])
        query = f"pl.BlockSpec(({squeezed}, {self.rows}, {self.size}), lambda b, *n: (b, 0, 0))"
        cache = (batch, blocks * self.keys, self.size)
        block = f"pl.BlockSpec(({squeezed}, {cache[1]}, {self.size}), lambda b, *n: (b, 0, 0))"
        self.input((batch, self.rows, self.size), q, query)
        self.input(cache, kind, block)
        self.input(cache, kind, block)
        out = self.output((batch, self.rows, self.size), q, query)
        lead = "0, " if squeezed == "1" else ""
        self.line("length = n[pl.program_id(0) % 4] * " + draw.choice(["1", "8", "50"]))
        self.line(f"length = jnp.minimum(length, {cache[1]})")
        self.line(f"q = x0[{'0' if lead else '...'}]")
        way = draw.choice(["column", "column", "flat", "lanes", "scratch"])
        self.line("def step(j, carry):")
        self.depth = 2
        self._scores(lead)
        getattr(self, f"_{way}")(lead)
        self.depth = 1
        ceiling = f"(length + {self.keys - 1}) // {self.keys}"
        end = draw.choice(
            [f"pl.cdiv(length, {self.keys})", f"{blocks}", f"jnp.minimum({ceiling}, {blocks})"]
        )
        small = {"column": (self.rows, 1), "flat": (self.rows,), "lanes": (self.rows, 128)}.get(way)
        if small is None:
            self.line("most[...] = jnp.full_like(most, -1e30)")
            self.line("total[...] = jnp.zeros_like(total)")
            self.line("held[...] = jnp.zeros_like(held)")
            self.line(f"lax.fori_loop(0, {end}, step, None)")
            self.line("acc, l = held[...], total[:, :1]")
        else:
            self.line(f"low, none = jnp.full({small}, -1e30, jnp.float32), jnp.zeros({small})")
            self.line(f"begin = low, none, jnp.zeros({(self.rows, self.size)}, jnp.float32)")
            self.line(f"m, l, acc = lax.fori_loop(0, {end}, step, begin{self.way_of(end)})")
            if way == "flat":
                self.line(draw.choice(["l = l[:, None]", f"l = l.reshape({self.rows}, 1)"]))
            elif way == "lanes":
                self.line("l = l[:, :1]")
        last = draw.choice(["acc / l", "acc / jnp.maximum(l, 1e-6)", "acc * pl.reciprocal(l)",
                            "jnp.where(l > 0, acc / l, 0.0)",
                            "jnp.where(length > 0, acc / l, jnp.zeros_like(acc))"])  # fmt: skip
        place = "0" if lead else "..."
        self.line(f"{out.name}[{place}] = ({last}).astype(jnp.{q})")

    def way_of(self, end: str) -> str:
        return self.way() if end.isdigit() else ""

    def _scores(self, lead: str) -> None:
        draw = self.draw
        start = draw.choice([f"pl.multiple_of(j * {self.keys}, {self.keys})", f"j * {self.keys}"])
        self.line(f"start = {start}")
        for name, ref in (("k", "x1"), ("v", "x2")):
            self.line(f"{name} = {ref}[{lead}pl.ds(start, {self.keys}), :]")
            if draw.random() < 0.9 or self.to == "float32":
                self.line(f"{name} = {name}.astype(jnp.{self.to})")
        dims = "(((1,), (1,)), ((), ()))"
        self.line(f"s = lax.dot_general(q, k.astype(q.dtype), {dims}, "
                  "preferred_element_type=jnp.float32)")  # fmt: skip
        self.line(f"place = start + lax.broadcasted_iota(jnp.int32, {(self.rows, self.keys)}, 1)")
        rows = f"lax.broadcasted_iota(jnp.int32, {(self.rows, self.keys)}, 0)"
        mask = draw.choice(
            ["place < length"] * 2
            + ["(place < length) & (place >= n[3])", f"place <= {rows} + length"]
        )
        low = draw.choice(["-1e30", "-jnp.inf", "jnp.finfo(jnp.float32).min"])
        self.line(f"s = jnp.where({mask}, s, {low})")

    def _column(self, lead: str) -> None:
        self.line("m, l, acc = carry")
        self.line("new = jnp.maximum(m, jnp.max(s, axis=1, keepdims=True))")
        self.line("p = jnp.exp(s - new)")
        self.line("alpha = jnp.exp(m - new)")
        self.line("l = alpha * l + jnp.sum(p, axis=1, keepdims=True)")
        self._returned("alpha")

    def _flat(self, lead: str) -> None:
        self.line("m, l, acc = carry")
        self.line("new = jnp.maximum(m, jnp.max(s, axis=1))")
        self.line("p = jnp.exp(s - new[:, None])")
        self.line("alpha = jnp.exp(m - new)")
        self.line("l = alpha * l + jnp.sum(p, axis=1)")
        self._returned("alpha[:, None]")

    def _lanes(self, lead: str) -> None:
        self.line("m, l, acc = carry")
        self.line("new = jnp.maximum(m, jnp.max(s, axis=1, keepdims=True))")
        self.line("p = jnp.exp(s - new[:, :1])")
        self.line("alpha = jnp.exp(m - new)")
        self.line("l = alpha * l + jnp.sum(p, axis=1, keepdims=True)")
        self._returned("alpha[:, :1]")

    def _returned(self, alpha: str) -> None:
        self.line(f"acc = acc * {alpha} + jnp.dot(p.astype(jnp.{self.to}), v.astype(jnp.{self.to}),"
                  " preferred_element_type=jnp.float32)")  # fmt: skip
        self.line("return new, l, acc")

    def _scratch(self, lead: str) -> None:
        for name in ("most", "total", "held"):
            shape = (self.rows, self.size if name == "held" else 128)
            self.scratch.append(
                (Ref(name, shape, "float32", "vmem"), f"pltpu.VMEM({shape}, jnp.float32)")
            )
        self.line("m = most[...]")
        self.line("new = jnp.maximum(m, jnp.max(s, axis=1, keepdims=True))")
        self.line("p = jnp.exp(s - new[:, :1])")
        self.line("alpha = jnp.exp(m - new)")
        self.line("total[...] = alpha * total[...] + jnp.sum(p, axis=1, keepdims=True)")
        self.line("most[...] = new")
        self.line(f"held[...] = held[...] * alpha[:, :1] + jnp.dot(p.astype(jnp.{self.to}), "
                  f"v.astype(jnp.{self.to}), preferred_element_type=jnp.float32)")  # fmt: skip


class Gathered(Loops):
    """Pages or rows copied by a table, computed with, and copied back."""

    compared = False  # The interpreter does not run copies that wait for each other.

    def fill(self) -> None:
        draw = self.draw
        self.kind = draw.choice([*PLAIN, *CACHES, "uint8", "int16"])
        self.page, self.columns = (
            draw.choice([1, 4, 8, 8, 16, 32]),
            draw.choice([128, 128, 256, 512]),
        )
        self.heads = draw.choice([(), (), (2,), (4,)])
        many = 6
        _ = self.scalars
        part = (*self.heads, self.page, self.columns)
        self.flat = draw.random() < 0.4
        shape = (*self.heads, many * self.page, self.columns) if self.flat else (many, *part)
        cache = self.input(shape, self.kind, draw.choice([ANY, HBM]))
        slots = draw.choice([2, 4])
        held = self.buffer((slots, *part), self.kind)
        self.scratch.append((Ref("sem", (slots,), "sem"), f"pltpu.SemaphoreType.DMA(({slots},))"))
        self.line(f"def copy(i, slot):\n        page = n[i % 4] % {many}")
        begin = draw.choice(
            [f"page * {self.page}", f"pl.multiple_of(page * {self.page}, {self.page})"]
        )
        axes = ":, " * len(self.heads)
        source = f"{axes}pl.ds({begin}, {self.page})" if self.flat else "page"
        self.line(f"    return pltpu.make_async_copy({cache.name}.at[{source}], "
                  f"{held.name}.at[slot], sem.at[slot])")  # fmt: skip
        whole = "float32" if "float" in self.kind else "int32"
        out = self.output(part, whole, VMEM)
        count = draw.choice(["4", "n[0] + 1", "jnp.minimum(n[2], 4)"])
        self.line(f"{out.name}[...] = jnp.zeros_like({out.name})")
        self.line("copy(0, 0).start()")
        self.line("def step(i, carry):")
        self.line(f"    slot = {draw.choice([f'i % {slots}', f'lax.rem(i, {slots})'])}")
        self.line(f"    @pl.when(i + 1 < {count})")
        self.line("    def _():")
        self.line(f"        copy(i + 1, (i + 1) % {slots}).start()")
        self.line("    copy(i, slot).wait()")
        self.depth = 2
        self.line(f"v = {held.name}[slot].astype(jnp.{whole})")
        self._computed(part, whole, out.name)
        self.line("return carry")
        self.depth = 1
        self.line(f"lax.fori_loop(0, {count}, step, None)")
        if draw.random() < 0.4:
            self._back(held, shape)

    def _computed(self, part: tuple[int, ...], whole: str, out: str) -> None:
        draw = self.draw
        row = len(part) - 2
        iota = f"lax.broadcasted_iota(jnp.int32, v.shape, {row})"
        for _ in range(draw.choice([1, 2])):
            self.line(draw.choice([
                f"v = jnp.where({iota} < n[3], v, 0)",
                f"v = jnp.where({iota} + i * {self.page} < n[1], v, 0).astype(jnp.{whole})",
                f"v = v + jnp.sum(v, axis={row}, keepdims=True)",
                "v = v - jnp.max(v, axis=-1, keepdims=True)",
                "v = v * n[i % 4].astype(v.dtype)",
                f"v = jnp.maximum(v, {out}[...])",
                f"v = pltpu.roll(v, n[1], {row + 1})",
                "v = jnp.where(i % 2 == 0, v, -v)",
                "v = v + v[..., :1]" if row else "v = v + v[:, :1]",
                f"v = v * v[{'0, ' * row}0:1, :]",
            ]))  # fmt: skip
        place = draw.choice(["...", "..."])
        self.line(f"{out}[{place}] += v")
        if draw.random() < 0.3 and not self.heads:
            self.line(f"{out}[pl.ds(n[1] % {self.page}, 1), :] = v[0:1]")

    def _back(self, held: Ref, shape: tuple[int, ...]) -> None:
        """A page is copied out to a result in HBM, whole or a part of its rows."""
        draw = self.draw
        out = self.output(shape, self.kind, draw.choice([ANY, HBM]))
        axes = ":, " * len(self.heads)
        rows = draw.choice([self.page, self.page, max(1, self.page // 2)])
        target = f"{axes}pl.ds(n[1] * {self.page}, {rows})" if self.flat else (
            f"n[1], {axes}pl.ds(0, {rows})")  # fmt: skip
        source = f"0, {axes}pl.ds(0, {rows})"
        self.line(f"pltpu.sync_copy({held.name}.at[{source}], {out.name}.at[{target}])")


class Chosen(Loops):
    """What is computed, and stored where, is chosen by scalars of SMEM, of reductions or steps."""

    def fill(self) -> None:
        draw = self.draw
        kind = draw.choice(["float32", "float32", "bfloat16", "int32", "int16", "int8"])
        lead = draw.choice([(), (), (2,)])
        shape = (*lead, draw.choice([1, 8, 16, 20, 32]), draw.choice([1, 100, 128, 256, 384]))
        _ = self.scalars
        x, y = self.load(shape, kind), self.load(shape, kind)
        out = self.output(shape, kind, VMEM)
        counter = self.buffer((4,), "int32", "SMEM")
        self.line(f"{counter.name}[0] = jnp.int32(0)")
        self.line(f"{out.name}[...] = {x.name}")
        wide = "float32" if "float" in kind else "int32"
        scalar = f"jnp.max({x.name}.astype(jnp.{wide}))"
        chooser = draw.choice(["n[0] > 0", "n[1] % 2 == 0", f"{scalar} > 3", f"{scalar} < n[2]",
                               "(n[0] > 0) & (n[1] < 5)", "n[0] + n[1] > n[2]"])  # fmt: skip
        way = draw.choice(["cond", "switch", "when", "while", "select", "carried"])
        one, two, three = (self._some(x, y, shape, kind) for _ in range(3))
        if way == "cond":
            self.line(f"r = lax.cond({chooser}, lambda: {one}, lambda: {two})")
            self.line(
                f"{out.name}[...] = r + {three}" if BITS[kind] >= 16 else f"{out.name}[...] = r"
            )
        elif way == "switch":
            self.line(f"r = lax.switch(n[1] % 3, [lambda: {one}, lambda: {two}, lambda: {three}])")
            self.line(f"{out.name}[...] = r")
        elif way == "when":
            self.line(f"@pl.when({chooser})")
            self.line("def _():")
            self.line(f"    {out.name}[...] = {one}")
            self.line(f"    {counter.name}[0] += 1")
            self.line(f"@pl.when({counter.name}[0] == 0)")
            self.line("def _():")
            self.line(f"    {out.name}[...] = {two}")
        elif way == "while":
            self.line("def go(c):")
            self.line(f"    return (c[0] < n[2]) & (jnp.max(c[1].astype(jnp.{wide})) < 100)")
            self.line("def turn(c):")
            self.line(f"    {x.name} = c[1]")
            self.line(f"    return c[0] + 1, {one}")
            self.line(f"{out.name}[...] = lax.while_loop(go, turn, (jnp.int32(0), {x.name}))[1]")
        elif way == "select":
            self.line(f"{out.name}[...] = jnp.where({chooser}, {one}, {two})")
        else:
            self.line("def turn(i, c):")
            self.line(f"    {x.name} = c[0]")
            self.line(f"    v = lax.cond(n[i % 4] % 2 == 0, lambda: {one}, lambda: {two})")
            self.line("    return v, c[1] + jnp.where(n[i % 4] > 1, 1, 0)")
            self.line(f"v, count = lax.fori_loop(0, {draw.choice(['3', 'n[2]'])}, turn, "
                      f"({x.name}, jnp.int32(0)))")  # fmt: skip
            self.line(f"{out.name}[...] = v")
            self.line(f"{counter.name}[1] = count")
        if draw.random() < 0.3:
            rows = shape[-2]
            self.line(f"@pl.when(n[3] < {rows})")
            self.line("def _():")
            place = f"{'0, ' * len(lead)}pl.ds(n[3] % {rows}, 1), :"
            self.line(f"    {out.name}[{place}] = {y.name}[{'0, ' * len(lead)}0:1, :]")

    def _some(self, x: Ref, y: Ref, shape: tuple[int, ...], kind: str) -> str:
        draw, name, other = self.draw, x.name, y.name
        narrow = BITS[kind] < 16
        last = len(shape) - 1
        moves = [name, other, f"jnp.zeros_like({name})", f"jnp.full({shape}, 2, jnp.{kind})",
                 f"jnp.where({name} > {other}, {name}, {other})",
                 f"jnp.broadcast_to({name}[..., :1], {shape})",
                 f"jnp.broadcast_to({name}[..., :1, :], {shape})",
                 f"{other}.at[...].get()" if draw.random() < 0.1 else other]  # fmt: skip
        if not narrow:
            moves += [f"{name} + {other}", f"{name} * {other}", f"{name} + n[1].astype(jnp.{kind})",
                      f"{name} - {other}[..., :1]"]  # fmt: skip
        if kind in ("float32", "int32"):
            moves += [f"{name} - jnp.max({name}, axis=-1, keepdims=True)",
                      f"jnp.broadcast_to(jnp.sum({name}, axis=-2, keepdims=True), {shape})",
                      f"pltpu.roll({name}, n[1], {last - 1})"]  # fmt: skip
        return draw.choice(moves)
