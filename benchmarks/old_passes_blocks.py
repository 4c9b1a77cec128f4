"""What random kernels of the `old_passes_*.py` are made of."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Draw = random.Random
Shape = tuple[int, ...]
Body = Callable[..., None]
Kernel = tuple[Body, list[Any], Any]
"""What a kernel does to its refs, the types of its operands, and of its result."""
f32, bf16, i32, i8 = jnp.float32, jnp.bfloat16, jnp.int32, jnp.int8
like = jax.ShapeDtypeStruct
BY_LAST = (((1,), (1,)), ((), ()))
"""A product of matrices, contracted along the lanes of both."""


def made(function: Callable[..., Any], *operands: Any) -> Kernel:
    """The kernel that stores a function of its whole operands."""
    result = jax.eval_shape(function, *operands)

    def body(*refs: Any) -> None:
        refs[-1][...] = function(*[ref[...] for ref in refs[:-1]])

    return body, list(operands), result


def columns(draw: Draw) -> int:
    return draw.choice([128, 128, 256, 384, 64, 32, 200, 96, draw.randint(1, 300)])


def rows(draw: Draw) -> int:
    return draw.choice([8, 16, 16, 32, 64, 4, 2, 1, draw.randint(1, 40)])


def few(draw: Draw) -> int:
    return draw.choice([1, 2, 2, 3, 4, 5, 6, 8])


def block(draw: Draw, rank: int = 0) -> Shape:
    """Rows and columns, and often leading dimensions; the rows may be few."""
    rank = rank or draw.choice([2, 2, 3, 3, 4])
    second = rows(draw) if rank == 2 or draw.random() < 0.5 else few(draw)
    return (*[few(draw) for _ in range(rank - 2)], second, columns(draw))


def float_type(draw: Draw) -> Any:
    return draw.choice([f32, f32, bf16])


def any_type(draw: Draw) -> Any:
    return draw.choice([f32, f32, bf16, bf16, i32, i8, jnp.int16])


def numbered(shape: Shape, axis: int) -> Any:
    return lax.broadcasted_iota(i32, shape, axis)


def times(x: Any, y: Any) -> Any:
    return jnp.dot(x, y, preferred_element_type=f32)


def times_by_last(x: Any, y: Any) -> Any:
    return lax.dot_general(x, y, BY_LAST, preferred_element_type=f32)
