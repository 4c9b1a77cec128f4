"""Rules of kernels on the subcores of SparseCores (spec/pallas_semantics.md 1.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.tpu.cores import SCALAR_SUBCORE, TENSOR_CORE, VECTOR_SUBCORE
from pallasite.dialects.verification import BrokenRule

if TYPE_CHECKING:
    from pallasite.dialects.pallas.kernel import KernelOp

_AXES = {SCALAR_SUBCORE: 1, VECTOR_SUBCORE: 2}
_SCAN = "take the last lane of tpu.scan"
_ABSENT = {
    "pallas.arg_reduce": _SCAN,
    "pallas.dot": "multiply and add registers, or multiply in a kernel on a TensorCore",
    "pallas.emit_pipeline": "write a loop over blocks, with tpu.enqueue_dma and tpu.wait_dma2",
    "pallas.reduce": _SCAN,
}
"""What no subcore has an operation for, and what to write instead."""


def check_cores(op: KernelOp) -> None:
    """A mesh of subcores has an axis of SparseCores and, for vector subcores, one of these."""
    if op.core_type is None:
        return
    if op.mesh is None:
        raise VerifyException(f"a kernel on {op.core} has a mesh, not a grid")
    if op.core == TENSOR_CORE:
        raise VerifyException(f"a mesh is of TensorCores if it does not say on what, got {op.core}")
    axes = len(op.grid_shape or ())
    if axes != (wanted := _AXES[op.core]):
        raise VerifyException(f"expected {wanted} axes of a mesh of {op.core}, got {axes}")
    for inner in op.body.walk():
        if (instead := _ABSENT.get(inner.name)) is not None:
            raise BrokenRule(f"{inner.name} is for TensorCores, got {op.core}", inner, (instead,))


def scratch_spaces(core: str) -> tuple[str, ...]:
    """The memories in which a core has scratch."""
    own = "cmem" if core == TENSOR_CORE else "vmem_shared"
    return ("vmem", "smem", "semaphore_mem", own)
