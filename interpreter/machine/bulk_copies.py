"""Does all iterations of a loop of copies at once, if those of an iteration land in it.

The order of the iterations does not matter if nothing that the loop writes is read in it, and if of
several copies to one place the last one is made. `CopyLoop` examines all iterations before it does
anything. If one would fail, or anything is unusual, it does nothing, and the loop runs iteration by
iteration.
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
    """A number read from a table in each iteration; all fields are numbers of values."""

    table: int
    places: tuple[int, ...]


class Computed(NamedTuple):
    """A function of arrays with one element per iteration, or a single one; it gives None where it
    would fail."""

    function: Function
    operands: tuple[int, ...]


class Copies(NamedTuple):
    """A copy in each turn: places of the refs where its paths begin, and of the starts that these
    take."""

    copier: Copier
    ends: tuple[int, int, int]
    starts: tuple[int, ...]
    at: SourceLocation | None


class Flight(NamedTuple):
    """Copies that are all started before the first wait for one of them."""

    copies: tuple[Copies, ...]
    awaits: tuple[tuple[int, SourceLocation | None], ...]
    """Which copy each wait is for, and where it is."""


class Bulk(NamedTuple):
    """All turns of one copy, or of several of a flight between the same two arrays."""

    starts: list[Places]
    session: Session
    move: Move
    views: Views
    read: Places
    write: Places
    semaphores: list[tuple[int, Semaphore]]
    """Those that are used, and in which turn the last time."""
    members: list[int]
    """Which copies of the flight they are."""


class CopyLoop:
    """A loop that only copies."""

    def __init__(
        self, index: Any, steps: Sequence[Loaded | Computed], flights: Sequence[Flight],
        given: Sequence[Any], cost: int,
    ) -> None:  # fmt: skip
        """`index` and `given` are the types of the loop index and of the scalars from outside, None
        for refs; an iteration costs that many steps of the budget.

        Values are numbered: the index, then the results of `steps`, then what is given.
        """
        self._index = index
        self._steps = tuple(steps)
        self._flights = tuple(flights)
        self._given = tuple(given)
        self._cost = cost

    def __call__(
        self, core: Core, budget: Budget, low: int, high: int, step: int, *given: Any
    ) -> bool:
        """Runs the loop; False if it did nothing."""
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
        found: list[tuple[Flight, list[Bulk]]] = []
        for flight in self._flights:
            bulks = _bulks(core, flight, values, count)
            if bulks is None:
                return False
            found.append((flight, bulks))
        if not _are_apart([bulk for _, bulks in found for bulk in bulks]):
            return False
        for _, bulks in found:
            for bulk in bulks:
                _copy(bulk)
        _note(core, found, count)
        budget.left -= count * self._cost
        return True


def _note(core: Core, flights: Sequence[tuple[Flight, Sequence[Bulk]]], count: int) -> None:
    """Notes what copies leave beside their elements."""
    engine = core.machine.engine
    credited: list[tuple[tuple[int, int, int], Semaphore, SourceLocation | None]] = []
    taken: list[tuple[tuple[int, int, int], Semaphore, SourceLocation | None]] = []
    for number, (flight, bulks) in enumerate(flights):
        engine.started += count * len(flight.copies)
        for bulk in bulks:
            engine.bits += count * len(bulk.members) * bulk.move.bits
            waits = [n for n, (one, _) in enumerate(flight.awaits) if one in bulk.members]
            first, last = bulk.members[0], waits[-1]
            at, awaited_at = flight.copies[first].at, flight.awaits[last][1]
            for turn, semaphore in bulk.semaphores:
                # Those of one semaphore land the newest first.
                credited.append(((turn, number, -first), semaphore, at))
                taken.append(((turn, number, last), semaphore, awaited_at))
    for _, semaphore, at in sorted(credited, key=lambda use: use[0]):
        semaphore.credited_by, semaphore.credited_at = core, at
    for _, semaphore, at in sorted(taken, key=lambda use: use[0]):
        semaphore.taken_at = at


def _loaded(table: Ref, index: Sequence[Array]) -> Array | None:
    """The i32 numbers in a table at the indices `index`; None if one is outside, or for other
    tables."""
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


def _bulks(core: Core, flight: Flight, values: Sequence[Any], count: int) -> list[Bulk] | None:
    """All turns of the copies of `flight`; None if one is unusual, or would fail."""
    engine = core.machine.engine
    if len(engine.flying) + len(flight.copies) > engine.limit:
        return None
    alike: dict[int, list[int]] = {}
    """The copies by the place of their target."""
    for number, copies in enumerate(flight.copies):
        alike.setdefault(copies.ends[2], []).append(number)
    found: list[Bulk] = []
    for members in alike.values():
        bulk = _bulk(core, flight, members, values, count)
        if bulk is None:
            return None
        found.append(bulk)
    return found


def _bulk(
    core: Core, flight: Flight, members: list[int], values: Sequence[Any], count: int
) -> Bulk | None:
    """All turns of some copies of `flight` to one array; None if one is unusual, or would fail."""
    all_copies = [flight.copies[number] for number in members]
    copier, ends = all_copies[0].copier, all_copies[0].ends
    semaphore, source, target = (values[place] for place in ends)
    move = copier.move(semaphore, source, target)
    if move is None or move.bits > 8 * MOST_BYTES or source.buffer is target.buffer:
        return None
    if any(
        other.ends != ends or not move.is_like(other.copier.move(semaphore, source, target))
        for other in all_copies[1:]
    ):
        return None
    # Of one turn, the newest lands first.
    given = [[values[place] for place in copies.starts] for copies in reversed(all_copies)]
    each = len(members)
    starts = [_in_turn(numbers, count) for numbers in zip(*given, strict=True)]
    for start, last in zip(starts, move.lasts, strict=True):
        if ((start < 0) | (start > last)).any():
            return None
    cuts = [_cuts(copies.copier.paths[2]) for copies in all_copies]
    if any(other != cuts[0] for other in cuts) or not _meet_or_are_same(cuts[0], starts):
        return None
    if target.buffer.is_adopted or move.bits == target.buffer.size * 8:
        return None
    # In the first turn both are there for the first time.
    _ = source.buffer.bytes, target.buffer.bytes
    session = copier.session(core, semaphore, source, target)
    if session.engine is None or source.buffer.freed or target.buffer.freed:
        return None
    if session.move is None or session.boxes is not None:
        return None
    every = np.zeros(count * each, np.int64)
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
    numbers = number.reshape(count, each)
    # Those of several semaphores land in the order of the waits.
    if views is None or views.parts or (numbers != numbers[:, :1]).any():
        return None
    semaphores = _semaphores(core, numbers[:, 0])
    if semaphores is None:
        return None
    return Bulk(starts, session, move, views, read, write, semaphores, members)


def _in_turn(numbers: Sequence[Array], count: int) -> Places:
    """What some values are in the first turn, then what they are in the second one, and so on."""
    found = np.empty((count, len(numbers)), np.int64)
    for place, number in enumerate(numbers):
        found[:, place] = number
    return found.reshape(-1)


def _cuts(path: Path) -> list[Cut]:
    """The steps of a path that begin where something given says."""
    return [
        step for step in path if isinstance(step, Cut) and any(p is not None for p in step.places)
    ]


def _meet_or_are_same(cuts: Sequence[Cut], starts: Sequence[Places]) -> bool:
    """Whether of the parts to which a path with these `cuts` leads any two are the same, or have
    nothing in common."""
    if len(cuts) > 1:
        return False
    return not any(
        place is not None and size > 1 and (starts[place] % size).any()
        for cut in cuts
        for size, place in zip(cut.sizes, cut.places, strict=True)
    )


def _semaphores(core: Core, numbers: Places) -> list[tuple[int, Semaphore]] | None:
    """The semaphores of these numbers, each with its last iteration; None if one is in use."""
    found: list[tuple[int, Semaphore]] = []
    last = {number: turn for turn, number in enumerate(numbers.tolist())}
    for number, turn in last.items():
        semaphore = core.semaphores.get(number)
        if semaphore is None or semaphore.value or semaphore.pending or semaphore.waiters:
            return None
        found.append((turn, semaphore))
    return found


def _are_apart(bulks: Sequence[Bulk]) -> bool:
    """Whether nothing that one copy writes is written or read by another one."""
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
    landed, ends = bulk.session.landed, bulk.session.ends
    if landed is None or ends is None:
        return
    whole = ends[1]
    if len(order) * bulk.move.bits == 8 * whole.byte_count == 8 * whole.buffer.size:
        # The parts are all of it, since no two of them have a byte in common.
        landed.add((whole.base, whole.starts, whole.shape, whole.digits))
        return
    target = bulk.move.target
    for given in _turns(bulk.starts, order):
        landed.add((*target.box(given), target.digits))


def _turns(starts: Sequence[Places], order: Places) -> Iterator[tuple[int, ...]]:
    """The offsets `starts` of each iteration, for the iterations in `order`."""
    if not starts:
        return iter([()])
    return zip(*[start[order].tolist() for start in starts], strict=True)
