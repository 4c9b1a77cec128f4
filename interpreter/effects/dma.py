"""Asynchronous copies (spec/tpu_dialect.md 3.8, spec/pallas_semantics.md 3.7)."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, MemRefType
from xdsl.ir import Attribute, SSAValue

from pallasite.diagnostics import VerifyError
from pallasite.dialects import tpu
from pallasite.dialects.in_words import in_words
from pallasite.dialects.kernel import BLOCK, SLOTS
from pallasite.dialects.locations import reaches_block, source_location
from pallasite.dialects.promises import edges_of_copy, kept_dimensions, multiples_of_view
from pallasite.dialects.types import integers_in, memory_space, shape_of, tiling_of
from pallasite.dialects.viewed import PARTS, viewed, views_behind
from pallasite.interpreter.effects.semaphores import peer_of
from pallasite.interpreter.machine.core import Core
from pallasite.interpreter.machine.rounding import (
    block_reach,
    fill_edge,
    in_tiles,
    reach,
    spoil_behind,
    spoil_block,
)
from pallasite.interpreter.machine.semaphores import Wait, amount_of
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.meanings import Facts, effect
from pallasite.layouts.tiling import Tiling

Steps = Generator[Wait, None, None]

_VIEWS = (
    *PARTS, tpu.MemrefReshapeOp, tpu.MemrefBitcastOp, tpu.ReinterpretCastOp, tpu.EraseMemrefLayoutOp
)  # fmt: skip


def _operands(op: tpu.EnqueueDmaOp | tpu.WaitDmaOp) -> Callable[[tuple[Any, ...]], list[Any]]:
    """The optional operands spelled out: source, its semaphore, target, its semaphore."""
    if op.target_semaphore is None and isinstance(op, tpu.EnqueueDmaOp):
        raise VerifyError(
            "dma-semaphore", f"{in_words(op)} needs a target semaphore", source_location(op)
        )
    present = [
        True, op.source_semaphore is not None, True, op.target_semaphore is not None,
    ]  # fmt: skip

    places = [sum(present[:n]) if here else None for n, here in enumerate(present)]

    def spread(operands: tuple[Any, ...]) -> list[Any]:
        return [None if place is None else operands[place] for place in places]

    return spread


def counts_bytes(semaphore: SSAValue) -> bool:
    """Whether transfers add their bytes to a semaphore, and not one each."""
    type = semaphore.type
    return isinstance(type, MemRefType) and isinstance(type.element_type, tpu.DMASemaphoreType)


def _slots(op: tpu.EnqueueDmaOp) -> int:
    """Of how many blocks the target's buffer consists, if the copy fetches one; else 0."""
    slots = op.attributes.get(SLOTS)
    if slots is None:
        return 0
    if not isinstance(slots, IntegerAttr) or slots.value.data < 1:
        raise VerifyError(
            "dma-slots", f"expected at least 1 for {SLOTS}, got {slots}", source_location(op)
        )
    return slots.value.data


def _edges(op: tpu.EnqueueDmaOp) -> dict[int, int]:
    """By dimension the sizes of the block of which the target is the first part."""
    if memory_space(op.target.type) != "vmem" or op.device_id is not None or op.core_id is not None:
        return {}
    if _is_tiled_otherwise(op.target) and _tiles_behind(op.target) is None:
        return {}
    block = op.attributes.get(BLOCK)
    if block is None:
        return edges_of_copy(op)
    sizes = integers_in(block) if isinstance(block, DenseArrayBase) else ()
    shape = shape_of(op.target.type)
    if len(sizes) != len(shape) or any(n > m for n, m in zip(shape, sizes, strict=True)):
        raise VerifyError(
            "dma-block",
            f"expected at least the sizes of the target, {list(shape)}, for {BLOCK}, got {block}",
            source_location(op),
        )
    return {d: n for d, (n, known) in enumerate(zip(sizes, shape, strict=True)) if n != known}


def _is_tiled_otherwise(view: SSAValue) -> bool:
    """Whether a view has other tiles than the buffer that it shows a part of."""
    buffer = viewed(view, *_VIEWS)
    one, other = tiling_of(view.type), tiling_of(buffer.type)
    return one is not None and other is not None and one.tiles != other.tiles


def _tiles_behind(view: SSAValue) -> tuple[Tiling, list[int]] | None:
    """How the buffer is tiled that a view shows a part of, in tiles of its own, and which of the
    buffer's dimensions the view has; None if it is no part of it, or shows the buffer's tiles."""
    if not _is_tiled_otherwise(view):
        return None
    tiling = tiling_of(viewed(view, *_VIEWS).type)
    assert tiling is not None
    kept = list(range(len(tiling.strides)))
    for step in reversed(list(views_behind(view, *_VIEWS))):
        given = cast("MemRefType[Attribute]", step.operands[0].type)
        made = cast("MemRefType[Attribute]", step.results[0].type)
        if isinstance(step, tpu.MemrefSqueezeOp):
            kept = [kept[d] for d in kept_dimensions(step)]
        elif given.get_num_dims() != made.get_num_dims() or given.element_type != made.element_type:
            return None
    return tiling, kept


def _unusual(op: tpu.EnqueueDmaOp) -> tuple[dict[int, int], dict[int, int], int]:
    """What a copy does beside moving elements: it rounds up to multiples, fills the edge of a
    block, or is of one of some blocks."""
    return multiples_of_view(op.target), _edges(op), _slots(op)


def is_plain(op: tpu.EnqueueDmaOp) -> bool:
    """Whether `op` copies within its core, credits one semaphore, and does nothing else."""
    return len(op.operands) == 3 and not any(_unusual(op))


@effect(tpu.EnqueueDmaOp)
def enqueue(op: tpu.EnqueueDmaOp, facts: Facts) -> Callable[..., None]:
    """Starts a copy; to another core or device if ids are given."""
    at = source_location(op)
    spread = _operands(op)
    rounded, edges, blocks = _unusual(op)
    tiles = _tiles_behind(op.target) if rounded or edges else None
    semaphore = op.target_semaphore
    assert semaphore is not None
    peer = peer_of(op, semaphore.type)
    ids = 3 + (op.source_semaphore is not None)

    def fn(core: Core, *operands: Any) -> None:
        source, sent, target, received = spread(operands)
        if blocks:
            spoil_block(target, blocks, core.recorder)
        own = target if tiles is None else in_tiles(target, *tiles)
        beyond = block_reach(source, own, edges) if edges and own is not None else None
        target = target if own is None else own
        edge = beyond is not None
        if beyond is not None and edge:
            core.machine.overruns = True
            if 0 in target.shape:
                # Nothing is moved, and the rest of the block is all of it.
                spoil_behind(target, beyond.shape, core.recorder)
                fill_edge(source, target, beyond.shape)
                beyond, edge = None, False
        elif rounded:
            beyond = reach(target, rounded)
        other = peer(core, operands[ids:])
        if core.recorder is not None and other is not None:
            core.recorder.give_up()
        core.enqueue(source, target, received, sent, at=at, reach=beyond, peer=other, edge=edge)

    def local(core: Core, source: Ref, target: Ref, received: Ref) -> None:
        core.start(source, target, received, target.byte_count if in_bytes else 1, at)

    in_bytes = counts_bytes(semaphore)
    return local if is_plain(op) else fn


@effect(tpu.WaitDma2Op, blocking=True)
def wait2(op: tpu.WaitDma2Op, facts: Facts) -> Callable[..., Steps]:
    """Waits for as many bytes as `dst` has; the ids say nothing about where."""
    at = source_location(op)
    in_bytes = counts_bytes(op.semaphore)
    frees = _frees_block(op)

    def fn(core: Core, semaphore: Ref, source: Ref, target: Ref, *ids: int) -> Steps:
        waited = core.wait(semaphore, target.byte_count if in_bytes else 1, at)
        return _forgetting(core, source, waited) if frees and source.is_tracked else waited

    return fn


def _frees_block(op: tpu.WaitDma2Op) -> bool:
    """Whether `op` waits for a block of an output that is written back: the next one in its buffer
    begins undefined, though the buffer still holds this one."""
    if memory_space(op.src.type) not in ("vmem", "smem"):
        return False
    return any(reaches_block(view) for view in views_behind(op.dst, *_VIEWS))


def _forgetting(core: Core, block: Ref, waited: Steps) -> Steps:
    yield from waited
    # Of a block that is copied in parts, another part than this one may have ended the wait.
    if not core.machine.engine.has_to_read(block):
        block.mark_whole(written=False)


@effect(tpu.WaitDmaOp, blocking=True)
def wait(op: tpu.WaitDmaOp, facts: Facts) -> Callable[..., Steps]:
    """Waits for one end of the transfer that the same operands describe."""
    at = source_location(op)
    spread = _operands(op)
    at_target = bool(op.wait_target.value.data)
    if (op.target_semaphore if at_target else op.source_semaphore) is None:
        end = "target" if at_target else "source"
        raise VerifyError("dma-semaphore", f"{in_words(op)} needs its {end} semaphore", at)

    def fn(core: Core, *operands: Any) -> Steps:
        source, sent, target, received = spread(operands)
        semaphore, ref = (received, target) if at_target else (sent, source)
        return core.wait(semaphore, amount_of(semaphore, ref), at)

    return fn
