"""Steps of random kernels with memory and control flow."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from .random_kernels import BITS, RANGES, Argument, Builder, Shape, Value, is_float
from .random_shapes import SMALL
from .random_values import integer_top, merged


def _places(b: Builder, shape: Shape, sizes: Shape, element: str) -> tuple[str, Shape]:
    """Index operands somewhere inside a memref of `shape`, aligned or not, and their numbers."""
    names: list[str] = []
    numbers: list[int] = []
    for d, (n, size) in enumerate(zip(shape, sizes, strict=True)):
        room = n - size
        back = len(shape) - d
        unit = {1: 128, 2: 256 // BITS[element]}.get(back, 1)
        number = b.rng.randint(0, room)
        if b.chance(0.3):
            number = number // unit * unit
        if b.chance(0.35) and (back > 2 or number % unit == 0 or b.chance(0.15)):
            scalar = b.dynamic(number)
            if number % unit == 0 and unit > 1:
                scalar = b.emit(f"tpu.assume_multiple {scalar}, {unit} : i32")
            names.append(b.emit(f"arith.index_cast {scalar} : i32 to index"))
        elif back == 2 and BITS[element] == 32 and b.chance(0.3):
            names.append(b.emit(f"arith.index_cast {b.dynamic(number)} : i32 to index"))
        else:
            names.append(b.index(number))
        numbers.append(number)
    return ", ".join(names), tuple(numbers)


def _larger(b: Builder, shape: Shape) -> Shape:
    pools = ((0, 0, 1, 3, 28, 72, 128, 128, 256), (0, 0, 1, 3, 8, 8, 16), (0, 1, 2), (0, 1))
    grown = tuple(n + b.pick(pools[len(shape) - 1 - d]) for d, n in enumerate(shape))
    return grown if prod(grown) <= 1 << 16 else shape


def load(b: Builder) -> None:
    shape, element = b.shape(), b.element()
    ref = b.argument(_larger(b, shape), element)
    at, _ = _places(b, ref.shape, shape, element)
    like = Value("", shape, element, RANGES[element])
    b.define(f"vector.load %{ref.name}[{at}] : {ref.type}, $T", like)


def strided_load(b: Builder) -> None:
    rows, stride, element = b.pick((3, 8, 8, 16)), b.pick((2, 3, 4)), b.pick(("f32", "i32"))
    ref = b.argument((rows * stride + b.pick((0, 5)), b.pick((128, 128, 256))), element)
    first = b.index(b.rng.randrange(stride))
    like = Value("", (rows, 128), element, RANGES[element])
    b.define(
        f"tpu.strided_load %{ref.name}[{first}, {b.index(0)}] "
        f"{{strides = array<i32: {stride}, 1>}} : {ref.type}, $T",
        like,
    )


def _fill(b: Builder, ref: Argument) -> None:
    value = b.splat(ref.shape, ref.element, b.rng.randint(-2, 2))
    at = ", ".join([b.index(0)] * len(ref.shape))
    store(b, ref, value, at)


def strided_store(b: Builder) -> None:
    rows, stride = b.pick((3, 8, 8, 16)), b.pick((2, 3, 4))
    x = b.input((rows, 128), b.pick(("f32", "i32")))
    ref = b.output(x, (rows * stride + b.pick((0, 5)), 128))
    _fill(b, ref)
    first = b.index(b.rng.randrange(stride))
    b.run(
        f"tpu.strided_store %{ref.name}[{first}, {b.index(0)}], {x.name} "
        f"{{strides = array<i32: {stride}, 1>}} : {ref.type}, {x.type}"
    )


def store(b: Builder, ref: Argument, value: Value, at: str, mask: Value | None = None) -> None:
    masked, kind = (f" masked {mask.name}", f" {mask.type}") if mask is not None else ("", "")
    b.run(
        f"tpu.vector_store %{ref.name}[{at}], {value.name}{masked} {{strides = array<i32>}} : "
        f"{ref.type}, {value.type},{kind}"
    )


def store_part(b: Builder) -> None:
    """Into a larger output, filled before, at some place, perhaps masked."""
    x = b.data(lambda v: not v.element.startswith("f8") and v.size <= SMALL)
    ref = b.output(x, _larger(b, x.shape))
    _fill(b, ref)
    at, _ = _places(b, ref.shape, x.shape, x.element)
    known = [v for v in b.values if v.element == "i1" and v.shape == x.shape]
    store(b, ref, x, at, b.pick(known) if known and b.chance(0.6) else None)


def scratch(b: Builder) -> None:
    """Into a scratch ref and back from another place."""
    x = b.data(lambda v: not v.element.startswith("f8") and v.size <= SMALL)
    ref = Argument(f"scratch{len(b.scratch)}", _larger(b, x.shape), x.element)
    b.scratch.append(ref)
    _fill(b, ref)
    at, _ = _places(b, ref.shape, x.shape, x.element)
    store(b, ref, x, at)
    sizes = tuple(b.rng.randint(max(1, n // 2), n) for n in ref.shape)
    at, _ = _places(b, ref.shape, sizes, x.element)
    b.define(f"vector.load %{ref.name}[{at}] : {ref.type}, $T", x, shape=sizes)


# Control.


def _step(b: Builder, x: Value) -> Value:
    """A value of the type of `x` computed from it in a region."""
    kind = b.rng.random()
    if kind < 0.35:
        axis = b.rng.randrange(len(x.shape))
        amount = b.integer(b.rng.randrange(1, x.shape[axis] + 1))
        text = f"tpu.dynamic_rotate {x.name} by {amount} dim {axis} : $T, i32 -> $T"
        return b.define(text, x)
    y = b.splat(x.shape, x.element, b.rng.randint(-3, 3))
    ops = ("maximumf", "minimumf") if is_float(x.element) else ("subi", "muli", "maxsi", "xori")
    text = f"arith.{b.pick(ops)} {x.name}, {y.name} : $T"
    return b.define(text, x, bound=max(x.bound, y.bound) if is_float(x.element) else integer_top(x))


def _region(b: Builder, x: Value) -> tuple[list[str], Value]:
    """The lines of a region that computes from `x`, and its result."""
    outer, known = b.lines, list(b.values)
    b.lines = []
    result = x
    for _ in range(b.pick((1, 1, 2))):
        result = _step(b, result)
    lines, b.lines, b.values = b.lines, outer, known
    return lines, result


def loop(b: Builder) -> None:
    x = b.data(lambda v: not v.element.startswith("f8") and v.size <= SMALL)
    low, step = b.integer(0), b.integer(1)
    count = b.rng.randint(0, 3)
    high = b.dynamic(count) if b.chance(0.5) else b.integer(count)
    carried = replace(x, name=b.name())
    body, result = _region(b, carried)
    joined = "\n      ".join(body)
    text = (
        f"scf.for %k{carried.name[1:]} = {low} to {high} step {step} "
        f"iter_args({carried.name} = {x.name}) -> ({x.type}) : i32 {{\n      {joined}\n"
        f"      scf.yield {result.name} : {x.type}\n    }}"
    )
    b.define(text, result, bound=max(x.bound, result.bound))


def row_loop(b: Builder) -> None:
    """Sums blocks of rows and stores each partial sum, at indices that count the steps."""
    element, steps = b.pick(("f32", "i32", "bf16")), b.rng.randint(1, 4)
    rows = b.pick((8, 16, 32, 4, 1)) if BITS[element] == 32 else b.pick((16, 32))
    columns = b.pick((128, 256, 100))
    ref = b.argument((rows * steps, columns), element)
    like = Value("", (rows, columns), element, RANGES[element] * steps)
    out = b.output(like, ref.shape)
    _fill(b, out)
    start = b.splat(like.shape, element, 0)
    low, step, high = b.integer(0), b.integer(1), b.dynamic(steps)
    height, zero = b.integer(rows), b.index(0)
    k, total, place, at, part, following = (b.name() for _ in range(6))
    add = "addf" if is_float(element) else "addi"
    b.define(
        f"scf.for {k} = {low} to {high} step {step} iter_args({total} = {start.name}) -> "
        f"(${{T}}) : i32 {{\n"
        f"      {place} = arith.muli {k}, {height} : i32\n"
        f"      {at} = arith.index_cast {place} : i32 to index\n"
        f"      {part} = vector.load %{ref.name}[{at}, {zero}] : {ref.type}, $T\n"
        f"      {following} = arith.{add} {total}, {part} : $T\n"
        f"      tpu.vector_store %{out.name}[{at}, {zero}], {following} "
        f"{{strides = array<i32>}} : {out.type}, $T,\n"
        f"      scf.yield {following} : $T\n    }}".replace("${T}", "$T"),
        like,
    )


def branch(b: Builder) -> None:
    x = b.data(lambda v: not v.element.startswith("f8") and v.size <= SMALL)
    zero = b.integer(0)
    condition = b.emit(f"arith.cmpi sgt, {b.dynamic(b.pick((-1, 1)))}, {zero} : i32")
    one, then = _region(b, x)
    other, otherwise = _region(b, x)
    text = f"scf.if {condition} -> ({x.type}) {{\n      "
    text += "\n      ".join([*one, f"scf.yield {then.name} : {x.type}"]) + "\n    } else {\n      "
    text += "\n      ".join([*other, f"scf.yield {otherwise.name} : {x.type}"]) + "\n    }"
    b.define(text, merged(then, otherwise))


def while_loop(b: Builder) -> None:
    x = b.data(lambda v: not v.element.startswith("f8") and v.size <= SMALL)
    zero, one = b.integer(0), b.integer(1)
    limit = b.dynamic(b.rng.randint(0, 3))
    before, after = replace(x, name=b.name()), replace(x, name=b.name())
    i, j, more, following = b.name(), b.name(), b.name(), b.name()
    body, result = _region(b, after)
    joined = "\n      ".join(body)
    pair = b.name()
    b.run(
        f"{pair}:2 = scf.while ({i} = {zero}, {before.name} = {x.name}) : (i32, {x.type}) -> "
        f"(i32, {x.type}) {{\n"
        f"      {more} = arith.cmpi slt, {i}, {limit} : i32\n"
        f"      scf.condition({more}) {i}, {before.name} : i32, {x.type}\n    }} do {{\n"
        f"    ^bb0({j}: i32, {after.name}: {x.type}):\n"
        f"      {following} = arith.addi {j}, {one} : i32\n      {joined}\n"
        f"      scf.yield {following}, {result.name} : i32, {x.type}\n    }}"
    )
    b.values.append(replace(result, name=f"{pair}#1", bound=max(x.bound, result.bound)))
