"""Runs kernels of SparseCores: a program per subcore of their meshes, all on the same operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute

from pallasite.dialects.kernel_call import Call
from pallasite.dialects.subcores import Kernels, is_compact, subcore_counts
from pallasite.dialects.tpu.cores import SCALAR_SUBCORE, in_space, memory_core
from pallasite.interpreter.blocks import Operand
from pallasite.interpreter.driver import Program
from pallasite.interpreter.machine.machine import Device
from pallasite.interpreter.machine.sparse import Subcore, SubcoreMesh
from pallasite.interpreter.windows import Invocation
from pallasite.targets import Target


def mesh_of(kernels: Kernels, call: Call | None, target: Target) -> SubcoreMesh | None:
    """The subcores that `kernels` run on; None if they run on a TensorCore."""
    if not kernels:
        return None
    parts, cores, subcores = subcore_counts(kernels, target)
    return SubcoreMesh(parts, cores, subcores, SCALAR_SUBCORE in kernels, is_compact(call))


def invocations(
    device: Device,
    program: Program,
    kernels: Kernels,
    operands: Sequence[Operand],
) -> list[Invocation]:
    """A program for each subcore of `device`."""
    found: list[Invocation] = []
    cores = cast("list[Subcore]", device.cores)
    for core in cores:
        kernel = kernels[core.kind]
        point = (core.index, core.number)[: len(kernel.grid or ())]
        found.append(
            Invocation(
                program, kernel, core, kernel.grid or (), operands, point=point,
                owned=lambda type, core=core: _owned(type, core),
            )
        )  # fmt: skip
    for invocation in found:
        for number, ref in enumerate(invocation.scratch):
            if ref is None:
                # It names a place that every subcore of the other kind has.
                known = (other.scratch[number] for other in found)
                invocation.scratch[number] = next(r for r in known if r is not None)
    return found


def _owned(type: Attribute, core: Subcore) -> bool:
    """Whether scratch of a type is memory of `core`, or of all subcores around it."""
    memref = cast("MemRefType[Attribute]", type)
    return memory_core(memref) in (None, core.kind) or in_space(memref, "vmem_shared")
