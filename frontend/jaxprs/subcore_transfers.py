"""Copies of subcores: as on TensorCores, and gathers, scatters and additions by indices.

A copy between VMEM and HBM or the memory of a SparseCore whose one side is indexed by a ref or a
vector of int32 is one of the slices that these name (`tpu.enqueue_indirect_dma`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import BoolAttr, i32
from xdsl.ir import SSAValue

from pallasite.diagnostics import Diagnostic
from pallasite.dialects.tpu import (
    EnqueueIndirectDmaOp,
    WaitIndirectDmaOp,
)
from pallasite.dialects.types import memory_space, shape_of
from pallasite.frontend.jaxprs.devices import Destination
from pallasite.frontend.jaxprs.internals import (
    state_indexing,
    state_types,
    subcore_core,
    tpu_primitives,
    transfer,
)
from pallasite.frontend.jaxprs.refs import viewed
from pallasite.frontend.jaxprs.rules import Result, subcore_rule
from pallasite.frontend.jaxprs.subcore_sync import destination, mesh_of
from pallasite.frontend.jaxprs.tracer import Equation, Tracer, Value
from pallasite.frontend.jaxprs.transfers import await_copy, no_device, start_copy

_SHARED = ("hbm", "vmem_shared")
_ONE_SIDE = "index the side in HBM or VMEM_SHARED, and copy whole rows of a ref in VMEM"


@subcore_rule(tpu_primitives.dma_start_p)
def _start(e: Equation) -> Result:
    tree = e.params["tree"]
    source, target, semaphore, source_semaphore, device_id = transfer(tree, e.arguments)
    *avals, semaphore_aval, _, id_avals = transfer(tree, e.inputs)
    found = _indirect(e, (source, target), avals)
    add = bool(e.params["add"])
    if found is None and add:
        raise e.unsupported(
            "a copy that adds whole refs",
            "index the first dimension of the shared side, by a ref or jnp.arange(lanes)",
        )
    where = Destination()
    if device_id is not None:
        mesh = mesh_of(semaphore_aval)
        where = destination(e.tracer, device_id, id_avals, e.params["device_id_type"], mesh)
    if found is not None:
        if device_id is not None:
            raise _not_remote(e)
        ignored = [] if found.ignored is None else [e.tracer.scalar(found.ignored, i32)]
        refs = [found.source, found.target, found.offsets, _viewed(e.tracer, semaphore)]
        properties = {"add": BoolAttr.from_bool(add)}
        e.add(EnqueueIndirectDmaOp(operands=[*refs, ignored], properties=properties))
        return []

    start_copy(e, [source, target, semaphore, source_semaphore], where)
    return []


@subcore_rule(tpu_primitives.dma_wait_p)
def _wait(e: Equation) -> Result:
    tree = e.params["tree"]
    source, target, semaphore, _, device_id = transfer(tree, e.arguments)
    *avals, semaphore_aval, _, id_avals = transfer(tree, e.inputs)
    found = _indirect(e, (source, target), avals)
    where = Destination()
    if e.params["insert_dummy_device"]:
        where = no_device(e.tracer)
    elif device_id is not None:
        mesh = mesh_of(semaphore_aval)
        where = destination(e.tracer, device_id, id_avals, e.params["device_id_type"], mesh)
        if where.core is not None or where.subcore is not None:
            raise e.unsupported("a wait for a copy on another core", "wait where it arrives")
    if found is not None:
        if device_id is not None:
            raise _not_remote(e)
        refs = [_viewed(e.tracer, semaphore), found.source, found.target]
        e.add(WaitIndirectDmaOp(operands=refs))
        return []

    await_copy(e, [source, target, semaphore], where)
    return []


def _not_remote(e: Equation) -> Diagnostic:
    return e.unsupported(
        "a gather or scatter to or from another device", "gather to VMEM, and copy that"
    )


@dataclass(frozen=True)
class _Indirect:
    """A copy of slices."""

    source: SSAValue
    target: SSAValue
    offsets: SSAValue
    ignored: int | None
    """Offsets of this value name no slice."""


def _indirect(e: Equation, refs: Sequence[Any], avals: Sequence[Any]) -> _Indirect | None:
    """The copy between `refs` if either is indexed by offsets."""
    sides = [_Side.of(e, ref, aval) for ref, aval in zip(refs, avals, strict=True)]
    indexed = [n for n, side in enumerate(sides) if side.offsets is not None]
    if not indexed:
        return None
    spaces = [memory_space(side.base.type) for side in sides]
    (number, *others) = indexed
    if others or spaces[number] not in _SHARED or spaces[1 - number] != "vmem":
        raise e.unsupported(
            "a gather or scatter from "
            + " to ".join(str(space).upper() for space in spaces)
            + (", both indexed" if others else ", indexed by a ref or vector"),
            _ONE_SIDE,
        )
    views = [side.view(e.tracer) for side in sides]
    offsets, ignored = sides[number].offset_values(e)
    rows, dense = shape_of(offsets.type), shape_of(views[1 - number].type)
    wanted = (*rows, *shape_of(views[number].type)[1:])
    if dense != wanted:
        raise e.unsupported(
            f"a gather or scatter of shape {wanted} from or to a ref of shape {dense}",
            "give the ref in VMEM one row per index",
            code="unequal-copy",
        )
    return _Indirect(views[0], views[1], offsets, ignored)


@dataclass(frozen=True)
class _Side:
    """One end of a copy: a ref and its transforms."""

    base: SSAValue
    transforms: Sequence[Any]
    offsets: tuple[Any, Any] | None
    """What indexes the first dimension, and its abstract value."""

    @staticmethod
    def of(e: Equation, ref: Any, aval: Any) -> _Side:
        """`ref` as the program gives it; refs that are selected at run time are not indexed."""
        transforms: list[Any] = []
        of_avals: list[Any] = []
        while isinstance(ref, state_types.TransformedRef):
            if ref.multiref:
                return _Side(e.tracer.value(_first(ref)), (), None)
            transforms[:0], of_avals[:0] = ref.transforms, aval.transforms
            ref, aval = ref.ref, aval.ref
        base = e.tracer.value(ref)
        for number, (transform, of_aval) in enumerate(zip(transforms, of_avals, strict=True)):
            if not isinstance(transform, state_indexing.NDIndexer) or not transform.indices:
                continue
            found = _offsets(transform.indices[0], of_aval.indices[0])
            if found is None:
                continue
            if number < len(transforms) - 1:
                raise e.unsupported("a part of what is gathered", "slice before the indices")
            # The other dimensions are sliced as they are.
            first = state_indexing.Slice(0, transform.shape[0])
            rest = (first, *transform.indices[1:])
            transforms[number] = state_indexing.NDIndexer(rest, transform.shape, ())
            return _Side(base, transforms, found)
        return _Side(base, transforms, None)

    def view(self, tracer: Tracer) -> SSAValue:
        """The part of the ref that is copied, or of which slices are."""
        return viewed(tracer, self.base, self.transforms)

    def offset_values(self, e: Equation) -> tuple[SSAValue, int | None]:
        """The offsets, and the one that names nothing."""
        assert self.offsets is not None
        given, aval = self.offsets
        ignored: int | None = None
        if isinstance(given, subcore_core.Indices):
            ignored, given, aval = given.ignored_value, given.values, aval.values
        value = _viewed(e.tracer, given)
        if len(shape_of(value.type)) != 1 or str(aval.dtype) != "int32":
            raise e.unsupported(
                f"indices of a gather or scatter of type {aval.dtype} and shape "
                f"{shape_of(value.type)}",
                "give a ref or vector of int32 of one dimension",
            )
        space = memory_space(value.type)
        if isinstance(aval, state_types.AbstractRef | state_types.TransformedRef) and (
            space != "vmem"
        ):
            raise e.unsupported(
                f"indices of a gather or scatter in {str(space).upper()}", "copy them to VMEM first"
            )
        return value, ignored


def _first(selected: Any) -> Value:
    """A ref among which one is selected."""
    ref = selected.ref[0]
    return _first(ref) if isinstance(ref, state_types.TransformedRef) else ref


def _offsets(index: Any, aval: Any) -> tuple[Any, Any] | None:
    """An index of the first dimension that names several places; None for a number or slice."""
    kind = aval.values if isinstance(aval, subcore_core.Indices) else aval
    if isinstance(kind, state_types.AbstractRef | state_types.TransformedRef):
        return index, aval
    return (index, aval) if getattr(kind, "shape", ()) else None


def _viewed(tracer: Tracer, ref: Any) -> SSAValue:
    """A ref or value, with the views that the program makes of it."""
    if isinstance(ref, state_types.TransformedRef):
        return viewed(tracer, _viewed(tracer, ref.ref), ref.transforms)
    return tracer.value(ref)
