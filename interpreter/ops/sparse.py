"""Scans and sorts along the minor dimension, which only SparseCores have.

Rules: spec/tpu_dialect.md section 3.6. Integers compare as unsigned in maxima, minima and keys, as
the hardware compares them; the front end flips sign bits where it means signed ones.
"""

# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import i1

from pallasite.dialects import tpu
from pallasite.dialects.tpu.keywords import ReductionKind
from pallasite.dialects.types import AnyVector, element_type, shape_of
from pallasite.interpreter.meanings import Facts, Function, meaning
from pallasite.interpreter.ops.kinds import unsupported
from pallasite.interpreter.values import (
    Array,
    carrier,
    is_float,
    rounder,
    unsigned_dtype,
    width,
)

_SCANS = {
    ReductionKind.SUM: np.add,
    ReductionKind.MAX: np.maximum,
    ReductionKind.MIN: np.minimum,
}


@meaning(tpu.ScanOp)
def scan(op: tpu.ScanOp, facts: Facts) -> Function:
    """Inclusive. A masked-off lane repeats the running value; before the first lane that takes part
    the input passes through (`plsc.cummax`)."""
    result, kind = op.output.type, ReductionKind(op.kind.data)
    if kind not in _SCANS:
        raise unsupported(op, f"kind {kind}")
    run = _running(op, kind)
    if op.mask is None:
        return run
    neutral = _neutral(kind, result)

    def masked(x: Array, mask: Array) -> Array:
        taking = np.broadcast_to(mask, x.shape)
        running = run(np.where(taking, x, neutral))
        return np.where(np.logical_or.accumulate(taking, axis=-1), running, x)

    return masked


def _running(op: tpu.ScanOp, kind: ReductionKind) -> Function:
    source, result, ufunc = op.input.type, op.output.type, _SCANS[kind]
    dtype = carrier(result)
    if element_type(source) == i1:
        return lambda x: np.add.accumulate(x, axis=-1, dtype=dtype)
    if is_float(source):
        finish = rounder(result)
        return lambda x: finish(ufunc.accumulate(x, axis=-1))
    if ufunc is np.add:
        return lambda x: ufunc.accumulate(x, axis=-1, dtype=dtype)
    unsigned = unsigned_dtype(width(source))
    return lambda x: ufunc.accumulate(x.view(unsigned), axis=-1).view(dtype)


def _neutral(kind: ReductionKind, type: AnyVector) -> Any:
    """What a masked-off lane contributes; the greatest unsigned integer is -1."""
    dtype = carrier(type).type
    if kind is ReductionKind.SUM:
        return dtype(0)
    if is_float(type):
        return dtype(-np.inf if kind is ReductionKind.MAX else np.inf)
    return dtype(0 if kind is ReductionKind.MAX else -1)


@meaning(tpu.ScanCountOp)
def scan_count(op: tpu.ScanCountOp, facts: Facts) -> Function:
    """How often each value has occurred so far, and which occurrence of it is the last."""
    shape = shape_of(op.values.type)

    def function(mask: Array, values: Array) -> tuple[Array, Array]:
        same = (values[..., :, None] == values[..., None, :]) & mask[..., None, :]
        earlier = np.tril(np.ones((shape[-1], shape[-1]), np.bool_))
        counts = np.where(mask, np.count_nonzero(same & earlier, axis=-1), 1)
        last = mask & ~(same & ~earlier).any(axis=-1)
        return last, counts.astype(np.int32)

    return function


@meaning(tpu.SortOp)
def sort(op: tpu.SortOp, facts: Facts) -> Function:
    """Stable; pairs that are masked off go to the end in their order, where the result's mask is
    false (JAX's tests of `plsc.sort_key_val`, which its authors run on chips)."""
    floats, descending = is_float(op.keys.type), bool(op.descending.value.data)
    shape = shape_of(op.keys.type)
    everything = np.ones(shape, np.bool_)

    def ranks(keys: Array) -> Array:
        if floats:
            return -keys if descending else keys
        unsigned = keys.view(np.uint32)
        return ~unsigned if descending else unsigned

    def function(keys: Array, values: Array, mask: Array = everything) -> tuple[Array, ...]:
        taking = np.broadcast_to(mask, shape)
        wanted = ranks(keys)
        order = np.lexsort((np.where(taking, wanted, wanted.dtype.type(0)), ~taking), axis=-1)
        return tuple(np.take_along_axis(x, order, -1) for x in (taking, keys, values))

    return function
