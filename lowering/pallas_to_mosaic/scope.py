"""Scopes: a `pallas.run_scoped` becomes a `tpu.region` that begins with its allocations.

    pallas.run_scoped (%buffer: memref<8x128xf32, vmem>, %sem: memref<!tpu.dma_semaphore, ...>) {
      ...
    }
becomes
    "tpu.region"() ({
      %buffer = memref.alloca() : memref<8x128xf32, vmem>
      %sem = tpu.sem_alloc : memref<!tpu.dma_semaphore, ...>
      ...
      tpu.yield
    })
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import MemRefType, i1
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from pallasite.dialects import memref, pallas, tpu
from pallasite.lowering.pallas_to_mosaic.driver import Converter, Held, rule, stored_type


def allocation(type: MemRefType[Attribute]) -> Operation:
    """The operation that allocates a ref of `type`, a type of memory (`stored_type`)."""
    if isinstance(type.element_type, tpu.SemaphoreType | tpu.DMASemaphoreType):
        return tpu.SemAllocOp(result_types=[type])
    return memref.AllocaOp.build(operands=[[], []], result_types=[type])


@rule(pallas.RunScopedOp)
def lower_run_scoped(op: pallas.RunScopedOp, c: Converter) -> Sequence[SSAValue]:
    """A `tpu.region` that begins with the allocations."""
    old, new = op.body.block, Block()
    for argument in old.args:
        type = cast(MemRefType[Attribute], argument.type)
        made = allocation(cast(MemRefType[Attribute], stored_type(type)))
        made.location = op.location
        new.add_op(made)
        ref = made.results[0]
        ref.name_hint = argument.name_hint
        if type.element_type == i1:
            c.hold(ref, Held(ref, boolean=True))
        argument.replace_all_uses_with(ref)
    for inner in list(old.ops):
        inner.detach()
        new.add_op(inner)
    region = tpu.RegionOp(operands=[], result_types=[op.res.types], regions=[Region(new)])
    c.insert(region)
    c.block(new)
    return region.results


@rule(pallas.YieldOp)
def lower_yield(op: pallas.YieldOp, c: Converter) -> Sequence[SSAValue]:
    """`tpu.yield`, for a region that has become a `tpu.region`."""
    c.insert(tpu.YieldOp(operands=[list(op.values)]))
    return []
