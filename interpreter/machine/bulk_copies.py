"""Loops of copies that are awaited at once, all turns of which are done together.

What such a loop leaves does not depend on the order of its turns, if what it writes is read by
none, and if of several copies to one place the last is the one that is made. `CopyLoop` looks at
all turns before it does anything: where one would fail, or anything is unusual, it leaves the loop
to those who take one turn after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pallasite.diagnostics import SourceLocation
from pallasite.interpreter.machine.boxes import offsets_of
from pallasite.interpreter.machine.part_copies import Copier, Move, Session, Views
from pallasite.interpreter.machine.semaphores import Semaphore
from pallasite.interpreter.machine.view_paths import Cut, Path
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.meanings import Function
from pallasite.interpreter.values import Array

if TYPE_CHECKING:
    from pallasite.interpreter.driver import Budget
    from pallasite.interpreter.machine.core import Core

Places = NDArray[np.int64]
LEAST = 8
"""Turns of the shortest loop that is worth it."""
MOST_BYTES = 1 << 14
"""Bytes of the largest copy of which it is the ado, and not the copy, that takes long."""
AT_ONCE = 1 << 20
"""Bytes that are copied by one assignment, which holds them in between."""


class Loaded(NamedTuple):
    """A number of a table for each turn; all fields are places of values."""

    table: int
    places: tuple[int, ...]


class Computed(NamedTuple):
    """What a function gives of arrays that have an element for each turn, or only one; None where
    that would fail."""

    function: Function
    operands: tuple[int, ...]


class Copies(NamedTuple):
    """A copy and its wait in each turn: places of the refs where its paths begin, and of the starts
    that these take."""

    copier: Copier
    ends: tuple[int, int, int]
    starts: tuple[int, ...]
    at: SourceLocation | None
    awaited_at: SourceLocation | None


class Bulk(NamedTuple):
    """All turns of one copy."""

    copies: Copies
    starts: list[Places]
    session: Session
    move: Move
    views: Views
    read: Places
    write: Places
    semaphores: list[tuple[int, Semaphore]]
    """Those that are used, and in which turn the last time."""


class CopyLoop:
    """A loop that only copies."""

    def __init__(
        self, index: Any, steps: Sequence[Loaded | Computed], copies: Sequence[Copies],
        given: Sequence[Any], cost: int,
    ) -> None:  # fmt: skip
        """`index` and `given` are the types of the index and of the scalars that the loop is given,
        None for refs. A turn costs so many steps of the budget.

        Values have places: the index the first one, then what each of the `steps` makes, then what
        is given.
        """
        self._index = index
        self._steps = tuple(steps)
        self._copies = tuple(copies)
        self._given = tuple(given)
        self._cost = cost

    def __call__(
        self, core: Core, budget: Budget, low: int, high: int, step: int, *given: Any
    ) -> bool:
        """Does all turns; False if nothing was done."""
        count = len(range(low, high, step)) if step > 0 else 0
        if count < LEAST or budget.left < count * self._cost:
            return False
        if core.observer is not None or core.recorder is not None:
            return False
        values: list[Any] = [None] * (1 + len(self._steps))
        values[0] = np.arange(low, high, step).astype(self._index)
        for value, type in zip(given, self._given, strict=True):
            values.append(value if type is None else np.array([value], type))
        for place, made in enumerate(self._steps, 1):
            if isinstance(made, Loaded):
                value = _loaded(values[made.table], [values[i] for i in made.places])
            else:
                value = made.function(*[values[i] for i in made.operands])
            if value is None:
                return False
            values[place] = value
        bulks: list[Bulk] = []
        for copies in self._copies:
            bulk = _bulk(core, copies, values, count)
            if bulk is None:
                return False
            bulks.append(bulk)
        if not _are_apart(bulks):
            return False
        self._copy(core, bulks, count)
        budget.left -= count * self._cost
        return True

    def _copy(self, core: Core, bulks: Sequence[Bulk], count: int) -> None:
        engine = core.machine.engine
        uses: list[tuple[int, int, Semaphore]] = []
        for number, bulk in enumerate(bulks):
            _copy(bulk)
            engine.started += count
            engine.bits += count * bulk.move.bits
            uses += [(turn, number, semaphore) for turn, semaphore in bulk.semaphores]
        for _, number, semaphore in sorted(uses, key=lambda use: use[:2]):
            copies = bulks[number].copies
            semaphore.credited_by, semaphore.credited_at = core, copies.at
            semaphore.taken_at = copies.awaited_at


def _loaded(table: Ref, index: Sequence[Array]) -> Array | None:
    """The numbers of a table at `index`; None if that is outside, or they are no plain numbers."""
    storage = table.codec.storage
    if not table.codec.integral or storage != np.int32 or table.buffer.freed:
        return None
    offset: Any = table.base
    for digits, first, extent, i in zip(
        table.digits, table.starts, table.shape, index, strict=True
    ):
        if ((i < 0) | (i >= extent)).any():
            return None
        offset = offset + offsets_of(digits, first + i.astype(np.int64))
    return table.buffer.bytes.view(storage)[np.reshape(offset, -1)]


def _bulk(core: Core, copies: Copies, values: Sequence[Any], count: int) -> Bulk | None:
    """All turns of `copies`; None if one is unusual, or would fail."""
    copier = copies.copier
    semaphore, source, target = (values[place] for place in copies.ends)
    move = copier.move(semaphore, source, target)
    if move is None or move.bits > 8 * MOST_BYTES or source.buffer is target.buffer:
        return None
    every = np.zeros(count, np.int64)
    starts = [every + values[place] for place in copies.starts]
    for start, last in zip(starts, move.lasts, strict=True):
        if ((start < 0) | (start > last)).any():
            return None
    if not _meet_or_are_same(copier.paths[2], starts) or target.buffer.is_adopted:
        return None
    if move.bits == target.buffer.size * 8:
        return None
    # In the first turn both are there for the first time.
    _ = source.buffer.bytes, target.buffer.bytes
    session = copier.session(core, semaphore, source, target)
    engine = session.engine
    if engine is None or source.buffer.freed or target.buffer.freed:
        return None
    if session.move is None or session.boxes is not None:
        return None
    if len(engine.flying) >= engine.limit:
        return None
    read, write, number = every.copy(), every.copy(), every + session.first
    for start, (_, one, other, step) in zip(starts, session.steps, strict=True):
        read += start * one
        write += start * other
        number += start * step
    residues: list[int] = []
    for turn, (one, other) in zip(move.turns, session.turned, strict=True):
        first = sum([starts[place] for place in turn.places], every + turn.start)
        blocks, rest = np.divmod(first, turn.block)
        if (rest != rest[0]).any():
            return None
        read += blocks * one
        write += blocks * other
        residues.append(int(rest[0]))
    views = copier.views(session, tuple(residues))
    found = _semaphores(core, number)
    if views is None or views.parts or found is None:
        return None
    return Bulk(copies, starts, session, move, views, read, write, found)


def _meet_or_are_same(path: Path, starts: Sequence[Places]) -> bool:
    """Whether of the parts that `path` leads to any two are the same, or have nothing in common."""
    cuts = [
        step for step in path if isinstance(step, Cut) and any(p is not None for p in step.places)
    ]
    if len(cuts) > 1:
        return False
    return not any(
        place is not None and size > 1 and (starts[place] % size).any()
        for cut in cuts
        for size, place in zip(cut.sizes, cut.places, strict=True)
    )


def _semaphores(core: Core, numbers: Places) -> list[tuple[int, Semaphore]] | None:
    """The semaphores of these numbers, each with the last turn of it; None if one is in use."""
    found: list[tuple[int, Semaphore]] = []
    last = {number: turn for turn, number in enumerate(numbers.tolist())}
    for number, turn in last.items():
        semaphore = core.semaphores.get(number)
        if semaphore is None or semaphore.value or semaphore.pending or semaphore.waiters:
            return None
        found.append((turn, semaphore))
    return found


def _are_apart(bulks: Sequence[Bulk]) -> bool:
    """Whether nothing that one copy writes is written, or read, by another one."""
    pairs = [bulk.session.ends for bulk in bulks]
    ends = [pair for pair in pairs if pair is not None]
    read = {id(source.buffer) for source, _ in ends}
    written = {id(target.buffer) for _, target in ends}
    numbers = any(target.buffer.memory.kind == "smem" for _, target in ends)
    return len(written) == len(bulks) and not read & written and not numbers


def _copy(bulk: Bulk) -> None:
    read, write, (sources, targets, _) = bulk.read, bulk.write, bulk.views
    order = np.arange(len(write))
    if not (write[1:] > write[:-1]).all():
        # Of several copies to one place the last one is left.
        _, kept = np.unique(write[::-1], return_index=True)
        order = len(write) - 1 - kept
    at_once = max(AT_ONCE * 8 // bulk.move.bits, 1)
    for first in range(0, len(order), at_once):
        part = order[first : first + at_once]
        targets[write[part]] = sources[read[part]]
    landed = bulk.session.landed
    if landed is not None:
        target = bulk.move.target
        for given in _turns(bulk.starts, order):
            landed.add((*target.box(given), target.digits))


def _turns(starts: Sequence[Places], order: Places) -> Iterator[tuple[int, ...]]:
    """What is given in each turn of those in `order`."""
    if not starts:
        return iter([()])
    return zip(*[start[order].tolist() for start in starts], strict=True)
