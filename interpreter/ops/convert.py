"""How one element type becomes another; shared by the conversions and by pack and unpack.

Floats round to nearest even or toward zero. A float that does not fit an integer saturates and NaN
becomes 0, as in JAX (spec/pallas_semantics.md section 4.3). Integers wrap when they narrow.
"""

# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from typing import Any

import numpy as np
from ml_dtypes import finfo
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute

from pallasite.dialects.integers import greatest, least, wrap
from pallasite.dialects.types import element_type
from pallasite.interpreter.meanings import Function
from pallasite.interpreter.ops.kinds import (
    from_unsigned,
    is_vector,
    sign_extend,
    to_signed,
    to_unsigned,
)
from pallasite.interpreter.values import (
    Array,
    bits_of,
    is_float,
    rounder,
    signed_dtype,
    storage_float,
    unsigned_dtype,
    values_of,
    width,
)


def float_to_float(result: Attribute, *, towards_zero: bool = False) -> Function:
    """Rounds float32 carriers to `result`; the identity where every value fits."""
    if storage_float(result) is None:
        return lambda x: x
    return _truncate(result) if towards_zero else rounder(result)


def _truncate(result: Attribute) -> Function:
    """Rounds to nearest, then steps back where that went away from zero.

    The magnitude bits of every float type count upwards, infinity one above the largest number.
    """
    nearest, bits, values = rounder(result), bits_of(result), values_of(result)
    unsigned = unsigned_dtype(width(result))
    largest = largest_finite(result)

    def function(x: Any) -> Any:
        size = np.abs(np.asarray(x, np.float32))
        near = nearest(size)
        beyond = near > size
        stepped = values((bits(near) - beyond.astype(unsigned)).astype(unsigned))
        lost = np.isnan(stepped) & ~np.isnan(size)
        return nearest(np.copysign(np.where(lost, largest, stepped), x))

    return function


def largest_finite(type: Attribute) -> np.float32:
    """The largest number of a float type of at most 16 bits."""
    bits = width(type)
    unsigned = unsigned_dtype(bits)
    every = values_of(type)(np.arange(1 << (bits - 1), dtype=unsigned))
    return np.float32(every[np.isfinite(every)].max())


def smallest_normal(type: Attribute) -> np.float32:
    """The smallest number of a float type, above zero, that is not denormal."""
    return np.float32(finfo(storage_float(type) or np.float32).smallest_normal)


_SAFE = 1 << 30


def float_to_integer(
    result: Attribute, *, signed: bool = True, to_nearest: bool = False
) -> Function:
    """Converts float carriers to the integer type `result`, saturating."""
    bits = width(result)
    low, high = (least(bits), greatest(bits)) if signed else (0, (1 << bits) - 1)
    integral: Function = np.rint if to_nearest else np.trunc
    if not is_vector(result):

        def scalar(x: Any) -> Any:
            if x != x:
                value = 0
            elif np.isinf(x):
                value = high if x > 0 else low
            else:
                value = min(max(int(integral(x)), low), high)
            return bool(value & 1) if bits == 1 else wrap(value, bits)

        return scalar
    wide = np.int64 if bits == 32 and not signed else np.int32
    narrow = narrow_integer(result)

    def saturated(x: Any) -> Any:
        # The highest 32-bit integers are no float32: clip in float64, where they are.
        value = np.clip(integral(x).astype(np.float64), low, high)
        return narrow(np.where(value == value, value, 0).astype(np.int64))

    def vector(x: Any) -> Any:
        value = (np.rint(x) if to_nearest else x).astype(wide)
        # What a float beyond int32 becomes is up to the processor; none can be within 2**30.
        smallest, largest = (value.min(), value.max()) if value.size else (0, 0)
        if smallest < -_SAFE or largest > _SAFE or np.isnan(x).any():
            return saturated(x)
        if smallest < low or largest > high:
            value = np.minimum(np.maximum(value, low), high)
        return value if bits == 32 and signed else narrow(value)

    return vector


def integer_to_float(
    source: Attribute, result: Attribute, *, signed: bool = True, towards_zero: bool = False
) -> Function:
    """Converts integer carriers to float carriers of `result`, through float32."""
    value = to_signed(source) if signed else to_unsigned(source)
    finish = float_to_float(result, towards_zero=towards_zero)
    if not is_vector(result):
        return lambda x: np.float32(finish(_to_float32(value(x), towards_zero)))
    if width(source) <= 16 or not towards_zero:
        return lambda x: finish(value(x).astype(np.float32))
    return lambda x: finish(_to_float32(value(x), towards_zero))


def _to_float32(value: Any, towards_zero: bool) -> Any:
    """To nearest by NumPy; toward zero by one step back where that overshot."""
    exact = np.asarray(value).astype(np.float64)
    near = exact.astype(np.float32)
    if towards_zero:
        beyond = np.abs(near.astype(np.float64)) > np.abs(exact)
        near = np.where(beyond, np.nextafter(near, np.float32(0)), near)
    return near


def narrow_integer(result: Attribute) -> Function:
    """Wraps a NumPy integer array of any width to the integer type `result`."""
    bits = width(result)
    if bits == 1:
        return lambda array: (array & 1).astype(np.bool_)
    if bits < 8:
        return lambda array: sign_extend(array.astype(np.int8), bits)
    dtype = signed_dtype(bits)
    return lambda array: array.astype(dtype)


def integer_to_integer(source: Attribute, result: Attribute, *, signed: bool = True) -> Function:
    """Widens with the sign or with zeros, or wraps."""
    value = to_signed(source) if signed else to_unsigned(source)
    if is_vector(result):
        narrow = narrow_integer(result)
        return lambda x: narrow(value(x))
    if isinstance(result, IndexType):
        return value
    bits = width(result)
    if bits == 1:
        return lambda x: bool(x & 1)
    return lambda x: wrap(value(x), bits)


def converter(source: Attribute, result: Attribute, *, signed: bool = True) -> Function:
    """Converts vectors between any two types, floats to nearest even, integers by value."""
    if is_float(source):
        if is_float(result):
            return float_to_float(result)
        return float_to_integer(result, signed=signed, to_nearest=True)
    if is_float(result):
        return integer_to_float(source, result, signed=signed)
    return integer_to_integer(source, result, signed=signed)


def reinterpret(source: Attribute, result: Attribute) -> Function:
    """The same bits under another type of the same width."""
    if is_vector(result):
        before, after = element_type(source), element_type(result)
        if before == after or not (is_float(before) or is_float(after)):
            return lambda x: x
        bits, values = bits_of(source), values_of(result)
        return lambda x: values(bits(x))
    return _reinterpret_scalar(source, result)


def _reinterpret_scalar(source: Attribute, result: Attribute) -> Function:
    bits, values = bits_of(source), values_of(result)
    if is_float(source) and is_float(result):
        if source == result:
            return lambda x: x
        return lambda x: np.float32(values(bits(np.asarray(x, np.float32))))
    if is_float(source):
        back = from_unsigned(result)
        return lambda x: back(int(bits(np.asarray(x, np.float32))))
    if is_float(result):
        forth, dtype = to_unsigned(source), unsigned_dtype(width(source))
        return lambda x: np.float32(values(np.asarray(forth(x), dtype)))
    return lambda x: x


def regroup(bits: Array, source_width: int, result_width: int) -> Array:
    """Bit patterns of a matrix re-split along rows: narrow rows r*P+k are parts of wide row r.

    The lowest bits are the first row (spec/tpu_dialect.md section 3.3, `bitcast`).
    """
    if source_width == result_width:
        return bits
    *lead, rows, columns = bits.shape
    if source_width > result_width:
        parts = source_width // result_width
        shifts = np.arange(parts, dtype=bits.dtype)[:, None] * bits.dtype.type(result_width)
        mask = bits.dtype.type((1 << result_width) - 1)
        split = (bits[..., None, :] >> shifts) & mask
        return split.astype(unsigned_dtype(result_width)).reshape(*lead, rows * parts, columns)
    parts = result_width // source_width
    dtype = unsigned_dtype(result_width)
    grouped = bits.reshape(*lead, rows // parts, parts, columns).astype(dtype)
    shifts = np.arange(parts, dtype=dtype)[:, None] * dtype(source_width)
    return np.bitwise_or.reduce(grouped << shifts, axis=-2)


def reinterpret_rows(source: Attribute, result: Attribute) -> Function:
    """`tpu.bitcast`: the same bits, rows regrouped when the width changes."""
    if width(source) == width(result):
        return reinterpret(source, result)
    bits, values = bits_of(source), values_of(result)
    before, after = width(source), width(element_type(result))
    return lambda x: values(regroup(bits(x), before, after))
