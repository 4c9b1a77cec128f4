"""Types of the `pallas` form for JAX's abstract values.

Values of rank 0 are scalars, others vectors; refs are memrefs with a memory space. Integers are
signless: operations choose signedness by the JAX type (spec/pallas_semantics.md section 1.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    Float4E2M1FNType,
    Float8E4M3B11FNUZType,
    Float8E4M3FNType,
    Float8E5M2Type,
    IntegerType,
    MemRefType,
    TensorType,
    VectorType,
    bf16,
    f16,
    f32,
    i1,
)
from xdsl.ir import Attribute

from pallasite.diagnostics import WITHOUT_X64
from pallasite.dialects.tpu import DMASemaphoreType, MemorySpaceAttr, SemaphoreType
from pallasite.frontend.jaxprs.internals import (
    core_of_memory,
    dtypes,
    jax_core,
    memory_space_to_tpu,
    pallas_core,
    state_types,
    tpu_core,
)

_INTEGERS = {
    f"{sign}{width}": IntegerType(width) for sign in ("int", "uint") for width in (2, 4, 8, 16, 32)
}
_ELEMENTS: dict[str, Attribute] = {
    "bool": i1,
    "float32": f32,
    "bfloat16": bf16,
    "float16": f16,
    "float8_e5m2": Float8E5M2Type(),
    "float8_e4m3fn": Float8E4M3FNType(),
    "float8_e4m3b11fnuz": Float8E4M3B11FNUZType(),
    "float4_e2m1fn": Float4E2M1FNType(),
    **_INTEGERS,
}


class UnsupportedType(Exception):
    """A JAX type that no TPU kernel can have: what it is, and as `advice` what to write instead."""

    def __init__(self, message: str, advice: str) -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice


def element_type(dtype: Any) -> Attribute:
    """The element type of `dtype`; raises `UnsupportedType`."""
    if _is_semaphore(dtype):
        is_dma = dtypes.issubdtype(dtype, tpu_core.dma_semaphore)
        return DMASemaphoreType() if is_dma else SemaphoreType()
    name = np.dtype(dtype).name if isinstance(dtype, type) else str(dtype)
    if name in _ELEMENTS:
        return _ELEMENTS[name]
    if name in ("int64", "uint64", "float64"):
        half = f"{name[:-2]}32"
        counter = "in a loop lax.fori_loop(jnp.int32(0), n, ...), " if name == "int64" else ""
        advice = (
            f"use {half}, of an operand x.astype(jnp.{half}) before the call, {counter}"
            f"{WITHOUT_X64}"
        )
    elif name.startswith("complex"):
        advice = "keep real and imaginary parts in arrays of their own"
    else:
        advice = "cast outside of the kernel"
    raise UnsupportedType(f"kernels cannot hold elements of type {name}", advice)


def value_type(shape: Sequence[int], element: Attribute) -> Attribute:
    """A scalar for shape (), else a vector."""
    return VectorType(element, list(shape)) if shape else element


def type_of(aval: Any, core: Any = tpu_core.CoreType.TC) -> Attribute:
    """The type of a value or ref of abstract value `aval` on a kind of core of JAX's."""
    aval = physical(aval)
    if isinstance(aval, tpu_core.AbstractSemaphore):
        is_dma = aval.sem_type is tpu_core.SemaphoreType.DMA
        element = DMASemaphoreType() if is_dma else SemaphoreType()
        return MemRefType(element, [], memory_space=MemorySpaceAttr("semaphore_mem"))
    if isinstance(aval, state_types.AbstractRef):
        space = space_attribute(aval.memory_space, core)
        return ref_type(aval.shape, element_type(aval.dtype), space)
    return value_type(aval.shape, element_type(aval.dtype))


def check_elements(aval: Any, operands: Sequence[Any]) -> None:
    """Raises `UnsupportedType` for a vector without elements, made of `operands`."""
    shape = getattr(aval, "shape", ())
    if 0 not in shape or isinstance(aval, state_types.AbstractRef):
        return
    advice = (
        "leave it out; jnp.roll makes one when it rolls by a multiple of the size, "
        "jnp.pad(mode='edge') where it does not pad: concatenate the edges, "
        "jnp.concatenate([x[:1], x, x[-1:]], 0); lax.associative_scan makes one of its last "
        "rows: go through the rows with lax.fori_loop"
    )
    if any(isinstance(ref, state_types.AbstractRef) and 0 in ref.shape for ref in operands):
        advice = (
            "an array of the call has none: call the kernel where x.size > 0 only, or over blocks "
            "of a grid, which has no steps then: grid=(x.shape[0] // 8,)"
        )
    message = f"a vector of shape {tuple(shape)} has no elements, and registers do"
    raise UnsupportedType(message, advice)


def ref_type(
    shape: Sequence[Any], element: Attribute, space: MemorySpaceAttr
) -> MemRefType[Attribute]:
    """A memref in memory `space`; sizes that are no integers are dynamic."""
    sizes = [size if isinstance(size, int) else DYNAMIC_INDEX for size in shape]
    return MemRefType(element, sizes, memory_space=space)


def array_type(aval: Any) -> TensorType[Attribute]:
    """The type of an array in the program."""
    aval = physical(aval)
    return TensorType(element_type(aval.dtype), list(aval.shape))


def physical(aval: Any) -> Any:
    """`aval` with elements such as PRNG keys replaced by the array of words that they are."""
    dtype = getattr(aval, "dtype", None)
    if dtype is None or not is_key(dtype):
        return aval
    if isinstance(aval, state_types.AbstractRef):
        return aval.update(inner_aval=jax_core.physical_aval(aval.inner_aval))
    return jax_core.physical_aval(aval)


def is_key(dtype: Any) -> bool:
    """Whether elements of `dtype` are arrays of words themselves."""
    return dtypes.issubdtype(dtype, dtypes.extended) and not _is_semaphore(dtype)


def key_shape(dtype: Any) -> tuple[int, ...]:
    """The shape of the words that one element of extended type `dtype` is."""
    return tuple(jax_core.physical_element_aval(dtype).shape)


def space_name(space: Any) -> str:
    """The name of a memory space of JAX on TensorCores."""
    return space_attribute(space, tpu_core.CoreType.TC).data


def space_attribute(space: Any, core: Any) -> MemorySpaceAttr:
    """A memory space of JAX on a kind of core of JAX's; subcores see those of other subcores."""
    try:
        found = memory_space_to_tpu(space, core)
    except ValueError:
        raise UnsupportedType(
            f"{space!r} is no memory of a TPU",
            "write pl.BlockSpec(memory_space=pltpu.VMEM), pltpu.SMEM or pltpu.HBM",
        ) from None
    own = core_of_memory(found)
    if own is None:
        return MemorySpaceAttr(str(found))
    if core is tpu_core.CoreType.TC:
        raise UnsupportedType(
            f"memory {found} belongs to other cores than the TensorCore",
            "use memory of the TensorCore",
        )
    return MemorySpaceAttr(str(found.memory_space), str(own))


def is_signed(dtype: Any) -> bool:
    """Whether `dtype` is a signed integer type."""
    return bool(dtypes.issubdtype(dtype, np.signedinteger))


def is_unsigned(dtype: Any) -> bool:
    """Whether `dtype` is an unsigned integer type other than bool."""
    return bool(dtypes.issubdtype(dtype, np.unsignedinteger))


def is_integer(dtype: Any) -> bool:
    """Whether `dtype` is an integer type other than bool."""
    return is_signed(dtype) or is_unsigned(dtype)


def is_float(dtype: Any) -> bool:
    """Whether `dtype` is a floating-point type."""
    return bool(dtypes.issubdtype(dtype, np.floating))


def is_bool(dtype: Any) -> bool:
    """Whether `dtype` is bool."""
    return bool(dtypes.issubdtype(dtype, np.bool_))


def bits(dtype: Any) -> int:
    """The width of an element of `dtype`."""
    return int(dtypes.itemsize_bits(dtype))


def _is_semaphore(dtype: Any) -> bool:
    return bool(dtypes.issubdtype(dtype, pallas_core.semaphore_dtype))
