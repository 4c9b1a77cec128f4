"""Loads and stores of subcores of SparseCores: refs, indexed and compressed accesses.

What a mask means differs from TensorCores: the elements of the lanes that take part are neighbours
in memory (`plsc.load_expanded`, `plsc.store_compressed`), which `tpu.vector_load` and
`tpu.vector_store` say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, IndexType, IntegerAttr, VectorType, i32
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import arith, vector
from pallasite.dialects.pallas import Entry, LoadOp, StoreOp, SwapOp
from pallasite.dialects.pallas.base import ref_type
from pallasite.dialects.tpu import (
    FetchAndAddSyncOp,
    VectorLoadIdxOp,
    VectorLoadOp,
    VectorStoreIdxOp,
    VectorStoreOp,
)
from pallasite.dialects.types import memory_space
from pallasite.frontend.jaxprs import types
from pallasite.frontend.jaxprs.internals import (
    state_primitives,
    subcore_core,
    subcore_primitives,
)
from pallasite.frontend.jaxprs.refs import indexed, viewed
from pallasite.frontend.jaxprs.rules import Result, subcore_rule
from pallasite.frontend.jaxprs.tracer import Equation, Known

_COPY = "copy it to VMEM first: pltpu.sync_copy or pltpu.async_copy"


@subcore_rule(state_primitives.get_p)
def _get(e: Equation) -> Result:
    transforms = jax.tree.unflatten(e.params["tree"], e.arguments[1:])
    ref, entries = indexed(e.tracer, e.operand(0), transforms)
    _check_access(e, ref, entries, e.output)
    return e.emit(LoadOp(ref, entries))


@subcore_rule(state_primitives.swap_p)
def _swap(e: Equation) -> Result:
    transforms = jax.tree.unflatten(e.params["tree"], e.arguments[2:])
    ref, entries = indexed(e.tracer, e.operand(0), transforms)
    _check_access(e, ref, entries, e.output)
    value = e.operand(1)
    if e.used[0]:
        return e.emit(SwapOp(value, ref, entries))
    e.add(StoreOp(value, ref, entries))
    return Known(0, e.output.dtype)  # nobody reads it


def _check_access(e: Equation, ref: SSAValue, entries: Sequence[Entry], aval: Any) -> None:
    """What JAX loads and stores on a subcore: scalars in SMEM, registers in VMEM."""
    space = memory_space(ref.type) or "any"
    if space not in ("vmem", "smem"):
        raise e.unsupported(
            f"only VMEM and SMEM are loaded from and stored to, the ref is in {space.upper()}",
            _COPY,
            code="load-from-hbm",
        )
    if (space == "smem") != (not aval.shape):
        raise e.unsupported(
            f"a subcore has scalars in SMEM and vectors in VMEM, got shape {aval.shape} in "
            f"{space.upper()}",
            "load a vector and take an element out: ref[pl.ds(start, lanes)][0]; store one with "
            "plsc.store_scatter under a mask of one lane"
            if space == "vmem"
            else "load element by element, or keep the array in VMEM",
            code="vector-in-smem" if space == "smem" else "scalar-in-vmem",
        )
    if types.is_bool(aval.dtype):
        raise e.unsupported(
            "booleans in the memory of a subcore", "keep them as int32", code="unsupported-type"
        )
    sizes = [entry.size for entry in entries]
    first = next((d for d, size in enumerate(sizes) if size != 1), len(sizes))
    if any(entry.drop for entry in entries[first:]):
        raise e.unsupported(
            "a single index after a slice on a subcore",
            "index the leading dimensions, or gather: plsc.load_gather",
        )
    if any(entry.stride != 1 for entry in entries):
        raise e.unsupported("a strided access on a subcore", "plsc.load_gather takes any places")
    if aval.shape and not e.tracer.surroundings.layouts:
        check_register(e, aval)


def check_register(e: Equation, aval: Any) -> None:
    """Without layout passes a vector is one register."""
    shapes = subcore_core.supported_shapes(aval.dtype)
    if tuple(aval.shape) not in shapes:
        known = " or ".join(str(shape) for shape in shapes)
        raise e.unsupported(
            f"without layout passes a vector of {aval.dtype} is one register, {known}, got "
            f"{tuple(aval.shape)}",
            "ref[pl.ds(start, lanes)] is one; "
            "pltpu.CompilerParams(needs_layout_passes=True) takes larger ones",
        )


@subcore_rule(subcore_primitives.load_p)
def _load_expanded(e: Equation) -> Result:
    ref, entries, mask = _masked(e, e.arguments[1:])
    _check_access(e, ref, entries, e.output)
    type = _vector_type(e, entries, e.output)
    loaded = e.emit(
        VectorLoadOp(
            operands=[ref, _starts(e, entries), mask],
            result_types=[type],
            properties={"strides": DenseArrayBase.from_list(i32, [])},
        )
    )
    return _shaped(e, loaded, e.tracer.type_of(e.output))


@subcore_rule(subcore_primitives.swap_p)
def _store_compressed(e: Equation) -> Result:
    """Compressed under a mask, and added with `add`."""
    if e.used[0]:
        raise e.unsupported("what a compressed store replaces", "load it before the store")
    ref, entries, mask = _masked(e, e.arguments[2:])
    _check_access(e, ref, entries, e.output)
    if memory_space(ref.type) == "smem":
        raise e.unsupported("an addition to SMEM", "load the scalar, add, and store it")
    value = _shaped(e, e.operand(1), _vector_type(e, entries, e.output))
    e.add(
        VectorStoreOp(
            operands=[value, ref, _starts(e, entries), mask],
            properties={
                "strides": DenseArrayBase.from_list(i32, []),
                "add": BoolAttr.from_bool(e.params["add"]),
            },
        )
    )
    return Known(0, e.output.dtype)  # nobody reads it


def _masked(e: Equation, rest: Sequence[Any]) -> tuple[SSAValue, list[Entry], list[SSAValue]]:
    """The ref of an access, its indexer, and its mask if it has one."""
    *flat, mask = rest if e.params["has_mask"] else (*rest, None)
    transforms = jax.tree.unflatten(e.params["tree"], flat)
    ref, entries = indexed(e.tracer, e.operand(0), transforms)
    return ref, entries, [] if mask is None else [e.tracer.value(mask)]


def _vector_type(e: Equation, entries: Sequence[Entry], aval: Any) -> Attribute:
    """The vector that is loaded or stored, of the rank of its ref where layout passes see it."""
    sizes = [int(entry.size) for entry in entries]  # pyright: ignore[reportArgumentType]
    shape = sizes if e.tracer.surroundings.layouts else aval.shape
    return VectorType(types.element_type(aval.dtype), shape)


def _shaped(e: Equation, value: SSAValue, type: Attribute) -> SSAValue:
    return value if value.type == type else e.emit(vector.ShapeCastOp(value, type))


def _starts(e: Equation, entries: Sequence[Entry]) -> list[SSAValue]:
    def index(start: int | SSAValue) -> SSAValue:
        if isinstance(start, int):
            return e.emit(arith.ConstantOp(IntegerAttr(start, IndexType())))
        return e.emit(arith.IndexCastOp(start, IndexType()))

    return [index(entry.start) for entry in entries]


@subcore_rule(subcore_primitives.gather_p)
def _gather(e: Equation) -> Result:
    ref, transforms, indices, mask = e.params["tree"].unflatten(e.arguments)
    base = viewed(e.tracer, e.tracer.value(ref), transforms or ())
    _check_vmem(e, base, "gathered from")
    return e.emit(
        VectorLoadIdxOp(
            operands=[base, [e.tracer.value(v) for v in indices], _optional(e, mask)],
            result_types=[e.result_type],
        )
    )


@subcore_rule(subcore_primitives.scatter_p)
def _scatter(e: Equation) -> Result:
    ref, transforms, indices, value, mask = e.params["tree"].unflatten(e.arguments)
    base = viewed(e.tracer, e.tracer.value(ref), transforms or ())
    _check_vmem(e, base, "scattered to")
    where = [e.tracer.value(v) for v in indices]
    e.add(
        VectorStoreIdxOp(
            operands=[e.tracer.value(value), base, where, _optional(e, mask)],
            properties={"add": BoolAttr.from_bool(e.params["add"])},
        )
    )
    return []


def _optional(e: Equation, value: Any) -> list[SSAValue]:
    return [] if value is None else [e.tracer.value(value)]


def _check_vmem(e: Equation, ref: SSAValue, what: str) -> None:
    if (space := memory_space(ref.type)) != "vmem":
        advice = (
            "keep the ref in VMEM, or take its elements one by one" if space == "smem" else _COPY
        )
        raise e.unsupported(f"only VMEM is {what}, the ref is in {str(space).upper()}", advice)


@subcore_rule(subcore_primitives.fetch_and_add_p)
def _fetch_and_add(e: Equation) -> Result:
    ref, value, *indices, subcore = e.operands()
    element = ref_type(ref).element_type
    return e.emit(
        FetchAndAddSyncOp(operands=[ref, indices, value, subcore], result_types=[element])
    )
