"""Steps of random kernels that move, reduce or multiply elements."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from .random_kernels import BITS, FLOATS, Builder, Shape, Value, is_float, vector
from .random_values import integer_top, merged

SMALL = 1 << 13


def _ints(numbers: Shape) -> str:
    return ", ".join(map(str, numbers))


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


def strided_rotate(b: Builder) -> None:
    """Every row, or every matrix, by one step more than the one before."""
    shape = (b.pick((2, 3)), b.pick((8, 16)), b.pick((128, 256)))[b.pick((0, 1)) :]
    x = b.input(shape, b.pick(("f32", "i32", "bf16")))
    axis = len(shape) - 1
    along = b.rng.randrange(axis)
    amount = b.dynamic(b.rng.randrange(128))
    step = b.rng.randint(1, 3)
    b.define(
        f"tpu.dynamic_rotate {x.name} by {amount} dim {axis} "
        f"{{stride = {step} : si32, stride_dimension = {along} : si32}} : $T, i32 -> $T",
        x,
    )


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
        like, bound=bound if is_float(x.element) else integer_top(x),
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


def general_matmul(b: Builder) -> None:
    """Batches, with the contracted dimension behind or in front on the right, and a left operand
    that has it in front."""
    element = b.pick(("f32", "bf16"))
    batch, m, k, n = b.pick((1, 2, 3)), b.pick((8, 16, 24)), b.pick((16, 64, 128)), b.pick((8, 128))
    if b.chance(0.5):
        turned = b.chance(0.5)
        left = b.input((batch, m, k), element)
        right = b.input((batch, n, k) if turned else (batch, k, n), element)
        acc = b.splat((batch, m, n), "f32", 0)
        numbers = (
            "[2], [2], [1], [1], [0, 0, 0, 1, 1, 1], [0], [0]"
            if turned
            else "[2], [1], [1], [2], [0, 0, 0, 1, 1, 2], [0], [0]"
        )
    else:
        left, right = b.input((k, m), element), b.input((k, n), element)
        acc = b.splat((m, n), "f32", 0)
        numbers = "[0], [0], [1], [1], [0, 1, 1, 1], [], []"
    b.define(
        f"tpu.matmul {left.name}, {right.name}, {acc.name} {{dimension_numbers = "
        f"#tpu.dot_dimension_numbers<{numbers}>, transpose_lhs_hint = false}} : "
        f"{left.type}, {right.type}, {acc.type} -> $T",
        acc, bound=left.bound * right.bound * k,
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
