"""Carriers: how run-time values of MLIR types are held in Python.

| element type | vector carrier | scalar carrier |
| --- | --- | --- |
| f32 | float32 | `numpy.float32` |
| bf16, f16, f8*, f6*, f4* | float32, every value representable in the type | `numpy.float32` |
| i1 | bool | `bool` |
| i8, i16, i32 | signed NumPy integer of that width | `int`, signed |
| i4, i2 | int8, sign-extended | `int`, signed |
| index | int64 | `int` |

A vector value is an array of the vector type's shape. Packed words follow the register picture
(spec/vreg_lowering.md section 1.1): the trailing dimension of size 32/bits goes to the bits of one
uint32, element 0 lowest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    IndexType,
    IntegerType,
)
from xdsl.ir import Attribute

from pallasite.diagnostics import Unsupported
from pallasite.dialects import types
from pallasite.dialects.integers import wrap
from pallasite.dialects.types import element_type
from pallasite.interpreter.process import default_floats

Array = NDArray[Any]

NARROW_FLOATS: dict[str, Any] = {
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3": ml_dtypes.float8_e4m3,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
    "f8E3M4": ml_dtypes.float8_e3m4,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
    "f6E2M3FN": ml_dtypes.float6_e2m3fn,
    "f6E3M2FN": ml_dtypes.float6_e3m2fn,
    "f4E2M1FN": ml_dtypes.float4_e2m1fn,
}
"""Storage types of the floats narrower than f32, by their MLIR names."""

_FRACTIONS = {"f8E5M2": 2, "f8E4M3": 3, "f8E3M4": 4}

POISON_WORDS = (0x7FFF7FFF, 0xD5A6D5A6)
"""Undefined words: a NaN in every float type that has one in all-ones; and a large finite value."""

_SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
_UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


class quiet:
    """The context in which meanings run: IEEE results, no NumPy warnings."""

    __slots__ = ("_errors", "_floats")

    def __enter__(self) -> None:
        self._floats, self._errors = default_floats(), np.errstate(all="ignore")
        self._floats.__enter__()
        self._errors.__enter__()

    def __exit__(self, *error: object) -> None:
        self._errors.__exit__(None, None, None)
        self._floats.__exit__()


def is_float(type: Attribute) -> bool:
    """Whether elements of `type` are held as float32."""
    return types.is_float(element_type(type))


def width(type: Attribute) -> int:
    """Bits of one element of `type`; `index` counts as its 64-bit carrier."""
    element = element_type(type)
    if isinstance(element, IntegerType):
        return element.width.data
    if isinstance(element, IndexType):
        return 64
    if element.name == "tpu.float8_exmy":
        return 8
    if isinstance(element, AnyFloat):
        return element.bitwidth
    raise _no_carrier(element)


def _no_carrier(element: Attribute) -> Unsupported:
    return Unsupported("no-carrier", f"values of type {element} cannot be held at run time")


def signed_dtype(bits: int) -> Any:
    """The NumPy integer that carries signless integers of `bits` bits (i4 and i2: int8)."""
    return _SIGNED[max(bits, 8)]


def unsigned_dtype(bits: int) -> Any:
    """The unsigned twin of `signed_dtype(bits)`."""
    return _UNSIGNED[max(bits, 8)]


@lru_cache(maxsize=4096)
def carrier(type: Attribute) -> np.dtype[Any]:
    """The NumPy dtype that carries elements of `type` (an element, vector or memref type)."""
    element = element_type(type)
    if isinstance(element, IntegerType):
        bits = element.width.data
        if bits == 1:
            return np.dtype(np.bool_)
        if bits in (2, 4, 8, 16, 32, 64):
            return np.dtype(signed_dtype(bits))
        raise _no_carrier(element)
    if isinstance(element, IndexType):
        return np.dtype(np.int64)
    if isinstance(element, Float32Type) or storage_float(element) is not None:
        return np.dtype(np.float32)
    raise _no_carrier(element)


@lru_cache(maxsize=4096)
def storage_float(type: Attribute) -> Any:
    """The ml_dtypes (or float16) scalar type of a float narrower than f32, else None."""
    element = element_type(type)
    if element.name == "tpu.float8_exmy":
        element = _underlying(element)
    return NARROW_FLOATS.get(element.name)


def _underlying(element: Attribute) -> Attribute:
    parameters: tuple[Attribute, ...] = getattr(element, "parameters", ())
    if len(parameters) != 1:
        raise _no_carrier(element)
    return parameters[0]


def scalar(type: Attribute, value: Any) -> Any:
    """`value` as the scalar carrier of `type`: wrapped to the width, or rounded to the float."""
    if is_float(type):
        return np.float32(rounder(type)(np.float32(value)))
    bits = width(type)
    if bits == 1:
        return bool(value)
    return wrap(int(value), bits)


@lru_cache(maxsize=4096)
def rounder(type: Attribute) -> Callable[[Any], Any]:
    """The function that rounds float32 arrays or scalars to `type`; the identity for f32.

    Two ml_dtypes casts: round to nearest even, NaN stays NaN, overflow as ml_dtypes decides.
    """
    storage = storage_float(type)
    if storage is None:
        return _same
    return lambda array: array.astype(storage).astype(np.float32)


def _same(array: Any) -> Any:
    return array


def round_to(type: Attribute, array: Any) -> Any:
    """`array` (float32) with every value rounded to the float type `type`."""
    return rounder(type)(array)


@lru_cache(maxsize=4096)
def bits_of(type: Attribute) -> Callable[[Any], Array]:
    """The function from carriers of `type` to unsigned integers that hold the bit patterns.

    One integer per element, of 8, 16, 32 or 64 bits; narrower elements sit in the low bits.
    """
    element = element_type(type)
    if isinstance(element, BFloat16Type):
        return lambda a: (np.asarray(a).view(np.uint32) >> 16).astype(np.uint16)
    if isinstance(element, Float32Type):
        return lambda a: np.asarray(a).view(np.uint32)
    storage = storage_float(element)
    if storage is not None:
        if (fraction := _fraction_of_nans(element)) is not None:
            return lambda a: _with_nans(np.asarray(a), storage, fraction)
        unsigned = np.uint16 if isinstance(element, Float16Type) else np.uint8
        return lambda a: np.asarray(a).astype(storage).view(unsigned)
    bits = width(element)
    if bits == 1:
        return lambda a: np.asarray(a).astype(np.uint8)
    unsigned = unsigned_dtype(bits)
    if bits < 8:
        mask = np.uint8((1 << bits) - 1)
        return lambda a: np.asarray(a).view(np.uint8) & mask
    return lambda a: np.asarray(a).view(unsigned)


@lru_cache(maxsize=4096)
def values_of(type: Attribute) -> Callable[[Array], Array]:
    """The inverse of `bits_of(type)`; bits above the element's width are ignored."""
    element = element_type(type)
    if isinstance(element, BFloat16Type):
        return lambda u: (u.astype(np.uint32) << 16).view(np.float32)
    if isinstance(element, Float32Type):
        return lambda u: u.view(np.float32)
    storage = storage_float(element)
    if storage is not None:
        if (fraction := _fraction_of_nans(element)) is not None:
            table = _table_with_nans(storage, fraction)
            return lambda u: table[u]
        return lambda u: _masked(u, element).view(storage).astype(np.float32)
    bits = width(element)
    if bits == 1:
        return lambda u: (u & 1).astype(np.bool_)
    if bits < 8:
        shift = 8 - bits
        return lambda u: (u << shift).view(np.int8) >> shift
    signed = signed_dtype(bits)
    return lambda u: u.view(signed)


def _fraction_of_nans(element: Attribute) -> int | None:
    """Bits of the fraction of a type of one byte that has several NaNs, else None.

    ml_dtypes makes all of them one, but what only moves a number, or takes its bits for those of
    another type, keeps them. So the carrier has the fraction in its highest bits, as that of bf16.
    """
    return _FRACTIONS.get(_storage_name(element))


def _table_with_nans(storage: Any, fraction: int) -> Array:
    """The carriers of all bytes."""
    patterns = np.arange(256, dtype=np.uint8)
    words = patterns.astype(np.uint32)
    fractions = (words & ((1 << fraction) - 1)) << (23 - fraction)
    nans = (((words & 0x80) << 24) | 0x7F800000 | fractions).view(np.float32)
    numbers = patterns.view(storage)
    return np.where(np.isnan(numbers), nans, numbers.astype(np.float32))


def _with_nans(array: Array, storage: Any, fraction: int) -> Array:
    """The bytes of carriers; a NaN whose fraction does not fit into them is the quiet one."""
    nan = np.isnan(array)
    if not nan.any():
        return array.astype(storage).view(np.uint8)
    words = array.view(np.uint32)
    kept = (words >> (23 - fraction)) & ((1 << fraction) - 1)
    kept = np.where(kept == 0, 1 << (fraction - 1), kept)
    nans = ((words >> 24) & 0x80) | (0x7F & -(1 << fraction)) | kept
    numbers = np.where(nan, np.float32(0), array).astype(storage).view(np.uint8)
    return np.where(nan, nans, numbers).astype(np.uint8)


def _storage_name(element: Attribute) -> str:
    return _underlying(element).name if element.name == "tpu.float8_exmy" else element.name


def _masked(bits: Array, element: Attribute) -> Array:
    name = _storage_name(element)
    narrow = {"f6": 0x3F, "f4": 0x0F}.get(name[:2])
    return bits if narrow is None else bits & np.uint8(narrow)


def pack_words(bits: Array, element_bits: int) -> Array:
    """Packs the last axis (a multiple of 32/bits) into uint32 words, element 0 lowest."""
    if element_bits == 32:
        return bits
    packing = 32 // element_bits
    if element_bits >= 8:
        words = np.ascontiguousarray(bits).view(np.uint32)
    else:
        grouped = bits.reshape(*bits.shape[:-1], -1, packing).astype(np.uint32)
        shifts = np.arange(packing, dtype=np.uint32) * np.uint32(element_bits)
        words = np.bitwise_or.reduce(grouped << shifts, axis=-1)
    return words[..., 0] if bits.shape[-1] == packing else words


def unpack_words(words: Array, element_bits: int) -> Array:
    """Splits uint32 words into a new last axis of 32/bits elements, the lowest bits first."""
    if element_bits == 32:
        return words
    if element_bits >= 8:
        split = np.ascontiguousarray(words[..., None]).view(unsigned_dtype(element_bits))
        return split
    shifts = np.arange(32 // element_bits, dtype=np.uint32) * np.uint32(element_bits)
    mask = np.uint32((1 << element_bits) - 1)
    return ((words[..., None] >> shifts) & mask).astype(np.uint8)


def to_words(array: Array, type: Attribute) -> Array:
    """The physical words of `array`: its last axis of size 32/bits packs into one uint32."""
    if isinstance(element_type(type), BFloat16Type):
        # A bf16 carrier is the element's bits above 16 zeros.
        bits = array.view(np.uint32)
        return (bits[..., 0] >> np.uint32(16)) | bits[..., 1]
    return pack_words(bits_of(type)(array), width(type))


def from_words(words: Array, type: Attribute) -> Array:
    """Inverse of `to_words`: carriers of `type`, with a new last axis if narrower than 32 bits."""
    if isinstance(element_type(type), BFloat16Type):
        # Rows of elements lie apart, which NumPy fills faster than the two of each word.
        *lead, lanes = words.shape
        bits = np.empty((*lead, 2, lanes), np.uint32)
        np.left_shift(words, np.uint32(16), out=bits[..., 0, :])
        np.bitwise_and(words, np.uint32(0xFFFF0000), out=bits[..., 1, :])
        return np.swapaxes(bits.view(np.float32), -1, -2)
    return values_of(type)(unpack_words(words, width(type)))


def poison(type: Attribute, shape: tuple[int, ...], pattern: int = 0) -> Array:
    """An undefined vector value: every element holds the low bits of `POISON_WORDS[pattern]`."""
    if element_type(type) == IntegerType(1):
        return np.full(shape, pattern == 0)
    if isinstance(element_type(type), IndexType):
        return np.full(shape, POISON_WORDS[pattern], np.int64)
    bits = width(type)
    word = POISON_WORDS[pattern] & ((1 << bits) - 1)
    return values_of(type)(np.full(shape, word, unsigned_dtype(bits)))


def accumulate(element: Attribute, old: Array, new: Array) -> Array:
    """`old + new` in carriers of `element`: floats round, integers wrap."""
    plus: Callable[[Array, Array], Array] = np.add
    total = plus(old, new)
    return round_to(element, total) if is_float(element) else total
