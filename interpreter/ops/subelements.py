"""Packing on vector subcores, whose registers have one dimension (spec/tpu_dialect.md 3.4).

*Interleaved*: element n of source k is element `n * parts + k`. *Compressed*: the sources follow
one another.
"""

# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import numpy as np

from pallasite.dialects import tpu
from pallasite.dialects.tpu.keywords import PackFormat
from pallasite.interpreter.meanings import Facts, Function
from pallasite.interpreter.ops.convert import converter
from pallasite.interpreter.values import Array, poison, width


def pack(op: tpu.PackSubelementsOp, facts: Facts) -> Function:
    """Elements that no source gives are poison."""
    source, result = op.sources[0].type, op.result.type
    parts, shape = width(source) // width(result), result.get_shape()
    convert = converter(source, result, signed=not bool(op.unsigned_integers.value.data))
    order = {int(p): k for k, p in enumerate(op.positions.get_values())}
    absent = poison(source, source.get_shape(), facts.poison)
    axis = -1 if op.pack_format.data is PackFormat.INTERLEAVED else 0

    def function(*sources: Array) -> Array:
        placed = [sources[order[p]] if p in order else absent for p in range(parts)]
        return convert(np.stack(placed, axis).reshape(shape))

    return function


def unpack(op: tpu.UnpackSubelementsOp) -> Function:
    """Integers that are not extended keep undefined high bits; here they are sign bits."""
    source, result = op.source.type, op.result.type
    parts, index = width(result) // width(source), op.index.value.data
    convert = converter(source, result, signed=not bool(op.unsigned_integers.value.data))
    if op.pack_format.data is PackFormat.INTERLEAVED:
        return lambda x: convert(x.reshape(-1)[index::parts])
    count = result.get_shape()[0]
    return lambda x: convert(x.reshape(-1)[index * count : (index + 1) * count])
