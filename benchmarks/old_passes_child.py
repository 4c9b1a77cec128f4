"""Random kernels, and what Mosaic's passes in C++ made of them.

    PYTHON benchmarks/old_passes_child.py FOLDER COUNT KIND

They are of one of the `KINDS`, or else of one operation.
PYTHON has JAX 0.7.2, whose jaxlib holds those passes (spec/vreg_lowering.md section 0.2). Writes
per kernel what JAX hands to the compiler, inputs, and the register form for generations 5 and 6,
where the passes do not refuse it.
See `old_passes.py`.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.interpreters import mlir
from jax._src.lib import tpu
from jax.experimental import pallas as pl
from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager
from old_passes_algorithms import ALGORITHMS
from old_passes_models import MODELS
from old_passes_parts import PARTS
from old_passes_training import TRAINING
from old_passes_written import WRITTEN

Draw = random.Random
Shape = tuple[int, ...]
Value = Callable[..., Any]
"""The result of a kernel, of its inputs."""
GENERATIONS = (5, 6)
MOST_ELEMENTS = 300_000
KINDS = {
    "written": (10_000, WRITTEN),
    "parts": (20_000, PARTS),
    "models": (30_000, MODELS),
    "training": (40_000, TRAINING),
    "algorithms": (50_000, ALGORITHMS),
}
"""The first seed of each kind of kernels, and its families."""
f32, i32 = jnp.float32, jnp.int32
TYPES = (f32, f32, f32, jnp.bfloat16, jnp.bfloat16, i32, jnp.int8, jnp.int16)


def shape_of(draw: Draw, dtype: Any, rank: int = 0) -> Shape:
    """Rows and columns that fill registers or do not, below a few leading dimensions."""
    rank = rank or draw.choice([2, 2, 2, 3, 3, 4])
    rows = 32 // jnp.dtype(dtype).itemsize
    leading = [draw.choice([1, 2, 3, 4, 5, 8]) for _ in range(rank - 2)]
    return (
        *leading,
        draw.choice([rows, rows, 2 * rows, 4 * rows, 8, draw.randint(1, 40)]),
        draw.choice([128, 128, 256, 256, 384, 64, 200, draw.randint(1, 300)]),
    )


def transpose(draw: Draw, s: Shape) -> Value:
    order = draw.sample(range(len(s)), len(s))
    return lambda x: jnp.transpose(x, order)


def reshape(draw: Draw, s: Shape) -> Value:
    size = int(np.prod(s))
    columns = [n for n in range(1, min(size, 2048) + 1) if size % n == 0]
    last = draw.choice([n for n in columns if n % 128 == 0 and draw.random() < 0.6] or columns)
    rows = draw.choice([n for n in range(1, size // last + 1) if size // last % n == 0])
    new = draw.choice([(size // last, last), (size // last // rows, rows, last)])
    return lambda x: x.reshape(new)


def box(draw: Draw, s: Shape) -> tuple[slice, ...]:
    starts = [draw.randrange(n) if draw.random() < 0.6 else 0 for n in s]
    return tuple(slice(b, b + draw.randint(1, n - b)) for b, n in zip(starts, s, strict=True))


def part(draw: Draw, s: Shape) -> Value:
    where = box(draw, s)
    return lambda x: x[where]


def concatenate(draw: Draw, s: Shape) -> Value:
    axis = draw.randrange(len(s))
    return lambda x, y: jnp.concatenate([x, y], axis)


def stack(draw: Draw, s: Shape) -> Value:
    axis = draw.randrange(len(s) + 1)
    return lambda x, y: jnp.stack([x, y], axis)


def broadcast(draw: Draw, s: Shape) -> Value:
    axis = draw.randrange(len(s))
    return lambda x: jnp.broadcast_to(lax.slice_in_dim(x, 0, 1, axis=axis), s)


def reduction(draw: Draw, s: Shape) -> Value:
    axes = tuple(sorted(draw.sample(range(len(s)), draw.randint(1, min(2, len(s) - 1)))))
    fold, kept = draw.choice([jnp.sum, jnp.max, jnp.min]), draw.random() < 0.6
    return lambda x: fold(x, axis=axes, keepdims=kept)


def roll(draw: Draw, s: Shape) -> Value:
    axis = draw.randrange(len(s))
    amount = draw.randrange(s[axis])
    return lambda x: jnp.roll(x, amount, axis)


def repeat(draw: Draw, s: Shape) -> Value:
    axis = draw.choice([0, len(s) - 2])
    return lambda x: jnp.repeat(x, 2, axis)


def tile(draw: Draw, s: Shape) -> Value:
    times = (*[1] * (len(s) - 2), draw.choice([1, 2, 3]), draw.choice([1, 2]))
    return lambda x: jnp.tile(x, times)


def pad(draw: Draw, s: Shape) -> Value:
    widths = [(draw.randrange(4), draw.randrange(4)) for _ in s]
    return lambda x: jnp.pad(x, widths)


def cast(draw: Draw, s: Shape) -> Value:
    wanted = draw.choice(TYPES)
    return lambda x: x.astype(wanted)


def choice(draw: Draw, s: Shape) -> Value:
    return lambda x, y: jnp.where(x > y, x, y + y)


def arithmetic(draw: Draw, s: Shape) -> Value:
    return lambda x, y: (x + y) * x


def numbered(draw: Draw, s: Shape) -> Value:
    axis = draw.randrange(len(s))
    return lambda x: x + lax.broadcasted_iota(i32, s, axis).astype(x.dtype)


def unit(draw: Draw, s: Shape) -> Value:
    axis = draw.randrange(len(s) + 1)
    return lambda x: jnp.expand_dims(x, axis)


def product(draw: Draw, s: Shape) -> Value:
    batch = tuple(range(len(s) - 2))
    last = len(s) - 1
    numbers = (((last,), (last,)), (batch, batch))
    return lambda x, y: lax.dot_general(x, y, numbers, preferred_element_type=f32)


def normalized(draw: Draw, s: Shape) -> Value:
    return lambda x: x * lax.rsqrt(jnp.sum(x * x, -1, keepdims=True) + 1)


def softmax(draw: Draw, s: Shape) -> Value:
    return lambda x: jax.nn.softmax(x.astype(f32), axis=-1)


def loop(draw: Draw, s: Shape) -> Value:
    return lambda x: lax.fori_loop(0, 3, lambda _, y: y * 2 + x[:1], x)


def argument(draw: Draw, s: Shape) -> Value:
    axis, find = draw.randrange(len(s)), draw.choice([jnp.argmax, jnp.argmin])
    return lambda x: find(x.astype(f32), axis)


def pieces(draw: Draw, s: Shape) -> Value:
    parts, axis = [box(draw, s) for _ in range(draw.choice([2, 2, 3]))], draw.randrange(len(s))
    whole = [tuple(b if d == axis else slice(None) for d, b in enumerate(p)) for p in parts]
    return lambda x: jnp.concatenate([x[p] for p in whole], axis)


def shifted(draw: Draw, s: Shape) -> Value:
    axis, where = draw.randrange(len(s)), box(draw, s)
    amount = draw.randrange(s[axis])
    return lambda x: jnp.roll(x, amount, axis)[where]


def narrow(draw: Draw, s: Shape) -> Value:
    thin = (*s[:-2], *draw.sample([min(s[-2], 64), draw.randint(1, min(s[-1], 16))], 2))
    order = (*range(len(s) - 2), len(s) - 1, len(s) - 2)
    corner = tuple(slice(min(a, b)) for a, b in zip(s, thin, strict=True))
    return lambda x: jnp.transpose(x[corner], order)


def spread(draw: Draw, s: Shape) -> Value:
    axis = draw.randrange(len(s))
    index = draw.randrange(s[axis])
    return lambda x: x + lax.slice_in_dim(x, index, index + 1, axis=axis)


def centred(draw: Draw, s: Shape) -> Value:
    axes = tuple(sorted(draw.sample(range(len(s)), draw.randint(1, 2))))
    return lambda x: x - jnp.max(x, axes, keepdims=True)


def ends(draw: Draw, s: Shape) -> Value:
    axis = draw.randrange(len(s))
    first = draw.randrange(s[axis])
    return lambda x, y: jnp.where(lax.broadcasted_iota(i32, s, axis) < first, x, y)


def one(draw: Draw, s: Shape) -> Value:
    places = tuple(draw.randrange(n) for n in s[: draw.randint(1, len(s) - 1)])
    return lambda x: x[places]


FAMILIES: dict[str, Callable[[Draw, Shape], Value]] = {
    f.__name__: f
    for f in (
        transpose, reshape, part, concatenate, stack, broadcast, reduction, roll, repeat, tile, pad,
        cast, choice, arithmetic, numbered, unit, product, normalized, softmax, loop, argument,
        pieces, shifted, narrow, spread, centred, ends, one,
    )
}  # fmt: skip
REFS = ("load", "store", "strided", "copy", "scatter")
"""Families that take or set part of a ref."""


def kernel(draw: Draw, name: str, s: Shape, dtype: Any) -> tuple[Any, list[Any]]:
    """A function of arrays that calls the kernel, and the types of the arrays."""
    like = jax.ShapeDtypeStruct(s, dtype)
    where = box(draw, s)
    if name == "load":
        operands = [like]
        result = jax.eval_shape(lambda x: x[where], like)

        def body(x: Any, o: Any) -> None:
            o[...] = x[where]

    elif name == "store":
        operands = [jax.eval_shape(lambda x: x[where], like)]
        result = like

        def body(x: Any, o: Any) -> None:
            o[...] = jnp.zeros(s, dtype)
            o[where] = x[...]

    elif name == "copy":
        operands = [like]
        moved = [draw.randint(0, 3 * n) // 3 for n in s]
        result = jax.ShapeDtypeStruct(tuple(n + m for n, m in zip(s, moved, strict=True)), dtype)
        there = tuple(slice(m, m + n) for n, m in zip(s, moved, strict=True))

        def body(x: Any, o: Any) -> None:
            o[...] = jnp.ones(result.shape, dtype)
            o[there] = x[...]

    elif name == "strided":
        operands = [like]
        step = draw.choice([2, 2, 3, 4])
        axis = draw.randrange(len(s) - 1)
        start = draw.randrange(min(step, s[axis]))
        rows = tuple(
            pl.ds(start, -(-(n - start) // step), step) if d == axis else slice(None)
            for d, n in enumerate(s)
        )
        result = jax.eval_shape(lambda x: lax.slice_in_dim(x, start, s[axis], step, axis), like)

        def body(x: Any, o: Any) -> None:
            o[...] = x[rows]

    elif name == "scatter":
        operands = [jax.eval_shape(lambda x: x[0], like)]
        result = like
        place = draw.randrange(s[0])

        def body(x: Any, o: Any) -> None:
            o[...] = jnp.zeros(s, dtype)
            o[place] = x[...] if place % 2 else x[...] + x[...]

    else:
        function = FAMILIES[name](draw, s)
        operands = [like] * function.__code__.co_argcount
        result = jax.eval_shape(function, *operands)

        def body(*refs: Any) -> None:
            refs[-1][...] = function(*[ref[...] for ref in refs[:-1]])

    shape = jax.ShapeDtypeStruct(result.shape, result.dtype)
    return lambda *arrays: pl.pallas_call(body, out_shape=shape)(*arrays), operands


def numbers(draw: Draw, like: Any) -> Any:
    """A random array of the shape and type of `like`, of values that every type holds."""
    generator = np.random.default_rng(draw.randrange(1 << 30))
    low, scale = (-50, 1) if jnp.issubdtype(like.dtype, jnp.integer) else (-32, 4)
    return np.asarray(jnp.asarray(generator.integers(low, -low, like.shape) / scale, like.dtype))


def bodies(program: str) -> list[bytes]:
    """The kernels that a lowered program calls."""
    parts = program.split(r"\22body\22: \22")[1:]
    return [base64.b64decode(part.split("\\22")[0]) for part in parts]


def old_passes(body: bytes, generation: int) -> str:
    """The register form; raises what the passes raise."""
    context = mlir.JaxIrContext()
    context.append_dialect_registry(mlir.upstream_dialects)
    context.load_all_available_dialects()
    tpu.register_dialect(context)
    context.allow_unregistered_dialects = True
    shape = f"hardware-generation={generation} sublane-count=8 lane-count=128"
    matrix = 128 if generation < 6 else 256
    unit_size = f"mxu-contracting-size={matrix} mxu-noncontracting-size={matrix}"
    with context, ir.Location.unknown():
        module = ir.Module.parse(body)
        for name in (
            "mosaic-serde{serialize=false}",
            f"func.func(tpu-infer-memref-layout{{{shape}}})",
            "canonicalize", "cse",
            f"func.func(tpu-canonicalize-mosaic{{hardware-generation={generation}}})",
            f"func.func(tpu-infer-vector-layout{{{shape}}})",
            f"func.func(tpu-relayout-insertion{{{shape}}})",
            f"func.func(tpu-apply-vector-layout{{{shape} {unit_size} max-sublanes-in-scratch=72}})",
            "canonicalize", "cse",
        ):  # fmt: skip
            PassManager.parse(f"builtin.module({name})").run(module.operation)
        return str(module)


def apart(made: Path, body: bytes, generation: int) -> None:
    """Writes what the passes make, in a process of its own: they may abort."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        made.write_text(old_passes(body, generation))
    finally:
        os._exit(0)


def drawn(seed: int, draw: Draw) -> tuple[str, Any, list[Any]]:
    """The name of a kernel, a function of arrays that calls it, and the types of the arrays.

    Seeds from the first of one of the `KINDS` on are of that kind.
    """
    families = next((f for first, f in reversed(KINDS.values()) if seed >= first), None)
    if families is not None:
        name = list(families)[seed % len(families)]
        body, operands, result = families[name](draw)
        shape = jax.ShapeDtypeStruct(result.shape, result.dtype)
        return name, lambda *arrays: pl.pallas_call(body, out_shape=shape)(*arrays), operands
    names = [*FAMILIES, *REFS]
    name, dtype = names[seed % len(names)], draw.choice(TYPES)
    return name, *kernel(draw, name, shape_of(draw, dtype), dtype)


def main() -> None:
    """Draws kernels, and writes what each is lowered to."""
    p = argparse.ArgumentParser(description=main.__doc__)
    p.add_argument("folder", type=Path, help="where to write")
    p.add_argument("count", type=int, help="how many kernels to draw")
    p.add_argument("kind", help=f"{', '.join(KINDS)}; anything else: of single operations")
    chosen = p.parse_args()
    first = KINDS[chosen.kind][0] if chosen.kind in KINDS else 0
    for seed in range(first, first + chosen.count):
        draw = random.Random(seed)
        try:
            name, call, operands = drawn(seed, draw)
            lowered = jax.jit(call).trace(*operands).lower(lowering_platforms=("tpu",))
        except Exception:
            # JAX refuses it.
            continue
        text = lowered.as_text()
        if sum(int(np.prod(o.shape)) for o in operands) > MOST_ELEMENTS:
            continue
        place = chosen.folder / f"{seed:05d}_{name}"
        place.with_suffix(".mlir").write_text(text)
        arrays = [numbers(draw, like) for like in operands]
        np.savez(place.with_suffix(".npz"), *[a.view(np.uint8).reshape(-1) for a in arrays])
        types = [[list(a.shape), str(a.dtype)] for a in arrays]
        place.with_suffix(".json").write_text(json.dumps(types))
        (body,) = bodies(text)
        for generation in GENERATIONS:
            apart(place.with_suffix(f".gen{generation}.mlir"), body, generation)


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    warnings.filterwarnings("ignore", message="os.fork")
    main()
