"""Kinds of errors about the shapes and sizes of values in a kernel."""

from __future__ import annotations

import re

import jax
import numpy as np

from pallasite.jax.fault import Fault

_PARAMETERS = "a kernel's parameters are the prefetched scalars, then inputs, outputs and scratch"
_STORED = r"Invalid shape for `swap`.* Expected shape: (\(.*?\))\. Value shape: (\(.*?\))"


def _sizes(text: str) -> tuple[int, ...]:
    """A shape as JAX writes it."""
    return tuple(map(int, re.findall(r"\d+", text)))


def _broadcasts(value: str, part: str) -> bool:
    """Whether a value of one shape fills a part of the other one."""
    try:
        return np.broadcast_shapes(_sizes(value), _sizes(part)) == _sizes(part)
    except ValueError:
        return False


def _ones_before(value: str, part: str) -> bool:
    """Whether the part has the sizes of the value, behind dimensions of size 1."""
    sizes, extents = _sizes(value), _sizes(part)
    more = len(extents) - len(sizes)
    return more > 0 and extents == (1,) * more + sizes


def _ones_left_out(value: str, part: str) -> bool:
    """Whether they differ by dimensions of size 1, and the value does not fill the part so."""
    sizes, extents = ([n for n in _sizes(text) if n != 1] for text in (value, part))
    return sizes == extents and not _broadcasts(value, part)


FAULTS_OF_SHAPES = (
    Fault(
        TypeError,
        "Shapes must be 1D sequences of concrete values",
        "the shape of a vector is known when the kernel is traced",
        ("take the largest one and mask the rest: jnp.where(index < n, x, 0)",),
    ),
    Fault(
        jax.errors.NonConcreteBooleanIndexError,
        "",
        "the shape of a vector is known when the kernel is traced",
        ("keep all of it and choose: jnp.where(mask, x, 0)",),
    ),
    Fault(
        jax.errors.ConcretizationTypeError,
        "The size argument of",
        "the shape of a vector is known when the kernel is traced",
        ("keep all of it and choose: jnp.where(mask, x, 0)",),
    ),
    Fault(
        jax.errors.ConcretizationTypeError,
        r"in the jnp\.(arange|linspace) argument",
        "the shape of a vector is known when the kernel is traced",
        (
            "count as far as it may go, and compare: "
            "lax.broadcasted_iota(jnp.int32, x.shape, 1) < n",
        ),
    ),
    Fault(
        ValueError,
        "not enough values to unpack",
        "a product has contracted dimensions, and batch dimensions",
        ("write lax.dot_general(x, y, (((1,), (0,)), ((), ()))), or jnp.dot(x, y)",),
        "lax/lax.py",
    ),
    Fault(
        TypeError,
        "requires contracting dimensions to have the same shape",
        "a product sums over dimensions of one size",
        (
            "jnp.dot(x, y) sums over the columns of x and the rows of y: x @ y.T is over columns",
            "give the blocks of both operands the same index and size in what is summed over",
        ),
    ),
    Fault(
        TypeError,
        "Cannot concatenate arrays with shapes that differ",
        "what is put together along one dimension is equal in all others",
        ("take parts of one size: jnp.concatenate([x, y[: x.shape[0]]], axis=1)",),
    ),
    Fault(
        TypeError,
        "cannot reshape array of shape",
        "a reshape keeps the number of elements",
        ("take a part first, or add zeros with jnp.pad, until the sizes multiply to as many",),
    ),
    Fault(
        ValueError,
        "Incompatible shapes for broadcasting",
        "shapes fit from the last dimension on, where one of them may be 1",
        ("write x[:, None] for one number per row: jnp.sum(x, axis=1, keepdims=True)",),
    ),
    Fault(
        TypeError,
        "incompatible shapes for broadcasting",
        "shapes fit if each dimension is equal, or 1 in one of them",
        (
            "slice one value, or repeat the other: jnp.tile(x, (2, 1)) for twice the rows",
            _PARAMETERS,
        ),
    ),
    Fault(
        TypeError,
        "select cases must have the same shapes",
        "lax.select broadcasts nothing",
        ("write jnp.where(mask, x, 0.0)",),
    ),
    Fault(
        ValueError,
        _STORED,
        "a value has the dimensions of the ref that it is stored to, of size 1, too",
        (
            "reduce with keepdims=True: jnp.sum(x, axis=1, keepdims=True)",
            "or give the value that shape: value[:, None], value.reshape(ref.shape)",
        ),
        applies=lambda said: _ones_left_out(said[2], said[1]),
    ),
    Fault(
        ValueError,
        _STORED,
        "a value fills the part of the ref that it is stored to",
        (
            "store it to a part of its size: ref[pl.ds(0, n)] = value",
            "give blocks and scratch the sizes that the kernel computes with",
            "a slice ends where its ref does: of 16 rows, ref[12:20] is 4",
            _PARAMETERS,
        ),
        applies=lambda said: not _broadcasts(said[2], said[1]),
    ),
    Fault(
        ValueError,
        _STORED,
        "a block has the dimensions of its array, of size 1, too",
        (
            "write None for one that the kernel shall not see: pl.BlockSpec((None, 8, 128), ...)",
            "or store to a part: ref[0] = value",
        ),
        applies=lambda said: _ones_before(said[2], said[1]),
    ),
    Fault(
        ValueError,
        r"Invalid shape for `swap`.*indices=\(ShapedArray\(bool",
        "a ref is stored to at places, and not where a mask holds",
        ("choose, and store all of it: ref[...] = jnp.where(mask, value, ref[...])",),
    ),
    Fault(
        ValueError,
        r"Invalid shape for `swap`.* Value shape: \(\)",
        "values are stored as they are, and not broadcast",
        ("write jnp.full(ref.shape, number, ref.dtype), for a part of the ref with its shape",),
    ),
    Fault(
        ValueError,
        "Invalid shape for `swap`",
        "values are stored as they are, and not broadcast",
        (
            "reduce with keepdims=True to keep the rank",
            "broadcast it first: ref[...] = jnp.broadcast_to(value, ref.shape)",
        ),
    ),
    Fault(
        ValueError,
        r"bitwidth of `x` must match the bitwidth of `unpacked_dtype` for unpack_elementwise",
        "packed elements are words of the width that they get",
        (
            "see bytes as words first: pltpu.bitcast(x, jnp.uint32), of a quarter of the rows",
            "or take 4-bit elements out of bytes by arithmetic: "
            "(x.astype(jnp.int32) << 28) >> 28, and x.astype(jnp.int32) >> 4",
        ),
    ),
)
