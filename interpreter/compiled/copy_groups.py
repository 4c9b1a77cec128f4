"""Copies in loops that are awaited as soon as they are started, and views that only they use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import arith, tpu
from pallasite.dialects.func import FuncOp
from pallasite.dialects.promises import kept_dimensions
from pallasite.dialects.scf import ForOp, WhileOp
from pallasite.dialects.types import shape_of
from pallasite.dialects.walking import operations
from pallasite.interpreter.compiled.inline import is_quiet
from pallasite.interpreter.effects.dma import is_plain
from pallasite.interpreter.machine.paths import Cast, Cut, Path, Squeeze
from pallasite.interpreter.meanings import Facts, lookup


@dataclass(frozen=True)
class CopyGroup:
    """A copy with its wait, and what leads to their ends."""

    ops: tuple[Operation, ...]
    """All of them, in order: views that nobody else uses, the start and the wait."""
    start: tpu.EnqueueDmaOp
    wait: tpu.WaitDma2Op
    roots: tuple[SSAValue, ...]
    """What the paths to the semaphore, the source and the target begin at."""
    paths: tuple[Path, ...]
    starts: tuple[SSAValue, ...]
    """What is given to the paths."""


def copy_groups(func: FuncOp, facts: Facts) -> Iterator[CopyGroup]:
    """Those of `func`, none of which share an operation."""
    for op in operations(func):
        if isinstance(op, tpu.WaitDma2Op) and _is_repeated(op):
            enqueue = _start_of(op)
            if enqueue is not None:
                group = _group(enqueue, op, facts)
                if group is not None:
                    yield group


def _is_repeated(op: Operation) -> bool:
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, FuncOp):
        if isinstance(parent, ForOp | WhileOp):
            return True
        parent = parent.parent_op()
    return False


def _start_of(wait: tpu.WaitDma2Op) -> tpu.EnqueueDmaOp | None:
    """The copy that `wait` waits for, if that was started just before."""
    op = wait.prev_op
    while op is not None and (is_quiet(op) or _is_view(op)):
        op = op.prev_op
    if not isinstance(op, tpu.EnqueueDmaOp) or not is_plain(op):
        return None
    ends = zip(_ends(op), _ends(wait), strict=True)
    return op if all(_are_same(one, other) for one, other in ends) else None


def _ends(op: tpu.EnqueueDmaOp | tpu.WaitDma2Op) -> list[SSAValue]:
    """The semaphore, the source and the target."""
    if isinstance(op, tpu.WaitDma2Op):
        return [op.semaphore, op.src, op.dst]
    assert op.target_semaphore is not None
    return [op.target_semaphore, op.source, op.target]


def _is_view(op: Operation) -> bool:
    """Whether `op` is a step of a path."""
    if isinstance(op, tpu.MemrefSliceOp | tpu.ReinterpretCastOp):
        if DYNAMIC_INDEX in shape_of(op.result.type):
            return False
        return isinstance(op, tpu.MemrefSliceOp) or op.dynamic_offset is None
    return isinstance(op, tpu.MemrefSqueezeOp)


def _are_same(one: SSAValue, other: SSAValue) -> bool:
    """Whether two values certainly are the same number, or the same view of the same ref."""
    if one is other:
        return True
    a, b = one.owner, other.owner
    if not isinstance(a, Operation) or not isinstance(b, Operation) or type(a) is not type(b):
        return False
    if isinstance(a, arith.ConstantOp):
        return a.properties == b.properties
    if not _is_view(a) or one.type != other.type or a.properties != b.properties:
        return False
    return len(a.operands) == len(b.operands) and all(map(_are_same, a.operands, b.operands))


def _group(enqueue: tpu.EnqueueDmaOp, wait: tpu.WaitDma2Op, facts: Facts) -> CopyGroup | None:
    own = _own_views(enqueue, wait)
    if any(op not in own for op in _between(enqueue, wait) if _is_view(op)):
        return None
    given: list[SSAValue] = []
    ends = [_path(end, own, given, facts) for end in _ends(enqueue)]
    ops = [op for op in [*own, enqueue, wait] if op.parent is wait.parent]
    return CopyGroup(
        _in_order(wait, set(ops)), enqueue, wait, tuple(root for root, _ in ends),
        tuple(path for _, path in ends), tuple(given),
    )  # fmt: skip


def _between(enqueue: Operation, wait: Operation) -> Iterator[Operation]:
    op = enqueue.next_op
    while op is not None and op is not wait:
        yield op
        op = op.next_op


def _in_order(wait: Operation, ops: set[Operation]) -> tuple[Operation, ...]:
    """The operations `ops` of the block of `wait`, which is the last one."""
    found: list[Operation] = []
    op: Operation | None = wait
    while op is not None and len(found) < len(ops):
        if op in ops:
            found.append(op)
        op = op.prev_op
    return tuple(found[::-1])


def _own_views(enqueue: tpu.EnqueueDmaOp, wait: tpu.WaitDma2Op) -> set[Operation]:
    """The views that only the copy and its wait use, and that may as well be taken where it begins:
    nothing that could fail, or change anything, is between."""
    wanted: set[Operation] = set()
    for end in [*_ends(enqueue), *_ends(wait)]:
        while isinstance(owner := end.owner, Operation) and _is_view(owner):
            wanted.add(owner)
            end = owner.operands[0]
    while True:
        near = _near(wait, wanted | {enqueue})
        users = near | {enqueue, wait}
        kept = {op for op in near if all(u.operation in users for u in op.results[0].uses)}
        if kept == wanted:
            return kept
        wanted = kept


def _near(wait: Operation, wanted: set[Operation]) -> set[Operation]:
    """The views among `wanted` with nothing but these, and arithmetic, between them and `wait`."""
    found: set[Operation] = set()
    op = wait.prev_op
    while op is not None and (op in wanted or is_quiet(op)):
        if _is_view(op):
            found.add(op)
        op = op.prev_op
    return found


def _path(
    end: SSAValue, own: set[Operation], given: list[SSAValue], facts: Facts
) -> tuple[SSAValue, Path]:
    """What leads to `end` through views of its `own`; starts that are not known are `given`."""
    path: list[Cast | Cut | Squeeze] = []
    while isinstance(op := end.owner, Operation) and op in own:
        if isinstance(op, tpu.MemrefSqueezeOp):
            path.append(Squeeze(kept_dimensions(op)))
        elif isinstance(op, tpu.MemrefSliceOp):
            known = [arith.known_integer(start) for start in op.base_idx]
            places: list[int | None] = []
            for start, number in zip(op.base_idx, known, strict=True):
                places.append(len(given) if number is None else None)
                given += [start] if number is None else []
            starts = tuple([number or 0 for number in known])
            path.append(Cut(tuple(shape_of(op.result.type)), starts, tuple(places)))
        else:
            entry = lookup(op)
            assert entry is not None
            path.append(Cast(entry.factory(op, facts)))
        end = op.operands[0]
    return end, tuple(path[::-1])
