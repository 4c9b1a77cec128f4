"""Refuses a SparseCore kernel whose allocations do not fit into the memories of its subcores.

All vector subcores of a SparseCore take their own memory (VMEM) and the memory that they share
(VMEM_SHARED) out of one pool. Each subcore's VMEM counts as often as the SparseCore has subcores,
even if the kernel runs on fewer of them:

    VMEM of one subcore * subcores + VMEM_SHARED <= pool

The rules were found by asking libtpu 0.0.51 for v5p, v6e and v7x:

* The sizes of scratch and of what `run_scoped` allocates are added up. Scopes that follow each
  other do not share memory; only semaphores are used again.
* The size of an allocation is rounded up to 32 bytes, or to 512 bytes if it is shared or if arrays
  are tiled as on a TensorCore. With that tiling, an array of several dimensions takes as many bytes
  as on a TensorCore, padding included. In SMEM each element takes one word of 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import cast

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue

from pallasite.diagnostics import Note, Unsupported
from pallasite.dialects import memref
from pallasite.dialects.kernel import Kernel
from pallasite.dialects.locations import source_location
from pallasite.dialects.tpu.cores import SCALAR_SUBCORE, in_space, memory_core
from pallasite.dialects.types import AnyMemRef, bit_width, memory_space
from pallasite.dialects.walking import operations
from pallasite.layouts.tiling import infer_tiling
from pallasite.passes.check_kernel.memory import Buffer, scoped_semaphores
from pallasite.targets import SparseCores, Target

_PIECE, _SHARED_PIECE = 32, 512
"""An allocation is rounded up to so many bytes; the second is for shared or tiled ones."""
_NAMED = 4
"""How many buffers, the largest ones, a refusal names in its notes."""
_SMALLER = {
    "vmem": "work on smaller parts: a vector subcore copies what it computes with from HBM",
    "vmem_shared": "share less, or let each subcore keep its own part in pltpu.VMEM",
    "smem": "keep tables in HBM and copy the part that is read",
}
"""What a refusal advises, by memory space."""


@dataclass
class _Taken:
    """What one kernel allocates.

    `spaces` maps a memory space to the buffers in it, `semaphores` is a number of semaphores.
    """

    spaces: dict[str, list[Buffer]] = field(default_factory=dict[str, list[Buffer]])
    semaphores: int = 0

    def total(self, space: str) -> int:
        """Bytes that the buffers of memory space `space` take together."""
        return sum(buffer.bytes for buffer in self.spaces.get(space, ()))


def check_subcore_memory(
    kernels: Mapping[str, Kernel], parts: SparseCores, target: Target, *, compact: bool
) -> None:
    """Raises `Unsupported` unless what the kernels of one call allocate fits.

    `kernels` maps the kind of a subcore, scalar or vector, to the kernel that it runs; `parts` has
    the limits. The pool of VMEM, then SMEM and semaphores of each kind are checked. `compact` says
    that arrays are tiled as those of TensorCores (`use_tc_tiling_on_sc`).
    """
    taken = {kind: _taken(kernel, kind, compact) for kind, kernel in kernels.items()}
    _check_pool(kernels, taken, parts, target)
    for kind, kernel in kernels.items():
        scalar = kind == SCALAR_SUBCORE
        who = "a scalar subcore" if scalar else "a vector subcore"
        limit = parts.scalar_smem_bytes if scalar else parts.smem_bytes
        if taken[kind].total("smem") > limit:
            raise _exhausted(
                "smem", kernel, taken[kind].spaces["smem"],
                f"{who} of {target.name} has {limit} bytes of SMEM for a kernel, which takes "
                f"{taken[kind].total('smem')}",
            )  # fmt: skip
        count = parts.scalar_semaphores if scalar else parts.semaphores
        if taken[kind].semaphores > count:
            raise _exhausted(
                "semaphore_mem", kernel, [],
                f"{who} of {target.name} has {count} semaphores for a kernel, which takes "
                f"{taken[kind].semaphores}",
            )  # fmt: skip


def _check_pool(
    kernels: Mapping[str, Kernel],
    taken: Mapping[str, _Taken],
    parts: SparseCores,
    target: Target,
) -> None:
    """Raises `Unsupported` if VMEM and VMEM_SHARED of the vector subcores exceed their common pool.

    The refusal blames the space that takes more of the pool, and the kernel that takes most of it.
    """
    own = max(found.total("vmem") for found in taken.values())
    # The kernels of several meshes have the same scratch; what each allocates itself is small.
    shared = max(found.total("vmem_shared") for found in taken.values())
    if own * parts.subcores + shared <= parts.pool_bytes:
        return
    space = "vmem" if own * parts.subcores >= shared else "vmem_shared"
    kind = max(taken, key=lambda kind: taken[kind].total(space))
    buffers = [b for name in ("vmem", "vmem_shared") for b in taken[kind].spaces.get(name, ())]
    raise _exhausted(
        space, kernels[kind], buffers,
        f"the {parts.subcores} vector subcores of a SparseCore of {target.name} have "
        f"{parts.pool_bytes} bytes together, but the kernel takes {own} of each as VMEM and "
        f"{shared} of all as VMEM_SHARED",
    )  # fmt: skip


def _exhausted(space: str, kernel: Kernel, buffers: list[Buffer], message: str) -> Unsupported:
    """The refusal `<space>-exhausted`: `message`, the largest of `buffers` as notes, and advice.

    Its place is the first source line known of a large buffer, otherwise that of the kernel.
    """
    largest = sorted(buffers, key=lambda buffer: -buffer.bytes)[:_NAMED]
    lines = (buffer.line for buffer in largest)
    advice = _SMALLER.get(space, "let transfers share a semaphore: it counts bytes")
    return Unsupported(
        f"{space.replace('_', '-')}-exhausted",
        message,
        next((line for line in lines if line), None) or source_location(kernel.func),
        [*(buffer.note for buffer in largest), Note(advice)],
    )


def _taken(kernel: Kernel, kind: str, compact: bool) -> _Taken:
    """What `kernel`, which runs on subcores of `kind`, allocates.

    Memory of an unknown (dynamic) size is left out. So is memory that belongs to the other kind of
    subcore, unless it is shared: the scratch of a call lists the memory of both.
    """
    found = _Taken(semaphores=scoped_semaphores(kernel.func.body.blocks))
    for value, what in _allocated(kernel):
        if not isinstance(value.type, MemRefType):
            continue
        type = cast(AnyMemRef, value.type)
        shape, space = type.get_shape(), memory_space(type) or "vmem"
        if min(shape, default=0) < 0:
            continue
        if in_space(type, "vmem_shared"):
            space = "vmem_shared"
        elif memory_core(type) not in (None, kind):
            continue  # It names the memory of the other kernel's subcores.
        if space == "semaphore_mem":
            found.semaphores += prod(shape)
            continue
        size = _bytes(type, space, compact)
        found.spaces.setdefault(space, []).append(Buffer(size, what, value))
    return found


def _allocated(kernel: Kernel) -> Iterable[tuple[SSAValue, Callable[[], str]]]:
    """The values of `kernel` that are memory of their own, each with a function that says what it
    is for: its scratch arguments and the results of `memref.alloca`."""
    for argument in kernel.scratch:
        yield argument, lambda: "scratch"
    for op in operations(kernel.func):
        if isinstance(op, memref.AllocaOp):
            yield op.results[0], lambda: "scoped allocation"


def _bytes(type: AnyMemRef, space: str, compact: bool) -> int:
    """Bytes that an allocation of `type` in memory space `space` takes, rounded up as libtpu
    does."""
    shape, bits = type.get_shape(), bit_width(type)
    elements = prod(shape)
    if space == "smem":
        bits = 32
    elif compact and len(shape) > 1:
        elements = infer_tiling(shape, bits).elements(shape)
    piece = _SHARED_PIECE if compact or space == "vmem_shared" else _PIECE
    return -(-elements * bits // (8 * piece)) * piece
