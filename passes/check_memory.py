"""Whether the buffers of a kernel fit into the memories of a core (spec/pallas_semantics.md 8.2).

The compiler gives a kernel only a part of VMEM, which `vmem_limit_bytes` of its compiler parameters
changes: 16 MiB, or 32 MiB on v6e and v7x. Found by asking it (libtpu 0.0.51): windows of exactly
that size are accepted, a quarter of a MiB more is "ran out of memory in memory space vmem".
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from pallasite.diagnostics import VerifyError
from pallasite.dialects import memref
from pallasite.dialects.kernel import (
    Window,
    call_of,
    describe_kernel,
    form_of,
    kernel_function,
)
from pallasite.dialects.locations import source_location
from pallasite.dialects.types import bit_width, memory_space, tiling_of
from pallasite.layouts.tiling import Tiling, infer_tiling
from pallasite.passes.check_vectors import refusal
from pallasite.targets import Target

_MEMREF = MemRefType[Attribute]
_VMEM = 1
"""What `scoped_memory_configs` of a call numbers VMEM with."""
_NAMED = 4
"""Buffers that a refusal names."""
_Owners = list[tuple[int, str]]


def block_bytes(type: Attribute, target: Target) -> int:
    """Bytes that a buffer of memref type `type` occupies, padding included."""
    memref = cast(_MEMREF, type)
    shape, bits = memref.get_shape(), bit_width(memref)
    tiling: Tiling = tiling_of(memref) or infer_tiling(
        shape, bits, target.generation, argument=False
    )
    return -(-tiling.elements(shape) * bits // 8)


def check_memory(module: ModuleOp, target: Target, *, allow_beyond_reference: bool = False) -> None:
    """Raises `Unsupported` unless blocks (times their buffers), scratch and scoped allocations fit
    into VMEM and SMEM."""
    func = kernel_function(module)
    if func is None:
        return
    try:
        kernel = describe_kernel(func)
    except ValueError as error:
        raise VerifyError("kernel-signature", str(error), source_location(func)) from error
    owners: dict[str, _Owners] = {"vmem": [], "smem": []}
    for argument, window in zip(kernel.operands, kernel.windows, strict=True):
        _add(owners, argument, target, _copies(window))
    for argument in (*kernel.prefetch, *kernel.scratch):
        _add(owners, argument, target, 1)
    limits = {"vmem": target.vmem_bytes, "smem": target.smem_bytes}
    if not allow_beyond_reference:
        limits["vmem"] = scoped_vmem(module, target)
    for space, limit in limits.items():
        held = owners[space] + _scoped(func.body.blocks, space, target)
        total = sum(size for size, _ in held)
        if total <= limit:
            continue
        largest = sorted(held, reverse=True)[:_NAMED]
        told = ", ".join(f"{title} with {size} bytes" for size, title in largest)
        raised = (
            f", or ask for more with vmem_limit_bytes (up to {target.vmem_bytes})"
            if limit < getattr(target, f"{space}_bytes")
            else ""
        )
        raise refusal(
            func, f"{space}-exhausted",
            f"the kernel's blocks and scratch take {total} bytes of {space.upper()}, "
            f"{target.name} has {limit}" + (" for a kernel" if raised else ""),
            f"the largest: {told}; use smaller blocks{raised}",
        )  # fmt: skip


def scoped_vmem(module: ModuleOp, target: Target) -> int:
    """Bytes of VMEM that the kernel may use: what its call asks for, or the target's default. A
    module that does not say how it is called, or whose windows are lowered, may use all."""
    call = call_of(module)
    if call is None or form_of(module) != "mosaic":
        return target.vmem_bytes
    configs: Any = call.settings.get("scoped_memory_configs")
    for config in configs if isinstance(configs, list) else ():
        if isinstance(config, dict) and config.get("memory_space") == _VMEM:
            size = config.get("size")
            if isinstance(size, int):
                return min(size, target.vmem_bytes)
    return target.scoped_vmem_bytes


def _add(owners: dict[str, _Owners], value: SSAValue, target: Target, copies: int) -> None:
    space = memory_space(value.type) or "vmem"
    if space in owners and isinstance(value.type, MemRefType):
        name = f"%{value.name_hint}: {value.type}" if value.name_hint else str(value.type)
        title = f"{name} in {copies} buffers" if copies > 1 else name
        owners[space].append((block_bytes(value.type, target) * copies, title))


def _scoped(blocks: Any, space: str, target: Target) -> _Owners:
    """The buffers of `blocks` and of that nested scope that needs most."""
    here: _Owners = []
    deepest: _Owners = []
    for block in cast(list[Block], blocks):
        for op in block.ops:
            if isinstance(op, memref.AllocaOp) and _static(op):
                owners: dict[str, _Owners] = {space: []}
                _add(owners, op.results[0], target, 1)
                here += owners[space]
            for region in op.regions:
                nested = _scoped(region.blocks, space, target)
                if sum(n for n, _ in nested) > sum(n for n, _ in deepest):
                    deepest = nested
    return here + deepest


def _static(op: Operation) -> bool:
    type = op.results[0].type
    return isinstance(type, MemRefType) and all(size >= 0 for size in type.get_shape())


def _copies(window: Window) -> int:
    return (window.buffers or 2) if window.windowed else 1
