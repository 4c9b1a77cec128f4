"""Refuses kernels that the SparseCores of a target, or the TPU compiler for them, cannot run.

`check_subcores` walks the kernels of a call and applies the checks of this file (operands, memory
spaces, element types) and of its neighbours: `subcore_memory` (allocations), `subcore_registers`
(vector operations) and `subcore_transfers` (DMAs). Unless a docstring says otherwise, the rules
were found by asking libtpu 0.0.51 for v5p, v6e and v7x. What JAX itself refuses to lower for a
subcore is not checked again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import MemRefType, ModuleOp, VectorType
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import tpu
from pallasite.dialects.in_words import in_words
from pallasite.dialects.kernel import Kernel
from pallasite.dialects.kernel_call import call_of
from pallasite.dialects.locations import refusal
from pallasite.dialects.subcores import is_compact, subcore_counts, subcore_kernels
from pallasite.dialects.tpu.cores import SCALAR_SUBCORE, in_space, memory_core
from pallasite.dialects.types import AnyMemRef, bit_width, element_type, memory_space, shape_of
from pallasite.dialects.walking import operations
from pallasite.passes.check_kernel.elements import check_held
from pallasite.passes.check_kernel.subcore_memory import check_subcore_memory
from pallasite.passes.check_kernel.subcore_registers import check_register, check_single
from pallasite.passes.check_kernel.subcore_transfers import (
    check_bitcast,
    check_copy,
    check_indirect,
    check_interleaved,
    check_slice,
)
from pallasite.targets import SparseCores, Target

_REGISTERS = "compile with pltpu.CompilerParams(needs_layout_passes=False), on registers"


@dataclass(frozen=True)
class _Compiled:
    """The compiler options of a call that decide which operations are accepted."""

    compact: bool
    """Whether arrays are tiled as those of TensorCores (`use_tc_tiling_on_sc`)."""
    layouts: bool
    """Whether the compiler's layout passes run (`needs_layout_passes`), so that vectors need not be
    single registers."""


def check_subcores(
    module: ModuleOp, target: Target, *, allow_beyond_reference: bool = False
) -> None:
    """Raises `Unsupported` for the first thing in `module` that no subcore of `target` can run.

    A module without kernels for subcores passes. `allow_beyond_reference` lets pass what the model
    could run and only the TPU compiler refuses.
    """
    kernels = subcore_kernels(module)
    if not kernels:
        return
    parts, cores, subcores = subcore_counts(kernels, target)
    running = cores * (subcores + (SCALAR_SUBCORE in kernels))
    call = call_of(module)
    config: Mapping[str, object] = call.config if call is not None else {}
    compiled = _Compiled(is_compact(call), bool(config.get("needs_layout_passes", False)))
    for kind, kernel in kernels.items():
        _check_operands(kernel, running)
        if kind == SCALAR_SUBCORE:
            _check_memory(kernel)
        for op in operations(kernel.func):
            _check_elements(op)
            if not allow_beyond_reference:
                _check_reference(op, compiled, parts)
    if not allow_beyond_reference:
        check_subcore_memory(kernels, parts, target, compact=compiled.compact)


def _check_operands(kernel: Kernel, running: int) -> None:
    """Refuses operands outside HBM: no pipeline cuts them into blocks, and nobody copies them in.

    `running` is the number of subcores that run. If it is greater than 1, an operand that is a
    semaphore is refused too: it is a single counter, while each subcore has counters of its own.
    """
    for argument in kernel.operands:
        space = memory_space(argument.type)
        if space == "semaphore_mem" and running > 1:
            raise refusal(
                kernel.func,
                "subcore-operand",
                f"a semaphore{_named(argument)} from or for another kernel is one counter, but "
                f"{running} subcores run",
                "start the transfer on a mesh of one: num_cores=1",
            )
        if space not in ("hbm", "any", "semaphore_mem"):
            raise refusal(
                kernel.func,
                "subcore-operand",
                f"an operand{_named(argument)} of a kernel on SparseCores is in "
                f"{space or 'no memory'}",
                "operands stay in HBM; copy parts of them to scratch: pltpu.sync_copy",
            )
        element = cast(AnyMemRef, argument.type).element_type
        if space != "semaphore_mem":
            check_held(kernel.func, element)


def _check_memory(kernel: Kernel) -> None:
    """Refuses VMEM in the kernel of a scalar subcore, which has none.

    libtpu: "Failed to convert memory space <vmem, sc_scalar_subcore>: Unsupported core type".
    """
    made = (result for op in operations(kernel.func) for result in op.results)
    for value in (*kernel.scratch, *made):
        if not isinstance(value.type, MemRefType):
            continue
        type = cast(AnyMemRef, value.type)
        if in_space(type, "vmem") and memory_core(type) in (None, SCALAR_SUBCORE):
            raise refusal(
                kernel.func,
                "memory-space",
                f"a scalar subcore has no VMEM{_named(value)}",
                "use pltpu.SMEM, or pltpu.VMEM_SHARED for what its core shares",
            )


def _named(value: SSAValue) -> str:
    """The name of `value` in brackets, for a message; empty if it has none."""
    return f" (%{value.name_hint})" if value.name_hint else ""


def _check_elements(op: Operation) -> None:
    """Refuses vectors of elements wider than 32 bits, the width of a register's words."""
    for result in op.results:
        if not isinstance(result.type, VectorType):
            continue
        element = element_type(result.type)
        if bit_width(element) > 32:
            raise refusal(
                op, "element-type", f"a subcore cannot compute with elements of type {element}",
                "registers of a subcore hold words of 32 bits", "use float32 or int32",
            )  # fmt: skip


_WITHOUT_LAYOUTS = (
    tpu.ScanOp, tpu.AllReduceOp, tpu.PackSubelementsOp, tpu.UnpackSubelementsOp,
)  # fmt: skip
"""Operations that the compiler's layout passes for SparseCores do not support."""


def _check_reference(op: Operation, compiled: _Compiled, parts: SparseCores) -> None:
    """Refuses what only the TPU compiler refuses; the model could run it."""
    check_register(op, parts)
    if not compiled.layouts:
        check_single(op, parts.lanes)
    if isinstance(op, tpu.EnqueueDmaOp):
        check_copy(op)
        check_interleaved(op, compiled.compact)
    elif isinstance(op, tpu.MemrefSliceOp):
        check_slice(op, compiled.compact)
    elif isinstance(op, tpu.EnqueueIndirectDmaOp):
        check_indirect(op, compiled.compact)
    elif isinstance(op, tpu.MemrefBitcastOp):
        check_bitcast(op, compiled.compact)
    elif compiled.layouts and isinstance(op, _WITHOUT_LAYOUTS):
        raise refusal(
            op, "subcore-layout", f"{in_words(op)} is not supported by the layout passes of "
            "SparseCores",
            "the TPU compiler says: Operation not supported in the Mosaic-SC infer-vector-layout "
            "pass", _REGISTERS,
        )  # fmt: skip
    elif compiled.layouts and isinstance(op, tpu.VectorLoadOp | tpu.VectorStoreOp):
        if op.mask is not None:
            raise refusal(
                op, "subcore-layout", f"{in_words(op)} with a mask on a SparseCore",
                "the TPU compiler says: Not implemented: Mask is not supported", _REGISTERS,
            )  # fmt: skip
    elif isinstance(op, tpu.ConcatenateOp) and op.dimension.value.data == (
        len(shape_of(op.results[0].type)) - 1
    ):
        raise refusal(
            op, "subcore-vector", "a subcore cannot put vectors together along lanes",
            "the TPU compiler says: Concatenation along tiled dimensions",
            "store them to VMEM and load what is wanted, or plsc.load_gather",
        )  # fmt: skip
