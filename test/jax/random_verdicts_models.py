"""Random kernels as models have them: norms, attention, quantized products, masks of positions."""

from __future__ import annotations

from .random_verdicts import BITS, Ref, Shape
from .random_verdicts_values import Values

_FLOATS = ("float32", "float32", "bfloat16")
_NARROW = ("int8", "int8", "int4", "uint8", "uint4", "float8_e4m3fn", "float8_e5m2")
_LENGTHS = (1, 4, 8, 16, 24, 64, 100, 128, 128, 192, 256, 384, 512)


class Models(Values):
    """What is computed in floats is not to the last bit what XLA computes on a CPU."""

    tolerance = 5e-2

    def wide(self, value: Ref) -> Ref:
        """As float32, in which models compute."""
        if value.kind == "float32" or self.draw.random() < 0.15:
            return value
        if value.kind in ("uint8", "uint4", "int4") and self.draw.random() < 0.7:
            value = self.let(f"{value.name}.astype(jnp.int32)", value.shape, "int32")
        return self.let(f"{value.name}.astype(jnp.float32)", value.shape, "float32")

    def along(self, shape: Shape, axis: int) -> Shape:
        return (*shape[:axis], 1, *shape[axis + 1 :])

    def weights(self, shape: Shape, axis: int, kind: str) -> str:
        """Weights of each place along `axis`, from an array of one or two dimensions."""
        axis %= len(shape)
        size, back = shape[axis], len(shape) - axis
        spread = "[" + "None, " * axis + ":" + ", None" * (back - 1) + "]"
        flat = self.draw.random()
        if flat < 0.4:
            return f"{self.load((size,), kind).name}{spread}"
        if flat < 0.8 and back == 1:
            row = self.load((1, size), kind).name
            return row if len(shape) == 2 else f"{row}[0]{spread}"
        part = tuple(size if d == axis else 1 for d in range(len(shape)))
        return self.load(part, kind).name


class Norms(Models):
    """Norms, softmax and activations of rows, columns and groups, with weights and residuals."""

    def fill(self) -> None:
        draw = self.draw
        kind = draw.choice(_FLOATS)
        lead = draw.choice([(), (), (), (2,), (3,)])
        shape = (*lead, draw.choice([1, 3, 8, 16, 20, 32, 64]), draw.choice(_LENGTHS))
        x = self.load(shape, kind)
        value = self.wide(x)
        if draw.random() < 0.3:
            value = self.let(f"{value.name} + {self.load(shape, kind).name}", shape, value.kind)
        if value.kind != "float32":
            value = self.let(f"({value.name}).astype(jnp.float32)", shape, "float32")
        for _ in range(draw.choice([1, 1, 2])):
            way = draw.choice(["layer", "rms", "softmax", "logsumexp", "l2", "group", "act", "max"])
            value = getattr(self, f"_{way}")(value)
        if draw.random() < 0.6 and value.shape == shape:
            axis = draw.choice([-1, -1, -1, -2])
            text = f"{value.name} * {self.weights(shape, axis, draw.choice(['float32', kind]))}"
            value = self.let(f"({text}).astype(jnp.float32)", shape, "float32")
        to = draw.choice([kind, kind, "float32", "int8"])
        self.show(self.let(f"{value.name}.astype(jnp.{to})", value.shape, to))

    def _axis(self, value: Ref) -> int:
        last = len(value.shape) - 1
        return self.draw.choice([last, last, last, max(last - 1, 0), 0])

    def _reduced(self, text: str, value: Ref, axis: int, word: str = "mean") -> Ref:
        """A reduction that keeps the dimension, or drops it and gets it back."""
        small = self.along(value.shape, axis)
        if self.draw.random() < 0.7:
            return self.let(f"jnp.{word}({text}, axis={axis}, keepdims=True)", small, value.kind)
        part = f"jnp.{word}({text}, axis={axis})"
        if self.draw.random() < 0.5:
            return self.let(f"jnp.expand_dims({part}, {axis})", small, value.kind)
        return self.let(f"{part}.reshape({small})", small, value.kind)

    def _layer(self, value: Ref) -> Ref:
        axis = self._axis(value)
        mean = self._reduced(value.name, value, axis)
        centred = self.let(f"{value.name} - {mean.name}", value.shape, value.kind)
        spread = self._reduced(f"{centred.name} * {centred.name}", value, axis)
        return self.let(f"{centred.name} * lax.rsqrt({spread.name} + 1e-5)", value.shape, "float32")

    def _rms(self, value: Ref) -> Ref:
        mean = self._reduced(f"jnp.square({value.name})", value, self._axis(value))
        return self.let(f"{value.name} * lax.rsqrt({mean.name} + 1e-6)", value.shape, "float32")

    def _softmax(self, value: Ref) -> Ref:
        axis = self._axis(value)
        if self.draw.random() < 0.3:
            return self.let(f"jax.nn.softmax({value.name}, axis={axis})", value.shape, "float32")
        most = self._reduced(value.name, value, axis, "max")
        power = self.let(f"jnp.exp({value.name} - {most.name})", value.shape, "float32")
        total = self._reduced(power.name, value, axis, "sum")
        divided = self.draw.choice([f"{power.name} / {total.name}",
                                    f"{power.name} * pl.reciprocal({total.name})"])  # fmt: skip
        return self.let(divided, value.shape, "float32")

    def _logsumexp(self, value: Ref) -> Ref:
        axis = self._axis(value)
        text = f"jax.scipy.special.logsumexp({value.name}, axis={axis}, keepdims=True)"
        total = self.let(text, self.along(value.shape, axis), "float32")
        return self.let(f"{value.name} - {total.name}", value.shape, "float32")

    def _l2(self, value: Ref) -> Ref:
        total = self._reduced(f"{value.name} ** 2", value, self._axis(value), "sum")
        return self.let(f"{value.name} / (jnp.sqrt({total.name}) + 1)", value.shape, "float32")

    def _group(self, value: Ref) -> Ref:
        """Groups of columns are made a dimension."""
        *lead, last = value.shape
        size = self.draw.choice([n for n in (1, 8, 16, 32, 64, 128) if last % n == 0])
        shape = (*lead, last // size, size)
        groups = self.let(f"{value.name}.reshape({shape})", shape, "float32")
        most = self._reduced(f"jnp.abs({groups.name})", groups, len(shape) - 1, "max")
        text = f"({groups.name} / ({most.name} + 1)).reshape({value.shape})"
        return self.let(text, value.shape, "float32")

    def _act(self, value: Ref) -> Ref:
        text = self.draw.choice([
            "jax.nn.gelu({})", "jax.nn.silu({})", "jax.nn.relu({})", "jax.nn.sigmoid({})",
            "jnp.tanh({})", "jax.nn.softplus({})", "jnp.where({0} > 0, {0}, 0.1 * {0})",
            "jnp.clip({}, -3, 3)", "{0} * {0}",
        ])  # fmt: skip
        return self.let(text.format(value.name), value.shape, "float32")

    def _max(self, value: Ref) -> Ref:
        """How far each is from the largest, and where that is."""
        axis = self._axis(value)
        small = self.along(value.shape, axis)
        where = self.let(
            f"jnp.argmax({value.name}, axis={axis}).reshape({small})", small, "int32"
        )  # fmt: skip
        iota = f"lax.broadcasted_iota(jnp.int32, {value.shape}, {axis})"
        text = f"jnp.where({iota} == {where.name}, 0.0, {value.name})"
        return self.let(text, value.shape, "float32")


class Attention(Models):
    """One block of attention: scores, a mask, softmax, values; in one go or as running sums."""

    def fill(self) -> None:
        draw = self.draw
        self.kind = draw.choice(["float32", "bfloat16", "bfloat16"])
        heads = draw.choice([(), (), (), (2,), (4,)])
        self.rows, self.keys = draw.choice([1, 8, 16, 20, 64, 128]), draw.choice(_LENGTHS[2:])
        self.depth = draw.choice([16, 64, 64, 100, 128, 128, 256])
        q = self.load((*heads, self.rows, self.depth), self.kind)
        k = self.load((*heads, self.keys, self.depth), draw.choice([self.kind] * 3 + [*_NARROW]))
        v = self.load((*heads, self.keys, self.depth), k.kind)
        k, v = (self._cast(x) for x in (k, v))
        scores = self._scores(q, k)
        if draw.random() < 0.7:
            mask = self._mask(scores.shape)
            least = draw.choice(["-1e30", "-jnp.inf", "jnp.finfo(jnp.float32).min"])
            text = f"jnp.where({mask}, {scores.name}, {least})"
            scores = self.let(text, scores.shape, "float32")
        self._output(scores, v)

    def _cast(self, x: Ref) -> Ref:
        if x.kind == self.kind:
            return x
        scale = self.load(self.along(x.shape, len(x.shape) - 1), "float32")
        value = self.wide(x)
        text = f"({value.name} * {scale.name}).astype(jnp.{self.kind})"
        return self.let(text, x.shape, self.kind)

    def _product(self, left: Ref, right: Ref, dims: str, shape: Shape) -> Ref:
        batch = "((0,), (0,))" if len(left.shape) == 3 else "((), ())"
        high = ", precision=lax.Precision.HIGHEST" if self.draw.random() < 0.2 else ""
        text = (
            f"lax.dot_general({left.name}, {right.name}, ({dims}, {batch}){high}, "
            "preferred_element_type=jnp.float32)"
        )
        return self.let(text, shape, "float32")

    def _scores(self, q: Ref, k: Ref) -> Ref:
        last = len(q.shape) - 1
        shape = (*q.shape[:-1], self.keys)
        if self.draw.random() < 0.2 and last == 1:
            turned = self.let(f"{k.name}.T", (self.depth, self.keys), k.kind)
            scores = self._product(q, turned, "((1,), (0,))", shape)
        else:
            scores = self._product(q, k, f"(({last},), ({last},))", shape)
        if self.draw.random() < 0.5:
            return self.let(f"{scores.name} * 0.125", shape, "float32")
        text = f"jnp.tanh({scores.name} / 50) * 50"
        return self.let(text, shape, "float32") if self.draw.random() < 0.3 else scores

    def _mask(self, shape: Shape) -> str:
        draw, last = self.draw, len(shape) - 1
        rows = f"lax.broadcasted_iota(jnp.int32, {shape}, {last - 1})"
        columns = f"lax.broadcasted_iota(jnp.int32, {shape}, {last})"
        ways = {
            "causal": f"{rows} >= {columns}",
            "moved": f"{rows} + {draw.choice(self.scalars)} >= {columns}",
            "length": f"{columns} < {draw.choice(self.scalars)} + 1",
            "window": f"({rows} >= {columns}) & ({rows} - {columns} < 16)",
            "even": f"({columns} % 2 == 0) | ({columns} == 0)",
        }
        way = draw.choice([*ways, "segments", "given"])
        if way == "given":
            mask = self.load(shape, draw.choice(["int8", "int32", "bfloat16", "float32"]))
            return f"{mask.name} != 0"
        if way == "segments":
            one = self.load(self.along(shape[-2:], 1), "int32")
            other = self.load(self.along(shape[-2:], 0), "int32")
            given = f"({one.name} == {other.name})"
            return given if last == 1 else f"jnp.broadcast_to({given}, {shape})"
        return ways[way]

    def _output(self, scores: Ref, v: Ref) -> None:
        draw, last = self.draw, len(scores.shape) - 1
        small = self.along(scores.shape, last)
        most = self.let(f"jnp.max({scores.name}, axis=-1, keepdims=True)", small, "float32")
        wide = draw.random() < 0.3
        if wide:
            lanes = (*small[:-1], 128)
            for _ in range(2):
                self.buffer(lanes, "float32")
            old, total = (ref.name for ref, _ in self.scratch[-2:])
            self.line(f"{old}[...] = jnp.full({lanes}, -3e38, jnp.float32)")
            self.line(f"{total}[...] = jnp.zeros({lanes}, jnp.float32)")
            self.line(f"new = jnp.maximum({old}[...], {most.name})")
            self.line(f"correction = jnp.exp({old}[...] - new)")
            most = self.let("new[..., :1]", small, "float32")
        power = self.let(f"jnp.exp({scores.name} - {most.name})", scores.shape, "float32")
        sums = self.let(f"jnp.sum({power.name}, axis=-1, keepdims=True)", small, "float32")
        if wide:
            self.line(f"{total}[...] = correction * {total}[...] + {sums.name}")
            self.line(f"{old}[...] = new")
            sums = self.let(f"{total}[...][..., :1]", small, "float32")
        cast = self.let(f"{power.name}.astype(jnp.{self.kind})", scores.shape, self.kind)
        shape = (*scores.shape[:-1], self.depth)
        out = self._product(cast, v, f"(({last},), ({last - 1},))", shape)
        out = self.let(f"({out.name} / {sums.name}).astype(jnp.{self.kind})", shape, self.kind)
        self.show(out)


class Quantized(Models):
    """Weights of few bits with scales of rows, columns or groups; rows rounded to integers."""

    def fill(self) -> None:
        way = self.draw.choice(["dequantize", "dequantize", "quantize", "product", "unpack"])
        getattr(self, f"_{way}")()

    def _dequantize(self) -> None:
        draw = self.draw
        rows, columns = draw.choice([8, 32, 64, 128, 256]), draw.choice([100, 128, 256, 512])
        kind = draw.choice(_NARROW)
        weights = self.load((rows, columns), kind)
        value = self._scaled(self.wide(weights))
        to = draw.choice(["bfloat16", "bfloat16", "float32"])
        value = self.let(f"{value.name}.astype(jnp.{to})", value.shape, to)
        if draw.random() < 0.5:
            x = self.load((draw.choice([1, 8, 16, 64]), rows), to)
            text = f"jnp.dot({x.name}, {value.name}, preferred_element_type=jnp.float32)"
            value = self.let(text, (x.shape[0], columns), "float32")
        self.show(value)

    def _scaled(self, value: Ref) -> Ref:
        draw, (rows, columns) = self.draw, value.shape
        way = draw.choice(["row", "column", "one", "rows", "columns", "zero"])
        kind = draw.choice(["float32", "float32", "bfloat16"])
        if way == "rows":
            size = draw.choice([8, 16, 32])
            if rows % size == 0:
                return self._grouped(value, (rows // size, size, columns), 1, kind)
        if way == "columns":
            size = draw.choice([32, 64, 128])
            if columns % size == 0:
                return self._grouped(value, (rows, columns // size, size), 2, kind)
        if way == "one":
            scalar = self.load((1, 1), kind)
            return self.let(f"{value.name} * {scalar.name}", value.shape, "float32")
        axis = draw.choice([0, 1])
        scale = self.weights(value.shape, axis, kind)
        zero = f" - {self.weights(value.shape, axis, kind)}" if way == "zero" else ""
        return self.let(f"({value.name}{zero}) * {scale}", value.shape, "float32")

    def _grouped(self, value: Ref, shape: Shape, axis: int, kind: str) -> Ref:
        small = self.along(shape, axis)
        dropped = tuple(n for d, n in enumerate(small) if d != axis)
        scale = self.load(dropped, kind)
        text = f"{value.name}.reshape({shape}) * jnp.expand_dims({scale.name}, {axis})"
        if self.draw.random() < 0.3:
            repeated = f"jnp.repeat({scale.name}, {shape[axis]}, axis={axis - 1})"
            return self.let(f"{value.name} * {repeated}", value.shape, "float32")
        return self.let(f"({text}).reshape({value.shape})", value.shape, "float32")

    def _quantize(self) -> None:
        draw = self.draw
        shape = (draw.choice([1, 8, 20, 32, 64]), draw.choice([100, 128, 256, 512]))
        value = self.wide(self.load(shape, draw.choice(_FLOATS)))
        axis = draw.choice([1, 1, 0, None])
        small = (1, 1) if axis is None else self.along(shape, axis)
        text = f"jnp.max(jnp.abs({value.name}), axis={axis}, keepdims=True)"
        most = self.let(text, small, "float32")
        kind = draw.choice(["int8", "int8", "int4", "float8_e4m3fn", "float8_e5m2"])
        top = 2 ** (BITS[kind] - 1) - 1
        scaled = self.let(f"{value.name} / ({most.name} + 1) * {top}", shape, "float32")
        if not kind.startswith("float"):
            word = draw.choice(["round", "rint", "floor"])
            scaled = self.let(f"jnp.{word}({scaled.name})", shape, "float32")
            if draw.random() < 0.5:
                scaled = self.let(f"jnp.clip({scaled.name}, -{top}, {top})", shape, "float32")
            if draw.random() < 0.4:
                scaled = self.let(f"{scaled.name}.astype(jnp.int32)", shape, "int32")
        self.show(self.let(f"{scaled.name}.astype(jnp.{kind})", shape, kind))
        if draw.random() < 0.6:
            self.show(most)

    def _product(self) -> None:
        draw = self.draw
        kind = draw.choice(["int8", "int8", "int4", "float8_e4m3fn", "float8_e5m2", "uint8"])
        rows, depth, columns = draw.choice([8, 16, 32, 64]), draw.choice([64, 128, 256]), 128
        x, w = self.load((rows, depth), kind), self.load((depth, columns), kind)
        whole = "float32" if kind.startswith("float") else "int32"
        text = f"jnp.dot({x.name}, {w.name}, preferred_element_type=jnp.{whole})"
        total = self.let(text, (rows, columns), whole)
        value = self.let(f"{total.name}.astype(jnp.float32)", total.shape, "float32")
        left = self.weights(total.shape, 0, "float32")
        right = self.weights(total.shape, 1, "float32")
        self.show(self.let(f"{value.name} * {left} * {right}", total.shape, "float32"))

    def _unpack(self) -> None:
        """Fields of words, as many quantized checkpoints keep them."""
        draw = self.draw
        shape = (draw.choice([8, 16, 32]), draw.choice([128, 256]))
        words = self.load(shape, draw.choice(["int32", "uint32", "uint8", "int8", "uint16"]))
        bits = draw.choice([4, 4, 8, 2])
        parts: list[str] = []
        for i in range(min(4, BITS[words.kind] // bits)):
            text = f"({words.name} >> {i * bits}) & {2**bits - 1}"
            part = self.let(text, shape, words.kind)
            parts.append(
                self.wide(part).name if draw.random() < 0.7 else f"{part.name}.astype(jnp.bfloat16)"
            )
        axis = draw.choice([0, 1])
        whole = tuple(n * len(parts) if d == axis else n for d, n in enumerate(shape))
        if draw.random() < 0.5:
            text = f"jnp.concatenate([{', '.join(parts)}], axis={axis})"
        else:
            text = f"jnp.stack([{', '.join(parts)}], axis={axis + 1}).reshape({whole})"
        self.show(self.let(f"({text}).astype(jnp.float32)", whole, "float32"))
