"""Random kernels of arithmetic: integers, functions of floats, chains of choices."""

from __future__ import annotations

from .random_verdicts import BYTES, HALVES, NIBBLES, WORDS, Ref, Shape
from .random_verdicts_values import Values

INTEGERS = ("int32", "int32", "uint32", "int16", "uint16", "int8", "uint8")
FLOATS = ("float32", "float32", "bfloat16")


class Integers(Values):
    """Division, remainders, shifts, bits and powers of integers of every width."""

    def fill(self) -> None:
        kind = self.draw.choice((*INTEGERS, "int4", "uint4"))
        value = self.load(self.shape(), kind)
        if self.draw.random() < 0.15:
            value = self.let(f"{value.name}[{', '.join('0' for _ in value.shape)}]", (), kind)
        for _ in range(self.draw.choice([1, 1, 2, 3])):
            value = self.computed(value)
        self.show(value)

    def other(self, value: Ref) -> str:
        """A second operand, which is never 0."""
        draw, kind = self.draw, value.kind
        if not value.shape or draw.random() < 0.4:
            return f"jnp.asarray({draw.choice([1, 2, 3, 4, 5, 7])}, jnp.{kind})"
        if draw.random() < 0.3:
            return f"({draw.choice(self.scalars)}.astype(jnp.{kind}) | jnp.asarray(1, jnp.{kind}))"
        return f"({self.load(value.shape, kind).name} | jnp.asarray(1, jnp.{kind}))"

    def computed(self, value: Ref) -> Ref:
        name, kind = value.name, value.kind
        least = f"jnp.asarray(3, jnp.{kind})"
        ways = {
            "div": "lax.div({x}, {y})", "rem": "lax.rem({x}, {y})", "floor": "{x} // {y}",
            "mod": "{x} % {y}", "left": "{x} << ({y} & {least})", "right": "{x} >> ({y} & {least})",
            "logical": "lax.shift_right_logical({x}, jnp.broadcast_to({y} & {least}, {x}.shape))",
            "count": "lax.population_count({x})", "clz": "lax.clz({x})", "not": "~{x}",
            "abs": "jnp.abs({x})", "sign": "jnp.sign({x})", "neg": "-{x}", "mul": "{x} * {y}",
            "sub": "{x} - {y}", "min": "jnp.minimum({x}, {y})", "max": "jnp.maximum({x}, {y})",
            "power": "lax.integer_pow({x}, 2)", "clip": "jnp.clip({x}, {y} & {least}, {least})",
            "and": "{x} & {y}", "xor": "{x} ^ {y}",
        }  # fmt: skip
        way = self.draw.choice(sorted(ways))
        text = ways[way].format(x=name, y=self.other(value), least=least)
        if way in ("div", "rem"):
            text = text.replace(", ", f", jnp.zeros_like({name}) + ", 1)
        return self.let(text, value.shape, kind)


_FUNCTIONS = (
    "jnp.exp({x})", "jnp.exp2({x})", "jnp.log(abs({x}) + one)", "jnp.log1p(abs({x}))",
    "jnp.sin({x})", "jnp.cos({x})", "jnp.tan({x})", "jnp.tanh({x})", "jnp.expm1({x})",
    "jnp.sqrt(abs({x}))", "lax.rsqrt(abs({x}) + one)", "lax.logistic({x})", "one / ({x} + 9)",
    "lax.erf({x})", "jnp.floor({x} * half)", "jnp.ceil({x} * half)", "jnp.round({x} * half)",
    "lax.round({x} * half)", "jnp.sign({x})", "abs({x})", "lax.square({x})",
    "lax.integer_pow({x}, 3)", "jnp.power(abs({x}) + one, half)", "jnp.trunc({x} * half)",
    "jnp.arctan2({x}, one)", "jnp.sinh({x})", "jnp.cosh({x})", "jax.nn.gelu({x})",
    "jax.nn.silu({x})", "jax.nn.softplus({x})", "jnp.isfinite({x})", "jnp.nan_to_num({x})",
    "pl.reciprocal({x} + 9, approx=True)", "jnp.signbit({x})", "{x} % (one + one)",
    "lax.rem({x}, jnp.full_like({x}, 2))", "lax.erf_inv({x} * half / 9)",
    "lax.atan2({x}, {x} + half)", "jnp.copysign({x}, -one)",
)  # fmt: skip


class Functions(Values):
    """Functions of floats, of vectors and scalars, and roundings."""

    tolerance = 2e-2

    def fill(self) -> None:
        kind = self.draw.choice(FLOATS)
        value = self.load(self.shape(), kind)
        if self.draw.random() < 0.2:
            value = self.let(f"{value.name}[{', '.join('0' for _ in value.shape)}]", (), kind)
        for _ in range(self.draw.choice([1, 1, 2])):
            value = self.computed(value)
        self.show(value)

    def computed(self, value: Ref) -> Ref:
        name, kind = value.name, value.kind
        text = self.draw.choice(_FUNCTIONS).format(x=name)
        # Values stay small, so that the next function has a result to compare.
        text = text.replace("one", f"jnp.asarray(1, jnp.{kind})")
        text = text.replace("half", f"jnp.asarray(0.5, jnp.{kind})")
        if "isfinite" in text or "signbit" in text:
            return self.let(f"{text}.astype(jnp.{kind})", value.shape, kind)
        return self.let(f"jnp.clip({text}, -8, 8)", value.shape, kind)


class Choices(Values):
    """Chains of choices by iotas, values and scalars, and iotas of every type."""

    def fill(self) -> None:
        draw, shape = self.draw, self.shape()
        kind = draw.choice((*WORDS, *HALVES, *BYTES, *NIBBLES))
        value = self.part(shape, kind)
        for _ in range(draw.choice([1, 2, 3])):
            other = self.part(shape, kind)
            value = self.let(
                f"jnp.where({self.condition(shape)}, {value.name}, {other.name})", shape, kind
            )
        self.show(value)

    def part(self, shape: Shape, kind: str) -> Ref:
        draw = self.draw
        way = draw.choice(["load", "load", "iota", "full", "row", "column"])
        if way == "iota":
            axis = draw.randrange(len(shape))
            direct = draw.random() < 0.5
            text = (
                f"lax.broadcasted_iota(jnp.{kind}, {shape}, {axis})"
                if direct
                else f"(lax.broadcasted_iota(jnp.int32, {shape}, {axis}) % 8).astype(jnp.{kind})"
            )
            return self.let(text, shape, kind)
        if way == "full":
            return self.let(f"jnp.full({shape}, {draw.choice([0, 3])}, jnp.{kind})", shape, kind)
        if way in ("row", "column") and len(shape) > 1:
            small = (*shape[:-2], *((1, shape[-1]) if way == "row" else (shape[-2], 1)))
            text = f"jnp.broadcast_to({self.load(small, kind).name}, {shape})"
            return self.let(text, shape, kind)
        return self.load(shape, kind)

    def condition(self, shape: Shape) -> str:
        draw, compare = self.draw, self.draw.choice(["<", "==", ">=", "!="])
        way = draw.choice(["iota", "value", "scalar", "both", "row"])
        axis = draw.randrange(len(shape))
        iota = f"(lax.broadcasted_iota(jnp.int32, {shape}, {axis}) {compare} {self.position(9)})"
        if way == "iota":
            return iota
        if way == "scalar":
            return f"{draw.choice(self.scalars)} {compare} 2"
        if way == "row" and len(shape) > 1:
            small = (*shape[:-2], 1, shape[-1])
            return f"{self.load(small, 'int32').name} {compare} 1"
        value = (
            f"({self.load(shape, draw.choice(['int32', 'float32', 'bfloat16'])).name} {compare} 1)"
        )
        return value if way == "value" else f"{value} & {iota}"
