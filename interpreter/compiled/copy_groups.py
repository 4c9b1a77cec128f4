"""Finds DMAs in loops, their waits, and the views that only these use.

The operations of such a group become one call of a `Copier`, which computes from the offsets of the
slices where the copy begins and makes no view:

    %row = tpu.memref_slice %array[%i, 0]
    %to = tpu.memref_slice %buffer[%j, 0]        one call with (%i, %j)
    tpu.enqueue_dma %row, %to, %sem
    tpu.wait_dma2 %sem, %row, %to

`copy_writer` writes the calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Block, Operation, SSAValue

from pallasite.dialects import arith, memref, tpu
from pallasite.dialects.func import FuncOp
from pallasite.dialects.promises import kept_dimensions
from pallasite.dialects.scf import ForOp, WhileOp
from pallasite.dialects.types import shape_of
from pallasite.dialects.walking import operations
from pallasite.interpreter.compiled.inline import is_quiet
from pallasite.interpreter.effects.dma import is_plain
from pallasite.interpreter.machine.view_paths import Cast, Cut, Path, Squeeze
from pallasite.interpreter.meanings import Facts, lookup


@dataclass(frozen=True, eq=False)
class CopyGroup:
    """A DMA that is started, awaited, or both at once, and the views that lead to its ends."""

    start: tpu.EnqueueDmaOp | None
    wait: tpu.WaitDma2Op | None
    views: tuple[Operation, ...]
    """The views that only DMAs and waits of the block use, in order."""
    roots: tuple[SSAValue, ...]
    """The refs at which the paths to the semaphore, the source and the target begin."""
    paths: tuple[Path, ...]
    starts: tuple[SSAValue, ...]
    """The offsets of slices that are not constants; the paths refer to them by number."""

    @property
    def last(self) -> Operation:
        """The operation in whose place the whole group is carried out."""
        last = self.wait or self.start
        assert last is not None
        return last


_Pair = tuple[tpu.EnqueueDmaOp | None, tpu.WaitDma2Op | None]


def copy_groups(func: FuncOp, facts: Facts) -> list[CopyGroup]:
    """The groups of `func`. Several may share views; the first of them takes a shared view at
    once."""
    blocks: dict[Block, list[_Pair]] = {}
    for pair in _pairs(func):
        op = pair[1] or pair[0]
        if op is not None and op.parent is not None:
            blocks.setdefault(op.parent, []).append(pair)
    found: list[CopyGroup] = []
    for block, pairs in blocks.items():
        found += _groups(block, pairs, facts)
    return found


def _groups(block: Block, pairs: Sequence[_Pair], facts: Facts) -> list[CopyGroup]:
    """The groups of some `pairs` of `block`.

    If a pair makes no group, its views are no longer used by groups only, so the others are formed
    anew.
    """
    own = _own_views(block, pairs)
    found = [(pair, _group(pair, own, facts)) for pair in pairs]
    left = [pair for pair, group in found if group is not None]
    if len(left) < len(pairs):
        # What the others use is not for copies only.
        return _groups(block, left, facts)
    return [group for _, group in found if group is not None]


def _pairs(func: FuncOp) -> list[_Pair]:
    """DMAs and waits in loops; a DMA and a wait for it that follows make one pair."""
    found: list[_Pair] = []
    taken: set[Operation] = set()
    for op in operations(func):
        if isinstance(op, tpu.WaitDma2Op) and len(op.operands) == 3 and _is_repeated(op):
            start = _start_of(op)
            if start is not None:
                taken.add(start)
            found.append((start, op))
        elif isinstance(op, tpu.EnqueueDmaOp) and is_plain(op) and _is_repeated(op):
            found.append((op, None))
    return [pair for pair in found if pair[1] is not None or pair[0] not in taken]


def _is_repeated(op: Operation) -> bool:
    """Whether `op` is in a loop of its function."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, FuncOp):
        if isinstance(parent, ForOp | WhileOp):
            return True
        parent = parent.parent_op()
    return False


def _start_of(wait: tpu.WaitDma2Op) -> tpu.EnqueueDmaOp | None:
    """The DMA that `wait` waits for, if it was started just before.

    Between them there are only scalar operations and views that only the wait uses.
    """
    op = wait.prev_op
    while op is not None and (is_quiet(op) or _is_view(op)):
        op = op.prev_op
    if not isinstance(op, tpu.EnqueueDmaOp) or not is_plain(op):
        return None
    if not serves(wait, op):
        return None
    between = op.next_op
    while between is not None and between is not wait:
        if _is_view(between) and not _is_only_for(between, wait):
            return None
        between = between.next_op
    return op


def serves(wait: tpu.WaitDma2Op, start: tpu.EnqueueDmaOp) -> bool:
    """Whether `wait` certainly has the same semaphore, source and target as `start`."""
    return all(map(_are_same, _ends(start), _ends(wait)))


def _is_only_for(view: Operation, wait: tpu.WaitDma2Op) -> bool:
    """Whether only `wait`, or views that only it uses, use `view`."""
    users = [use.operation for use in view.results[0].uses]
    return all(user is wait or (_is_view(user) and _is_only_for(user, wait)) for user in users)


def _ends(op: tpu.EnqueueDmaOp | tpu.WaitDma2Op) -> list[SSAValue]:
    """The semaphore, the source and the target of a DMA or a wait."""
    if isinstance(op, tpu.WaitDma2Op):
        return [op.semaphore, op.src, op.dst]
    assert op.target_semaphore is not None
    return [op.target_semaphore, op.source, op.target]


def _is_view(op: Operation) -> bool:
    """Whether `op` can be a step of a path: a view of static shape."""
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


def _behind(pair: _Pair) -> Iterator[Operation]:
    """The views in the block of `pair` that lead to its ends."""
    for op in pair:
        for end in () if op is None else _ends(op):
            while isinstance(view := end.owner, Operation) and _is_view(view):
                if op is None or view.parent is not op.parent:
                    break
                yield view
                end = view.operands[0]


def _own_views(block: Block, pairs: Sequence[_Pair]) -> set[Operation]:
    """The views that only the `pairs` of `block` use, and that can be taken where the first of
    those is done.

    That needs nothing in between that could fail or change anything.
    """
    behind = {pair: list(_behind(pair)) for pair in pairs}
    last: dict[Operation, _Pair] = {op: pair for pair in pairs for op in pair if op is not None}
    own = {view for views in behind.values() for view in views}
    while True:
        users = own.union(last)
        kept = {view for view in own if all(u.operation in users for u in view.results[0].uses)}
        if kept == own:
            kept = own.difference(_far(block, own, last, behind))
        if kept == own:
            return own
        own = kept


def _far(
    block: Block,
    own: set[Operation],
    last: dict[Operation, _Pair],
    behind: dict[_Pair, list[Operation]],
) -> set[Operation]:
    """The views among `own` between which and their first use something else happens.

    A view is made where its group is, so nothing but scalar operations may lie between.
    """
    near: set[Operation] = set()
    used: set[Operation] = set()
    far: set[Operation] = set()
    for op in block.ops:
        pair = last.get(op)
        if op in own:
            near.add(op)
        elif pair is not None and op is (pair[1] or pair[0]):
            views = own.intersection(behind[pair])
            far |= views - near - used
            used |= views
            near = set()
        elif pair is None and not is_quiet(op):
            near = set()
    return far


def _group(pair: _Pair, own: set[Operation], facts: Facts) -> CopyGroup | None:
    """The group of `pair`, whose `own` views need not be made; None if it is not worth it."""
    start, wait = pair
    if wait is not None and DYNAMIC_INDEX in shape_of(wait.dst.type):
        return None
    first = start or wait
    assert first is not None
    views = own.intersection(_behind(pair))
    given: list[SSAValue] = []
    ends = [_path(end, own, given, facts) for end in _ends(first)]
    if None in pair and not any(map(_is_loaded, given)):
        # Offsets that are not loaded take few values, whose views are cached from run to run.
        return None
    return CopyGroup(
        start, wait, _in_order(wait or first, views), tuple([root for root, _ in ends]),
        tuple([path for _, path in ends]), tuple(given),
    )  # fmt: skip


def _is_loaded(number: SSAValue) -> bool:
    """Whether a number is computed, within its block, from one that is loaded from memory."""
    waiting, seen = [number], set[SSAValue]()
    while waiting:
        value = waiting.pop()
        owner = value.owner
        if value in seen or not isinstance(owner, Operation):
            continue
        seen.add(value)
        if isinstance(owner, memref.LoadOp):
            return True
        if is_quiet(owner):
            waiting += owner.operands
    return False


def _in_order(last: Operation, ops: set[Operation]) -> tuple[Operation, ...]:
    """The operations `ops`, all of which come before `last` in its block, in order."""
    found: list[Operation] = []
    op = last.prev_op
    while op is not None and len(found) < len(ops):
        if op in ops:
            found.append(op)
        op = op.prev_op
    return tuple(found[::-1])


def _path(
    end: SSAValue, own: set[Operation], given: list[SSAValue], facts: Facts
) -> tuple[SSAValue, Path]:
    """The root of `end` and the path from there to it through views of `own`.

    Offsets that are not constants are appended to `given`; the path refers to them by number.
    """
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
