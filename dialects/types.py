"""Questions that every part asks about types and constants: widths, registers, tilings, splats."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from struct import pack
from typing import TYPE_CHECKING, Any, TypeAlias, cast, get_args

from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FixedBitwidthType,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefLayoutAttr,
    MemRefType,
    NoneAttr,
    VectorType,
    i1,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from pallasite.layouts import registers

if TYPE_CHECKING:
    import numpy as np

    from pallasite.layouts.tiling import Tiling

INDEX_WIDTH = 32
"""The scalar core computes indices in 32 bits."""

AnyVector: TypeAlias = VectorType[Attribute]
AnyMemRef: TypeAlias = MemRefType[Attribute]
Shaped = AnyVector | AnyMemRef
_SHAPED = frozenset({VectorType, MemRefType})
"""Asked of very many types: comparing classes, which are final, is many times as fast as
`isinstance`."""


def bit_width(type: Attribute) -> int:
    """The bits of one element of `type` (of `type` itself if it is not shaped)."""
    if type.__class__ in _SHAPED:
        type = cast(Shaped, type).element_type
    if type.__class__ is IntegerType:
        return cast(IntegerType, type).width.data
    if isinstance(type, FixedBitwidthType):
        return type.bitwidth
    if isinstance(type, IndexType):
        return INDEX_WIDTH
    # Semaphores are counted in words (spec/tpu_dialect.md section 1).
    return 32


_FLOATS = frozenset[Any](get_args(AnyFloat))


def is_float(type: Attribute) -> bool:
    """Whether `type`, a scalar or element type, is a float."""
    return type.__class__ in _FLOATS or type.name == "tpu.float8_exmy"


def is_vector(value: SSAValue) -> bool:
    """Whether `value` is a vector; `isinstance` is many times slower where it is not."""
    return value.type.__class__ is VectorType


def vector_type(value: SSAValue) -> VectorType[Attribute]:
    """The type of a value that is known to be a vector, as the operation's definition says."""
    return cast(VectorType[Attribute], value.type)


def element_type(type: Attribute) -> Attribute:
    """The element type of a vector or memref, else `type` itself."""
    return cast(Shaped, type).element_type if type.__class__ in _SHAPED else type


def element_of(value: SSAValue) -> Attribute:
    """The element type of a vector or memref `value`, else its type."""
    return element_type(value.type)


def shape_of(type: Attribute) -> tuple[int, ...]:
    """The shape of a vector or memref; a scalar has none."""
    return cast(Shaped, type).get_shape() if type.__class__ in _SHAPED else ()


def register_type(element: Attribute) -> VectorType[Attribute]:
    """The type of one register of `element`: 8x128, with packed elements in a third dimension.

    A mask (i1) is 8x128 here; a mask of packed data has the shape of that data's register.
    """
    width = bit_width(element)
    return vector_of(element, registers.register_shape(32 if width == 1 else width))


def split_grid(type: Attribute) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The grid and the register shape of a vector type, None if it is no grid of registers."""
    if not isinstance(type, VectorType):
        return None
    vector = cast(VectorType[Attribute], type)
    return registers.split_shape(vector.get_shape(), bit_width(vector))


def register_rank(type: VectorType[Attribute]) -> int:
    """How many trailing dimensions of a grid's type are within one register: 2, or 3 if packed."""
    split = split_grid(type)
    return len(split[1]) if split else len(register_type(type.element_type).get_shape())


def grid_shape(type: VectorType[Attribute]) -> tuple[int, ...]:
    """The register-grid dimensions of a grid's type: everything before the register itself."""
    shape = type.get_shape()
    return shape[: len(shape) - register_rank(type)]


def with_grid(type: VectorType[Attribute], grid: Sequence[int]) -> VectorType[Attribute]:
    """`type` with its register grid replaced."""
    shape = type.get_shape()
    return vector_of(type.element_type, (*grid, *shape[len(shape) - register_rank(type) :]))


def mask_type(type: VectorType[Attribute]) -> VectorType[Attribute]:
    """The i1 vector of the same shape."""
    return vector_of(i1, type.get_shape())


@lru_cache(maxsize=4096)
def vector_of(element: Attribute, shape: tuple[int, ...]) -> VectorType[Attribute]:
    """A vector type, made once: its verification is a fifth of the time of lowering to tiles."""
    return VectorType(element, shape)


@lru_cache(maxsize=4096, typed=True)
def integer_attribute(value: int, kind: IntegerType) -> IntegerAttr[IntegerType]:
    """`value : kind`, made once."""
    return IntegerAttr(value, kind)


@lru_cache(maxsize=4096, typed=True)
def array_attribute(kind: IntegerType, *values: int) -> DenseArrayBase[IntegerType]:
    """`array<kind: values>`, made once."""
    return DenseArrayBase.from_list(kind, values)


def dense_integers(values: Sequence[int]) -> DenseArrayBase[IntegerType]:
    """`array<i64: values>`. Few numbers are likely to come again (offsets, sizes and orders of
    dimensions), so their arrays are made once."""
    return _few(*values) if len(values) <= _FEW else _dense_integers(values)


_FEW = 16


@lru_cache(maxsize=4096)
def _few(*values: int) -> DenseArrayBase[IntegerType]:
    return _dense_integers(values)


def _dense_integers(values: Sequence[int]) -> DenseArrayBase[IntegerType]:
    # Thousands of register numbers: packed at once, not checked and converted one by one.
    return DenseArrayBase(i64, BytesAttr(pack(f"<{len(values)}q", *values)))


def integers_in(array: DenseArrayBase[Any]) -> tuple[int, ...]:
    """The integers that an attribute lists; equal lists are unpacked once."""
    data = array.data.data
    unpacked = _unpacked if len(data) <= FEW_BYTES else _unpacked.__wrapped__
    return unpacked(array.elt_type.width.data, data)


FEW_BYTES = 512
"""Longer lists number registers, any of which there may be; they are not kept unpacked."""


@lru_cache(maxsize=4096)
def _unpacked(width: int, data: bytes) -> tuple[int, ...]:
    kind = IntegerType(width)
    return kind.unpack(data, len(data) // kind.size)


@lru_cache(maxsize=4096)
def memref_of(
    element: Attribute,
    shape: tuple[int, ...],
    space: Attribute | None = None,
    layout: MemRefLayoutAttr | None = None,
) -> MemRefType[Attribute]:
    """A memref type, made once: its verification costs more than most passes do per operation."""
    return MemRefType(element, shape, layout or NoneAttr(), space or NoneAttr())


def memory_space(type: Attribute) -> str | None:
    """The memory space of a memref as text (`vmem`, `smem`, `any`, ...), None without one."""
    if type.__class__ is not MemRefType:
        return None
    space = cast("MemRefType[Attribute]", type).memory_space
    value = getattr(space, "data", None)
    return str(value) if value is not None else None


def tiling_of(type: Attribute) -> Tiling | None:
    """The tiling of a memref with a `#tpu.tiled` layout, else None."""
    if type.__class__ is not MemRefType:
        return None
    layout = cast("MemRefType[Attribute]", type).layout
    return cast("Tiling | None", getattr(layout, "tiling", None))


# Constants. A splat of any shape holds one element's bytes: `dense<0.0> : vector<1024x1024xf32>`
# is four bytes. Upstream expands splats, so both representations are understood here.

Dense = DenseIntOrFPElementsAttr[Any]


def splat(type: Attribute, value: int | float) -> Dense:
    """`dense<value> : type`, holding one element."""
    shaped = cast(Any, type)
    element = shaped.get_element_type()
    if isinstance(element, IntegerType):
        data = element.pack((element.get_normalized_value(int(value)),))
    else:
        data = element.pack((value,))
    if isinstance(shaped, VectorType):
        shape = shaped.get_shape()
        if vector_of(element, shape) is shaped:
            return splat_of(element, shape, data)
    return DenseIntOrFPElementsAttr(shaped, BytesAttr(data))


@lru_cache(maxsize=4096)
def splat_of(element: Attribute, shape: tuple[int, ...], data: bytes) -> Dense:
    """The splat, on vectors of `shape`, of the element that has the bytes `data`; made once."""
    return DenseIntOrFPElementsAttr(cast(Any, vector_of(element, shape)), BytesAttr(data))


def compact(attribute: Dense) -> Dense:
    """`attribute` with a splat held as one element."""
    data = attribute.data.data
    size = attribute.get_element_type().compile_time_size
    if len(data) <= size or data != data[:size] * (len(data) // size):
        return attribute
    return DenseIntOrFPElementsAttr(attribute.type, BytesAttr(data[:size]))


def splat_value(attribute: Attribute | None) -> int | float | None:
    """The value of a constant that has the same element everywhere, None for any other attribute.

    Integers are signed as the attribute prints them; i1 gives 0 or 1.
    """
    if attribute.__class__ is not DenseIntOrFPElementsAttr:
        return None
    constant = cast(Dense, attribute)
    if "_splat_value" not in constant.__dict__:
        # Attributes never change, and folding asks for the same constants again and again.
        object.__setattr__(constant, "_splat_value", _splat_value(compact(constant)))
    return constant.__dict__["_splat_value"]


def _splat_value(constant: Dense) -> int | float | None:
    if len(constant) != 1:
        return None
    value = constant.get_values()[0]
    if constant.get_element_type() == i1:
        return int(value) & 1
    return cast("int | float", value)


def dense_array(attribute: Attribute) -> np.ndarray[Any, np.dtype[Any]]:
    """The elements of a dense constant as a carrier (docs/internals/meanings.md, "Carriers")."""
    # NumPy takes longer to import than a small module to read; readers do not need it.
    import numpy as np

    dense = cast(Dense, attribute)
    element = dense.get_element_type()
    shape = dense.get_shape()
    values = np.asarray(dense.get_values())
    if isinstance(element, IndexType):
        array = values.astype(np.int64)
    elif isinstance(element, IntegerType):
        array = _integers(values, element.bitwidth)
    else:
        array = values.astype(np.float64 if element.bitwidth == 64 else np.float32)
    if array.size == 1 and prod(shape) != 1:
        return np.full(shape, array.reshape(())[()], array.dtype)
    return array.reshape(shape)


def _integers(values: np.ndarray[Any, np.dtype[Any]], width: int) -> np.ndarray[Any, np.dtype[Any]]:
    import numpy as np

    if width == 1:
        return (values & 1).astype(np.bool_)
    carrier = next(w for w in (8, 16, 32, 64) if width <= w)
    wrapped = values & ((1 << width) - 1) if width < 64 else values
    signed = np.where(wrapped >> (width - 1) & 1, wrapped - (1 << width), wrapped)
    return signed.astype(np.dtype(f"int{carrier}"))
