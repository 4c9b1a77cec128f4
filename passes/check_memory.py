"""Whether the buffers of a kernel fit into the memories of a core (spec/pallas_semantics.md 8.2).

The compiler gives a kernel only a part of VMEM, which `vmem_limit_bytes` of its compiler parameters
changes: 16 MiB, or 32 MiB on v6e and v7x. Found by asking it (libtpu 0.0.51): windows of exactly
that size are accepted, a quarter of a MiB more is "ran out of memory in memory space vmem".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from pallasite.diagnostics import Note, SourceLocation, Unsupported, VerifyError
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
from pallasite.targets import Target

_MEMREF = MemRefType[Attribute]
_VMEM = 1
"""What `scoped_memory_configs` of a call numbers VMEM with."""
_NAMED = 4
"""Buffers that a refusal names."""


@dataclass(frozen=True)
class _Buffer:
    bytes: int
    title: str
    line: SourceLocation | None
    """Where the kernel first uses it: the signature of a kernel has no position."""

    def __str__(self) -> str:
        used = f", first used at {self.line}" if self.line else ""
        return f"{self.title} with {self.bytes} bytes{used}"


_Owners = list[_Buffer]


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
        total = _total(held)
        if total <= limit:
            continue
        largest = sorted(held, key=lambda buffer: -buffer.bytes)[:_NAMED]
        told = "; ".join(str(buffer) for buffer in largest)
        available = getattr(target, f"{space}_bytes")
        raised = (
            f", or ask for more with vmem_limit_bytes (up to {target.vmem_bytes})"
            if limit < total <= available
            else ""
        )
        raise Unsupported(
            f"{space}-exhausted",
            f"the kernel's blocks and scratch take {total} bytes of {space.upper()}, "
            f"{target.name} has {limit}" + (" for a kernel" if limit < available else ""),
            source_location(func) or next((b.line for b in largest if b.line), None),
            [Note(f"the largest: {told}"), Note(f"use smaller blocks{raised}")],
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
        size = block_bytes(value.type, target) * copies
        owners[space].append(_Buffer(size, title, _first_line(value)))


def _first_line(value: SSAValue) -> SourceLocation | None:
    """The line that makes `value`, else the first of its block that uses it."""
    if isinstance(value, OpResult):
        return source_location(value.op)
    block = value.owner
    users = {use.operation for use in value.uses}
    for op in block.walk() if isinstance(block, Block) else ():
        if op in users and (line := source_location(op)):
            return line
    return None


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
                if _total(nested) > _total(deepest):
                    deepest = nested
    return here + deepest


def _total(buffers: _Owners) -> int:
    return sum(buffer.bytes for buffer in buffers)


def _static(op: Operation) -> bool:
    type = op.results[0].type
    return isinstance(type, MemRefType) and all(size >= 0 for size in type.get_shape())


def _copies(window: Window) -> int:
    return (window.buffers or 2) if window.windowed else 1
