"""The steps of random kernels, one function per family of operations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from .random_kernels import (
    BITS,
    FLOATS,
    INTEGERS,
    RANGES,
    Argument,
    Builder,
    Shape,
    Value,
    is_float,
    vector,
)

SMALL = 1 << 13


def _ints(numbers: Shape) -> str:
    return ", ".join(map(str, numbers))


# Arithmetic.


def float_arithmetic(b: Builder) -> None:
    x = b.value(lambda v: v.element in FLOATS)
    y = b.same(x)
    op, bound = b.pick(
        (
            ("addf", x.bound + y.bound), ("subf", x.bound + y.bound),
            ("mulf", x.bound * y.bound), ("maximumf", max(x.bound, y.bound)),
            ("minimumf", max(x.bound, y.bound)),
        )
    )  # fmt: skip
    b.define(f"arith.{op} {x.name}, {y.name} : $T", merged(x, y), bound=bound)


def merged(x: Value, y: Value) -> Value:
    """`x` with the inexactness of both."""
    return replace(
        x, bound=max(x.bound, y.bound), scale=max(x.scale, y.scale), coarse=x.coarse or y.coarse
    )


def float_functions(b: Builder) -> None:
    x = b.value(lambda v: v.element in FLOATS and v.bound <= 16 and v.exact)
    op, bound = b.pick(
        (
            ("arith.negf", 0), ("math.absf", 0), ("math.exp", 1 << 24), ("math.tanh", 1),
            ("math.sin", 1), ("math.floor", 0), ("math.ceil", 0), ("math.erf", 1),
            ("math.exp2", 1 << 16), ("math.roundeven", 0),
        )
    )  # fmt: skip
    b.define(
        f"{op} {x.name} : $T", x, bound=bound or x.bound, scale=bound or x.scale,
        coarse=x.coarse or (bool(bound) and x.element != "f32"),
    )  # fmt: skip


def integer_arithmetic(b: Builder) -> None:
    x = b.value(lambda v: v.element in INTEGERS)
    kind = b.rng.random()
    if kind < 0.3:
        amount = b.splat(x.shape, x.element, b.rng.randrange(BITS[x.element]))
        op = b.pick(("shli", "shrsi", "shrui"))
        b.define(f"arith.{op} {x.name}, {amount.name} : $T", x, bound=_top(x))
    elif kind < 0.4:
        divisor = b.splat(x.shape, x.element, b.pick((1, 2, 3, 7, 8, 100, -3)))
        op = b.pick(("divsi", "remsi", "divui", "remui"))
        b.define(f"arith.{op} {x.name}, {divisor.name} : $T", x, bound=_top(x))
    else:
        y = b.same(x)
        op = b.pick(
            ("addi", "addi", "subi", "muli", "andi", "ori", "xori", "maxsi", "minsi", "maxui",
             "minui")
        )  # fmt: skip
        b.define(f"arith.{op} {x.name}, {y.name} : $T", x, bound=_top(x))


def _top(x: Value) -> float:
    return 2.0 ** (BITS[x.element] - 1)


def compare(b: Builder) -> None:
    x = b.data(lambda v: v.exact and not v.element.startswith("f8"))
    y = b.same(x)
    if not y.exact:
        return
    if is_float(x.element):
        predicate = b.pick(("oeq", "ogt", "oge", "olt", "ole", "one", "une", "ueq"))
        text = f"arith.cmpf {predicate}"
    else:
        text = f"arith.cmpi {b.pick(('eq', 'ne', 'slt', 'sle', 'sgt', 'sge', 'ult', 'uge'))}"
    b.define(f"{text}, {x.name}, {y.name} : {x.type}", x, element="i1", bound=1, scale=0.0)


def masks(b: Builder) -> None:
    m = b.value(lambda v: v.element == "i1")
    if m.element != "i1":
        compare(b)
        return
    b.define(f"arith.{b.pick(('andi', 'ori', 'xori'))} {m.name}, {b.same(m).name} : $T", m)


def select(b: Builder) -> None:
    m = _mask(b)
    if m is None:
        return
    known = [v for v in b.values if v.shape == m.shape and v.element != "i1"]
    x = b.pick(known) if known and b.chance(0.7) else b.input(m.shape, b.element())
    y = b.same(x)
    b.define(f"arith.select {m.name}, {x.name}, {y.name} : {m.type}, $T", merged(x, y))


def _mask(b: Builder) -> Value | None:
    """A mask; None if the values that there are do not compare."""
    if not any(v.element == "i1" for v in b.values) or b.chance(0.5):
        compare(b)
    known = [v for v in b.values if v.element == "i1"]
    return b.pick(known[-2:]) if known else None


# Types.


def cast_type(b: Builder) -> None:
    x = b.value(lambda v: v.bound < 128 or not is_float(v.element))
    wanted = b.pick([e for e in BITS if e not in (x.element, "i1")])
    old, new = BITS[x.element], BITS[wanted]
    bound = x.bound
    if is_float(x.element) and is_float(wanted):
        if old == new or (new == 8 and bound > 16):
            return
        op = "extf" if new > old else "truncf"
        if new < old and bound > RANGES[wanted]:
            b.define(f"arith.{op} {x.name} : {x.type} to $T", x, element=wanted, scale=bound)
            return
    elif is_float(x.element):
        if not x.exact or bound > RANGES[wanted] + 1:
            return
        op = "fptosi"
    elif is_float(wanted):
        if x.element == "i1" or "f8" in wanted:
            return
        op = b.pick(("sitofp", "uitofp"))
        bound = 2.0**old if op == "uitofp" else bound
        if bound > 1 << 30:
            return
    elif new == old:
        return
    elif x.element == "i1":
        op, bound = b.pick(("extui", "extsi")), 1
    else:
        op = b.pick(("extsi", "extui")) if new > old else "trunci"
        bound = min(bound, 2.0 ** (new - 1)) if op != "extui" else 2.0**old
    b.define(f"arith.{op} {x.name} : {x.type} to $T", x, element=wanted, bound=bound)


def bitcast(b: Builder) -> None:
    """Integers seen as integers of another width: rows split or merge."""
    x = b.value(lambda v: v.element in INTEGERS and len(v.shape) > 1)
    wanted = b.pick([e for e in INTEGERS if e != x.element])
    rows = x.shape[-2] * BITS[x.element]
    if rows % BITS[wanted]:
        return
    shape = (*x.shape[:-2], rows // BITS[wanted], x.shape[-1])
    bound = 2.0 ** (BITS[wanted] - 1)
    b.define(f"tpu.bitcast {x.name} : {x.type} -> $T", x, element=wanted, shape=shape, bound=bound)


# Shapes.


def broadcast(b: Builder) -> None:
    if b.chance(0.25):
        element = b.pick(("f32", "bf16", "i32", "f32", "i32"))
        number = b.rng.randint(-5, 5)
        scalar = b.dynamic(number)
        if is_float(element):
            scalar = b.emit(f"arith.sitofp {scalar} : i32 to f32")
        if element == "bf16":
            scalar = b.emit(f"arith.truncf {scalar} : f32 to bf16")
        like = Value("", b.shape(), element, abs(number))
        b.define(f"vector.broadcast {scalar} : {element} to $T", like)
        return
    x = b.value(lambda v: v.size <= SMALL)
    if 1 not in x.shape and len(x.shape) > 1:
        cut = list(x.shape)
        axis = b.rng.randrange(len(cut))
        cut[axis] = 1
        x = _slice(b, x, tuple(0 for _ in cut), tuple(cut))
    pools = {-1: (2, 100, 128, 200, 256), -2: (2, 5, 8, 16, 24)}
    target = list(x.shape)
    for d, n in enumerate(target):
        if n == 1 and b.chance(0.7):
            target[d] = b.pick(pools.get(d - len(target), (2, 3)))
    while len(target) < 4 and b.chance(0.3):
        target.insert(0, b.pick((1, 2, 3, 8)))
    if prod(target) > 1 << 16:
        return
    b.define(f"vector.broadcast {x.name} : {x.type} to $T", x, shape=tuple(target))


def shape_cast(b: Builder) -> None:
    x = b.value()
    kind = b.rng.random()
    shape = list(x.shape)
    if kind < 0.35:
        shape = [n for n in shape if n != 1 or b.chance(0.5)] or [1]
        while len(shape) < 4 and b.chance(0.5):
            shape.insert(b.rng.randrange(len(shape) + 1), 1)
    elif kind < 0.7 and len(shape) > 1:
        d = b.rng.randrange(len(shape) - 1)
        shape[d : d + 2] = [shape[d] * shape[d + 1]]
    elif len(shape) < 4:
        d = b.rng.randrange(len(shape))
        parts = [n for n in (2, 3, 4, 8, 16, 32, 128, 256) if shape[d] % n == 0]
        if parts:
            part = b.pick(parts)
            shape[d : d + 1] = [shape[d] // part, part]
    if len(shape) > 4:
        return
    b.define(f"vector.shape_cast {x.name} : {x.type} to $T", x, shape=tuple(shape))


def transpose(b: Builder) -> None:
    x = b.data(lambda v: len(v.shape) > 1)
    order = list(range(len(x.shape)))
    b.rng.shuffle(order)
    if b.chance(0.4):
        order = [*range(len(order) - 2), len(order) - 1, len(order) - 2]
    shape = tuple(x.shape[d] for d in order)
    form = b.pick(("vector.transpose {}, [{}] : {} to $T", "tpu.transpose {}, [{}] : {} -> $T"))
    b.define(form.format(x.name, _ints(tuple(order)), x.type), x, shape=shape)


def concatenate(b: Builder) -> None:
    x = b.data(lambda v: v.size <= SMALL)
    axis = b.rng.randrange(len(x.shape))
    parts = [x]
    for _ in range(b.pick((1, 1, 2))):
        shape = list(x.shape)
        shape[axis] = b.pick((shape[axis], shape[axis], 1, 3, 8, 50, 128))
        if prod(shape) > SMALL:
            return
        parts.append(b.same(replace(x, shape=tuple(shape))))
    b.rng.shuffle(parts)
    shape = list(x.shape)
    shape[axis] = sum(p.shape[axis] for p in parts)
    like = parts[0]
    for part in parts[1:]:
        like = merged(like, part)
    names, types = ", ".join(p.name for p in parts), ", ".join(p.type for p in parts)
    b.define(f"tpu.concatenate {names} in {axis} : {types} -> $T", like, shape=tuple(shape))


def _slice(b: Builder, x: Value, offsets: Shape, sizes: Shape) -> Value:
    strides = _ints((1,) * len(sizes))
    return b.define(
        f"vector.extract_strided_slice {x.name} {{offsets = [{_ints(offsets)}], "
        f"sizes = [{_ints(sizes)}], strides = [{strides}]}} : {x.type} to $T",
        x, shape=sizes,
    )  # fmt: skip


def extract_slice(b: Builder) -> None:
    x = b.data()
    sizes = tuple(n if b.chance(0.4) else b.rng.randint(1, n) for n in x.shape)
    offsets = tuple(b.rng.randint(0, n - s) for n, s in zip(x.shape, sizes, strict=True))
    _slice(b, x, offsets, sizes)


def rotate(b: Builder) -> None:
    x = b.data()
    axis = b.rng.randrange(len(x.shape))
    amount = b.rng.randrange(x.shape[axis] + 3)
    where = b.dynamic(amount) if b.chance(0.5) else b.integer(amount)
    b.define(f"tpu.dynamic_rotate {x.name} by {where} dim {axis} : $T, i32 -> $T", x)


def iota(b: Builder) -> None:
    shape = b.shape(b.pick((2, 2, 2, 3, 4)))
    axes = (b.rng.randrange(len(shape)),)
    if b.chance(0.15):
        axes = tuple(sorted(b.rng.sample(range(len(shape)), 2)))
    like = Value("", shape, "i32", prod(shape[d] for d in axes))
    b.define(f"tpu.iota {{dimensions = array<i32: {_ints(axes)}>}} : $T", like)


# Reductions and products.


def reduce(b: Builder) -> None:
    x = b.data(lambda v: not v.element.startswith("f8") and v.scale < 1e6)
    axes = tuple(d for d in range(len(x.shape)) if b.chance(0.5)) or (len(x.shape) - 1,)
    shape = tuple(n for d, n in enumerate(x.shape) if d not in axes)
    if not shape:
        axes, shape = axes[1:], x.shape[:1]
        if not axes:
            return
    reduced = prod(x.shape[d] for d in axes)
    neutral = {"add": "0.0", "maximumf": "0xFF800000", "minimumf": "0x7F800000"}
    if is_float(x.element):
        kind = b.pick(("add", "maximumf", "minimumf"))
        text = neutral[kind]
        if x.element == "bf16" and kind != "add":
            text = {"maximumf": "0xFF80", "minimumf": "0x7F80"}[kind]
    else:
        kind = b.pick(("add", "add", "maxsi", "minsi"))
        top = 1 << (BITS[x.element] - 1)
        text = str({"add": 0, "maxsi": -top, "minsi": top - 1}[kind])
    like = replace(x, shape=shape)
    if b.chance(0.7):
        start = b.emit(f"arith.constant dense<{text}> : {like.type}")
        extra = 0.0
    else:
        other = b.same(like)
        start, like, extra = other.name, merged(like, other), other.bound
    bound = x.bound * reduced + extra if kind == "add" else max(x.bound, extra)
    axes_text = _ints(axes)
    b.define(
        f"vector.multi_reduction <{kind}>, {x.name}, {start} [{axes_text}] : {x.type} to $T",
        like, bound=bound if is_float(x.element) else _top(x),
    )  # fmt: skip


def reduce_index(b: Builder) -> None:
    x = b.value(lambda v: v.element == "f32" and v.exact and len(v.shape) > 1)
    axis = b.rng.randrange(len(x.shape))
    kind = b.pick(("arg_max", "arg_min"))
    shape = tuple(n for d, n in enumerate(x.shape) if d != axis)
    b.define(
        f"tpu.reduce_index {x.name} {{axis = {axis} : i32, kind = #tpu.reduction_kind<{kind}>}} "
        f": {x.type} -> $T",
        x, element="i32", shape=shape, bound=x.shape[axis],
    )  # fmt: skip


def matmul(b: Builder) -> None:
    element = b.pick(("f32", "bf16", "bf16", "i8"))
    m, k, n = (b.pick((1, 3, 8, 16, 32, 40, 64, 100, 128, 130, 200, 256)) for _ in range(3))
    if m * k + k * n + m * n > 1 << 16:
        return
    shared = element in FLOATS and b.chance(0.3)
    known = [
        v for v in b.values
        if v.element == element and len(v.shape) == 2 and v.exact and v.bound <= 64
    ]  # fmt: skip
    left = b.pick(known) if shared and known else b.input((m, k), element)
    m, k = left.shape
    swapped = b.chance(0.4)
    right = b.input((n, k) if swapped else (k, n), element)
    result = "i32" if element == "i8" else "f32"
    acc = Value("", (m, n), result, 0)
    acc = b.splat(acc.shape, result, 0) if b.chance(0.6) else b.input((m, n), result)
    numbers = "[1], [1], [0], [0], [0, 0, 1, 0]" if swapped else "[1], [0], [0], [1], [0, 0, 1, 1]"
    bound = left.bound * right.bound * k + acc.bound
    b.define(
        f"tpu.matmul {left.name}, {right.name}, {acc.name} {{dimension_numbers = "
        f"#tpu.dot_dimension_numbers<{numbers}, [], []>, transpose_lhs_hint = false}} : "
        f"{left.type}, {right.type}, {acc.type} -> $T",
        acc, bound=2.0**31 if result == "i32" else bound,
    )  # fmt: skip


def gather(b: Builder) -> None:
    element = b.pick(("f32", "i32", "bf16"))
    x = b.input((b.pick((8, 8, 16, 5)), b.pick((128, 128, 256, 100))), element)
    axis = b.pick((1, 1, 0))
    places = b.emit(
        f"tpu.iota {{dimensions = array<i32: {b.pick((0, 1))}>}} : {vector(x.shape, 'i32')}"
    )
    size = b.splat(x.shape, "i32", min(x.shape))
    where = b.emit(f"arith.remsi {places}, {size.name} : {size.type}")
    b.define(f"tpu.dynamic_gather {x.name}[{where}] in [{axis}] : $T, {size.type} -> $T", x)


def extract_scalar(b: Builder) -> None:
    """One element as a scalar, broadcast again so that it is seen."""
    x = b.value(lambda v: v.element in ("f32", "i32"))
    at = _ints((0,) * len(x.shape) if b.chance(0.6) else tuple(b.rng.randrange(n) for n in x.shape))
    scalar = b.emit(f"vector.extract {x.name}[{at}] : {x.element} from {x.type}")
    b.define(f"vector.broadcast {scalar} : {x.element} to $T", x, shape=b.shape())


# Memory.


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
    _store(b, ref, value, at)


def _store(b: Builder, ref: Argument, value: Value, at: str, mask: Value | None = None) -> None:
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
    _store(b, ref, x, at, b.pick(known) if known and b.chance(0.6) else None)


def scratch(b: Builder) -> None:
    """Into a scratch ref and back from another place."""
    x = b.data(lambda v: not v.element.startswith("f8") and v.size <= SMALL)
    ref = Argument(f"scratch{len(b.scratch)}", _larger(b, x.shape), x.element)
    b.scratch.append(ref)
    _fill(b, ref)
    at, _ = _places(b, ref.shape, x.shape, x.element)
    _store(b, ref, x, at)
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
    return b.define(text, x, bound=max(x.bound, y.bound) if is_float(x.element) else _top(x))


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


FAMILIES: dict[str, Callable[[Builder], None]] = {
    function.__name__: function
    for function in (
        float_arithmetic, float_functions, integer_arithmetic, compare, masks, select, cast_type,
        bitcast, broadcast, shape_cast, transpose, concatenate, extract_slice, rotate, iota,
        reduce, reduce_index, matmul, gather, extract_scalar, load, strided_load, store_part,
        scratch, loop, branch, while_loop,
    )
}  # fmt: skip


def store_all(b: Builder) -> None:
    """The last value and some earlier one end in outputs of their own; masks as integers."""
    if not b.values:
        b.input((8, 128), "f32")
    for value in dict.fromkeys((b.values[-1], b.pick(b.values))):
        if value.element == "i1":
            value = b.define(f"arith.extui {value.name} : {value.type} to $T", value, element="i32")
        ref = b.output(value)
        _store(b, ref, value, ", ".join([b.index(0)] * len(value.shape)))
