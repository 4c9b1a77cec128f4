"""Random kernels of several operations: what one leaves in place or out of place, others take."""

from __future__ import annotations

import math
import re

import jax
import jax.numpy as jnp

from .random_verdicts import BITS, MOST_ELEMENTS, NAMES, Ref, Shape
from .random_verdicts_values import Values

_KINDS = (*["float32", "int32"] * 5, *["bfloat16"] * 3, "int16", "int8", "uint32")
_SHAPES = ((8, 128), (16, 128), (8, 256), (5, 128), (13, 130), (8, 100), (1, 128), (3, 384),
           (32, 128), (40, 72), (2, 8, 128), (3, 4, 128), (2, 16, 256), (128,), (256,), (1024,),
           (100,), (8, 1), (64, 1))  # fmt: skip


class Chains(Values):
    """Slices, joins, reductions, broadcasts, masks, casts and loops, one after the other."""

    compared = False
    tries = 60

    def fill(self) -> None:
        draw = self.draw
        self.known = [self.load(draw.choice(_SHAPES), draw.choice(_KINDS))]
        wanted = draw.randint(3, 8)
        for _ in range(self.tries):
            if len(self.known) > wanted:
                break
            name = draw.choice(
                ["slice", "slice", "join", "reduce", "reduce", "spread", "reshape", "turn", "mask",
                 "mask", "choose", "choose", "cast", "add", "add", "add", "product", "roll", "lift",
                 "number", "loop", "branch", "buffer", "load", "logic"]
            )  # fmt: skip
            getattr(self, f"_{name}")(draw.choice(self.known[-3:]))
        for value in self.known[-2:]:
            self.show(value)

    def made(self, text: str, *operands: Ref) -> Ref | None:
        """A new value, if JAX has it and it is not too large."""

        def run(*given: jax.Array) -> jax.Array:
            names = {v.name: array for v, array in zip(operands, given, strict=True)}
            return jnp.asarray(eval(text, {**NAMES, **names}))

        arrays = [jax.ShapeDtypeStruct(v.shape, jnp.dtype(v.kind)) for v in operands]
        try:
            result = jax.eval_shape(run, *arrays)
        except (TypeError, ValueError, ZeroDivisionError):
            return None
        if result.size > MOST_ELEMENTS or (not result.shape and result.dtype == jnp.bool_):
            return None
        value = self.let(text, result.shape, str(result.dtype))
        self.known.append(value)
        return value

    def like(self, value: Ref, kind: str = "") -> Ref:
        """Another value that can be broadcast together with `value`."""
        kind = kind or value.kind

        def suits(other: Ref) -> bool:
            pairs = zip(other.shape[::-1], value.shape[::-1], strict=False)
            return other.kind == kind and all(a == b or 1 in (a, b) for a, b in pairs)

        found = [v for v in self.known if suits(v)]
        if found and self.draw.random() < 0.7:
            return self.draw.choice(found)
        if kind == "bool":
            number = self.like(value, self.draw.choice(["int32", "float32", "bfloat16"]))
            return self.let(f"{number.name} > 1", number.shape, "bool")
        shape = list(value.shape)
        if shape and self.draw.random() < 0.4:
            shape[self.draw.randrange(len(shape))] = 1
        return self.load(tuple(shape) or (8, 128), kind)

    def _load(self, value: Ref) -> None:
        self.known.append(self.load(value.shape or (8, 128), value.kind.replace("bool", "int32")))

    def _slice(self, value: Ref) -> None:
        draw, parts = self.draw, []
        if not value.shape:
            return
        for size in value.shape:
            if draw.random() < 0.5:
                parts.append(":")
            elif draw.random() < 0.2:
                parts.append(str(draw.randrange(size)))
            else:
                start = draw.choice([0, 1, 2, 4, 8, 64, 128, size // 2])
                end = draw.choice([size, size, size - 1, start + 1, start + 8, start + 128])
                if not 0 <= start < end <= size:
                    start, end = 0, size
                parts.append(f"{start}:{end}")
        self.made(f"{value.name}[{', '.join(parts)}]", value)

    def _join(self, value: Ref) -> None:
        if value.shape:
            other = self.draw.choice([value, *(v for v in self.known if v.kind == value.kind)])
            axis = self.draw.randrange(len(value.shape))
            text = f"jnp.concatenate([{value.name}, {other.name}], {axis})"
            self.made(text, *{value.name: value, other.name: other}.values())

    def _reduce(self, value: Ref) -> None:
        draw = self.draw
        if not value.shape:
            return
        count = draw.choice([1, 1, 1, len(value.shape)])
        axes = tuple(sorted(draw.sample(range(len(value.shape)), count)))
        names = ["any", "all"] if value.kind == "bool" else ["sum", "max", "min"]
        given = f"axis={axes}, keepdims={draw.random() < 0.5}"
        name = draw.choice(names)
        if name == "sum":
            given += f", dtype=jnp.{value.kind}"
        if value.kind in ("float32", "int32") and draw.random() < 0.15:
            name, given = "argmax", f"axis={axes[0]}, keepdims={draw.random() < 0.5}"
        self.made(f"jnp.{name}({value.name}, {given})", value)

    def _spread(self, value: Ref) -> None:
        draw = self.draw
        new = tuple(draw.choice([8, 16, 128, 5]) if n == 1 else n for n in value.shape)
        if draw.random() < 0.4 or new == value.shape:
            new = (draw.choice([1, 2, 8]), *new)
        self.made(f"jnp.broadcast_to({value.name}, {new})", value)

    def _reshape(self, value: Ref) -> None:
        shape = value.shape
        if not shape:
            return
        ways: list[Shape] = [(math.prod(shape[:-1]), shape[-1]), (1, *shape), (*shape, 1)]
        if shape[-1] % 128 == 0:
            ways += [(math.prod(shape) // 128, 128), (*shape[:-1], shape[-1] // 128, 128)]
        if len(shape) > 1:
            ways += [(*shape[:-1], 1, shape[-1]), (math.prod(shape),)]
            ways += [(*shape[:-2], shape[-2] // 8, 8, shape[-1])] * (shape[-2] % 8 == 0)
        if 1 in shape:
            ways += [tuple(n for n in shape if n > 1)] * 2
        new = self.draw.choice(ways)
        if new and new != shape:
            self.made(f"{value.name}.reshape({new})", value)

    def _turn(self, value: Ref) -> None:
        if len(value.shape) > 1:
            order = tuple(self.draw.sample(range(len(value.shape)), len(value.shape)))
            self.made(f"jnp.transpose({value.name}, {order})", value)

    def _mask(self, value: Ref) -> None:
        if value.kind == "bool" or not value.shape:
            return
        compare = self.draw.choice(["<", "==", ">=", "!="])
        way = self.draw.choice(["number", "other", "iota"])
        if way == "other":
            other = self.like(value)
            operands = {value.name: value, other.name: other}.values()
            self.made(f"{value.name} {compare} {other.name}", *operands)
        elif way == "iota":
            axis = self.draw.randrange(len(value.shape))
            bound = self.draw.choice([1, 3, 8, 100])
            text = f"lax.broadcasted_iota(jnp.int32, {value.shape}, {axis}) {compare} {bound}"
            self.made(text)
        else:
            self.made(f"{value.name} {compare} jnp.asarray(1, jnp.{value.kind})", value)

    def _logic(self, value: Ref) -> None:
        if value.kind == "bool":
            other = self.like(value, "bool")
            text = f"{value.name} {self.draw.choice('&|^')} {other.name}"
            self.made(text, *{value.name: value, other.name: other}.values())

    def _choose(self, value: Ref) -> None:
        if value.kind != "bool" and value.shape:
            mask, other = self.like(value, "bool"), self.like(value)
            operands = {v.name: v for v in (mask, value, other)}.values()
            self.made(f"jnp.where({mask.name}, {value.name}, {other.name})", *operands)

    def _cast(self, value: Ref) -> None:
        kinds = [*_KINDS] if value.kind != "bool" else ["int32", "float32"]
        self.made(f"{value.name}.astype(jnp.{self.draw.choice(kinds)})", value)

    def _add(self, value: Ref) -> None:
        if value.kind == "bool":
            return
        other = self.like(value) if value.shape else self.draw.choice(self.known)
        sign = self.draw.choice(["{} + {}", "{} - {}", "{} * {}", "jnp.maximum({}, {})"])
        if other.kind == value.kind:
            operands = {value.name: value, other.name: other}.values()
            self.made(sign.format(value.name, other.name), *operands)

    def _product(self, value: Ref) -> None:
        if len(value.shape) == 2 and value.kind in ("float32", "bfloat16"):
            columns = self.draw.choice([8, 64, 128])
            other = self.load((value.shape[1], columns), value.kind)
            text = f"jnp.dot({value.name}, {other.name}, preferred_element_type=jnp.float32)"
            self.made(text, value, other)

    def _roll(self, value: Ref) -> None:
        if value.shape and BITS.get(value.kind) == 32:
            axis = self.draw.randrange(len(value.shape))
            shift = self.draw.choice([1, 2, 3])
            if shift % value.shape[axis]:
                self.made(f"jnp.roll({value.name}, {shift}, {axis})", value)

    def _lift(self, value: Ref) -> None:
        if value.shape:
            index = [":"] * len(value.shape)
            index.insert(self.draw.randint(0, len(index)), "None")
            self.made(f"{value.name}[{', '.join(index)}]", value)

    def _number(self, value: Ref) -> None:
        if value.shape and BITS.get(value.kind) == 32:
            index = ", ".join(str(self.draw.randrange(n)) for n in value.shape)
            number = self.let(f"{value.name}[{index}]", (), value.kind)
            self.known.append(self.let(f"{value.name} * {number.name}", value.shape, value.kind))

    def _step(self, value: Ref, name: str) -> str:
        other, axis = self.like(value), self.draw.randrange(len(value.shape))
        one = f"jnp.asarray(1, jnp.{value.kind})"
        shape = jnp.broadcast_shapes(value.shape, other.shape)
        ways = [f"{name} + {one}", f"jnp.minimum({name} * {name}, {one})"]
        ways += [f"{name} + {other.name}", other.name] if shape == value.shape else []
        if value.kind in ("float32", "int32"):
            total = f"jnp.sum({name}, {axis}, keepdims=True)"
            ways.append(f"jnp.broadcast_to({total}, {value.shape})")
            ways.append(f"{name} - {total}")
        text = self.draw.choice(ways)
        return f"jnp.broadcast_to({text}, {value.shape})"

    def _loop(self, value: Ref) -> None:
        if value.kind != "bool" and value.shape:
            bounds = self.draw.choice(["0, 2", "0, 3", f"0, {self.position(3)}"])
            text = f"lax.fori_loop({bounds}, lambda i, c: {self._step(value, 'c')}, {value.name})"
            self.known.append(self.let(text, value.shape, value.kind))

    def _branch(self, value: Ref) -> None:
        if value.kind != "bool" and value.shape:
            ways = [self._step(value, value.name) for _ in range(2)]
            text = f"lax.cond({self.position(3)} > 0, lambda: {ways[0]}, lambda: {ways[1]})"
            self.known.append(self.let(text, value.shape, value.kind))

    def _buffer(self, value: Ref) -> None:
        """Stored to a part of a buffer, of which another part is loaded."""
        if value.kind == "bool" or not value.shape:
            return
        more = tuple(self.draw.choice([0, 0, 1, 8, 128]) for _ in value.shape)
        whole = tuple(n + m for n, m in zip(value.shape, more, strict=True))
        if math.prod(whole) > MOST_ELEMENTS:
            return
        held = self.buffer(whole, value.kind)
        self.line(f"{held.name}[...] = jnp.zeros({whole}, jnp.{value.kind})")
        for way in ("store", "load"):
            starts = [self.draw.choice([0, m]) for m in more]
            pairs = zip(starts, value.shape, strict=True)
            part = ", ".join(f"{start}:{start + size}" for start, size in pairs)
            if way == "store":
                self.line(f"{held.name}[{part}] = {value.name}")
            else:
                self.known.append(self.let(f"{held.name}[{part}]", value.shape, value.kind))


class Branches(Chains):
    """Branches, some within others, that move what was there before them, or compute a little."""

    compared = True

    def fill(self) -> None:
        draw = self.draw
        shape, kind = draw.choice(_SHAPES), draw.choice((*_KINDS, "bfloat16", "int16", "int8"))
        self.known = [self.load(shape, kind), self.load(shape, kind)]
        if draw.random() < 0.4 and BITS[kind] >= 16:
            one = f"jnp.asarray(1, jnp.{kind})"
            self.known = [self.let(f"{v.name} + {one}", shape, kind) for v in self.known]
        first, second = self.known
        names = ["slice", "slice", "join", "spread", "reshape", "reshape", "turn", "lift"]
        steps = [draw.choice(names) for _ in range(draw.choice([1, 1, 2]))]
        lines = len(self.lines)
        value = first
        for name in steps:
            count = len(self.known)
            getattr(self, f"_{name}")(value)
            value = self.known[-1] if len(self.known) > count else value
        body, self.lines = self.lines[lines:], self.lines[:lines]
        full = f"jnp.full({value.shape}, 1, jnp.{kind})"
        change = draw.choice(["", "", "", f" + {full}"]) if BITS[kind] >= 16 else ""
        other = draw.choice(["moved", "moved", "moved", "full", "outside"])
        self.way("left", body, first.name, first.name, value.name)
        if other == "moved":
            self.way("right", body, first.name, second.name, value.name + change)
        else:
            whole = second.name if value.shape == shape and other == "outside" else full
            self.way("right", [], "", "", whole)
        if draw.random() < 0.2:
            inner = f"lax.cond({self.position(2)} > 0, left, right)"
            self.way("nested", [], "", "", inner)
            text = f"lax.cond({self.position(3)} > 0, left, nested)"
        else:
            text = f"lax.cond({self.position(3)} > 0, left, right)"
        self.show(self.let(text, value.shape, kind))

    def way(self, name: str, body: list[str], old: str, new: str, result: str) -> None:
        """A function that does what `body` does, to the value `new` instead of `old`."""
        self.line(f"def {name}():")
        for line in body:
            self.lines.append("    " + re.sub(rf"\b{old}\b", new, line) if old else line)
        self.depth += 1
        self.line(f"return {re.sub(rf'^{old}$', new, result) if old else result}")
        self.depth -= 1
