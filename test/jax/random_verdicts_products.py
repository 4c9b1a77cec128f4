"""Random kernels of matrix products: dimension numbers, types, precisions, result types."""

from __future__ import annotations

from .random_verdicts import Ref, Shape
from .random_verdicts_values import Values

SIZES = (1, 4, 8, 8, 16, 16, 32, 64, 100, 128, 128, 128, 256)
TYPES = (*["float32"] * 5, *["bfloat16"] * 5, *["int8"] * 3, *["int4"] * 2,
         *["float8_e4m3fn", "float8_e5m2"] * 2, "int16", "int32", "uint8")  # fmt: skip


class Products(Values):
    """`jnp.dot`, `lax.dot_general` and `jnp.einsum` of operands of one or two types."""

    tolerance = 2e-2

    def fill(self) -> None:
        draw = self.draw
        one = draw.choice(TYPES)
        two = one if draw.random() < 0.75 else draw.choice(TYPES)
        numbers, left, right, out = self.numbers()
        x, y = self.operand(left, one), self.operand(right, two)
        whole = one.startswith(("i", "u")) and two.startswith(("i", "u"))
        wide = "int32" if whole else "float32"
        result = draw.choice([wide] * 9 + ["bfloat16", "float32", None])
        given = f", preferred_element_type=jnp.{result}" if result else ""
        if draw.random() < 0.3:
            names = ["HIGHEST", "DEFAULT"]
            given += f", precision=lax.Precision.{draw.choice(names)}"
        text = f"lax.dot_general({x.name}, {y.name}, {numbers}{given})"
        if numbers == "(((1,), (0,)), ((), ()))" and draw.random() < 0.5:
            text = f"jnp.dot({x.name}, {y.name}{given})"
        product = self.let(text, out, wide)
        acc = draw.random()
        if acc < 0.2 and result == wide:
            product = self.let(f"{product.name} + {self.load(out, wide).name}", out, wide)
        self.show(self.let(f"{product.name}.astype(jnp.{wide})", out, wide))

    def operand(self, shape: Shape, kind: str) -> Ref:
        """Loaded, transposed before, converted from another type, or repeated."""
        draw, way = self.draw, self.draw.random()
        if way < 0.1 and len(shape) == 2 and kind in ("float32", "bfloat16"):
            x = self.load(shape[::-1], kind)
            return self.let(f"{x.name}.T", shape, kind)
        if way < 0.2:
            x = self.load(shape, draw.choice(["float32", "int32", "int8", "bfloat16"]))
            return self.let(f"{x.name}.astype(jnp.{kind})", shape, kind)
        if way < 0.25 and len(shape) == 2:
            x = self.load((1, shape[1]), kind)
            return self.let(f"jnp.broadcast_to({x.name}, {shape})", shape, kind)
        return self.load(shape, kind)

    def numbers(self) -> tuple[str, Shape, Shape, Shape]:
        """Dimension numbers, and the shapes of both operands and of the result."""
        draw = self.draw
        batches = draw.choice([0] * 6 + [1] * 5 + [2])
        contracted = draw.choice([1] * 9 + [2])
        rows, columns = (draw.choice([1] * 8 + [2, 0]) for _ in range(2))
        batch = [draw.choice([1, 2, 3, 4]) for _ in range(batches)]
        shared = [draw.choice(SIZES) for _ in range(contracted)]
        m, n = ([draw.choice(SIZES if i else (1, 2, 8, 16, 64, 128, 200)) for i in range(count)]
                for count in (rows, columns))  # fmt: skip
        shapes: list[Shape] = []
        kept: list[int] = []
        dims: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        for free in (m, n):
            labels = [*((0, i) for i in range(batches)), *((1, i) for i in range(contracted)),
                      *((2, i) for i in range(len(free)))]  # fmt: skip
            if draw.random() < 0.1:
                draw.shuffle(labels)
            elif draw.random() < 0.5:
                labels = sorted(labels, key=lambda label: (label[0] > 0, -label[0]))
            held = [(batch, shared, free)[kind][i] for kind, i in labels]
            shapes.append(tuple(held))
            kept += [size for size, (kind, _) in zip(held, labels, strict=True) if kind == 2]
            places = [tuple(labels.index((kind, i)) for i in range(count))
                      for kind, count in ((1, contracted), (0, batches))]  # fmt: skip
            dims.append((places[0], places[1]))
        text = f"(({dims[0][0]}, {dims[1][0]}), ({dims[0][1]}, {dims[1][1]}))"
        return text, shapes[0], shapes[1], (*batch, *kept)
