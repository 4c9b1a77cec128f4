"""Loads, stores, swaps and views of refs.

Loads and stores are of vectors in VMEM and of scalars in SMEM; other memory is only reached by DMA
(spec/pallas_semantics.md sections 1.5 and 3.1). An indexer has an entry for each dimension of the
ref that the kernel sees. `box_of` adds position 0 for the squeezed dimensions, which the ref of
memory has in addition. Illegal accesses have been refused by the verifiers of
`dialects/pallas/refs.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BoolAttr,
    DenseArrayBase,
    MemRefType,
    VectorType,
    i32,
)
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import arith, memref, pallas, tpu, vector
from pallasite.dialects.pallas.indexing import Indexed
from pallasite.dialects.types import memory_space, shape_of
from pallasite.lowering.pallas_to_mosaic.driver import Converter, Held, rule, with_element


@dataclass(frozen=True)
class Box:
    """The part of a ref that an indexer selects, in the dimensions of the ref of memory."""

    held: Held
    starts: tuple[int | SSAValue, ...]
    sizes: tuple[int | SSAValue, ...]
    strides: tuple[int, ...]
    dropped: tuple[bool, ...]
    """For each dimension, whether the result lacks it: squeezed, or indexed by a single number."""

    @property
    def strided(self) -> bool:
        """Whether elements are skipped."""
        return any(stride != 1 for stride in self.strides)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes, for accesses, whose sizes are all known."""
        return tuple(cast(int, size) for size in self.sizes)


def box_of(op: Indexed, c: Converter) -> Box:
    """What the indexer of `op` selects, with the squeezed dimensions of its ref."""
    held = c.held(op.ref)
    entries = iter(op.entries)
    rows: list[tuple[int | SSAValue, int | SSAValue, int, bool]] = []
    for dim in range(held.type.get_num_dims()):
        if dim in held.squeezed:
            rows.append((0, 1, 1, True))
        else:
            entry = next(entries)
            rows.append((entry.start, entry.size, entry.stride, entry.drop))
    starts, sizes, strides, dropped = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Box(held, starts, sizes, strides, dropped)


# Views.


@rule(pallas.AtOp)
def lower_at(op: pallas.AtOp, c: Converter) -> Sequence[SSAValue]:
    """`tpu.memref_slice`, then `tpu.memref_squeeze` if the view lacks dimensions."""
    box = box_of(op, c)
    old = box.held.type
    static = [DYNAMIC_INDEX if isinstance(n, SSAValue) else n for n in box.sizes]
    sizes = [c.i32(n) for n in box.sizes if isinstance(n, SSAValue)]
    type = MemRefType(old.element_type, static, memory_space=old.memory_space)
    starts = [c.i32(start) for start in box.starts]
    slice = tpu.MemrefSliceOp(operands=[box.held.value, starts, sizes], result_types=[type])
    view = c.emit(slice)
    if any(box.dropped):
        kept = [n for n, dropped in zip(static, box.dropped, strict=True) if not dropped]
        type = MemRefType(old.element_type, kept, memory_space=old.memory_space)
        view = c.emit(tpu.MemrefSqueezeOp(operands=[view], result_types=[type]))
    return [view]


def subcore_shape(
    box: Box, op: pallas.LoadOp | pallas.StoreOp | pallas.SwapOp, c: Converter
) -> tuple[int, ...]:
    """The shape of the vector that a subcore of a SparseCore loads or stores for `op`.

    Dropped dimensions are leading ones of the box here; if the kernel is compiled without layout
    passes, the vector does not have them. Refuses strides, masks and other dropped dimensions.
    """
    first = next((d for d, size in enumerate(box.sizes) if size != 1), len(box.sizes))
    if box.strided or any(box.dropped[first:]) or op.mask is not None or not op.shape:
        raise c.unsupported(
            op,
            "subcore-access",
            "subcores load and store vectors, of neighbours in the last dimensions, with stride 1 "
            "and without a mask",
            "use plsc.load_gather and plsc.store_scatter for any places, plsc.load_expanded and "
            "plsc.store_compressed for masks",
        )
    return box.shape if c.layout_passes else op.shape


# Loads.


@rule(pallas.LoadOp)
def lower_load(op: pallas.LoadOp, c: Converter) -> Sequence[SSAValue]:
    """Loads a scalar from SMEM, or a vector."""
    box = box_of(op, c)
    if memory_space(box.held.type) == "smem":
        return [_seen(_load_scalar(box, c), box, c)]
    # Elements that a mask leaves out are undefined, and no load of a TPU has a mask (the compiler
    # refuses `tpu.vector_load` with one), so the mask is dropped.
    value = _load_vector(box, op, c)
    return [_seen(_without_dropped(value, op.result.type, c), box, c)]


def _load_scalar(box: Box, c: Converter) -> SSAValue:
    return c.emit(memref.LoadOp.get(box.held.value, [c.index(start) for start in box.starts]))


def _load_vector(box: Box, op: pallas.LoadOp | pallas.SwapOp, c: Converter) -> SSAValue:
    """Loads the box, with the dimensions that the result lacks, and booleans as i32."""
    type = VectorType(box.held.type.element_type, box.shape)
    starts = [c.index(start) for start in box.starts]
    if c.on_subcores:
        type = VectorType(type.element_type, subcore_shape(box, op, c))
        return c.emit(
            tpu.VectorLoadOp(
                operands=[box.held.value, starts, []],
                result_types=[type],
                properties={"strides": DenseArrayBase.from_list(i32, [])},
            )
        )
    if box.strided:
        strides = DenseArrayBase.from_list(i32, box.strides)
        return c.emit(
            tpu.StridedLoadOp.create(
                operands=[box.held.value, *starts],
                result_types=[type],
                properties={"strides": strides},
            )
        )
    return c.emit(vector.LoadOp(box.held.value, starts, type))


def _without_dropped(value: SSAValue, type: Attribute, c: Converter) -> SSAValue:
    """The loaded box reshaped to `type`; its only element if that is a scalar type."""
    shape = shape_of(type)
    return c.reshape(value, shape) if isinstance(type, VectorType) else c.element(value)


def _seen(value: SSAValue, box: Box, c: Converter) -> SSAValue:
    """A value from memory as the kernel sees it: a boolean is true if its i32 is not zero."""
    if not box.held.boolean:
        return value
    return c.emit(arith.CmpiOp(value, c.constant(value.type, 0), "ne"))


# Stores.


@rule(pallas.StoreOp)
def lower_store(op: pallas.StoreOp, c: Converter) -> Sequence[SSAValue]:
    """Stores a scalar in SMEM or a vector; memory that the mask leaves out keeps its value."""
    _store(op, box_of(op, c), c)
    return []


@rule(pallas.SwapOp)
def lower_swap(op: pallas.SwapOp, c: Converter) -> Sequence[SSAValue]:
    """Loads the box, then stores; the mask applies only to the store."""
    box = box_of(op, c)
    if memory_space(box.held.type) == "smem":
        previous = _load_scalar(box, c)
    else:
        previous = _without_dropped(_load_vector(box, op, c), op.result.type, c)
    _store(op, box, c)
    return [_seen(previous, box, c)]


def _store(op: pallas.StoreOp | pallas.SwapOp, box: Box, c: Converter) -> None:
    value, mask = op.value, op.mask
    if memory_space(box.held.type) == "smem":
        _store_scalar(op, box, c)
        return
    shape = subcore_shape(box, op, c) if c.on_subcores else box.shape
    value = c.reshape(_kept(value, box, c), shape)
    starts = [c.index(start) for start in box.starts]
    if box.strided:
        c.insert(
            tpu.StridedStoreOp.create(
                operands=[value, box.held.value, *starts],
                properties={"strides": DenseArrayBase.from_list(i32, box.strides)},
            )
        )
        return
    masks: list[SSAValue] = []
    if mask is not None:
        masks.append(c.reshape(mask, box.shape))
    c.insert(
        tpu.VectorStoreOp(
            operands=[value, box.held.value, starts, masks],
            properties={
                "strides": DenseArrayBase.from_list(i32, []),
                "add": BoolAttr.from_bool(False),
            },
        )
    )


def _store_scalar(op: pallas.StoreOp | pallas.SwapOp, box: Box, c: Converter) -> None:
    starts = [c.index(start) for start in box.starts]
    c.insert(memref.StoreOp.get(_kept(op.value, box, c), box.held.value, starts))


def _kept(value: SSAValue, box: Box, c: Converter) -> SSAValue:
    """A value of the kernel as memory holds it: booleans as i32."""
    if not box.held.boolean:
        return value
    type = with_element(value.type, i32)
    return c.emit(arith.ExtUIOp.create(operands=[value], result_types=[type]))
