"""Packing several narrow elements into one word, and back (spec/tpu_dialect.md section 3.4).

*Interleaved*: element s of a packed word comes from element s // n of source s % n. *Compressed*:
the rows of the sources are laid one after the other, where a row of a packed register is
sublane * p + element.
"""

# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from ml_dtypes import bfloat16
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute

from pallasite.dialects import tpu
from pallasite.dialects.registers import check_same_grid
from pallasite.dialects.tpu.keywords import PackFormat
from pallasite.dialects.types import shape_of
from pallasite.interpreter.meanings import Facts, Function, Narrowing, elementwise, meaning
from pallasite.interpreter.ops import subelements
from pallasite.interpreter.ops.convert import converter
from pallasite.interpreter.values import (
    Array,
    bits_of,
    carrier,
    from_words,
    is_float,
    poison,
    signed_dtype,
    storage_float,
    to_words,
    unsigned_dtype,
    values_of,
    width,
)
from pallasite.layouts.registers import packing


def _explicit(x: Array, packing: int) -> Array:
    """A register with its trailing dimension of elements, even when that is 1."""
    return x[..., None] if packing == 1 else x


def _implicit(x: Array) -> Array:
    return x[..., 0] if x.shape[-1] == 1 else x


def _rows(x: Array) -> Array:
    """(..., sublanes, lanes, p) as rows (..., sublanes * p, lanes)."""
    turned = x.swapaxes(-1, -2)
    *lead, sublanes, packing, lanes = turned.shape
    return turned.reshape(*lead, sublanes * packing, lanes)


def _registers(rows: Array, packing: int) -> Array:
    """The inverse of `_rows`."""
    *lead, count, lanes = rows.shape
    return rows.reshape(*lead, count // packing, packing, lanes).swapaxes(-1, -2)


def _by_rows(grid: list[int], rows: int, lanes: int, dtype: Any) -> Array:
    """Room for rows of registers, in memory as loaded grids are: by rows of the matrix."""
    *lead, columns = grid or [1]
    found = np.empty((*lead, rows, columns, lanes), dtype).swapaxes(-2, -3)
    return found.reshape(*grid, rows, lanes)


def _packing(type: Attribute) -> int:
    return packing(width(type))


@meaning(tpu.PackSubelementsOp)
def pack_subelements(op: tpu.PackSubelementsOp, facts: Facts) -> Function:
    """Packs several registers into one of narrower elements, in the format of `op`.

    Positions of the result that `op` does not name are poison. Floats that become integers are
    rounded to the nearest.
    """
    source, result = op.sources[0].type, op.result.type
    if source.get_num_dims() == 1:
        return subelements.pack(op, facts)
    check_same_grid(op, source, result)
    before, after = _packing(source), _packing(result)
    parts = after // before
    convert = converter(source, result, signed=not bool(op.unsigned_integers.value.data))
    order = {int(p): k for k, p in enumerate(op.positions.get_values())}
    absent = poison(source, source.get_shape(), facts.poison)

    def placed(sources: Sequence[Array]) -> list[Array]:
        return [sources[order[p]] if p in order else absent for p in range(parts)]

    shape = result.get_shape()
    if op.pack_format.data is PackFormat.INTERLEAVED:
        dtype = carrier(source)

        def interleave(*sources: Array) -> Array:
            word = np.empty(shape, dtype)
            for position, part in enumerate(placed(sources)):
                word[..., position::parts] = _explicit(part, before)
            return convert(word)

        return interleave

    narrow = storage_float(result) if is_float(source) else None
    if narrow is not None:
        found = _compressed_floats(placed, narrow, shape[-2], before, after)
        return _of_any_shape(found) if len(order) == parts else found

    def compress(*sources: Array) -> Array:
        return _registers(convert(np.concatenate(_all_rows(placed(sources), before), -2)), after)

    # Poison is that of one register, and would have to be repeated.
    return _of_any_shape(compress) if len(order) == parts else compress


def _all_rows(sources: Sequence[Array], packing: int) -> list[Array]:
    """The rows of elements of registers that have `packing` of them in a word."""
    return [x if packing == 1 else _rows(x) for x in sources]


def _compressed_floats(
    placed: Callable[[Sequence[Array]], list[Array]],
    narrow: Any,
    across: int,
    before: int,
    after: int,
) -> Function:
    """Packs floats into registers of `across` lanes and type `narrow`, rounding each source as it
    is written; `before` and `after` are the elements per word of the sources and of the result."""

    def rounded(*sources: Array) -> Array:
        rows = _all_rows(placed(sources), before)
        is_column = all(part.strides[-1] == 0 for part in rows)
        if is_column:
            rows = [part[..., :1] for part in rows]
        *grid, height, lanes = rows[0].shape
        packed = _by_rows(grid, len(rows) * height, lanes, narrow)
        for place, part in enumerate(rows):
            packed[..., place * height : (place + 1) * height, :] = part
        found = _registers(packed.astype(np.float32), after)
        if not is_column:
            return found
        return np.broadcast_to(found, (*found.shape[:-2], across, found.shape[-1]))

    if narrow is not bfloat16:
        # Written in place, some NaNs of 8-bit floats would be bytes that ml_dtypes does not make.
        return rounded

    def into(*operands: Array) -> None:
        """`rounded`, written to a view of memory: a row of a register holds those of two, or four,
        rows of its sources."""
        *sources, target = operands
        elements: Array = target.view(cast(Any, narrow))
        for place, rows in enumerate(_all_rows(placed(sources), before)):
            sublanes = rows.shape[-2] // after
            run = slice(place * sublanes, (place + 1) * sublanes)
            elements[..., run, :, :] = _registers(rows, after)

    return Narrowing(rounded, into)


def _of_any_shape(fn: Function) -> Function:
    """`fn`, which takes more dimensions in front as well."""
    parts = (fn.whole, fn.into) if isinstance(fn, Narrowing) else (fn,)
    for part in parts:
        elementwise(part, spreads=False)
    return fn


@meaning(tpu.UnpackSubelementsOp)
def unpack_subelements(op: tpu.UnpackSubelementsOp, facts: Facts) -> Function:
    """Integers that are not extended keep undefined high bits; here they are sign bits."""
    source, result = op.source.type, op.result.type
    if result.get_num_dims() == 1:
        return subelements.unpack(op)
    check_same_grid(op, source, result)
    before, after = _packing(source), _packing(result)
    parts, index = before // after, op.index.value.data
    convert = converter(source, result, signed=not bool(op.unsigned_integers.value.data))
    if op.pack_format.data is PackFormat.INTERLEAVED:
        return elementwise(lambda x: convert(_implicit(x[..., index::parts])), spreads=False)
    sublanes = source.get_shape()[-3]
    if sublanes % parts == 0:
        # The wanted rows are whole sublanes of the packed register.
        run = slice(index * sublanes // parts, (index + 1) * sublanes // parts)
        return elementwise(
            lambda x: convert(_implicit(_registers(_rows(x[..., run, :, :]), after))), spreads=False
        )
    rows = slice(index * sublanes * after, (index + 1) * sublanes * after)
    return elementwise(
        lambda x: convert(_implicit(_registers(_rows(x)[..., rows, :], after))), spreads=False
    )


@meaning(tpu.PackElementwiseOp, by_element=True)
def pack_elementwise(op: tpu.PackElementwiseOp, facts: Facts) -> Function:
    """Source k goes to the k-th lowest field of each word; floats round, integers truncate."""
    target = VectorType(op.target_type, shape_of(op.result.type))
    convert, bits = converter(op.sources[0].type, target), bits_of(target)
    field, whole = width(target), width(op.result.type)
    unsigned, signed = unsigned_dtype(whole), signed_dtype(whole)

    def function(*sources: Array) -> Array:
        word = bits(convert(sources[0])).astype(unsigned)
        for position, source in enumerate(sources[1:], 1):
            part = bits(convert(source)).astype(unsigned)
            word = word | (part << unsigned(position * field))
        return word.view(signed)

    return function


@meaning(tpu.UnpackElementwiseOp, by_element=True)
def unpack_elementwise(op: tpu.UnpackElementwiseOp, facts: Facts) -> Function:
    """Field `index` of each word; bf16 widens to f32, integers extend with their sign."""
    kind = VectorType(op.source_type, shape_of(op.source.type))
    field, whole = width(kind), width(op.source.type)
    unsigned, narrow = unsigned_dtype(whole), unsigned_dtype(field)
    shift, mask = unsigned(op.index.value.data * field), unsigned((1 << field) - 1)
    values = values_of(kind)
    convert = converter(kind, op.result.type)
    return lambda x: convert(values(((x.view(unsigned) >> shift) & mask).astype(narrow)))


@meaning(tpu.BitcastVregOp)
def bitcast_vreg(op: tpu.BitcastVregOp, facts: Facts) -> Function:
    """The same words read as another element type."""
    source, result = op.input.type, op.result.type
    if source == result:
        return lambda x: x
    return lambda x: from_words(to_words(x, source), result)
