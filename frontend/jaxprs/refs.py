"""Loads and stores of refs, and views of them by `.at`, `.bitcast` and `.reshape`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from xdsl.dialects.builtin import IntegerType, MemRefType, i32
from xdsl.ir import Attribute, SSAValue

from pallasite.diagnostics import Diagnostic
from pallasite.dialects import arith
from pallasite.dialects.pallas import AtOp, Entry, LoadOp, StoreOp, SwapOp, whole
from pallasite.dialects.pallas.base import ref_type
from pallasite.dialects.tpu import AssumeMultipleOp, MemrefBitcastOp, MemrefReshapeOp
from pallasite.dialects.types import bit_width, memory_space
from pallasite.frontend.jaxprs import types
from pallasite.frontend.jaxprs.advice import INDEXED_REFS
from pallasite.frontend.jaxprs.internals import (
    pallas_primitives,
    state_indexing,
    state_primitives,
    state_types,
    tpu_random,
)
from pallasite.frontend.jaxprs.rules import Result, rule
from pallasite.frontend.jaxprs.tracer import Equation, Key, Known, Tracer, Value

_COPIES = "pltpu.sync_copy or pltpu.make_async_copy"
_COUNTS = "use pl.semaphore_read, pl.semaphore_signal and pl.semaphore_wait"


@rule(state_primitives.get_p)
def _get(e: Equation) -> Result:
    transforms = jax.tree.unflatten(e.params["tree"], e.arguments[1:])
    return _load(e, e.operand(0), transforms)


@rule(pallas_primitives.load_p)
def _masked_load(e: Equation) -> Result:
    ref, transforms, mask, other = e.params["args_tree"].unflatten(e.arguments)
    if mask is not None:
        raise e.unsupported(
            "TPUs have no masked loads" + (" with other=" if other is not None else ""),
            "load all and choose: jnp.where(mask, ref[...], other)",
        )
    return _load(e, e.tracer.value(ref), transforms)


def _load(e: Equation, ref: SSAValue, transforms: Sequence[Any]) -> Result:
    ref, entries = indexed(e.tracer, ref, transforms)
    space = _check_memory(e, ref, f"copy it to VMEM first: {_COPIES}")
    dtype, shape = e.output.dtype, e.output.shape
    if types.is_key(dtype):
        return _load_key(e, ref, entries, space)
    if space == "smem" and shape:
        raise e.unsupported(
            f"SMEM holds scalars, the load is of shape {shape}",
            "load element by element, or keep the array in VMEM",
            code="vector-in-smem",
        )
    if not entries and space != "smem":
        raise e.unsupported(
            "a ref of shape () can be loaded in SMEM only",
            "pass the number in SMEM, in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), ...], or as "
            "jnp.reshape(x, (1, 1))",
        )
    return e.emit(LoadOp(ref, entries))


def _load_key(e: Equation, ref: SSAValue, entries: list[Entry], space: str) -> Result:
    """The words of a random key; a key of Pallas stays in scalar registers."""
    words = types.key_shape(e.output.dtype)
    if not tpu_random.is_pallas_impl(e.output.dtype._impl):
        if space == "smem":
            raise e.unsupported(
                "a random key whose words are a vector, in SMEM",
                "keep it in VMEM, make it of a number there, jax.random.key(seed[0]), or pass "
                "jax.random.key(seed, impl='pallas_tpu')",
                code="vector-in-smem",
            )
        return e.emit(LoadOp(ref, entries))
    if space != "smem":
        raise e.unsupported(
            "a random key of Pallas is loaded from SMEM",
            "give it pl.BlockSpec(memory_space=pltpu.SMEM)",
        )
    if e.output.size != 1 or words[:-1] != (1,) * (len(words) - 1):
        raise e.unsupported("a load of several random keys", "load one key at a time")
    first = [Entry(entry.start, drop=True) for entry in entries[: len(entries) - len(words)]]
    scalars = [
        e.emit(
            LoadOp(ref, [*first, *(Entry(0, drop=True) for _ in words[:-1]), Entry(i, drop=True)])
        )
        for i in range(words[-1])
    ]
    return Key(tuple(scalars), words)


@rule(state_primitives.swap_p)
def _swap(e: Equation) -> Result:
    transforms = jax.tree.unflatten(e.params["tree"], e.arguments[2:])
    return _store(e, e.operand(0), transforms, e.arguments[1], aval=e.inputs[1])


@rule(pallas_primitives.swap_p)
def _masked_swap(e: Equation) -> Result:
    tree = e.params["args_tree"]
    ref, transforms, value, mask = tree.unflatten(e.arguments)
    _, _, value_aval, mask_aval = tree.unflatten(e.inputs)
    if mask is not None:
        if types.bits(value_aval.dtype) != 32:
            raise e.unsupported(
                f"only 32-bit elements are stored under a mask, got {value_aval.dtype}",
                "choose first: ref[...] = jnp.where(mask, x, ref[...])",
            )
        if value_aval.shape != mask_aval.shape:
            raise e.unsupported(
                f"a mask of shape {mask_aval.shape} for a value of shape {value_aval.shape}",
                "broadcast the mask",
            )
        mask = e.tracer.value(mask)
    return _store(e, e.tracer.value(ref), transforms, value, aval=value_aval, mask=mask)


def _store(
    e: Equation,
    ref: SSAValue,
    transforms: Sequence[Any],
    stored: Value,
    *,
    aval: Any,
    mask: SSAValue | None = None,
) -> Result:
    """A store of `stored`, of the abstract value `aval`, to the elements of `ref` that the
    `transforms` leave, where `mask` is true; gives what they held, if that is used."""
    ref, entries = indexed(e.tracer, ref, transforms)
    space = _check_memory(e, ref, f"store to a buffer in VMEM and copy that: {_COPIES}")
    if space == "smem" and aval.shape:
        raise e.unsupported(
            f"SMEM holds scalars, the stored value is of shape {aval.shape}",
            "store element by element, or keep the array in VMEM",
            code="vector-in-smem",
        )
    if space != "smem" and not aval.shape:
        raise e.unsupported(
            "scalars are stored to SMEM only",
            *_scalar_stores(ref_type(ref).get_shape()),
            code="scalar-in-vmem",
        )
    if mask is not None and (space != "vmem" or any(entry.stride != 1 for entry in entries)):
        raise e.unsupported(
            "only stores to VMEM without strides are masked",
            "choose first: ref[...] = jnp.where(mask, x, ref[...])",
        )
    value = e.tracer.value(stored)
    if e.used[0]:
        return e.emit(SwapOp(value, ref, entries, mask))
    e.add(StoreOp(value, ref, entries, mask))
    return Known(0, aval.dtype)  # nobody reads it


def _scalar_stores(shape: Sequence[int]) -> list[str]:
    """What to write instead of the store of a scalar to a ref of `shape` in VMEM."""
    notes = ["keep the ref in SMEM: pl.BlockSpec(memory_space=pltpu.SMEM)"]
    if shape:
        at, ones = ", ".join(["0:1"] * len(shape)), tuple([1] * len(shape))
        notes += [
            f"store a vector of one element, at a known place: ref[{at}] = jnp.full({ones}, x)",
            "or choose where to: ref[...] = jnp.where(index == i, x, ref[...])",
        ]
    return notes


def _check_memory(e: Equation, ref: SSAValue, advice: str) -> str:
    """The memory of `ref`, if a core loads and stores there; `advice` is for all but semaphores."""
    space = memory_space(ref.type) or "any"
    if space not in ("vmem", "smem"):
        raise e.unsupported(
            f"only VMEM and SMEM are loaded from and stored to, the ref is in {space.upper()}",
            _COUNTS if space == "semaphore_mem" else advice,
            code="load-from-hbm",
        )
    return space


def viewed(tracer: Tracer, ref: SSAValue, transforms: Sequence[Any]) -> SSAValue:
    """The view of `ref` after all `transforms`."""
    for transform in transforms:
        ref = _transformed(tracer, ref, transform)
    return ref


def indexed(
    tracer: Tracer, ref: SSAValue, transforms: Sequence[Any]
) -> tuple[SSAValue, list[Entry]]:
    """The view of `ref` before the last indexer, and that indexer."""
    if transforms and isinstance(transforms[-1], state_indexing.NDIndexer):
        ref = viewed(tracer, ref, transforms[:-1])
        return ref, _of_ref(tracer, ref, entries_of(tracer, transforms[-1]))
    ref = viewed(tracer, ref, transforms)
    return ref, whole(ref_type(ref))


def _transformed(tracer: Tracer, ref: SSAValue, transform: Any) -> SSAValue:
    """The view that one transform of JAX makes of `ref`; `ref` itself where it changes nothing."""
    match transform:
        case state_indexing.NDIndexer():
            return _at(tracer, ref, transform)
        case state_types.BitcastTransform():
            return _bitcast(tracer, ref, types.element_type(transform.dtype))
        case state_types.ReshapeTransform():
            return _reshaped(tracer, ref, tuple(transform.shape))
        case _:
            raise tracer.unsupported(
                f"a view of a ref by {_described(transform)}",
                "load the ref and transform the value",
            )


def _at(tracer: Tracer, ref: SSAValue, indexer: Any) -> SSAValue:
    entries = _of_ref(tracer, ref, entries_of(tracer, indexer))
    if any(entry.stride != 1 for entry in entries):
        raise tracer.unsupported(
            "a view of a ref has no strides", "give strides to the load or store itself"
        )
    return ref if entries == whole(ref_type(ref)) else tracer.emit(AtOp(ref, entries))


def _bitcast(tracer: Tracer, ref: SSAValue, element: Attribute) -> SSAValue:
    """`ref` with elements of another width has more or fewer rows; JAX sees that they divide."""
    type = ref_type(ref)
    old, new = bit_width(type.element_type), bit_width(element)
    shape = list(type.get_shape())
    if old != new:
        if len(shape) < 2:
            raise tracer.unsupported(
                "a ref of rank 1 is not bitcast to another width", "give it a second dimension"
            )
        shape[-2] = shape[-2] * old // new
    wanted = MemRefType(element, shape, memory_space=type.memory_space)
    if wanted == type:
        return ref
    return tracer.emit(MemrefBitcastOp(operands=[ref], result_types=[wanted]))


def _reshaped(tracer: Tracer, ref: SSAValue, shape: tuple[int, ...]) -> SSAValue:
    type = ref_type(ref)
    if type.get_num_dims() < 2 or len(shape) < 2:
        raise tracer.unsupported(
            f"a ref of shape {type.get_shape()} is not reshaped to {shape}: views have at least "
            "two dimensions",
            "load the ref and reshape its value, or reshape the array outside the kernel",
        )
    wanted = MemRefType(type.element_type, shape, memory_space=type.memory_space)
    if wanted == type:
        return ref
    return tracer.emit(MemrefReshapeOp(operands=[ref], result_types=[wanted]))


def _described(transform: Any) -> str:
    return type(transform).__name__.removesuffix("Transform").lower()


def entries_of(tracer: Tracer, indexer: Any) -> list[Entry]:
    """What an indexer names, one entry per dimension."""
    if indexer.int_indexer_shape:
        raise tracer.unsupported(
            "a ref is indexed by scalars and slices, not by arrays of indices",
            *INDEXED_REFS,
        )
    entries: list[Entry] = []
    for index in indexer.indices:
        if isinstance(index, state_indexing.Slice):
            start, size = _number(tracer, index.start), _number(tracer, index.size)
            entries.append(Entry(start, size, index.stride))
        else:
            entries.append(Entry(_number(tracer, index), drop=True))
    return entries


def _of_ref(tracer: Tracer, ref: SSAValue, entries: list[Entry]) -> list[Entry]:
    """The indexer of a ref, which counts from its start; the words of keys are taken whole."""
    shape = ref_type(ref).get_shape()
    for dim, entry in enumerate(entries):
        if isinstance(entry.start, int) and entry.start < 0:
            raise tracer.unsupported(
                f"index {entry.start} of dimension {dim}: JAX does not count refs from their end",
                f"write {shape[dim] + entry.start}, or x.shape[{dim}] - {-entry.start}",
                code="out-of-bounds",
            )
    rest = shape[len(entries) :]
    return entries + [Entry(0, size) for size in rest]


def _number(tracer: Tracer, value: Any) -> int | SSAValue:
    if isinstance(value, SSAValue):
        return index_value(tracer, value)
    if isinstance(value, Known):
        value = value.value
    if not np.issubdtype(np.asarray(value).dtype, np.integer):
        raise _no_index(tracer, str(value))
    return int(value)


def index_value(tracer: Tracer, value: SSAValue) -> SSAValue:
    """`value` as i32, which addresses are computed in."""
    if value.type == i32:
        return value
    if isinstance(value.type, IntegerType) and value.type.bitwidth < 32:
        return tracer.emit(arith.ExtSIOp(value, i32))
    raise _no_index(tracer, f"one of type {value.type}")


def _no_index(tracer: Tracer, given: str) -> Diagnostic:
    return tracer.unsupported(
        f"places and sizes are integers, got {given}",
        "write n // 2 instead of n / 2, 0 instead of 0.0, or i.astype(jnp.int32)",
    )


@rule(pallas_primitives.multiple_of_p)
def _multiple_of(e: Equation) -> Result:
    value = e.arguments[0]
    if isinstance(value, Known):
        return value
    for multiple in e.params["values"]:
        value = e.emit(AssumeMultipleOp.of(e.tracer.value(value), multiple))
    return value
