"""The diagnostics of illegal accesses to refs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pallasite.diagnostics import ExecutionError, Note, SourceLocation
from pallasite.targets import TARGETS

if TYPE_CHECKING:
    from pallasite.interpreter.machine.elements import Elements
    from pallasite.interpreter.machine.memory import Memory
    from pallasite.interpreter.machine.views import Ref


BLOCK_INSIDE = Note(
    "at least one element of every block must lie inside the array: give the grid pl.cdiv(n, size) "
    "steps for n elements, or let the index map end at the last block: jnp.minimum(i, last)"
)
"""What every index map has to keep to (spec/pallas_semantics.md section 1.4)."""
ONE_VISIT = Note(
    "the steps of one output block must follow each other; reorder the grid, or give the output "
    "pipeline_mode=pl.Buffered(1, revisit=pl.RevisitMode.ANY)"
)
"""What every output without that mode has to keep to, because its blocks are never read back."""


def block_outside(place: Sequence[int], sizes: Sequence[int], extents: Sequence[int]) -> list[Note]:
    """The message about a block of `sizes` at the elements `place` outside of an array of
    `extents`."""
    for start, size, extent in zip(place, sizes, extents, strict=True):
        # The place of a block inside, taken for its number.
        if size > 1 and start % size == 0 and start // size in range(size, extent, size):
            return [
                BLOCK_INSIDE,
                Note(
                    "without pl.Element, an index map gives the number of a block, which is "
                    f"multiplied by its size: not {start // size}, but {start // size // size}"
                ),
            ]
    return [BLOCK_INSIDE]


_ALONE = "call the kernel on several devices: within jax.shard_map over a mesh of them"
_NEIGHBOURS = (
    "the neighbours of device i are lax.rem(i + 1, n) and lax.rem(i + n - 1, n), as lax.rem keeps "
    "the sign"
)


def no_such_device(index: int, count: int, at: SourceLocation | None) -> ExecutionError:
    """The refusal of the logical id `index` on a machine of `count` devices."""
    return ExecutionError(
        "no-such-device",
        f"device id {index} in a machine of {count} devices",
        at,
        [Note(_ALONE if count == 1 else _NEIGHBOURS)],
    )


def no_such_core(index: int, device: int, count: int, at: SourceLocation | None) -> ExecutionError:
    """The refusal of core `index` of a device that has `count`."""
    several = [t.name for t in TARGETS.values() if t.cores > 1]
    return ExecutionError(
        "no-such-core",
        f"core id {index} on device {device}, which has {count} cores",
        at,
        [Note(f"a kernel may have two cores on {' and '.join(several)}")],
    )


def not_allocated(ref: Ref, memory: Memory, at: SourceLocation | None) -> ExecutionError:
    """The refusal of a ref in the `memory` of another core, which has allocated others."""
    return ExecutionError(
        "remote-not-allocated",
        f"{memory.owner} has no buffer like {ref.buffer.name or 'this one'} at address "
        f"{ref.buffer.address} of its {memory.kind}",
        at,
        [
            Note(
                "both sides must allocate the same refs in the same order, and synchronise before "
                "the first access",
                ref.buffer.location,
            )
        ],
    )


def several_semaphores(ref: Ref, at: SourceLocation | None) -> ExecutionError:
    """The error for a ref to several semaphores where one is needed."""
    return ExecutionError(
        "semaphore-rank",
        f"expected a single semaphore, got an array of shape {list(ref.shape)}",
        at,
    )


def negative(index: Sequence[int]) -> list[Note]:
    """The note about an `index` that may be meant to count from the end."""
    if all(int(i) >= 0 for i in index):
        return []
    return [Note("nothing is counted from the end: the last element is at shape - 1")]


def outside(
    ref: Elements,
    what: str,
    index: Sequence[int],
    shape: Sequence[int],
    strides: Sequence[int] | None,
    at: SourceLocation | None,
    extents: Sequence[int] | None = None,
) -> ExecutionError:
    """The error for the access `what` (such as a load) of a box that leaves `ref`, or its
    `extents`."""
    shape_of_ref = list(extents or ref.shape)
    stepped = f" with strides {list(strides)}" if strides and set(strides) != {1} else ""
    return ExecutionError(
        "out-of-bounds",
        f"{what} of shape {list(shape)} at {[int(i) for i in index]}{stepped} is outside "
        f"memref of shape {shape_of_ref} ({ref.buffer.name or ref.buffer.memory.kind})",
        at,
        negative(index) or _last_place(index, shape, strides, shape_of_ref),
    )


def _last_place(
    index: Sequence[int],
    shape: Sequence[int],
    strides: Sequence[int] | None,
    extents: Sequence[int],
) -> list[Note]:
    """The note about the last legal start of an access of that `shape`, in the first dimension that
    it leaves."""
    steps = strides or [1] * len(shape)
    for dim, (start, size, step, extent) in enumerate(zip(index, shape, steps, extents)):  # noqa: B905
        last = extent - (size - 1) * step - 1
        if start > last:
            return [Note(_reach(dim, size, last, extent))]
    return []


def _reach(dim: int, size: int, last: int, extent: int) -> str:
    """The advice about `size` elements of `dim` that start behind `last`, the last legal start."""
    if last < 0:
        return f"dimension {dim} has {extent} elements: take no more than these"
    guard = "loop less far, or guard the access with @pl.when"
    if size == 1:
        return f"the last index of dimension {dim} is {last}: {guard}"
    return f"{size} elements of dimension {dim} begin at {last} at most: take fewer, {guard}"


def no_view(
    ref: Elements, what: str, shape: Sequence[int], at: SourceLocation | None = None
) -> ExecutionError:
    """The error for the reshape or bitcast `what` to `shape`, which would have to move elements."""
    return ExecutionError(
        "no-such-view",
        f"memref of shape {list(ref.shape)} and type {ref.element} has no {what} to "
        f"{list(shape)} without moving data",
        at,
        [
            Note("a view is the same memory, where rows and tiles are padded"),
            Note(f"load the ref and {what} its value, after a copy to VMEM if it is elsewhere"),
        ],
    )
