"""NumPy arrays at the boundary of a call, and the carriers they become inside.

The types of a call name signedness (`tensor<8xui8>`, `tensor<8xi1>`) that the kernel's memrefs do
not: unsigned is signless there, and bool arrays are i32 (spec/tpu_dialect.md section 4.3).
Element types that NumPy cannot name may arrive as raw bytes (`V1`, `V2`), as in `.npz` files.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import (
    IntegerType,
    Signedness,
    TensorType,
    f16,
    f32,
    f64,
)
from xdsl.ir import Attribute

from pallasite.diagnostics import Note, UsageError
from pallasite.interpreter import values
from pallasite.interpreter.values import Array

_INTEGERS = {2: "int2", 4: "int4", 8: "int8", 16: "int16", 32: "int32", 64: "int64"}


@cache
def dtype_of(element: Attribute) -> np.dtype[Any]:
    """The NumPy dtype of arrays whose call type has this element type."""
    if isinstance(element, IntegerType):
        bits = element.width.data
        if bits == 1:
            return np.dtype(np.bool_)
        name = _INTEGERS.get(bits)
        if name is not None:
            unsigned = element.signedness.data == Signedness.UNSIGNED
            name = "u" + name if unsigned else name
            return np.dtype(getattr(ml_dtypes if bits < 8 else np, name))
    elif element == f32:
        return np.dtype(np.float32)
    elif element == f64:
        return np.dtype(np.float64)
    else:
        storage = values.NARROW_FLOATS.get(element.name)
        if storage is not None:
            return np.dtype(storage)
    raise UsageError("array-type", f"arrays of {element} cannot be passed to a kernel")


@cache
def _by_name() -> dict[str, Attribute]:
    known: dict[str, Attribute] = {"bool": IntegerType(1), "float32": f32, "float16": f16}
    for bits, name in _INTEGERS.items():
        known[name] = IntegerType(bits)
        known["u" + name] = IntegerType(bits, Signedness.UNSIGNED)
    for name, storage in values.NARROW_FLOATS.items():
        known[np.dtype(storage).name] = _float_type(name)
    return known


def _float_type(name: str) -> Attribute:
    from xdsl.dialects import builtin

    for value in vars(builtin).values():
        if isinstance(value, type) and getattr(value, "name", None) == name:
            return value()
    raise ValueError(f"no float type {name}")


def element_named(name: Any) -> Attribute:
    """The element type of arrays whose dtype has this name (`"bfloat16"`, `numpy.int32`)."""
    text = str(name)
    if text not in _by_name():
        try:
            text = np.dtype(name).name
        except TypeError:
            pass
    known = _by_name().get(text)
    if known is None:
        raise UsageError("array-type", f"unknown element type {str(name)!r}")
    return known


def tensor_of(shape: tuple[int, ...], element: Attribute) -> TensorType[Attribute]:
    """The call type of an array."""
    return TensorType(element, shape)


def type_text(type: TensorType[Attribute]) -> str:
    """`float32[8, 128]`, the way people write array types."""
    return f"{dtype_of(type.element_type).name}{list(type.get_shape())}"


def as_array(value: Any, what: str) -> Array:
    """`value` as NumPy sees it; a `UsageError` if it has no shape, or is masked."""
    if isinstance(value, np.ma.MaskedArray):
        raise UsageError(
            "array-mismatch",
            f"expected an array for {what}, got a masked one",
            notes=[Note("a kernel sees every element: fill in what is masked, array.filled(0)")],
        )
    try:
        return np.asarray(value)
    except Exception as error:  # an object's own way of becoming an array may raise anything
        raise UsageError("array-mismatch", f"expected an array for {what}: {error}") from error


_NO_NUMBERS = {"U": "strings", "S": "bytes", "O": "objects", "M": "dates", "m": "durations"}
"""What NumPy's kinds of elements are called that are no numbers."""


def checked(array: Any, type: TensorType[Attribute], what: str) -> Array:
    """`array` with the dtype of `type`; a `UsageError` if its shape or dtype is another one."""
    array = as_array(array, what)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    expected = dtype_of(type.element_type)
    if array.dtype == np.bool_ and expected == np.int32:
        # JAX programs convert before the call; bool is what their author passes.
        array = array.astype(np.int32)
    plain = array.dtype.kind == "V" and array.dtype.names is None
    raw = plain and array.dtype.itemsize == expected.itemsize
    if array.dtype == expected or (raw and array.dtype not in _extended()):
        if array.shape == type.get_shape():
            return array.view(expected) if raw else array
    what_it_holds = _NO_NUMBERS.get(array.dtype.kind)
    if array.dtype.names is not None:
        what_it_holds = "records"
    elif plain and array.dtype not in _extended():
        what_it_holds = f"raw elements of {8 * array.dtype.itemsize} bits"
    got = f"{what_it_holds or array.dtype.name}{list(array.shape)}"
    notes: list[Note] = []
    wrong_type = not raw and array.dtype != expected and not what_it_holds
    if wrong_type and array.shape == type.get_shape():
        home = "ml_dtypes" if expected in _extended() else "numpy"
        notes = [Note(f"convert it: array.astype({home}.{expected.name})")]
    message = f"expected {type_text(type)} for {what}, got {got}"
    raise UsageError("array-mismatch", message, notes=notes)


@cache
def _extended() -> frozenset[np.dtype[Any]]:
    # ml_dtypes' own dtypes are of kind V as well; they are not raw bytes.
    names = [getattr(ml_dtypes, n) for n in ("int2", "uint2", "int4", "uint4")]
    return frozenset(np.dtype(t) for t in [*names, *values.NARROW_FLOATS.values()])


def to_carrier(array: Array, element: Attribute) -> Array:
    """The carrier, for memory of `element`, of an array as `checked` gives it."""
    if values.is_float(element):
        if array.dtype == np.float32:
            return array
        return values.values_of(element)(_unsigned_view(array))
    carrier = values.carrier(element)
    if array.dtype.itemsize == carrier.itemsize and array.dtype.kind in "iu":
        return array.view(carrier)
    return array.astype(carrier)


def from_carrier(array: Array, element: Attribute, dtype: np.dtype[Any]) -> Array:
    """The array of `dtype` that memory of `element` holds."""
    if dtype == np.bool_:
        return array != 0
    if values.is_float(element):
        return np.ascontiguousarray(values.bits_of(element)(array)).view(dtype)
    if array.dtype.itemsize == dtype.itemsize and dtype.kind in "iu":
        return np.ascontiguousarray(array).view(dtype)
    return array.astype(dtype)


def _unsigned_view(array: Array) -> Array:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
