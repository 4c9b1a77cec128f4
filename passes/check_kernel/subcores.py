"""Refuses kernels that the SparseCores of a target cannot run.

Asked of libtpu 0.0.51 for v5p, v6e and v7x, as far as not said otherwise. What JAX itself refuses
to lower for a subcore is not asked here again.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import Float16Type, MemRefType, ModuleOp, VectorType
from xdsl.ir import Attribute

from pallasite.diagnostics import Note, Unsupported
from pallasite.dialects.kernel import Kernel
from pallasite.dialects.locations import refusal, source_location
from pallasite.dialects.subcores import subcore_counts, subcore_kernels
from pallasite.dialects.types import bit_width, element_type, memory_space
from pallasite.dialects.walking import operations
from pallasite.targets import Target

_MEMREF = MemRefType[Attribute]


def check_subcores(module: ModuleOp, target: Target) -> None:
    """Raises `Unsupported` for what no subcore of `target` can run; of a TensorCore kernel, for
    nothing."""
    kernels = subcore_kernels(module)
    if not kernels:
        return
    subcore_counts(kernels, target)
    for kernel in kernels.values():
        _check_operands(kernel)
        for op in operations(kernel.func):
            for result in op.results:
                if isinstance(result.type, VectorType):
                    element = element_type(result.type)
                    if bit_width(element) > 32 or isinstance(element, Float16Type):
                        raise refusal(
                            op, "element-type",
                            f"a subcore cannot compute with elements of type {element}",
                            "registers of a subcore hold words of 32 bits",
                            "use float32 or int32",
                        )  # fmt: skip


def _check_operands(kernel: Kernel) -> None:
    """The kernel finds its operands in HBM: nobody cuts them into blocks, or copies them."""
    for argument in kernel.operands:
        space = memory_space(argument.type)
        if space not in ("hbm", "any"):
            named = f" (%{argument.name_hint})" if argument.name_hint else ""
            raise Unsupported(
                "sparse-core-operand",
                f"an operand{named} of a kernel on SparseCores is in {space or 'no memory'}",
                source_location(kernel.func),
                [Note("operands stay in HBM; copy parts of them to scratch: pltpu.sync_copy")],
            )
        bits = bit_width(cast(_MEMREF, argument.type).element_type)
        if bits > 32:
            raise Unsupported(
                "element-type",
                f"kernels cannot hold elements of type {cast(_MEMREF, argument.type).element_type}",
                source_location(kernel.func),
                [Note("memory holds elements of 2, 4, 8, 16 or 32 bits")],
            )
