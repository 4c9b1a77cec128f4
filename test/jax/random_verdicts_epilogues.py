"""Random products with epilogues as quantized models have them: groups of scales applied at each
step of the grid, several accumulators, activations, residuals, results that are quantized again."""

from __future__ import annotations

from .random_verdicts import BITS, Shape
from .random_verdicts_models import Models

NARROW = ("int8", "int8", "int4", "uint4", "float8_e4m3fn", "float8_e5m2")
WIDE = ("bfloat16", "bfloat16", "float32")


class Epilogues(Models):
    """A product over the last axis of a grid; the last step makes the results."""

    def fill(self) -> None:
        draw = self.draw
        self.block = (
            draw.choice([8, 16, 24, 32, 64, 128]),
            draw.choice([128, 128, 256]),
            draw.choice([128, 128, 256]),
        )
        self.counts = (draw.choice([1, 2]), draw.choice([1, 2]), draw.choice([1, 2, 3]))
        self.grid = self.counts
        self.one = draw.choice([*WIDE, "int8", "int8", "float8_e4m3fn"])
        self.other = draw.choice([self.one, *NARROW])
        self.batched = draw.random() < 0.25
        self.whole = self._whole()
        bm, bk, bn = self.block
        m, n, k = (b * c for b, c in zip((bm, bn, bk), self.counts, strict=True))
        self.sizes = (m, k, n)
        x = self._given((m, k), self.one, (bm, bk), "i", "k")
        self.turned = draw.random() < 0.3
        count = draw.choice([1, 1, 2])
        weights = [
            self._given((n, k), self.other, (bn, bk), "j", "k")
            if self.turned
            else self._given((k, n), self.other, (bk, bn), "k", "j")
            for _ in range(count)
        ]
        held = [self.buffer((bm, bn), self.whole) for _ in weights]
        self.line("step = pl.program_id(2)")
        self.line("@pl.when(step == 0)")
        self.line("def _():")
        for total in held:
            self.line(f"    {total.name}[...] = jnp.zeros_like({total.name})")
        self.line(f"x = {x}")
        for weight, total in zip(weights, held, strict=True):
            self._step(weight, total.name)
        self.line("@pl.when(step == pl.num_programs(2) - 1)")
        self.line("def _():")
        self.depth = 2
        self._last([total.name for total in held])
        self.depth = 1

    def _whole(self) -> str:
        integers = self.one.startswith("int") and "int" in self.other
        return "int32" if integers and self.draw.random() < 0.8 else "float32"

    def _given(self, shape: Shape, kind: str, block: Shape, *axes: str) -> str:
        """An input and its block, with leading dimensions of one at times."""
        place = ", ".join(axes)
        if self.batched:
            lead = self.draw.choice(["None, ", "1, ", "pl.Squeezed(), ", "None, 1, "])
            ones = (1,) * lead.count(",")
            zeros = "0, " * len(ones)
            size = ", ".join(map(str, block))
            spec = f"pl.BlockSpec(({lead}{size},), lambda i, j, k, *_: ({zeros}{place},))"
            ref = self.input((*ones, *shape), kind, spec)
            return f"{ref.name}[...].reshape({block})"
        spec = f"pl.BlockSpec({block}, lambda i, j, k, *_: ({place},))"
        return f"{self.input(shape, kind, spec).name}[...]"

    def _step(self, weight: str, total: str) -> None:
        draw = self.draw
        _, bk, bn = self.block
        to = self.one
        narrow = self.one.startswith("float8") and not self.other.startswith("float8")
        if self.other == self.one or (
            to == "int8" and self.other == "int4" and draw.random() < 0.4
        ):
            to = self.other
        elif narrow or (self.one.startswith("int") and not self.other.startswith("int")):
            to = draw.choice(WIDE)
        self.line(f"w = {weight}")
        if self.other == "uint4":
            self.line("w = w.astype(jnp.int32)")
        if to != self.other:
            self.line(f"w = w.astype(jnp.{to})")
        self.line(f"a = x.astype(jnp.{to})" if to != self.one else "a = x")
        dims = "((1,), (1,))" if self.turned else "((1,), (0,))"
        integers = to in ("int8", "int4")
        group = draw.choice([32, 64, 128])
        grouped = self.other != self.one and draw.random() < 0.5
        result = "int32" if integers else "float32"
        if not grouped:
            self.line(f"part = lax.dot_general(a, w, ({dims}, ((), ())), "
                      f"preferred_element_type=jnp.{result})")  # fmt: skip
            if self.whole != result:
                self.line(f"part = part.astype(jnp.{self.whole})")
            self.line(f"{total}[...] += part")
            return
        n, k = self.sizes[2], self.sizes[1]
        spec = f"pl.BlockSpec({(bk // group, 1, bn)}, lambda i, j, k, *_: (k, 0, j))"
        given = self.input((k // group, 1, n), "float32", spec).name
        scales = draw.choice([f"{given}[:, 0, :]", f"{given}[...].reshape({(bk // group, bn)})"])
        if draw.random() < 0.5 and not self.turned and not integers:
            kind = draw.choice(["float32", to])
            self.line(f"scale = ({scales}).astype(jnp.{kind})")
            self.line(f"w = (w.astype(jnp.{kind}).reshape({(bk // group, group, bn)}) * "
                      f"scale[:, None, :]).reshape({(bk, bn)}).astype(jnp.{to})")  # fmt: skip
            self.line(f"{total}[...] += lax.dot_general(a, w, ({dims}, ((), ())), "
                      f"preferred_element_type=jnp.float32).astype(jnp.{self.whole})")  # fmt: skip
            return
        self.line(f"scale = {scales}")
        for g in range(bk // group):
            part = f"{g * group}:{(g + 1) * group}"
            some = f"w[:, {part}]" if self.turned else f"w[{part}, :]"
            self.line(f"part = lax.dot_general(a[:, {part}], {some}, ({dims}, ((), ())), "
                      f"preferred_element_type=jnp.{result})")  # fmt: skip
            row = draw.choice([f"scale[{g}, :]", f"scale[{g}:{g + 1}, :]", f"scale[{g}][None, :]"])
            self.line(f"part = part.astype(jnp.float32) * {row}")
            self.line(f"{total}[...] += part.astype(jnp.{self.whole})")

    def _last(self, totals: list[str]) -> None:
        draw = self.draw
        bm, _, bn = self.block
        m, _, n = self.sizes
        self.line(f"y = {totals[0]}[...].astype(jnp.float32)")
        for _ in range(draw.choice([0, 1, 2])):
            self._scaled()
        if len(totals) == 2:
            self.line(f"z = {totals[1]}[...].astype(jnp.float32)")
            self.line(draw.choice([
                "y = jax.nn.silu(y) * z", "y = jax.nn.gelu(y) * z", "y = jnp.maximum(y, z)",
                "y = jnp.where(z > 0, y, 0.0)", "y = y + z", "y = y * jax.nn.sigmoid(z)",
            ]))  # fmt: skip
        for _ in range(draw.choice([0, 1])):
            self.line(draw.choice([
                "y = jnp.clip(y, -6.0, 6.0)", "y = jnp.maximum(y, 0)", "y = 30 * jnp.tanh(y / 30)",
                "y = y * lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + 1e-6)",
                "y = y - jnp.max(y, axis=1, keepdims=True)",
                "y = y + lax.broadcasted_iota(jnp.int32, y.shape, 1).astype(jnp.float32)",
                "y = jnp.where(lax.broadcasted_iota(jnp.int32, y.shape, 0) < n[1], y, 0.0)",
                "y = y * n[2].astype(jnp.float32)",
                "y = jax.nn.softmax(y, axis=-1)",
            ]))  # fmt: skip
        _ = self.scalars
        if draw.random() < 0.3:
            kind = draw.choice(["bfloat16", "float32", "int8"])
            residual = self._given((m, n), kind, (bm, bn), "i", "j")
            self.line(f"y = y + {residual}.astype(jnp.float32)")
        way = draw.choice(["plain", "plain", "quantized", "quantized", "halves", "turned", "sums"])
        getattr(self, f"_{way}")()

    def _scaled(self) -> None:
        """Scales and biases of rows, of columns or of all."""
        draw = self.draw
        bm, _, bn = self.block
        m, _, n = self.sizes
        kind = draw.choice(["float32", "float32", "bfloat16"])
        op = draw.choice(["*", "*", "+", "-"])
        way = draw.choice(["row", "row1", "column", "column1", "lanes", "one", "smem"])
        cast = ".astype(jnp.float32)"
        if way == "row":
            text = f"{self._given((1, n), kind, (1, bn), '0', 'j')}{cast}"
        elif way == "row1":
            spec = f"pl.BlockSpec(({bn},), lambda i, j, k, *_: (j,))"
            ref = self.input((n,), kind, spec)
            text = draw.choice([f"{ref.name}[...]{cast}", f"{ref.name}[...][None, :]{cast}"])
        elif way == "column":
            text = f"{self._given((m, 1), kind, (bm, 1), 'i', '0')}{cast}"
        elif way == "column1":
            spec = "pl.BlockSpec(memory_space=pltpu.VMEM)"
            ref = self.input((bm,), "float32", spec)
            text = draw.choice([f"{ref.name}[...][:, None]", f"{ref.name}[...].reshape({bm}, 1)"])
        elif way == "lanes":
            kind = "float32"
            given = self._given((m, 128), kind, (bm, 128), "i", "0")
            text = f"({given})[:, :1]"
        elif way == "one":
            text = f"{self._given((1, 1), kind, (1, 1), '0', '0')}{cast}"
        else:
            spec = "pl.BlockSpec(memory_space=pltpu.SMEM)"
            ref = self.input((3,), "float32", spec, "smem")
            text = f"{ref.name}[{draw.choice(['0', 'pl.program_id(1)', 'n[0] % 3'])}]"
        self.line(f"y = y {op} {text}")

    def _result(self, shape: Shape, kind: str, block: Shape, place: str = "i, j") -> str:
        return self.output(
            shape, kind, f"pl.BlockSpec({block}, lambda i, j, k, *_: ({place},))"
        ).name

    def _plain(self) -> None:
        m, _, n = self.sizes
        kind = self.draw.choice([*WIDE, "int32", "float8_e4m3fn"])
        out = self._result((m, n), kind, (self.block[0], self.block[2]))
        self.line(f"{out}[...] = y.astype(jnp.{kind})")

    def _quantized(self) -> None:
        """Rows, columns or groups of lanes, and their scales as a second result."""
        draw = self.draw
        bm, _, bn = self.block
        m, _, n = self.sizes
        kind = draw.choice(["int8", "int8", "float8_e4m3fn", "float8_e5m2", "int4"])
        top = {"int8": 127, "int4": 7, "float8_e4m3fn": 448, "float8_e5m2": 57344}[kind]
        way = draw.choice(["rows", "rows", "columns", "groups", "all"])
        if way == "groups":
            size = draw.choice([32, 64, 128])
            self.line(f"g = y.reshape({(bm, bn // size, size)})")
            self.line("most = jnp.max(jnp.abs(g), axis=-1, keepdims=True)")
            self.line(f"q = (g * ({top}.0 / (most + 1e-6))).reshape({(bm, bn)})")
        else:
            axis = {"rows": "1", "columns": "0", "all": "None"}[way]
            self.line(f"most = jnp.max(jnp.abs(y), axis={axis}, keepdims=True)")
            self.line(f"q = y * ({top}.0 / (most + 1e-6))")
        if kind.startswith("int"):
            self.line(
                draw.choice(["q = jnp.round(q)", "q = jnp.floor(q + 0.5)", "q = jnp.rint(q)"])
            )
            if draw.random() < 0.5:
                self.line(f"q = jnp.clip(q, -{top}, {top})")
            if draw.random() < 0.5:
                self.line("q = q.astype(jnp.int32)")
        out = self._result((m, n), kind, (bm, bn))
        self.line(f"{out}[...] = q.astype(jnp.{kind})")
        if way == "rows":
            lanes = draw.choice([1, 128])
            if lanes == 1 and draw.random() < 0.3:
                scales = self._result((self.counts[1], m, 1), "float32", (1, bm, 1), "j, i, 0")
                self.line(f"{scales}[0] = most / {top}.0")
                return
            shape = (m, self.counts[1] * 128)
            scales = self._result(shape, "float32", (bm, 128))
            self.line(f"{scales}[...] = jnp.broadcast_to(most / {top}.0, {(bm, 128)})")
        elif way == "columns":
            shape = (8 * self.counts[0], n)
            scales = self._result(shape, "float32", (8, bn))
            self.line(f"{scales}[...] = jnp.broadcast_to(most / {top}.0, {(8, bn)})")

    def _halves(self) -> None:
        """Rotary positions: both halves, or neighbours, of each head."""
        draw = self.draw
        bm, _, bn = self.block
        m, _, n = self.sizes
        size = draw.choice([64, 128, 32])
        kind = draw.choice(WIDE)
        out = self._result((m, n), kind, (bm, bn))
        way = draw.choice(["join", "roll", "heads", "select"])
        if way == "heads":
            self.line(f"h = y.reshape({(bm, bn // size, size)})")
            self.line(f"a, b = h[..., :{size // 2}], h[..., {size // 2}:]")
            self.line(f"y = jnp.concatenate([a - b, a + b], axis=-1).reshape({(bm, bn)})")
        elif way == "join":
            self.line(f"a, b = y[:, :{bn // 2}], y[:, {bn // 2}:]")
            self.line("y = jnp.concatenate([a - b, b + a], axis=1)")
        elif way == "roll":
            self.line(f"y = y + pltpu.roll(y, {bn // 2}, 1)")
        else:
            self.line(f"lane = lax.broadcasted_iota(jnp.int32, {(bm, bn)}, 1)")
            self.line(
                f"y = jnp.where(lane % 2 == 0, pltpu.roll(y, {bn - 1}, 1), pltpu.roll(y, 1, 1))"
            )
        self.line(f"{out}[...] = y.astype(jnp.{kind})")

    def _turned(self) -> None:
        bm, _, bn = self.block
        m, _, n = self.sizes
        kind = self.draw.choice([*WIDE, "int8"])
        out = self._result((n, m), kind, (bn, bm), "j, i")
        if self.draw.random() < 0.5:
            self.line(f"{out}[...] = y.astype(jnp.{kind}).T")
        else:
            self.line(f"{out}[...] = y.T.astype(jnp.{kind})")

    def _sums(self) -> None:
        """Sums of rows and columns, added to what was there."""
        bm, _, bn = self.block
        m, _, n = self.sizes
        self._plain()
        kind = self.draw.choice(["float32", "bfloat16"])
        if self.draw.random() < 0.5:
            out = self._result((self.counts[0], 1, n), kind, (1, 1, bn), "i, 0, j")
            self.line(f"{out}[...] = jnp.sum(y, axis=0).reshape(1, 1, {bn}).astype(jnp.{kind})")
        else:
            out = self._result((self.counts[1], 1, m), kind, (1, 1, bm), "j, 0, i")
            self.line(f"{out}[...] = jnp.sum(y, axis=1).reshape(1, 1, {bm}).astype(jnp.{kind})")


assert all(BITS[kind] < 16 for kind in NARROW)
